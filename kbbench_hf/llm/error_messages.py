"""Parser of error replies in any shape: sentences, codes, refused fields and the seconds to wait (Retry-After).

Providers write the text in `error`, `error.message` or `detail`, in a list around the object, in JSON inside a string,
or as HTML; codes are words or numbers; the time to wait is a header, a field or part of a sentence.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf

MOST_CHARACTERS = 20_000
"""The longest error message that is parsed."""
_DEPTH = 8
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
    r"(?:reset|again|after|until|retry|available)[^.;!?\d]{0,30}"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:Z|UTC|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)
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
        body = _json(body.decode("utf-8", "replace")) if len(body) <= 50 * MOST_CHARACTERS else None
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
        self._left = 200

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
            self.seconds = _seconds(value)
        elif isinstance(value, str) and (text := value.strip()[:MOST_CHARACTERS]):
            self._collect_text(text, key, depth)
        elif key in _CODES and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
            self.codes.append(str(value))

    def _collect_text(self, text: str, key: str, depth: int) -> None:
        if text[0] in "{[" and (inner := _json(text)) is not None:
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


def _json(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _seconds(value: object) -> float | None:
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
    """Return the seconds that a sentence gives, as a duration ("try again in 20s") or as a date."""
    if match := _WAIT.search(text):
        return sum(_durations(match[1]))
    if match := _UNTIL.search(text):
        try:
            until = datetime.fromisoformat(match[1].strip().replace("UTC", "").replace("Z", "").strip())
        except ValueError:
            return None
        return max(0.0, (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - time.time())
    return None


def _durations(text: str) -> Iterator[float]:
    for number, unit in _AMOUNT.findall(text.lower()):
        yield float(number) * (0.001 if unit.startswith(("ms", "mil")) else _SECONDS[unit[0]])


def _header_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in headers (lower case): Retry-After, as a number or date, or the reset of a used-up limit."""
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (milliseconds := _seconds(headers.get(name))) is not None:
            return milliseconds / 1000
    if (seconds := _retry_after(headers.get("retry-after", "nan"))) is not None:
        return seconds
    for kind in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0":
            return _seconds(headers.get(f"x-ratelimit-reset-{kind}"))
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
