"""Parser and classifier of error replies: rate limit, quota, key, model, parameter, context overflow, filter, fault.

Providers write the text in `error`, `error.message` or `detail`, in a list around the object, in JSON inside a string,
or as HTML; codes are words or numbers; the time to wait is a header, a field or part of a sentence.

A status alone decides nothing: a prompt that is too long comes as 400, 413, 422, 429, 500 and 200, and a 429 may mean
wait, never, or no money. So the words are read first, and the status where they say nothing. Where both leave it open
the kind is `UNCLEAR`: then only another request shows what was refused (see `runners.refusal_scope`).

`llm.endpoint` classifies every error with it, `runners` act on the kind. The order of the checks in `classify_error`
matters: each was placed by replies of real providers. Patterns are in `refusals.toml`.
"""

import json
import re
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf
from pathlib import Path

from kbbench_hf.llm.failures import Refusal, RefusalKind
from kbbench_hf.text.folding import lazy_pattern

MOST_CHARACTERS = 20_000
"""The longest error message that is parsed."""
_DEPTH = 8
"""Levels of an error's JSON that are read."""
_CODES = {"code", "type", "error_type", "errortype", "error_code", "status", "reason", "__type", "title"}
_FIELDS = {"param", "parameter", "field", "loc"}
_WAITS = {"estimated_time", "retry_after", "retryafter", "retrydelay", "retry_after_seconds", "retry_in"}
_SIZES = {"n_prompt_tokens", "n_ctx"}
"""Sizes that llama.cpp gives with a prompt that is too long."""
_IGNORED = {"input", "flagged_input", "failed_generation", "request_id", "id", "user_id", "ctx", "url", "trace_id"}
"""Members that repeat the request or identify it: their words do not explain the error."""
_URL = re.compile(r"https?://\S+|www\.\S+")
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_UNIT = r"(?:ms|milliseconds?|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
_AMOUNT = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})(?![a-z])", re.IGNORECASE)
_WAIT = re.compile(
    rf"(?:try|again|retry|retries|retried|wait|reset\w*|available|ready|load\w*|estimated)\b[^.;!?\d]{{0,60}}?"
    rf"((?:\d+(?:\.\d+)?\s*{_UNIT}(?![a-z])[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"(?:reset\w*|again|after|until|retry|available)\b[^.;!?\d]{0,30}(?:"
    r"(?P<date>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:Z|UTC|GMT|[+-]\d\d:?\d\d)?)"
    r"|(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?\s*(?:(?P<half>[ap])\.?m\.?)?\s*\(?(?:Z|UTC|GMT)\b)",
    re.IGNORECASE,
)
"""A date, of UTC where it names no zone, or a time of day in UTC: other zones of a server are not known."""
_JUST_PASSED_S = 600.0
"""A time of day that passed so many seconds ago is not that of tomorrow: clocks differ, and replies are late."""
_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "s": 1.0}


@dataclass(frozen=True)
class ErrorMessage:
    """The content of an error reply."""

    sentences: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    """Codes and types, in lower case; numbers as text."""
    fields: tuple[str, ...] = ()
    """The fields of the request that the error names as such (`param`, `loc`)."""
    seconds: float | None = None
    """How long to wait before a retry."""
    html: bool = False
    """Whether the reply is an HTML page (of a proxy), whose words are ignored."""
    code: int | None = None
    """The HTTP status in the body."""
    text: str = field(default="", repr=False)
    """The sentences in lower case, a line each, without URLs."""

    def __str__(self) -> str:
        """Return the sentences in one printable line of at most 300 characters, codes where there are none."""
        return one_line(" ".join(dict.fromkeys(self.sentences)) or ", ".join(sorted(self.codes)))


