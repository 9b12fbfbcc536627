"""What it means that a request brought no answer: a reason for tables, and whether to ask again."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kbbench_hf.protocols import Completion

if TYPE_CHECKING:
    from kbbench_hf.llm.supported_parameters import Dialect

OF_THE_PROMPT = frozenset({"content_filter", "context_length", "unsupported_content", "prompt_refused"})
"""Reasons for which a server takes this prompt never."""
SETTLED = OF_THE_PROMPT | {"refusal", "reasoning_only", "tool_call", "prompt_too_long"}
"""Reasons for which the model was reached and this is what it had to say: asking again would only cost again."""


class Meaning(StrEnum):
    """What a refusal means for the run, and so what is done next."""

    PROMPT = "prompt"
    """This prompt gets no answer here, ever; the run goes on."""
    LATER = "later"
    """Too much at once: wait as long as the server says, and send it again."""
    LOADING = "loading"
    """The model is not there yet: wait."""
    FAULT = "fault"
    """Something broke: send it again."""
    KEY = "key"
    """The key is not accepted, or may not do this: stop."""
    QUOTA = "quota"
    """There is no money or no quota left: stop."""
    MODEL = "model"
    """There is no such model: stop."""
    ADDRESS = "address"
    """There is no such page: stop."""
    PARAMETER = "parameter"
    """A parameter is not taken: leave it out or stop, and say which."""
    UNCLEAR = "unclear"
    """The words leave it open whether prompt or run was refused: ask."""


class Refusal(NamedTuple):
    """What a refusal means."""

    meaning: Meaning
    cause: str | None = None
    """Of a prompt: "content_filter", "context_length" or "unsupported_content"."""
    parameter: str | None = None
    """Which parameter was not taken."""
    seconds: float | None = None
    """How long the server asks to wait."""


class Failure(Exception):
    """One request brought no answer.

    `reason` is one word for tables ("timeout", "no_choices"), `detail` what was seen, `transient` whether the same
    request may go well later, `retry_after` the seconds that the server asked for, `text` what a refused or filtered
    answer held, and `reply` what else came with it: tokens that were paid for, who it was.
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
        """Whether this is what the model had to say."""
        return self.reason in SETTLED

    @property
    def overload(self) -> bool:
        """Whether the server itself is in trouble, as against one reply of it."""
        return self.reason in ("timeout", "no_connection", "connection_broken") or self.reason.startswith("http_5")

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class Refused(Failure):
    """The server refuses the request, and may refuse every one like it: wrong key, model, address or parameter.

    `refusal` says what it means, where that is known; `sent` is the request, `words` what the error said, in lower
    case, and `dialect` how the server was asked.
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
