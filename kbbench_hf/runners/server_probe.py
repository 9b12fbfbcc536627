"""Probe of a chat server: served models, context length, slots, template, tools, schema, log probabilities, speed.

`kbbench doctor` prints the report and the options of a run that it proposes; `kbbench run` finds the only model of a
server. Each request may be paid for: a probe sends at most nine short ones, and one more for each parameter that the
server refuses. The report is printed and not stored: its lines may change.
"""

import asyncio
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.base import object_schema
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.llm.chat_completions import read_completion, read_tool_turn
from kbbench_hf.llm.concurrency import run
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.llm.failures import Failure, RequestRefused
from kbbench_hf.parsing.conversation_turns import find_other_turn
from kbbench_hf.protocols import Completion
from kbbench_hf.runners.chat_requests import RequestSender
from kbbench_hf.runners.cost import Budget
from kbbench_hf.runners.jobs import ATTEMPTS
from kbbench_hf.runners.refusal_scope import refusal_error

PROBE_S = 9.0
"""Longest time of a probe in seconds; with the start of Python, `kbbench doctor` takes less than ten."""
N_AT_ONCE = 4
"""Concurrent requests of the second measurement of speed."""
_COUNT = "Count from {} to {} in words."
_QUESTION = "What is the time in Oslo? Answer in one word."
_TOKENS = 16
_FEWEST_TOKENS = 4
"""Maximum tokens of a reply when the speed is measured, and the least of these for slow servers."""
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL = {"type": "function", "function": {"name": "get_time", "description": "Time in a city.", "parameters": _CITY}}
_SCHEMA = object_schema(verdict={"type": "string", "enum": ["yes"]})
"""A schema that no reply follows by chance."""
_CONTEXT_FIELDS = (
    "n_ctx max_total_tokens max_model_len loaded_context_length context_length context_window max_context_length"
).split()
_LONGEST_REPLY = 1024
"""The longest default of --max-tokens of any prompt."""


class Speed(NamedTuple):
    """The speed of `n_sent` concurrent requests: replies in time, seconds to the last one, tokens of all."""

    n_sent: int
    n_replies: int
    seconds: float
    n_tokens: int

    @property
    def rate(self) -> float:
        """Tokens per second; if the server counts none, replies per second."""
        return (self.n_tokens or self.n_replies) / max(self.seconds, 1e-6)

    def __str__(self) -> str:
        late = f" ({self.n_replies} replies in time)" if self.n_replies < self.n_sent else ""
        tokens = f", {self.rate:,.0f} tokens/s" if self.n_tokens else ""
        return f"{self.n_sent} request{'s' * (self.n_sent > 1)} in {self.seconds:.1f} s{late}{tokens}"


