"""Result of parsing a reply, and the error for a reply that cannot be parsed.

Plug-ins use both by `kbbench_hf.ParsedReply` and `kbbench_hf.ParseError`; their names and fields are public.
"""

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
    """The answer of a reply, the rule that parsed it, and the reasoning before it ("" where there is none)."""

    answer: T
    rule: str
    thought: str = ""
