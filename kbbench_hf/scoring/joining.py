"""Ids of examples for predictions files without ids: joined by input text or by order (`--join`)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.rows import Unreadable

_INPUTS = ("query", "question", "sentence", "text", "input", "document")
"""Columns of an example that hold its input; the first one that it has."""
_LOOKED_AT = 300
"""At most this many texts of a row are looked at."""


class Joiner:
    """Gives rows without ids the ids of their examples, one row after the other, over all files."""

    def __init__(self, examples: Examples, join: str) -> None:
        self._ids, self._join, self._n_rows = examples.ids, join, 0
        self._of_input: dict[str, set[Id]] = defaultdict(set)
        for row in examples.rows:
            if text := _normalize(next((row[name] for name in _INPUTS if name in row), "")):
                self._of_input[text].add(row["id"])

    def next_id(self, row: object) -> Id | Unreadable:
        """Return the id of the next row's example.

        An error names what is wrong: more rows than examples, an input that no example or several examples have, or an
        input of another example where rows are joined by order.
        """
        self._n_rows += 1
        ids = self._ids_of(row)
        if self._join == "order":
            if self._n_rows > len(self._ids):
                return Unreadable(f"row {self._n_rows:,}, for {len(self._ids):,} examples", _ORDER)
            own: Id = self._ids[self._n_rows - 1]
            if not ids or own in ids:
                return own
            message = f"row {self._n_rows:,} has the input of example {next(iter(ids))!r}, not of {own!r}"
            return Unreadable(message, "The order differs from the dataset's. Join by the input: --join input.")
        if len(ids) == 1:
            return next(iter(ids))
        if ids:
            few = ", ".join(map(repr, sorted(map(str, ids))[:3]))
            return Unreadable(f"{len(ids)} examples have the input of this row: {few}", _WRITE_IDS)
        return Unreadable(
            "no text of this row is the input of an example",
            "Add the input of each example as it is in the dataset, or its id.",
        )

    def _ids_of(self, row: object) -> set[Id]:
        """Return the ids of the examples whose input is a whole text of a row; else the last line of one that is."""
        texts = list(islice(_texts(row), _LOOKED_AT))
        whole = [self._of_input[text] for each in texts if (text := _normalize(each)) in self._of_input]
        if whole:
            return set[Id]().union(*whole)
        for line in (line for each in texts for line in reversed(each.splitlines())):  # below the demonstrations
            for part in (line, line.partition(":")[2]):
                if (text := _normalize(part)) in self._of_input:
                    return self._of_input[text]
        return set()

    def problem(self) -> Unreadable | None:
        """Return what is wrong with all rows together: by order, there must be one for each example."""
        if self._join == "order" and 0 < self._n_rows < len(self._ids):
            return Unreadable(f"{self._n_rows:,} rows without ids, for {len(self._ids):,} examples", _ORDER)
        return None

    def note(self) -> ScoreWarning:
        """Return the note that says how ids were given."""
        how = "by the order of the examples" if self._join == "order" else "by the text of their inputs"
        message = f"The predictions have no ids: {self._n_rows:,} rows were joined with the examples {how}."
        return ScoreWarning("joined", message, _WRITE_IDS, severity="note")


_WRITE_IDS = "Write the ids of the examples."
_ORDER = "With --join order, write one row for each example, in the order of the dataset; or give the ids."


def _normalize(text: object) -> str:
    """Return a text in lower case, with single blanks, without quotation marks around it."""
    return " ".join(text.split()).strip("\"'“”").casefold() if isinstance(text, str) else ""


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