@dataclass(frozen=True)
class ServerReport:
    """The findings of a probe; None and "" if the server does not tell or the time did not suffice."""

    facts: Mapping[str, str]
    model: str
    context: int | None = None
    """Tokens of a prompt with its reply."""
    slots: int | None = None
    """Requests that the server works on at one time."""
    template: str = ""
    tools: str = ""
    schema: str = ""
    enforces_schema: bool = False
    log_probabilities: str = ""
    speeds: Sequence[Speed] = field(default=())
    """Of one request, and of N_AT_ONCE."""

    @property
    def speedup(self) -> float | None:
        """Tokens per second with N_AT_ONCE requests, divided by those with one; None without both measurements."""
        return self.speeds[1].rate / self.speeds[0].rate if len(self.speeds) == 2 else None

    @property
    def concurrency(self) -> int:
        """The proposed `--concurrency`: the slots; else 32 where requests at one time cost each other little."""
        if self.slots is not None:
            return min(self.slots, 32)
        if self.speedup is None:
            return N_AT_ONCE
        return 32 if self.speedup > 0.7 * N_AT_ONCE else max(2, math.ceil(self.speedup))

    @property
    def timeout_s(self) -> int:
        """The proposed `--timeout` in seconds: twice the time of the longest reply, at least the default."""
        if not self.speeds:
            return 1800
        fastest = max(speed.rate if speed.n_tokens else _TOKENS * speed.rate for speed in self.speeds)
        return max(300, 60 * math.ceil(2 * self.concurrency * _LONGEST_REPLY / fastest / 60))

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of a table: property and finding."""
        not_told = "the server does not tell"
        version = f" {self.facts['version']}" if "version" in self.facts else ""
        yield "server", f"{self.facts['kind']}{version}"
        yield "model", self.model
        yield "context", f"{self.context:,} tokens for a prompt and its reply" if self.context else not_told
        yield "slots", f"{self.slots:,}" if self.slots else not_told
        late = f"no reply in time ({PROBE_S:g} s)"
        yield "template", self.template or late
        yield "tools", self.tools or late
        yield "schema", self.schema or late
        yield "log probs", self.log_probabilities or late
        yield "speed", "; ".join(map(str, self.speeds)) or late

    def options(self) -> list[str]:
        """Return the proposed options of a run."""
        structured = "--structured" if self.enforces_schema else "--no-structured"
        return ["--concurrency", str(self.concurrency), "--timeout", str(self.timeout_s), structured]


def served_model(endpoint: Endpoint, attempts: int = ATTEMPTS) -> str:
    """Return the name of the only model of a server; a failed request is sent again, in all `attempts` times.

    Raises:
        UsageError: it lists none, or several; the message names them and what to type.
        KBBenchError: it does not answer.
    """
    return run(_served_model(endpoint, attempts))


async def _served_model(endpoint: Endpoint, attempts: int) -> str:
    async with endpoint:
        await RequestSender(endpoint, lambda record: None, Budget(), concurrency=1, attempts=attempts).recognize()
        names = await _model_names(endpoint)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{endpoint.base_url} lists no models; expected one. Load a model there, or add --model NAME.")
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")
    raise UsageError(
        f"{endpoint.base_url} serves {len(names):,} models: {shown}. Expected one of them. Add --model {names[0]}."
    )


async def _model_names(endpoint: Endpoint) -> list[str]:
    listed = (await endpoint.page(f"{endpoint.base_url}/models")).get("data")
    cards = listed if isinstance(listed, list) else []
    names = [str(card["id"]) for card in cards if isinstance(card, dict) and card.get("id")]
    return list(dict.fromkeys(names)) or [name for name in (endpoint.server.get("served_model"),) if name]


def probe_server(endpoint: Endpoint) -> ServerReport:
    """Return what a server's own pages and short requests tell of it, within `PROBE_S` seconds.

    Raises:
        UsageError: the server refuses the key, the model or the address.
        KBBenchError: it does not answer.
    """
    return run(_probe(endpoint))


async def _probe(endpoint: Endpoint) -> ServerReport:
    ends = time.monotonic() + PROBE_S
    async with endpoint:
        try:
            async with asyncio.timeout(PROBE_S):
                facts = await endpoint.recognize()
                report = await _read_pages(endpoint, facts)
        except RequestRefused as refused:
            raise refusal_error(refused, endpoint) from None
        except (Failure, TimeoutError) as failure:
            raise KBBenchError(
                f"{endpoint.base_url} does not answer ({str(failure) or 'timeout'}). Expected a model server. Is it "
                "running at this address?"
            ) from None
        alone = await _measure(endpoint, 1, _TOKENS, ends)
        if alone is None:
            return report
        report = replace(report, speeds=(alone,))
        found: dict[str, Any] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(ends - time.monotonic()):
                await asyncio.gather(_check_tools(endpoint, found), _check_schema(endpoint, found))
        report = replace(report, **found)
        left = ends - time.monotonic() - 0.5
        n_tokens = min(_TOKENS, max(_FEWEST_TOKENS, int(_TOKENS * left / (N_AT_ONCE * alone.seconds))))
        together = await _measure(endpoint, N_AT_ONCE, n_tokens, ends)
    return replace(report, speeds=(alone, together)) if together else report


async def _read_pages(endpoint: Endpoint, facts: Mapping[str, str]) -> ServerReport:
    """Return a report of the server's own pages: context length and slots."""
    site = endpoint.base_url.rpartition("/v")[0]
    own = {"llama.cpp": "/props", "tgi": "/info", "ollama": "/api/ps", "sglang": "/get_server_info"}
    about = await endpoint.page(f"{site}{own[facts['kind']]}") if facts["kind"] in own else {}
    listed = await endpoint.page(f"{endpoint.base_url}/models")
    cards = [*_objects(about.get("models")), *_objects(listed.get("data"))]
    names = {endpoint.model, f"{endpoint.model}:latest"}
    card = next((card for card in cards if {card.get("id"), card.get("name")} & names), {})
    settings = about.get("default_generation_settings")
    sources = [settings, about, card, card.get("meta")]
    found = (each.get(name) for each in sources if isinstance(each, dict) for name in _CONTEXT_FIELDS)
    context = next((n for n in found if isinstance(n, int) and n > 0), None)
    slots = about.get("total_slots", about.get("max_running_requests"))
    return ServerReport(facts, endpoint.model, context, slots if isinstance(slots, int) else None)


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


