"""What it means that a server refused: of this prompt, of this run, or for now.

A status alone decides nothing: a prompt that is too long comes as 400, 413, 422, 429, 500 and 200, and a 429 may mean
wait, never, or no money. So the words are read first, the status where they say nothing, and where both leave it open
the meaning is `UNCLEAR`: then only asking again shows whose refusal it was (see `runners.chat_requests`).
"""

import re
from collections.abc import Iterable, Mapping

from kbbench_hf.llm import refusal_patterns as words
from kbbench_hf.llm.error_messages import ErrorWords, error_words
from kbbench_hf.llm.failures import Meaning, Refusal

CROWDED = (429, 498, 503, 529)
"""Statuses of a server that has too much to do."""


def refusal(status: int, headers: Mapping[str, str], body: bytes | object, sent: Iterable[str] = ()) -> Refusal:
    """Return what a refusal means; `sent` are the parameters of the request.

    With status 200, `body` holds the `error` that stands in place of an answer.

    >>> body = b'{"error": {"message": "max_tokens must be at least 1, got -853.", "param": "max_tokens"}}'
    >>> refusal(400, {}, body).cause
    'context_length'
    >>> refusal(429, {}, b'{"error": {"message": "Slow down. Try again in 20s."}}').seconds
    20.0
    """
    return meaning_of(status, error_words(body, headers), sent)


def meaning_of(status: int, said: ErrorWords, sent: Iterable[str] = ()) -> Refusal:
    """Return what the words of an error reply mean under its status."""
    if status == 200:
        status = said.code or 0
    crowded = status in CROWDED
    if said.html:
        return _by_status(status, said)
    if "tools" in sent and status not in (401, 402, 403, 429) and _has(said, words.NO_TOOLS):
        return Refusal(Meaning.PARAMETER, parameter="tools")
    if _has(said, words.CLOSED):
        return Refusal(Meaning.QUOTA if _has(said, words.MONEY, words.MONEY_CODES) or crowded else Meaning.KEY)
    if status == 429 and said.seconds is not None and not _has(said, words.NO_ALLOWANCE, words.MONEY_CODES):
        if _has(said, words.TOO_LARGE_AT_ONCE):
            return Refusal(Meaning.PROMPT, cause="context_length")
        return Refusal(Meaning.LATER, seconds=said.seconds)
    if _is_money(status, said):
        return Refusal(Meaning.QUOTA)
    if _has(said, words.RATE_LIMIT) and not _has(said, words.TOO_LARGE_AT_ONCE):
        return Refusal(Meaning.LATER, seconds=said.seconds)
    if status not in (401, 408, 504) and _is_too_long(status, said):
        return Refusal(Meaning.PROMPT, cause="context_length")
    if (
        status != 401
        and not crowded
        and _has(said, words.FILTERED if status >= 500 else words.CONTENT, words.CONTENT_CODES)
    ):
        return Refusal(Meaning.PROMPT, cause="content_filter")
    if status not in (400, 401, 404, 422) and _has(said, words.LOADING) and "fail" not in said.text:
        return Refusal(Meaning.LOADING, seconds=said.seconds)
    if status == 429:
        return Refusal(Meaning.LATER, seconds=said.seconds)
    if (status < 500 or crowded) and status not in (0, 401, 404) and _has(said, words.RATE, words.RATE_CODES):
        return Refusal(Meaning.LATER, seconds=said.seconds)
    if status == 401:
        return Refusal(Meaning.KEY)
    if status >= 500 or status == 0:
        named = _parameter(said, sent, in_a_fault=True)
        return Refusal(Meaning.PARAMETER, parameter=named) if named else _by_status(status, said)
    if _has(said, words.UNSUPPORTED_CONTENT, words.UNSUPPORTED_CODES):
        return Refusal(Meaning.PROMPT, cause="unsupported_content")
    if status in (400, 403) and _has(said, words.WRONG_KEY):
        return Refusal(Meaning.KEY)
    if "model" in said.fields or _has(said, None, words.MODEL_CODES):
        return Refusal(Meaning.MODEL)
    named = _parameter(said, sent) if status != 404 else None
    if named is not None and (named in said.fields or not _has(said, words.MODEL) or _mentions(said, named)):
        return Refusal(Meaning.PARAMETER, parameter=named)
    if _has(said, words.MODEL):
        return Refusal(Meaning.MODEL)
    if status in (400, 403) and _has(said, words.KEY, words.KEY_CODES):
        return Refusal(Meaning.KEY)
    return _by_status(status, said)


