"""Reading the body of a chat completion: an answer with all that came with it, or a failure with a reason.

What is read where is what servers and providers send, each in its own dialect of one protocol; an empty text is never
made up, and no number of a server's is believed that cannot be one.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from kbbench_hf.llm.failures import Failure, Meaning, Refusal, Refused
from kbbench_hf.protocols import Completion, token_count

FINISHED = {
    "stop": "stop",
    "eos_token": "stop",  # TGI
    "stop_sequence": "stop",  # TGI
    "end_turn": "stop",
    "eos": "stop",  # Together
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral: the window is full
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",
}
"""Finish reason -> the one of OpenAI's that means the same."""
BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "insufficient_system_resource", "timeout"})
"""Finish reasons with which the server, not the model, ended the text: what there is of it is no answer."""


def parse_json(body: bytes) -> object:
    """Return the JSON value of a body.

    Raises:
        Failure: it is empty, not UTF-8, or not JSON (a proxy's HTML page, a cut-off answer); worth a second try.
    """
    if not body.strip():
        raise Failure("empty_body", transient=True)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure("not_utf8", str(error), transient=True) from None
    try:
        return json.loads(text)
    except RecursionError as error:
        raise _not_json(body, error) from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError):
            raise _not_json(body, error) from None
    try:  # an integer of thousands of digits, which Python refuses to convert
        return json.loads(text, parse_int=_bounded_int)
    except (ValueError, RecursionError) as error:
        raise _not_json(body, error) from None


def read_completion(body: object, latency_s: float) -> Completion:
    """Return the completion in the body of a chat reply with status 200.

    A cut-off answer is an answer whose `finish_reason` is "length"; an empty text with finish reason "stop" is the
    model's answer. Of several choices the one with index 0 is taken. Token counts that are absent or absurd are None;
    `completion_tokens` is as the server counts, which for some leaves out the reasoning (xAI).

    Raises:
        Failure: there is no answer in it. Refusals, filtered and reasoning-only replies and calls of tools are final;
            others transient.

    >>> reply = {"choices": [{"message": {"content": "film(a, b)"}, "finish_reason": "stop"}], "model": "m"}
    >>> read_completion(reply, latency_s=0.1)[:2]
    ('film(a, b)', 'stop')
    """
    reply, message, has_content = _read(body, latency_s)
    text, reasoning, finish = reply.text, reply.reasoning, reply.finish_reason
    unanswered = partial(Failure, reply=reply)
    ended = f"finish reason {finish!r}"
    if not text:
        if message.get("refusal"):
            raise unanswered("refusal", transient=False, text=words_of(message["refusal"]))
        if calls := _calls(message):
            raise unanswered("tool_call", words_of(calls), transient=False)
    if not text.strip() and (reasoning or (reply.reasoning_tokens and finish == "length")):
        raise unanswered("reasoning_only", ended, transient=False, text=reasoning or "")
    if not has_content or (not text and finish == "tool_calls"):
        raise unanswered("no_content", ended, transient=True)
    return reply


def read_tool_turn(body: object, latency_s: float) -> Completion:
    """Return the completion in the body of a reply to a request with tools, `tool_calls` included.

    A reply without a call and without a word is one too: the model may be asked again, in the same conversation.

    Raises:
        Failure: the reply is broken, or the server filtered it.
    """
    reply, message, _ = _read(body, latency_s)
    if not reply.text and message.get("refusal"):
        reply = reply._replace(text=words_of(message["refusal"]))
    return reply._replace(tool_calls=_calls(message))


def _calls(message: Mapping[str, object]) -> object:
    return message.get("tool_calls") or message.get("function_call") or None


