"""What was read out of a reply, and the error of a reply out of which nothing can be read."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
Triple = tuple[str, str, str]
"""Subject, relation, object, as they were written."""


class ParseError(ValueError):
    """A model's text holds no answer; the text is kept, counted and scored as wrong.

    `thought` is what the model thought before it gave none.
    """

    def __init__(self, message: str, thought: str = "") -> None:
        super().__init__(message)
        self.thought = thought


@dataclass(frozen=True)
class ParsedReply(Generic[T]):
    """An answer as it was read, the rule that read it, and what the model thought before it, "" where it did not."""

    answer: T
    rule: str
    thought: str = ""
