"""What of a row's identity a reader should know: whose name it has, whose answers, and whether they are the gold."""

from typing import Literal, NamedTuple

FlagCode = Literal["name", "look_alike", "claim", "copy", "gold"]


class Flag(NamedTuple):
    """One thing that a reader should know of a row's identity, as a sentence and a word for programs."""

    code: FlagCode
    reason: str
    """A whole sentence, with the names of both rows where there are two."""
    other: str = ""
    """The id of the row that it is about; empty where it is about none."""
