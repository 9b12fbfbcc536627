"""What an error reply says, in whichever shape: its sentences, its codes, the field and the waiting time it names.

The words stand in `error`, in `error.message`, in `detail`, in a list around the object, in JSON inside a string, in a
proxy's HTML; codes are words or numbers; a waiting time is a header, a field or part of a sentence.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MOST_CHARACTERS = 20_000
"""Nobody explains an error at greater length."""
_DEPTH = 8
_CODES = {"code", "type", "error_type", "errortype", "error_code", "status", "reason", "__type", "title"}
_FIELDS = {"param", "parameter", "field", "loc"}
_WAITS = {"estimated_time", "retry_after", "retryafter", "retrydelay", "retry_after_seconds", "retry_in"}
_SIZES = {"n_prompt_tokens", "n_ctx"}
"""What llama.cpp says of a prompt that is too long."""
_NOT_SAID = {"input", "flagged_input", "failed_generation", "request_id", "id", "user_id", "ctx", "url", "trace_id"}
"""Members that repeat what was sent, or name the request: no word of theirs explains anything."""
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
_SECONDS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "s": 1.0}


@dataclass(frozen=True)
class ErrorWords:
    """What an error reply says."""

    sentences: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    """Codes and types, in lower case; numbers as text."""
    fields: tuple[str, ...] = ()
    """The fields of the request that it names as such (`param`, `loc`)."""
    seconds: float | None = None
    """How long it asks to wait."""
    html: bool = False
    """Whether it is a page of some proxy's, whose words are nobody's rule."""
    code: int | None = None
    """The status that stands in the body."""
    text: str = field(default="", repr=False)
    """The sentences in lower case, a line each, without addresses of pages."""

    def __str__(self) -> str:
        """Return the sentences in one printable line of at most 300 characters, codes where there are none."""
        said = " ".join(dict.fromkeys(self.sentences)) or ", ".join(sorted(self.codes))
        return printable(" ".join(said.split())[:300])


def error_words(body: bytes | object, headers: Mapping[str, str] | None = None) -> ErrorWords:
    """Return what an error reply says; a body that is no JSON is its text.

    >>> said = error_words(b'{"error": {"message": "Too fast. Try again in 1m2.5s", "code": "rate_limit"}}')
    >>> str(said), sorted(said.codes), said.seconds
    ('Too fast. Try again in 1m2.5s', ['rate_limit'], 62.5)
    """
    headers = headers or {}
    html = False
    if isinstance(body, bytes):
        text = body[:MOST_CHARACTERS].decode("utf-8", "replace")
        value = _json(body.decode("utf-8", "replace")) if len(body) <= 50 * MOST_CHARACTERS else None
        if value is None:
            html = text.lstrip()[:1] == "<"
            value = " ".join(_TAG.sub(" ", text).split()) if html else text
    else:
        value = body
    found = _Found()
    found.read(value, "", _DEPTH)
    kind = next((each for name, each in headers.items() if name.lower() == "x-amzn-errortype"), "")
    if kind:
        found.codes.append(kind.partition(":")[0].lower())
    said = _URL.sub(" ", "\n".join(" ".join(each.split()) for each in found.sentences))[:MOST_CHARACTERS]
    waits = (_header_seconds(headers), found.seconds, _said_seconds(said))
    return ErrorWords(
        tuple(found.sentences),
        frozenset(found.codes),
        tuple(found.fields),
        next((seconds for seconds in waits if seconds is not None), None),
        html,
        next((int(each) for each in found.codes if re.fullmatch("[45]\\d\\d", each)), None),
        said.lower().replace("’", "'"),
    )


class _Found:
    """Gathers what stands in a body."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.codes: list[str] = []
        self.fields: list[str] = []
        self.seconds: float | None = None
        self._left = 200

    def read(self, value: object, key: str, depth: int) -> None:
        """Read a value that stands under a key."""
        self._left -= 1
        if depth < 0 or self._left < 0 or key in _NOT_SAID:
            return
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self.read(inner, str(name).lower(), depth - 1)
        elif isinstance(value, list):
            if key in _FIELDS:
                self.fields.append(".".join(map(str, value[:8])))
                return
            for inner in value:
                self.read(inner, key, depth - 1)
        elif key in _SIZES and isinstance(value, int):
            self.sentences.append(f"{key}: {value}")
        elif key in _WAITS:
            self.seconds = _seconds(value)
        elif isinstance(value, str):
            self._text(value.strip()[:MOST_CHARACTERS], key, depth)
        elif key in _CODES and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
            self.codes.append(str(value))

    def _text(self, text: str, key: str, depth: int) -> None:
        inner = _json(text) if text[:1] in "{[" and text else None
        if inner is not None:
            self.read(inner, key, depth - 1)
        elif key in _CODES and text:
            self.codes.append(text.lower())
            if " " in text:  # xAI has a sentence as its code
                self.sentences.append(text)
        elif key in _FIELDS and text:
            self.fields.append(text)
        elif text:
            self.sentences.append(text)


def printable(text: str) -> str:
    r"""Return a text in which what steers a terminal, or hides, is written out.

    >>> printable("\x1b[31mred\u202e")
    '\\x1b[31mred\\u202e'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def _json(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _seconds(value: object) -> float | None:
    """Return the seconds that a field gives, as a number or as "20s"."""
    if isinstance(value, str):
        if total := sum(_amounts(value)):
            return total
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**9:
        return float(value)
    return None


def _said_seconds(text: str) -> float | None:
    if found := _WAIT.search(text):
        return sum(_amounts(found[1]))
    if found := _UNTIL.search(text):
        try:
            until = datetime.fromisoformat(found[1].strip().replace("UTC", "").replace("Z", "").strip())
        except ValueError:
            return None
        return max(0.0, (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - time.time())
    return None


def _amounts(text: str) -> Iterator[float]:
    for number, unit in _AMOUNT.findall(text):
        unit = unit.lower()
        yield float(number) * (_SECONDS[unit[:2]] if unit[:2] in ("ms", "mi") else _SECONDS[unit[0]])


def _header_seconds(headers: Mapping[str, str]) -> float | None:
    """Return what the headers say: Retry-After in seconds or as a date, or when a limit that is used up is reset."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (milliseconds := _seconds(lower.get(name))) is not None:
            return milliseconds / 1000
    if (value := lower.get("retry-after")) is not None:
        seconds = _retry_after(value)
        if seconds is not None:
            return seconds
    for kind in ("requests", "tokens"):
        if lower.get(f"x-ratelimit-remaining-{kind}") == "0":
            return _seconds(lower.get(f"x-ratelimit-reset-{kind}"))
    return None


def _retry_after(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None
