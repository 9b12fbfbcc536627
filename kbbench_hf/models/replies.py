"""Reading what a chat server sends back: an answer, or a failure with a reason; never an empty string by accident."""

import json

from kbbench_hf.protocols import Completion


class Failure(Exception):
    """One request brought no answer.

    `reason` is one word for tables ("timeout", "no_choices"), `detail` what was seen, `transient` whether the same
    request may go well later, `retry_after` the seconds that the server asked for, `text` what a refused or filtered
    answer held.
    """

    def __init__(
        self, reason: str, detail: str = "", *, transient: bool, retry_after: float | None = None, text: str = ""
    ) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.transient = reason, detail, transient
        self.retry_after, self.text = retry_after, text

    @property
    def settled(self) -> bool:
        """Whether the model was reached and this is what it had to say: asking again would only cost again."""
        return self.reason in ("content_filter", "refusal", "reasoning_only")

    @property
    def overload(self) -> bool:
        """Whether the server itself is in trouble, as against one reply of it."""
        return self.reason in ("timeout", "no_connection", "connection_broken") or self.reason.startswith("http_5")

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class Refused(Failure):
    """The server will refuse every request like this one (wrong key, model, address or parameter): stop the run."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail, transient=False)


def parse_json(body: bytes) -> object:
    """Return the JSON value of a body.

    Raises:
        Failure: it is empty, not UTF-8, or not JSON (a proxy's HTML page, a cut-off answer); worth a second try.
    """
    if not body.strip():
        raise Failure("empty_body", transient=True)
    try:
        return json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Failure("not_utf8", str(error), transient=True) from None
    except (ValueError, RecursionError) as error:
        raise Failure("not_json", f"{type(error).__name__} in {body[:80]!r}", transient=True) from None


def read_reply(body: object, latency_s: float) -> Completion:
    """Return the completion in the body of a chat reply with status 200.

    A cut-off answer is an answer whose `finish_reason` is "length"; an empty text with finish reason "stop" is the
    model's answer. Of several choices the one with index 0 is taken. Token counts that are absent or absurd are None.

    Raises:
        Failure: there is no answer in it. Refusals, filtered and reasoning-only replies are final; others transient.

    >>> reply = {"choices": [{"message": {"content": "film(a, b)"}, "finish_reason": "stop"}]}
    >>> read_reply(reply, latency_s=0.1).text
    'film(a, b)'
    """
    if not isinstance(body, dict):
        raise Failure("not_an_object", f"a JSON {type(body).__name__}", transient=True)
    if body.get("error"):
        raise Failure("error_in_body", _words(body["error"]), transient=True)
    choice = _first_choice(body.get("choices"))
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Failure("no_message", _words(choice), transient=True)
    reason = choice.get("finish_reason")
    finish = reason if isinstance(reason, str) else ""
    text = _text(message.get("content"))
    if finish == "content_filter":
        raise Failure("content_filter", transient=False, text=text or "")
    if not text:
        if message.get("refusal"):
            raise Failure("refusal", transient=False, text=_words(message["refusal"]))
        if reasoning := _text(message.get("reasoning_content")) or _text(message.get("reasoning")):
            raise Failure("reasoning_only", f"finish reason {finish!r}", transient=False, text=reasoning)
    if text is None:
        raise Failure("no_content", f"finish reason {finish!r}", transient=True)
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Completion(
        text=text,
        finish_reason=finish,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        latency_s=latency_s,
    )


def error_message(body: bytes) -> str:
    """Return the human part of an error reply, in whichever of the usual shapes, at most 300 characters."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = body.decode("utf-8", "replace")
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    return _words(value)


def _first_choice(choices: object) -> dict[str, object]:
    found = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    if not found:
        raise Failure("no_choices", _words(choices), transient=True)
    return next((choice for choice in found if choice.get("index", 0) == 0), found[0])


def _text(content: object) -> str | None:
    """Join the text parts of a content that comes as a list; None where there is no text at all."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return content if isinstance(content, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _words(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())[:300]