def parse_error(body: object, headers: Mapping[str, str] | None = None) -> ErrorMessage:
    """Return the content of an error reply; the text of a body (bytes) that is not JSON is its sentence.

    >>> error = parse_error(b'{"error": {"message": "Too fast. Try again in 1m2.5s", "code": "rate_limit"}}')
    >>> str(error), sorted(error.codes), error.seconds
    ('Too fast. Try again in 1m2.5s', ['rate_limit'], 62.5)
    """
    lower = {name.lower(): value for name, value in (headers or {}).items()}
    html = False
    if isinstance(body, bytes):
        text = body[:MOST_CHARACTERS].decode("utf-8", "replace")
        body = _parse_json(body.decode("utf-8", "replace")) if len(body) <= 50 * MOST_CHARACTERS else None
        if body is None:
            html = text.lstrip()[:1] == "<"
            body = " ".join(_TAG.sub(" ", text).split()) if html else text
    collector = _ErrorCollector()
    collector.collect(body, "", _DEPTH)
    if kind := lower.get("x-amzn-errortype"):
        collector.codes.append(kind.partition(":")[0].lower())
    text = _URL.sub(" ", "\n".join(" ".join(each.split()) for each in collector.sentences))[:MOST_CHARACTERS]
    waits = (_header_seconds(lower), collector.seconds, _text_seconds(text))
    return ErrorMessage(
        tuple(collector.sentences),
        frozenset(collector.codes),
        tuple(collector.fields),
        next((seconds for seconds in waits if seconds is not None), None),
        html,
        next((int(each) for each in collector.codes if re.fullmatch(r"[45]\d\d", each)), None),
        text.lower().replace("’", "'"),
    )


class _ErrorCollector:
    """Collects sentences, codes, fields and seconds from a JSON value."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.codes: list[str] = []
        self.fields: list[str] = []
        self.seconds: float | None = None
        self._left = 200  # values that are still read: a hostile reply may have millions

    def collect(self, value: object, key: str, depth: int) -> None:
        """Add the content of a value, which is the member `key` of an object."""
        self._left -= 1
        if depth < 0 or self._left < 0 or key in _IGNORED:
            return
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self.collect(inner, str(name).lower(), depth - 1)
        elif isinstance(value, list) and key in _FIELDS:
            self.fields.append(".".join(map(str, value[:8])))
        elif isinstance(value, list):
            for inner in value:
                self.collect(inner, key, depth - 1)
        elif key in _SIZES and isinstance(value, int):
            self.sentences.append(f"{key}: {value}")
        elif key in _WAITS:
            self.seconds = _parse_seconds(value)
        elif isinstance(value, str) and (text := value.strip()[:MOST_CHARACTERS]):
            self._collect_text(text, key, depth)
        elif key in _CODES and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
            self.codes.append(str(value))

    def _collect_text(self, text: str, key: str, depth: int) -> None:
        if text[0] in "{[" and (inner := _parse_json(text)) is not None:
            self.collect(inner, key, depth - 1)
        elif key in _FIELDS:
            self.fields.append(text)
        else:
            if key in _CODES:
                self.codes.append(text.lower())
            if key not in _CODES or " " in text:  # xAI's codes are sentences
                self.sentences.append(text)


def printable(text: str) -> str:
    r"""Return a text with escapes for control and invisible characters.

    >>> printable("\x1b[31mred\u202e")
    '\\x1b[31mred\\u202e'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(text: str) -> str:
    """Return a text in one printable line of at most 300 characters."""
    return printable(" ".join(text.split())[:300])


