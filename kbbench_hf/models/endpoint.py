"""A chat model behind an OpenAI-compatible server: TGI, vLLM, SGLang, llama.cpp, `transformers serve`, a paid service.

One lean aiohttp client speaks to all of them. At 64 connections it costs about 0.1 ms of processor time a request,
where `huggingface_hub.AsyncInferenceClient` costs 0.95 ms and keeps only 20 connections alive; and it sends the key
that it is given, where that client sends the user's Hub token to any server.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from kbbench_hf.errors import UsageError
from kbbench_hf.models.chat_completions import error_message, parse_json, read_completion
from kbbench_hf.models.failures import Failure, Refused
from kbbench_hf.protocols import Completion, Message

if TYPE_CHECKING:
    import aiohttp

NO_KEY = "EMPTY"
"""What is sent as the key to a server that asks for none."""
MAX_REPLY_BYTES = 16 * 2**20
"""A longer reply is a fault of the server, not an answer."""
_TOO_LONG = ("context length", "context_length", "maximum context", "too many tokens", "too long", "max_new_tokens")


class Endpoint:
    """A model on a server. Use it as an async context manager; `name` then names model and server for the journal.

    `base_url` is the server's address, with or without `/v1`. `api_key` is sent to that server and nowhere else, and
    is taken out of everything the server sends back. A request that takes longer than `timeout_s` fails as "timeout".

    Raises:
        UsageError: the address is not http(s), or holds a password or a query (which would end up in logs).
    """

    def __init__(self, base_url: str, model: str, api_key: str = NO_KEY, timeout_s: float = 300.0) -> None:
        self.base_url = _normalise(base_url)
        self.model = model
        self.timeout_s = timeout_s
        self.server: dict[str, str] = {}
        """What the server is: `kind` ("tgi", "vllm" or "openai-compatible") and version, model and revision if told."""
        self.name = f"{model}@?"
        self._key = api_key or NO_KEY
        self._session: aiohttp.ClientSession | None = None
        self._url = f"{self.base_url}/chat/completions"
        self._proxy = _proxy(self.base_url)

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, {self.model!r})"

    async def __aenter__(self) -> Self:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def recognise(self) -> dict[str, str]:
        """Ask the server what it is; fill in `server` and `name`, and return `server`.

        A server that tells nothing is "openai-compatible". Requests: one to three GETs, none of them paid.

        Raises:
            Failure: the server cannot be reached or refuses the key.
        """
        facts: dict[str, str] = {"kind": "openai-compatible"}
        listed = await self._facts(f"{self.base_url}/models")
        cards = listed.get("data")
        models = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
        card = next((card for card in models if card.get("id") == self.model), models[0] if len(models) == 1 else {})
        _copy(card, facts, root="served_model")
        site = self.base_url.rpartition("/v")[0]
        if card.get("owned_by") == "vllm":
            facts["kind"] = "vllm"
            _copy(await self._facts(f"{site}/version"), facts, version="version")
        else:
            info = await self._facts(f"{site}/info")
            if "model_id" in info:
                facts["kind"] = "tgi"
                _copy(info, facts, version="version", model_id="served_model", model_sha="revision")
        self.server = facts
        self.name = f"{self.model}@{json.dumps(facts, sort_keys=True)}"
        return facts

    async def complete(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        *,
        schema: Mapping[str, object] | None = None,
        **sampling: object,
    ) -> Completion:
        """Send one chat request once, and return the answer; `sampling` goes into the request as it is.

        Raises:
            Failure: no answer came of it; `transient` says whether to try again.
            Refused: no request of this run can succeed.
        """
        started = time.perf_counter()
        limit = {} if max_tokens is None else {"max_tokens": max_tokens}
        status, headers, raw = await self._send(
            "POST", self._url, self.payload(messages, {**sampling, **limit}, schema)
        )
        if status != 200:
            raise _failure(status, headers, error_message(raw))
        return read_completion(parse_json(raw), time.perf_counter() - started)

    def payload(
        self, messages: Sequence[Message], sampling: Mapping[str, object], schema: Mapping[str, object] | None
    ) -> bytes:
        """Return the body of a chat request; a schema is asked for in the words of the server at hand."""
        body: dict[str, object] = {"model": self.model, "messages": messages, **sampling}
        if schema is not None and self.server.get("kind") == "tgi":
            body["response_format"] = {"type": "json_object", "value": schema}
        elif schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": True},
            }
        return json.dumps(body).encode("ascii")

    async def _facts(self, url: str) -> dict[str, object]:
        """Return the JSON object at a URL, or nothing where the server has no such page."""
        status, headers, raw = await self._send("GET", url, None)
        if status == 200:
            try:
                value = parse_json(raw)
            except Failure:
                return {}
            return value if isinstance(value, dict) else {}
        if status == 401 or status == 429 or status >= 500:
            raise _failure(status, headers, error_message(raw))
        return {}

    async def _send(self, method: str, url: str, data: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        import aiohttp

        if self._session is None:
            raise RuntimeError("an Endpoint is used inside 'async with'")
        try:
            # A redirect is not followed: it would carry the key to a server the user did not name.
            async with self._session.request(
                method, url, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                raw = await _read(response)
                return response.status, response.headers, self._redact(raw)
        except TimeoutError:
            raise Failure("timeout", f"no whole answer within {self.timeout_s:g} s", transient=True) from None
        except aiohttp.ClientConnectorError as error:
            raise Failure("no_connection", str(error), transient=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failure("connection_broken", type(error).__name__, transient=True) from None

    def _redact(self, raw: bytes) -> bytes:
        """Take the key out of what came back: servers echo it in error messages, and replies are written to files."""
        key = self._key.encode()
        if key == NO_KEY.encode():
            return raw
        for form in (key, json.dumps(self._key)[1:-1].encode(), key.replace(b"/", b"\\/")):
            if form in raw:
                raw = raw.replace(form, b"[redacted]")
        return raw


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    if (response.content_length or 0) <= MAX_REPLY_BYTES and response.content_length is not None:
        return await response.read()
    raw = bytearray()
    async for chunk in response.content.iter_any():
        raw += chunk
        if len(raw) > MAX_REPLY_BYTES:
            raise Failure("reply_too_large", f"more than {MAX_REPLY_BYTES:,} bytes", transient=True)
    return bytes(raw)


def _failure(status: int, headers: Mapping[str, str], message: str) -> Failure:
    """Return what a status other than 200 means for the run."""
    if status == 429:
        return Failure("rate_limited", message, transient=True, retry_after=_retry_after(headers))
    if status in (408, 409, 425) or status >= 500:
        return Failure(f"http_{status}", message, transient=True, retry_after=_retry_after(headers))
    if status in (400, 413, 422) and (status != 400 or any(words in message.lower() for words in _TOO_LONG)):
        return Failure("prompt_refused", f"HTTP {status}: {message}", transient=False)
    return Refused(f"http_{status}", message)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, given as a number or as a date; None where absent or unreadable."""
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None


def _normalise(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{base_url!r} is not a server's address. Give one like http://localhost:8000/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"The address of {parts.hostname} holds a user name, a password or a query, which would be written to "
            "files. Give the bare address and put the key into an environment variable (--api-key-env NAME)."
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    versioned = any(step[:1] == "v" and step[1:2].isdigit() for step in path.split("/"))
    return f"{parts.scheme}://{parts.netloc}{path if versioned else path + '/v1'}"


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL (aiohttp would look it up for every request anew)."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _copy(source: Mapping[str, object], target: dict[str, str], **names: str) -> None:
    for name, new_name in names.items():
        if isinstance(value := source.get(name), str):
            target[new_name] = value


def key_from_environment(variable: str | None) -> str:
    """Return the API key in an environment variable; without a variable, the word for "no key".

    The user's Hub token is never read by itself: name its variable to send it.

    Raises:
        UsageError: the variable is not set or empty.
    """
    if variable is None:
        return NO_KEY
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UsageError(
            f"The environment variable {variable} is not set. Put the API key into it: export {variable}=..."
        )
    return value
