"""Client of OpenAI-compatible chat servers (TGI, vLLM, SGLang, llama.cpp, `transformers serve`, paid services).

`Endpoint.post` sends any other JSON request, as to a search engine.

It uses aiohttp. At 64 connections a request costs about 0.1 ms of CPU time; `huggingface_hub.AsyncInferenceClient`
needs 0.95 ms, keeps only 20 connections alive, and sends the user's Hub token to any server.

Runs, probes, served embedders and search servers send their requests with it. Keys never leave it: they go to the one
server only, and `Redaction` removes them from replies. `name` is part of the keys of stored replies.
"""

import asyncio
import base64
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from kbbench_hf.errors import UsageError
from kbbench_hf.llm.chat_completions import parse_json, read_completion, read_tool_turn
from kbbench_hf.llm.concurrency import wait_before_retry
from kbbench_hf.llm.failures import Failure, RefusalKind, RequestRefused
from kbbench_hf.llm.http_bodies import MAX_BYTES, Connector, is_stream, read_body, read_stream
from kbbench_hf.llm.supported_parameters import Dialect, Schema, cut_at_stop
from kbbench_hf.protocols import Completion, Message

NO_KEY = "EMPTY"
"""The key for a server that needs none."""
_MAX_PAGE_FAULTS = 3
"""A page about the server that fails as often with status 500 counts as absent."""
SCALE_UP_S = 600
"""How long an Inference Endpoint that is scaled to zero holds a request until a replica is up."""


