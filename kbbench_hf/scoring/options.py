"""Options for reading predictions files (`ReadOptions`), and logs of other harnesses (`LogOptions`).

The command line and the public functions have them; their names are public.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kbbench_hf.files.rows import ReadSettings


@dataclass(frozen=True)
class ReadOptions:
    """How to read a predictions file: which fields, which parser, and what a repeated id means."""

    source: Literal["answer", "response"] = "answer"
    """`answer`: the parsed field wins where a line has both; `response`: parse the raw text again."""
    parser: str | None = None
    duplicates: Literal["error", "last"] = "error"
    partial: bool = True
    """Whether examples may lack a prediction (they are then scored as the mode says, and counted)."""
    max_bytes: int | None = None
    """At most this many bytes are read, after decompression, and only JSON Lines; for files from strangers."""
    fields: Mapping[str, str] | None = None
    """Field -> the dotted path where the file has it; None where the fields have their own names."""
    where: Mapping[str, str] | None = None
    """Dotted path -> the value, as text, of the rows that are read; None for all rows."""
    join: Literal["input", "order"] | None = None
    """How rows without ids get the ids of examples: by the text of the input, or by their order."""
    separator: str | None = None
    """What stands between the items of a list in text; "" for nothing, one item; None where only one reading fits."""
    scores: Literal["similarity", "distance", "rank"] | None = None
    """How the order of a run is known: the highest score first, the lowest, or its rank column."""

    @property
    def of_stranger(self) -> bool:
        """Whether the file is an upload, whose sender cannot use options: messages name none."""
        return self.max_bytes is not None

    def read_settings(self) -> "ReadSettings":
        """Return the settings of these for the importers of files."""
        from kbbench_hf.files.rows import ReadSettings

        return ReadSettings(((self.fields or {}).get("id") or "id").partition(".")[0], self.scores)


@dataclass(frozen=True)
class LogOptions:
    """How to read scores per example from logs of other harnesses and from tables; paths are dotted."""

    value: Sequence[str] = ()
    """The columns or metrics to compare, the main one first; those that all logs have where empty."""
    id: str | None = None
    """The path of the example's id; the log's own id where None."""
    cluster: str | None = None
    """The path of what examples share that depend on each other, such as their document; None for independent ones."""
    system: str | None = None
    """The path of the system's name, in files with several."""
    slices: Sequence[str] = ()
    """Paths of fields that divide the examples into slices."""
    qrels: Path | None = None
    """The relevance of candidates, for rankings."""
    shared: bool = False
    """Whether the examples that all logs have are compared, where the sets differ."""
    across_revisions: bool = False
    """Whether the logs are runs, of which the stored scores are compared: each is of its own revision of the data."""
    scale: tuple[float, float] | None = None
    """Lowest and highest possible score; scores are divided by its width. None for scores as they are."""
    lower_is_better: Sequence[str] = ()
    """All metrics where lower is better; `none` for none. If empty, what logs record counts, then names of metrics."""

    @property
    def flags(self) -> list[str]:
        """The options that are set, except slices, as on the command line."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value and name != "slices"]