async def _ask(
    endpoint: Endpoint, content: str, max_tokens: int, schema: Mapping[str, object] | None = None, **more: object
) -> tuple[Completion, Mapping[str, Any]]:
    """Return the completion of one request, and its choice in the reply; adapt to refused parameters.

    Raises:
        Failure: there is none.
    """
    while True:
        started = time.perf_counter()
        try:
            messages = [{"role": "user", "content": content}]
            reply, _ = await endpoint.request(messages, max_tokens, schema=schema, temperature=0.0, **more)
        except RequestRefused as refused:
            if endpoint.learn(refused) is None:
                raise
            continue
        parse = read_tool_turn if "tools" in more else read_completion
        choices = reply.get("choices") if isinstance(reply, dict) else None
        try:
            completion = parse(reply, time.perf_counter() - started)
        except Failure as failure:
            if failure.reply is None:
                raise
            completion = failure.reply  # thought that the limit of tokens cut off
        return completion, (_objects(choices) or [{}])[0]


async def _measure(endpoint: Endpoint, n: int, n_tokens: int, ends: float) -> Speed | None:
    """Return the speed of `n` requests at one time; None where no reply came in time.

    Raises:
        KBBenchError: the server refuses the request or fails.
    """
    tasks = [asyncio.create_task(_ask(endpoint, _COUNT.format(i, 20 + i), n_tokens)) for i in range(1, n + 1)]
    started = last = time.monotonic()
    replies: list[Completion] = []
    try:
        for next_reply in asyncio.as_completed(tasks, timeout=max(0.1, ends - started)):
            replies.append((await next_reply)[0])
            last = time.monotonic()
    except TimeoutError:
        pass
    except RequestRefused as refused:
        raise refusal_error(refused, endpoint) from None
    except Failure as failure:
        if n == 1:
            raise KBBenchError(
                f"{endpoint.base_url} gives no reply ({failure}). Expected a chat completion of {endpoint.model!r}. "
                "See the server's log."
            ) from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    tokens = sum(reply.completion_tokens or 0 for reply in replies)
    return Speed(n, len(replies), last - started, tokens) if replies else None


async def _check_tools(endpoint: Endpoint, found: dict[str, Any]) -> None:
    """Add the findings on template, log probabilities and tools, from one prompt with and without tools."""
    try:
        plain, choice = await _ask(endpoint, _QUESTION, 2 * _TOKENS, logprobs=True)
        found["log_probabilities"] = "yes" if choice.get("logprobs") else "none in the reply"
    except Failure as failure:
        found["log_probabilities"] = _failed(failure)
        try:
            plain, _ = await _ask(endpoint, _QUESTION, 2 * _TOKENS)
        except Failure as other:
            found["template"] = found["tools"] = _failed(other)
            return
    mark = find_other_turn(plain.text)
    found["template"] = (
        f"wrong: the reply holds {mark!r} as text. Start the server with the model's own chat template"
        if mark
        else "no mark of a turn in the reply"
    )
    try:
        called, _ = await _ask(endpoint, _QUESTION, 2 * _TOKENS, tools=[_TOOL])
    except Failure as failure:
        found["tools"] = _failed(failure)
        return
    if called.prompt_tokens is not None and called.prompt_tokens == plain.prompt_tokens:
        found["tools"] = "not shown to the model by its chat template: use --protocol json for agents"
    else:
        found["tools"] = "called in the test" if called.tool_calls else "accepted, not called in the test"


async def _check_schema(endpoint: Endpoint, found: dict[str, Any]) -> None:
    """Add whether a reply follows a schema that no reply follows by chance."""
    from kbbench_hf.llm.constrained_decoding import violation

    try:
        reply, _ = await _ask(endpoint, "Name a color.", 2 * _TOKENS, _SCHEMA)
    except Failure as failure:
        found["schema"] = _failed(failure)
        return
    if reply.reasoning and not reply.text:
        found["schema"] = f"accepted; the model still thought after {2 * _TOKENS} tokens, so it is not checked"
        return
    form = endpoint.dialect.schema
    found["enforces_schema"] = violation(reply.text, _SCHEMA) is None
    text = json.dumps(reply.text[:60])
    wrong = f"accepted ({form}), but the reply does not follow it: {text}"
    found["schema"] = f"followed ({form})" if found["enforces_schema"] else wrong


def _failed(failure: Failure) -> str:
    return f"not supported ({failure})" if isinstance(failure, RequestRefused) else f"failed ({failure})"
