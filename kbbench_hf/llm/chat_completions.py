"""Parser of chat completions: body of a reply -> `Completion` (text, reasoning, tokens, tool calls) or `Failure`.

It knows the variants of servers and providers. An absent text is a failure, never an empty completion, and a token
count that is no count is None. `llm.endpoint` parses every reply with it. Each branch is a reply of some server: one
that is removed turns such replies into wrong answers or ends a run.
"""

import json
from collections.abc import Mapping
from functools import partial

from kbbench_hf.llm.failures import Failure, Refusal, RefusalKind, RequestRefused
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
"""Finish reasons with which the server, not the model, ended the text: the text is not a completion."""


def parse_json(body: bytes) -> object:
    """Return the JSON value of a body.

    Raises:
        Failure: it is empty, not UTF-8, or not JSON (HTML of a proxy, a truncated reply); transient.
    """
    if not body.strip():
        raise Failure("empty_body", transient=True)
    try:
        return json.loads(body.decode("utf-8"), parse_int=_bounded_int)
    except UnicodeDecodeError as error:
        raise Failure("not_utf8", str(error), transient=True) from None
    except (ValueError, RecursionError) as error:
        raise Failure("not_json", f"{type(error).__name__} in {body[:80]!r}", transient=True) from None


def read_completion(body: object, latency_s: float) -> Completion:
    """Return the completion in the body of a chat reply with status 200; its text is as the server sent it.

    A truncated text (`finish_reason` "length") and an empty text with finish reason "stop" are completions. Of several
    choices the one with index 0 counts. Token counts that are absent or absurd are None; `completion_tokens` is the
    server's count, which for some excludes the reasoning (xAI).

    Raises:
        Failure: it has no completion. Refusals, filtered and reasoning-only replies and tool calls are final, others
            transient.

    >>> reply = {"choices": [{"message": {"content": "film(a, b)"}, "finish_reason": "stop"}], "model": "m"}
    >>> read_completion(reply, latency_s=0.1)[:2]
    ('film(a, b)', 'stop')
    """
    reply, message, has_content = _parse_reply(body, latency_s)
    text, reasoning, finish = reply.text, reply.reasoning, reply.finish_reason
    unanswered = partial(Failure, reply=reply)
    ended = f"finish reason {finish!r}"
    if not text:
        if message.get("refusal"):
            raise unanswered("refusal", transient=False, text=_json_line(message["refusal"]))
        if calls := _tool_calls(message):
            raise unanswered("tool_call", _json_line(calls), transient=False)
    if not text.strip() and (reasoning or (reply.reasoning_tokens and finish == "length")):
        raise unanswered("reasoning_only", ended, transient=False, text=reasoning or "")
    if not has_content or (not text and finish == "tool_calls"):
        raise unanswered("no_content", ended, transient=True)
    return reply


def read_tool_turn(body: object, latency_s: float) -> Completion:
    """Return the completion in the body of a reply to a request with tools, `tool_calls` included.

    A reply without a call and without text is one too: the agent goes on in the same conversation.

    Raises:
        Failure: the reply is malformed, or the server filtered it.
    """
    reply, message, _ = _parse_reply(body, latency_s)
    if not reply.text and message.get("refusal"):
        reply = reply._replace(text=_json_line(message["refusal"]))
    return reply._replace(tool_calls=_tool_calls(message))


def _tool_calls(message: Mapping[str, object]) -> object:
    return message.get("tool_calls") or message.get("function_call") or None


def _parse_reply(body: object, latency_s: float) -> tuple[Completion, Mapping[str, object], bool]:
    """Return the completion in a body, its message, and whether the message has a content at all.

    Raises:
        Failure: the body has no message, or the server ended the text.
    """
    if not isinstance(body, dict):
        raise Failure("not_an_object", f"a JSON {type(body).__name__}", transient=True)
    if body.get("error"):
        raise Failure("error_in_body", _json_line(body["error"]), transient=True)
    choice = _first_choice(body)
    if choice.get("error"):  # a provider behind a router failed midway
        raise Failure("error_in_body", _json_line(choice["error"]), transient=True)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Failure("no_message", _json_line(choice), transient=True)
    reason = choice.get("finish_reason")
    raw = reason.lower() if isinstance(reason, str) else ""
    finish = FINISHED.get(raw, raw)
    text, reasoning = _parse_content(message.get("content"))
    for field in ("reasoning_content", "reasoning", "reasoning_details"):
        reasoning = _parse_content(message.get(field))[0] or reasoning
    reply = _completion(body, text or "", finish, reasoning or None, latency_s)
    if finish == "content_filter":
        raise Failure("content_filter", transient=False, text=reply.text, reply=reply)
    if finish in BROKEN_OFF:
        raise Failure("broken_off", f"finish reason {raw!r}", transient=True, reply=reply)
    return reply, message, text is not None


def _completion(
    body: Mapping[str, object], text: str, finish: str, reasoning: str | None, latency_s: float
) -> Completion:
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}

    def values(name: str, *kinds: str) -> tuple[object, ...]:
        """Return the values of a count, from the objects of details first."""
        details = (counts.get(f"{kind}_tokens_details") for kind in kinds)
        return (*(each.get(name) for each in details if isinstance(each, dict)), counts.get(name))

    model, fingerprint, provider = (
        value[:200] if isinstance(value := body.get(name), str) and value else None
        for name in ("model", "system_fingerprint", "provider")
    )
    return Completion(
        text=text,
        finish_reason=finish,
        prompt_tokens=token_count(counts.get("prompt_tokens")),
        completion_tokens=token_count(counts.get("completion_tokens")),
        latency_s=latency_s,
        reasoning=reasoning,
        model=model,
        system_fingerprint=fingerprint,
        provider=provider,
        reasoning_tokens=_first_count(*values("reasoning_tokens", "completion", "output")),
        cached_tokens=_first_count(*values("cached_tokens", "prompt", "input"), counts.get("prompt_cache_hit_tokens")),
        total_tokens=token_count(counts.get("total_tokens")),
    )


def _first_count(*values: object) -> int | None:
    return next((count for count in map(token_count, values) if count is not None), None)


def _json_line(value: object) -> str:
    """Return a JSON value in one printable line of at most 300 characters."""
    from kbbench_hf.llm.refusals import one_line

    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _parse_content(content: object) -> tuple[str | None, str]:
    """Return text and reasoning of a string, or of a list of parts, some of which may be reasoning (Mistral).

    The text is None where there is no content.
    """
    if not isinstance(content, list):
        return content if isinstance(content, str) else None, ""
    texts: list[str] = []
    reasoning: list[str] = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            reasoning.append(_parse_content(part.get("thinking", part.get("reasoning")))[0] or "")
    return "".join(texts) if texts or reasoning else None, "".join(reasoning)


def _first_choice(body: Mapping[str, object]) -> dict[str, object]:
    choices = body.get("choices")
    valid = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    if not valid:
        if "choices" not in body and ("message" in body or "generated_text" in body or "content" in body):
            message = f"the reply has {', '.join(sorted(body)[:8])} in place of choices: this is another protocol"
            raise RequestRefused("not_this_protocol", message, refusal=Refusal(RefusalKind.ADDRESS))
        raise Failure("no_choices", _json_line(choices), transient=True)
    return next((choice for choice in valid if choice.get("index", 0) == 0), valid[0])


def _bounded_int(digits: str) -> int:
    """Return an integer; -1 for one that is too long for any count (Python refuses to convert thousands of digits)."""
    return int(digits) if len(digits) < 20 else -1
