"""Exceptions of chat requests (`Failure`, `RequestRefused`) and the kinds of refusals, which decide on a retry.

`llm` raises them; `runners` catch them and retry, skip or stop. Reasons are written to journals and counted in tables
of runs: they keep their names.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kbbench_hf.protocols import Completion

if TYPE_CHECKING:
    from kbbench_hf.llm.supported_parameters import Dialect

OF_THE_PROMPT = frozenset({"content_filter", "context_length", "unsupported_content", "prompt_refused"})
"""Reasons for which a server never accepts this prompt."""
SETTLED = OF_THE_PROMPT | {"refusal", "reasoning_only", "tool_call", "prompt_too_long"}
"""Final reasons: the model was reached, and a retry would only cost again."""


class RefusalKind(StrEnum):
    """What was refused, and so what a run does next."""

    PROMPT = "prompt"
    """This prompt: never retried; the run goes on."""
    LATER = "later"
    """Rate limit or overload: wait as long as the server says, and retry."""
    LOADING = "loading"
    """The model is being loaded: wait."""
    FAULT = "fault"
    """A server error: retry."""
    KEY = "key"
    """The API key is invalid or lacks the permission: stop."""
    QUOTA = "quota"
    """Money or quota is used up: stop."""
    MODEL = "model"
    """The model does not exist: stop."""
    ADDRESS = "address"
    """The URL does not exist: stop."""
    PARAMETER = "parameter"
    """A parameter is not supported: leave it out, or stop and name it."""
    UNCLEAR = "unclear"
    """The error does not tell whether the prompt or the run was refused: send another request."""


class Refusal(NamedTuple):
    """The meaning of an error reply."""

    kind: RefusalKind
    cause: str | None = None
    """Of a refused prompt: "content_filter", "context_length" or "unsupported_content"."""
    parameter: str | None = None
    """The parameter that is not supported."""
    seconds: float | None = None
    """How long to wait before a retry, as the server says."""


class Failure(Exception):
    """A request without a completion.

    `reason` is one word for tables ("timeout", "no_choices"), `detail` the message, `transient` whether a retry may
    succeed, `retry_after` the seconds to wait, `text` the text of a refusal or filtered completion, and `reply` the
    rest of the reply: tokens to pay for, and the model's name.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        transient: bool,
        retry_after: float | None = None,
        text: str = "",
        reply: Completion | None = None,
    ) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.transient = reason, detail, transient
        self.retry_after, self.text, self.reply = retry_after, text, reply

    @property
    def settled(self) -> bool:
        """Whether the reason is final."""
        return self.reason in SETTLED

    @property
    def overload(self) -> bool:
        """Whether the server as a whole failed, not only one reply."""
        return self.reason in ("timeout", "no_connection", "connection_broken") or self.reason.startswith("http_5")

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class RequestRefused(Failure):
    """A refusal that may hold for every request of the run: wrong key, model, address or parameter.

    `refusal` is its meaning, where that is known; `sent` the body of the request, `words` the error's text in lower
    case, and `dialect` the dialect in which the request was written.
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        refusal: Refusal | None = None,
        sent: Mapping[str, object] | None = None,
        words: str = "",
        dialect: "Dialect | None" = None,
    ) -> None:
        super().__init__(reason, detail, transient=False)
        self.refusal, self.sent, self.words, self.dialect = refusal, sent or {}, words, dialect