class Endpoint:
    """A chat model on a server, as an async context manager; `name` identifies model and server in the journal.

    `base_url` is the server's address, with or without `/v1`. `api_key` is sent to that server only, and is redacted
    in all its replies. A request that takes longer than `timeout_s` fails as "timeout". `bill_to` is the organization
    that pays for requests to Hugging Face's router.

    Raises:
        UsageError: the address is not http(s), or has a password or a query (which would end up in logs).
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = NO_KEY,
        timeout_s: float = 300.0,
        *,
        bill_to: str | None = None,
    ) -> None:
        self.base_url = _normalize_url(base_url)
        self.model = model
        self.timeout_s = timeout_s
        self.server: dict[str, str] = {}
        """Facts: `kind` ("tgi", "vllm", "openai-compatible"), and version, served model and revision where known."""
        self.dialect = Dialect()
        """The form of requests that this server accepts, as far as its errors told."""
        self.name = f"{model}@?"
        key = api_key or NO_KEY
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._headers["Accept-Encoding"] = "identity"  # replies are short, and a compressed one may be a bomb
        self._redact = Redaction("" if key == NO_KEY else key)
        host = urlsplit(self.base_url).hostname or ""
        self._scales_to_zero = host.endswith(".endpoints.huggingface.cloud")
        if self._scales_to_zero:
            self._headers["X-Scale-Up-Timeout"] = f"{min(SCALE_UP_S, timeout_s):.0f}"
        if bill_to:
            self._headers["X-HF-Bill-To"] = bill_to
        self._faults: Counter[str] = Counter()
        """Page about the server -> how often it failed with status 500."""
        self._session: aiohttp.ClientSession
        self._url = f"{self.base_url}/chat/completions"
        self._proxy = _proxy(self.base_url)

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, {self.model!r})"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=Connector(limit=0, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @property
    def identity(self) -> dict[str, str]:
        """The address, the model's name, and the facts that the server gives."""
        return {"base_url": self.base_url, "model": self.model, **self.server}

    async def recognize(self) -> dict[str, str]:
        """Identify the server: set `server` and `name`, and return `server`.

        A server without a page about itself is "openai-compatible". Requests: GETs only, none of them paid.

        Raises:
            Failure: the server cannot be reached or refuses the key.
        """
        self.server = await server_facts(self.page, self.base_url, self.model)
        self.name = f"{self.model}@{json.dumps(self.server, sort_keys=True)}"
        if self.server["kind"] == "tgi" and self.dialect == Dialect():
            self.dialect = Dialect(schema="value")
        return self.server

    async def complete(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        *,
        schema: Schema | None = None,
        **sampling: object,
    ) -> Completion:
        """Send one chat request once, and return its completion; `sampling` goes into the request as it is.

        With `tools` in it, the completion may consist of tool calls.

        Raises:
            Failure: there is no completion; `transient` says whether to retry.
            RequestRefused: perhaps no request of this run can succeed.
        """
        started = time.perf_counter()
        reply, body = await self.request(messages, max_tokens, schema=schema, **sampling)
        try:
            parse = read_tool_turn if "tools" in body else read_completion
            completion = parse(reply, time.perf_counter() - started)
        except RecursionError:
            raise Failure("not_json", "nested too deeply", transient=True) from None
        stops = None if "stop" in body else sampling.get("stop")
        return cut_at_stop(completion, stops) if isinstance(stops, list) else completion

    async def request(
        self, messages: Sequence[Message], max_tokens: int | None, *, schema: Schema | None = None, **sampling: object
    ) -> tuple[object, Mapping[str, object]]:
        """Send one chat request once, and return the JSON value of its reply and the body that was sent.

        Raises:
            Failure: the reply is an error or not JSON.
            RequestRefused: perhaps no request of this run can succeed.
        """
        limit = {} if max_tokens is None else {"max_tokens": max_tokens}
        dialect = self.dialect
        body = dialect.body(self.model, messages, {**sampling, **limit}, schema)
        status, headers, raw = await self._send("POST", self._url, json.dumps(body).encode("ascii"))
        if status != 200:
            raise self._failure(status, headers, raw, body, dialect)
        if is_stream(headers.get("Content-Type", ""), raw):  # the key may be spread over several events
            raw = self._redact(json.dumps(read_stream(raw)).encode())
        reply = parse_json(raw)
        if isinstance(reply, dict) and reply.get("error") and not reply.get("choices"):
            raise self._failure(200, headers, reply, body, dialect)
        return reply, body

    async def post(
        self, url: str, body: Mapping[str, object], *, attempts: int = 5, max_bytes: int = MAX_BYTES
    ) -> object:
        """Return the JSON value that a URL replies to a JSON body; what may pass is retried, `attempts` times in all.

        Raises:
            Failure: the last attempt failed, a retry cannot help, or the server wants a wait longer than the timeout.
        """
        data, rng = json.dumps(body).encode("ascii"), random.Random()
        attempt = 0
        while True:
            attempt += 1
            try:
                status, headers, raw = await self._send("POST", url, data, max_bytes)
                if status == 200:
                    return parse_json(raw)
                raise self._failure(status, headers, raw, body)
            except Failure as failure:
                if not failure.transient or attempt >= attempts or (failure.retry_after or 0) > self.timeout_s:
                    raise
                await asyncio.sleep(wait_before_retry(attempt, failure.retry_after, rng))

    def learn(self, refused: RequestRefused) -> dict[str, object] | None:
        """Adapt the dialect to a refused parameter, and return its changes; None where there is no other form.

        A request in an earlier dialect is only to be sent again.
        """
        if refused.dialect is None or refused.dialect is self.dialect:
            if refused.refusal is None or refused.refusal.parameter is None:
                return None
            learned = self.dialect.learn(refused.refusal.parameter, refused.words, refused.sent)
            if learned is None:
                return None
            self.dialect = learned
        return self.dialect.changes()

    def _failure(
        self,
        status: int,
        headers: Mapping[str, str],
        reply: object,
        sent: Mapping[str, object],
        dialect: Dialect | None = None,
    ) -> Failure:
        """Return the failure of a request whose reply is an error."""
        from kbbench_hf.llm.refusals import classify_error, parse_error  # most runs need no table of refusals

        error = parse_error(reply, headers)
        refusal, message = classify_error(status, error, sent), str(error)
        kind = refusal.kind
        if kind is RefusalKind.PROMPT:
            return Failure(refusal.cause or "prompt_refused", f"HTTP {status}: {message}", transient=False)
        if kind is RefusalKind.LOADING or (self._scales_to_zero and status in (502, 503)):
            reason = "loading"
        elif kind is RefusalKind.LATER:
            reason = "rate_limited"
        elif status == 200 and kind in (RefusalKind.FAULT, RefusalKind.UNCLEAR):
            reason = "error_in_body"
        elif kind is RefusalKind.FAULT:
            reason = f"http_{status}"
        else:
            words = error.text
            return RequestRefused(f"http_{status}", message, refusal=refusal, sent=sent, words=words, dialect=dialect)
        return Failure(reason, message, transient=True, retry_after=refusal.seconds)

    async def page(self, url: str, required: bool = False) -> Mapping[str, object]:
        """Return the JSON object at a URL, empty where the server has none.

        Raises:
            Failure: the page is `required`, and the server refuses the key or fails.
        """
        status, headers, raw = await self._send("GET", url, None)
        if status == 200:
            try:
                value = parse_json(raw)
            except Failure:
                return {}
            return value if isinstance(value, dict) else {}
        self._faults[url] += status == 500
        absent = status == 500 and self._faults[url] >= _MAX_PAGE_FAULTS  # `transformers serve` without a Hub cache
        if required and not absent and (status in (401, 429) or status >= 500):
            raise self._failure(status, headers, raw, {})
        return {}

    async def _send(
        self, method: str, url: str, data: bytes | None, max_bytes: int = MAX_BYTES
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            # A redirect is not followed: it would carry the key to a server the user did not name.
            async with self._session.request(
                method, url, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                return response.status, response.headers, self._redact(await read_body(response, max_bytes))
        except TimeoutError:
            raise Failure("timeout", f"no whole answer within {self.timeout_s:g} s", transient=True) from None
        except aiohttp.ClientConnectorError as error:
            raise Failure("no_connection", str(error), transient=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failure("connection_broken", type(error).__name__, transient=True) from None


def _normalize_url(base_url: str) -> str:
    """Return the address up to its version: without a slash or path of requests at its end, with `/v1` if it has none.

    Raises:
        UsageError: it is no address, or has a part that would end up in files.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(
            f"{base_url!r} is not a server's address: {error}. Give one like http://localhost:8000/v1."
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{base_url!r} is not a server's address. Give one like http://localhost:8000/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"The address of {parts.hostname} holds a user name, a password or a query, which would be written to "
            "files. Give the bare address and put the key into an environment variable (--api-key-env NAME)."
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/embeddings")
    versioned = any(step[:1] == "v" and step[1:2].isdigit() for step in path.split("/"))
    return f"{parts.scheme}://{parts.netloc}{path if versioned else path + '/v1'}"


def _proxy(url: str) -> str | None:
    """Return the proxy for a URL from the environment (aiohttp would look it up at every request)."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def key_from_environment(variable: str | None) -> str:
    """Return the API key in an environment variable; `NO_KEY` without a variable.

    The user's Hub token is sent only where its variable is named.

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


REDACTED = b"[redacted]"
_MIN_LENGTH = 4
"""A shorter key is no secret, and would occur in every text."""
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos", "=": "equals", "/": "sol", "+": "plus"}
_ENTITIES |= {":": "colon", ".": "period", "_": "lowbar", "-": "hyphen", "@": "commat", "%": "percnt", "#": "num"}
_ESCAPES = (b"\\", b"%", b"&")
"""Signs without one of which no character is escaped, so that the slow pattern need not run."""


class Redaction:
    r"""Redaction of one key in bytes: plain, escaped as in JSON, URLs or HTML, in base64 and hexadecimal.

    >>> redact = Redaction("sk-a/b=")
    >>> redact(rb'{"key": "sk-a\/b\u003d", "url": "?key=sk-a%2Fb%3D", "page": "sk-a/b&#61;"}')
    b'{"key": "[redacted]", "url": "?key=[redacted]", "page": "[redacted]"}'
    """

    def __init__(self, key: str) -> None:
        self._literals: list[bytes] = []
        self._escaped: re.Pattern[bytes] | None = None
        if len(key) >= _MIN_LENGTH:
            raw = key.encode()
            self._literals = [raw, *sorted({*_base64_forms(raw)}), raw.hex().encode(), raw.hex().upper().encode()]
            self._escaped = re.compile("".join(map(_character_pattern, key)).encode())

    def __call__(self, raw: bytes) -> bytes:
        """Return the bytes without the key."""
        for form in self._literals:
            if form in raw:
                raw = raw.replace(form, REDACTED)
        if self._escaped is not None and any(mark in raw for mark in _ESCAPES):
            raw = self._escaped.sub(REDACTED, raw)
        return raw


def _character_pattern(character: str) -> str:
    """Return the pattern of all escaped forms of a character."""
    ways = [re.escape(character)] if character.isalnum() else [r"\\+" + re.escape(character), re.escape(character)]
    number = ord(character)
    ways += [rf"\\+u(?i:{number:04x})", rf"\\+x(?i:{number:02x})", rf"&#0*{number};", rf"&#[xX]0*(?i:{number:x});"]
    ways.append("".join(rf"%(?:25)*(?i:{byte:02x})" for byte in character.encode()))
    if character in _ENTITIES:
        ways.append(f"&{_ENTITIES[character]};")
    return f"(?:{'|'.join(ways)})"


def _base64_forms(raw: bytes) -> list[bytes]:
    """Return the forms of a key inside base64: it may begin at any of three offsets."""
    forms = []
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + raw)
        first, whole = -(-shift * 8 // 6), (shift + len(raw)) * 8 // 6
        if whole - first >= _MIN_LENGTH:
            forms += [coded[first:whole], coded[first:whole].replace(b"+", b"-").replace(b"/", b"_")]
    return forms


Page = Callable[[str, bool], Awaitable[Mapping[str, object]]]
"""(URL, whether its faults are raised) -> the JSON object there, empty where there is no such page."""


async def server_facts(page: Page, base_url: str, model: str) -> dict[str, str]:
    """Return `kind` ("vllm", "tgi", "tei", ... or "openai-compatible"), version, served model and revision where known.

    Requests: GETs only, none of them paid.
    """
    listed = await page(f"{base_url}/models", True)
    cards = listed.get("data")
    models = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    names = (model, model.partition(":")[0])  # routers append ":PROVIDER"
    only = models[0] if len(models) == 1 else {}
    card = next((card for card in models if card.get("id") in names), only)
    site, owner = base_url.rpartition("/v")[0], card.get("owned_by")
    facts = {"kind": "openai-compatible", **_select_strings(card, root="served_model")}
    if owner == "vllm":
        return facts | {"kind": "vllm", **_select_strings(await page(f"{site}/version", True), version="version")}
    if owner == "sglang":
        about, info = await page(f"{site}/get_model_info", False), await page(f"{site}/get_server_info", False)
        facts |= _select_strings(about, model_path="served_model") | _select_strings(info, version="version")
        return facts | {"kind": "sglang"}
    if host := _HOSTS.get(urlsplit(base_url).hostname or ""):
        return facts | {"kind": host}
    info = await page(f"{site}/info", True)
    if "model_id" in info:
        facts |= _select_strings(info, version="version", model_id="served_model", model_sha="revision")
        return facts | {"kind": "tei" if isinstance(info.get("model_type"), dict) else "tgi"}
    props = await page(f"{site}/props", False)
    if "default_generation_settings" in props or "build_info" in props:
        return facts | {"kind": "llama.cpp", **_select_strings(props, build_info="version", model_path="served_model")}
    version = await page(f"{site}/api/version", False)
    tags = (await page(f"{site}/api/tags", False)).get("models") if "version" in version else None
    if isinstance(tags, list):
        tag = next((tag for tag in tags if isinstance(tag, dict) and _is_tag(tag, model)), {})
        return facts | {
            "kind": "ollama",
            **_select_strings(version, version="version"),
            **_select_strings(tag, digest="revision"),
        }
    return facts


_HOSTS = {
    "router.huggingface.co": "hf-router",
    "openrouter.ai": "openrouter",
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.together.xyz": "together",
    "api.deepseek.com": "deepseek",
}
"""Host -> kind, of services without a page about themselves."""


def _is_tag(tag: Mapping[str, object], model: str) -> bool:
    return any(tag.get(name) in (model, f"{model}:latest") for name in ("name", "model"))


def _select_strings(source: Mapping[str, object], **names: str) -> dict[str, str]:
    """Return the strings among these members, at most 300 characters each, under their new names."""
    return {new: value[:300] for name, new in names.items() if isinstance(value := source.get(name), str)}