def _read(body: object, latency_s: float) -> tuple[Completion, Mapping[str, object], bool]:
    """Return the completion in a body, the message that it stands in, and whether that has a content at all.

    Raises:
        Failure: there is no message, or the server ended it.
    """
    if not isinstance(body, dict):
        raise Failure("not_an_object", f"a JSON {type(body).__name__}", transient=True)
    if body.get("error"):
        raise Failure("error_in_body", words_of(body["error"]), transient=True)
    choice = _first_choice(body)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Failure("no_message", words_of(choice), transient=True)
    if choice.get("error"):  # a provider behind a router failed midway
        raise Failure("error_in_body", words_of(choice["error"]), transient=True)
    reason = choice.get("finish_reason")
    raw = reason.lower() if isinstance(reason, str) else ""
    finish = FINISHED.get(raw, raw)
    said = _said(message.get("content"))
    reasoning = said.thought
    for field in ("reasoning_content", "reasoning", "reasoning_details"):
        reasoning = _said(message.get(field)).text or reasoning
    reply = _reply(body, said.text or "", finish, reasoning or None, latency_s)
    if finish == "content_filter":
        raise Failure("content_filter", transient=False, text=reply.text, reply=reply)
    if finish in BROKEN_OFF:
        raise Failure("broken_off", f"finish reason {raw!r}", transient=True, reply=reply)
    return reply, message, said.text is not None


def _reply(body: Mapping[str, object], text: str, finish: str, reasoning: str | None, latency_s: float) -> Completion:
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Completion(
        text=text,
        finish_reason=finish,
        prompt_tokens=token_count(counts.get("prompt_tokens")),
        completion_tokens=token_count(counts.get("completion_tokens")),
        latency_s=latency_s,
        reasoning=reasoning,
        model=_name(body.get("model")),
        system_fingerprint=_name(body.get("system_fingerprint")),
        provider=_name(body.get("provider")),
        reasoning_tokens=_first_count(
            _member(counts, "completion_tokens_details", "reasoning_tokens"),
            _member(counts, "output_tokens_details", "reasoning_tokens"),
            counts.get("reasoning_tokens"),
        ),
        cached_tokens=_first_count(
            _member(counts, "prompt_tokens_details", "cached_tokens"),
            _member(counts, "input_tokens_details", "cached_tokens"),
            counts.get("cached_tokens"),
            counts.get("prompt_cache_hit_tokens"),
        ),
        total_tokens=token_count(counts.get("total_tokens")),
    )


def words_of(value: object) -> str:
    """Return a JSON value in one printable line of at most 300 characters."""
    from kbbench_hf.llm.error_messages import printable

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(" ".join(text.split())[:300])


class _Said(NamedTuple):
    """What a message's content holds: text, None where there is none at all, and thought."""

    text: str | None
    thought: str = ""


def _said(content: object) -> _Said:
    """Read a content that is a text or a list of parts, of which some may be thoughts (Mistral)."""
    if not isinstance(content, list):
        return _Said(content if isinstance(content, str) else None)
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thoughts.append(_said(part.get("thinking", part.get("reasoning"))).text or "")
    return _Said("".join(texts) if texts or thoughts else None, "".join(thoughts))


def _first_choice(body: Mapping[str, object]) -> dict[str, object]:
    choices = body.get("choices")
    found = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    if not found:
        if "choices" not in body and ("message" in body or "generated_text" in body or "content" in body):
            said = f"the reply has {', '.join(sorted(body)[:8])} in place of choices: this is another protocol"
            raise Refused("not_this_protocol", said, refusal=Refusal(Meaning.ADDRESS))
        raise Failure("no_choices", words_of(choices), transient=True)
    return next((choice for choice in found if choice.get("index", 0) == 0), found[0])


def _name(value: object) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _member(counts: Mapping[str, object], name: str, inner: str) -> object:
    details = counts.get(name)
    return details.get(inner) if isinstance(details, dict) else None


def _first_count(*values: object) -> int | None:
    return next((count for count in map(token_count, values) if count is not None), None)


def _bounded_int(digits: str) -> int:
    return int(digits) if len(digits) < 20 else -1


def _not_json(body: bytes, error: Exception) -> Failure:
    return Failure("not_json", f"{type(error).__name__} in {body[:80]!r}", transient=True)