def _parse_json(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _parse_seconds(value: object) -> float | None:
    """Return the seconds that a field gives, as a number or as "20s"."""
    if isinstance(value, str):
        if total := sum(_durations(value)):
            return total
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**9:
        return float(value)
    return None


def _text_seconds(text: str) -> float | None:
    """Return the seconds that a sentence gives: a duration ("try again in 20s"), a date, or a time of day in UTC."""
    if match := _WAIT.search(text):
        return sum(_durations(match[1]))
    match = _UNTIL.search(text)
    try:
        return _seconds_until(match) if match else None
    except ValueError:  # 2026-13-01, 25:00
        return None


def _seconds_until(match: re.Match[str]) -> float:
    """Return the seconds until the time of a match of `_UNTIL`, 0 where it has passed.

    Raises:
        ValueError: there is no such time.
    """
    now = datetime.fromtimestamp(time.time(), UTC)
    if match["date"]:
        until = datetime.fromisoformat(re.sub(r"\s*(?:UTC|GMT)$", "", match["date"].strip(), flags=re.IGNORECASE))
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        return max(0.0, (until - now).total_seconds())
    hour = int(match["hour"])
    if half := match["half"]:
        hour = hour % 12 + 12 * (half in "pP")
    until = now.replace(hour=hour, minute=int(match["minute"]), second=int(match["second"] or 0), microsecond=0)
    seconds = (until - now).total_seconds()
    return max(0.0, seconds if seconds > -_JUST_PASSED_S else seconds + _SECONDS["d"])


def _durations(text: str) -> Iterator[float]:
    for number, unit in _AMOUNT.findall(text.lower()):
        yield float(number) * (0.001 if unit.startswith(("ms", "mil")) else _SECONDS[unit[0]])


def _header_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in headers (lower case): Retry-After, as a number or date, or the reset of a used-up limit."""
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (milliseconds := _parse_seconds(headers.get(name))) is not None:
            return milliseconds / 1000
    if (seconds := _retry_after(headers.get("retry-after", "nan"))) is not None:
        return seconds
    for kind in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0":
            return _parse_seconds(headers.get(f"x-ratelimit-reset-{kind}"))
    return None


def _retry_after(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < inf else None


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_PATTERNS = {name: lazy_pattern("|".join(parts)) for name, parts in _TABLE["patterns"].items()}
_PARAMETERS, _COMMON_WORDS, _PROMPT_FIELDS = (
    frozenset(_TABLE["parameters"][name].split()) for name in ("known", "common_words", "prompt_fields")
)
_ALIASES: Mapping[str, str] = _TABLE["parameters"]["aliases"]
OVERLOADED = (429, 498, 503, 529)
"""Statuses of a server that has too many requests."""
_FAULTS = (408, 409, 421, 423, 424, 425, 499)


def classify_refusal(status: int, headers: Mapping[str, str], body: object, sent: Iterable[str] = ()) -> Refusal:
    """Return what a refusal means; `sent` are the parameters of the request.

    With status 200, `body` holds the `error` that the server sent instead of a completion.

    >>> body = b'{"error": {"message": "max_tokens must be at least 1, got -853.", "param": "max_tokens"}}'
    >>> classify_refusal(400, {}, body).cause
    'context_length'
    >>> classify_refusal(429, {}, b'{"error": {"message": "Slow down. Try again in 20s."}}').seconds
    20.0
    """
    return classify_error(status, parse_error(body, headers), sent)


def classify_error(status: int, error: ErrorMessage, sent: Iterable[str] = ()) -> Refusal:
    """Return what a parsed error reply means under its status."""
    if status == 200:
        status = error.code or 0
    overloaded = status in OVERLOADED
    later = Refusal(RefusalKind.LATER, seconds=error.seconds)
    if error.html:
        return _refusal_by_status(status, error)
    if "tools" in sent and status not in (401, 402, 403, 429) and _matches(error, "no_tools"):
        return Refusal(RefusalKind.PARAMETER, parameter="tools")
    if _matches(error, "account_closed"):
        no_money = overloaded or _matches(error, "money", "money_codes")
        return Refusal(RefusalKind.QUOTA if no_money else RefusalKind.KEY)
    if status == 429 and error.seconds is not None and not _matches(error, "no_allowance", "money_codes"):
        too_large = _matches(error, "too_large_at_once")
        return Refusal(RefusalKind.PROMPT, cause="context_length") if too_large else later
    if _is_quota(status, error):
        return Refusal(RefusalKind.QUOTA)
    if _matches(error, "rate_limit") and not _matches(error, "too_large_at_once"):
        return later
    if status not in (401, 408, 504) and _is_context_overflow(status, error):
        return Refusal(RefusalKind.PROMPT, cause="context_length")
    content = "content_of_a_fault" if status >= 500 else "content"
    if status != 401 and not overloaded and _matches(error, content, "content_codes"):
        return Refusal(RefusalKind.PROMPT, cause="content_filter")
    if status not in (400, 401, 404, 422) and _matches(error, "loading") and "fail" not in error.text:
        return Refusal(RefusalKind.LOADING, seconds=error.seconds)
    is_rate = (status < 500 or overloaded) and status not in (0, 401, 404) and _matches(error, "rate", "rate_codes")
    if status == 429 or is_rate:
        return later
    if status == 401:
        return Refusal(RefusalKind.KEY)
    if status >= 500 or status == 0:
        name = _refused_parameter(error, sent, in_a_fault=True)
        return Refusal(RefusalKind.PARAMETER, parameter=name) if name else _refusal_by_status(status, error)
    if _matches(error, "unsupported_content", "unsupported_content_codes"):
        return Refusal(RefusalKind.PROMPT, cause="unsupported_content")
    if status in (400, 403) and _matches(error, "wrong_key"):
        return Refusal(RefusalKind.KEY)
    if "model" in error.fields or _matches(error, "model_codes"):
        return Refusal(RefusalKind.MODEL)
    name = _refused_parameter(error, sent) if status != 404 else None
    is_model = _matches(error, "model")
    if name is not None and (name in error.fields or not is_model or _mentions(error, name)):
        return Refusal(RefusalKind.PARAMETER, parameter=name)
    if is_model:
        return Refusal(RefusalKind.MODEL)
    if status in (400, 403) and _matches(error, "key", "key_codes"):
        return Refusal(RefusalKind.KEY)
    return _refusal_by_status(status, error)


def _refusal_by_status(status: int, error: ErrorMessage) -> Refusal:
    """Return what a status means where the words say nothing."""
    default = RefusalKind.FAULT if status >= 500 or status == 0 or status in _FAULTS else RefusalKind.UNCLEAR
    kind = {
        401: RefusalKind.KEY,
        402: RefusalKind.QUOTA,
        404: RefusalKind.MODEL,
        405: RefusalKind.ADDRESS,
        413: RefusalKind.PROMPT,
        **dict.fromkeys((429, 498, 529), RefusalKind.LATER),
    }.get(status, RefusalKind.ADDRESS if 300 <= status < 400 else default)
    return Refusal(kind, cause="context_length" if kind is RefusalKind.PROMPT else None, seconds=error.seconds)


def _matches(error: ErrorMessage, *names: str) -> bool:
    """Return whether any of these patterns occurs in the error: in its codes, or else in its sentences."""
    return any(
        _PATTERNS[name].search(text)
        for name in names
        for text in (error.codes if name.endswith("_codes") else (error.text,))
    )


def _is_quota(status: int, error: ErrorMessage) -> bool:
    """Return whether money or a quota is used up, not only the rate limit."""
    if status == 402 or _matches(error, "no_allowance", "money_codes"):
        return True
    if status in (401, 404, 500, 502, 503, 504):
        return False
    if _matches(error, "money"):
        return status != 429 or not _matches(error, "rate_unit")
    return _matches(error, "quota") and not _matches(error, "rate")


def _is_context_overflow(status: int, error: ErrorMessage) -> bool:
    """Return whether the prompt does not fit; an output limit above the server's own is a parameter instead."""
    if status in OVERLOADED:
        return _matches(error, "too_large_at_once", "too_long_codes")
    if status >= 500 and not _matches(error, "window", "too_long_codes"):
        return False
    if _matches(error, "no_room", "too_long_codes"):
        return True
    if _matches(error, "output_limit") and not _matches(error, "input_tokens"):
        return False
    return bool({"input_tokens", "prompt_tokens"} & {*error.fields}) or _matches(error, "too_long")


def _refused_parameter(error: ErrorMessage, sent: Iterable[str], in_a_fault: bool = False) -> str | None:
    """Return the parameter that an error names as unsupported or invalid; None where it names none.

    In a fault (status 500 or more) only names that cannot be ordinary words count.
    """
    known = _PARAMETERS | {*sent} - {"model"}
    if not in_a_fault and not _matches(error, "word_json"):
        for path in error.fields:
            name = _parameter_of_path(path)
            if name and (name in known or name in error.text):
                return name
    not_supported, is_schema = _matches(error, "not_supported"), _matches(error, "schema")
    if is_schema and (not_supported or "json" in error.text):
        return "response_format"
    if not not_supported or (in_a_fault and "internal" in error.text and not is_schema):
        return None
    original = " ".join(error.sentences)
    quoted = [(match[1], match[2]) for match in _PATTERNS["quoted_name"].finditer(original)]
    names = [name for name in (_snake_case((a or b).rpartition(".")[2]) for a, b in quoted) if name in known]
    if match := _PATTERNS["named_parameter"].search(original):
        name = _snake_case(match[1])
        names += [name] if name != "model" and (name in known or not in_a_fault) else []
    for word in map(_snake_case, re.findall(r"[A-Za-z_]\w*", original)):
        names += [word] if word in known and ("_" in word if in_a_fault else word not in _COMMON_WORDS) else []
    if names or in_a_fault:
        return _ALIASES.get(names[0], names[0]) if names else None
    if _matches(error, "thinking"):
        return "reasoning_effort"
    return "messages" if _matches(error, "roles") else None


def _parameter_of_path(path: str) -> str | None:
    """Return the parameter of a field's path: `response_format.json_schema` and `body.max_tokens` name one."""
    steps = [_snake_case(step) for step in re.split(r"[.\[\]]+", path) if step and not step.isdigit()]
    name = next((step for step in steps if step not in _PROMPT_FIELDS), "model")
    return _ALIASES.get(name, name) if name != "model" and re.fullmatch(r"\w+", name) else None


def _mentions(error: ErrorMessage, name: str) -> bool:
    return name in error.text or name.replace("_", "") in error.text or name in ("reasoning_effort", "response_format")


def _snake_case(name: str) -> str:
    """Return a name in lower case with underscores: `reasoningEffort` is `reasoning_effort`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