def _by_status(status: int, said: ErrorWords) -> Refusal:
    """Return what a status means where the words say nothing."""
    meaning = {
        401: Meaning.KEY,
        402: Meaning.QUOTA,
        404: Meaning.MODEL,
        405: Meaning.ADDRESS,
        413: Meaning.PROMPT,
        429: Meaning.LATER,
        503: Meaning.FAULT,
        529: Meaning.LATER,
        498: Meaning.LATER,
    }.get(status)
    if meaning is None and status in (408, 409, 421, 423, 424, 425, 499):
        meaning = Meaning.FAULT
    if meaning is None and 300 <= status < 400:
        meaning = Meaning.ADDRESS
    if meaning is None:
        meaning = Meaning.FAULT if status >= 500 or status == 0 else Meaning.UNCLEAR
    return Refusal(meaning, cause="context_length" if meaning is Meaning.PROMPT else None, seconds=said.seconds)


def _has(said: ErrorWords, sentences: re.Pattern[str] | None, codes: re.Pattern[str] | None = None) -> bool:
    if sentences is not None and sentences.search(said.text):
        return True
    return codes is not None and any(codes.search(code) for code in said.codes)


def _is_money(status: int, said: ErrorWords) -> bool:
    if status == 402 or _has(said, words.NO_ALLOWANCE):
        return True
    if _has(said, None, words.MONEY_CODES):
        return True
    if status in (401, 404, 500, 502, 503, 504):
        return False
    if _has(said, words.MONEY):
        return status != 429 or not _has(said, words.RATE_UNIT)
    return _has(said, words.QUOTA) and not _has(said, words.RATE)


def _is_too_long(status: int, said: ErrorWords) -> bool:
    """Whether one prompt does not fit; a limit of the answer that nobody could keep is a parameter instead."""
    if status in CROWDED:
        return _has(said, words.TOO_LARGE_AT_ONCE, words.TOO_LONG_CODES)
    if status >= 500 and not _has(said, words.OF_A_WINDOW, words.TOO_LONG_CODES):
        return False
    if _has(said, None, words.TOO_LONG_CODES):
        return True
    if words.NO_ROOM.search(said.text):
        return True
    if words.LIMIT_ASKED.search(said.text) and not words.INPUT_TOKENS.search(said.text):
        return False
    if "input_tokens" in said.fields or "prompt_tokens" in said.fields:
        return True
    return _has(said, words.TOO_LONG)


def _parameter(said: ErrorWords, sent: Iterable[str], in_a_fault: bool = False) -> str | None:
    """Return the parameter that an error names as not taken, as far as it names one."""
    known = words.PARAMETERS | {*sent} - {"model"}
    if not in_a_fault and not words.JSON_WORD.search(said.text):
        for each in said.fields:
            name = _of_field(each)
            if name and (name in known or name in said.text):
                return name
    if words.SCHEMA.search(said.text) and (words.NOT_TAKEN.search(said.text) or "json" in said.text):
        return "response_format"
    if in_a_fault and "internal" in said.text and not words.SCHEMA.search(said.text):
        return None
    if not words.NOT_TAKEN.search(said.text):
        return None
    original = " ".join(said.sentences)
    for found in words.QUOTED.finditer(original):
        name = _snake((found[1] or found[2]).rpartition(".")[2])
        if name in known:
            return words.SAME.get(name, name)
    if found_name := words.NAMED.search(original):
        name = _snake(found_name[1])
        if name != "model" and (name in known or not in_a_fault):
            return words.SAME.get(name, name)
    for found in re.finditer(r"[A-Za-z_]\w*", original):
        name = _snake(found[0])
        telling = "_" in name if in_a_fault else name not in words.COMMON_WORDS
        if name in known and telling:
            return words.SAME.get(name, name)
    if in_a_fault:
        return None
    for found in words.QUOTED.finditer(original):
        if found[1] and "_" in found[1]:  # a name that nobody but this server knows
            return _snake(found[1])
    if words.THINKING.search(said.text):
        return "reasoning_effort"
    return "messages" if words.ROLES.search(said.text) else None


def _of_field(path: str) -> str | None:
    """Return the parameter of a field's path: `response_format.json_schema` and `body.max_tokens` name one."""
    steps = [_snake(step) for step in re.split(r"[.\[\]]+", path) if step and not step.isdigit()]
    steps = [step for step in steps if step not in words.PROMPT_FIELDS]
    if not steps or steps[0] == "model":
        return None
    return words.SAME.get(steps[0], steps[0]) if re.fullmatch(r"\w+", steps[0]) else None


def _mentions(said: ErrorWords, name: str) -> bool:
    return name in said.text or name.replace("_", "") in said.text or name in ("reasoning_effort", "response_format")


def _snake(name: str) -> str:
    """Return a name in lower case with underscores: `reasoningEffort` is `reasoning_effort`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
