"""Ids and lists of predictions files: read from text where only one reading fits, ids also joined (`--join`)."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kbbench_hf.benchmarks.answers import AnswerKind, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files import list_text
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.rows import Unreadable
from kbbench_hf.scoring.options import ReadOptions

_NOTHING = frozenset({"nan", "none", "null", "<na>", "na", "n/a"})
"""What programs write into a cell that has no value."""


LEAST_PAIRS = 3
"""Fewer pairs say nothing of their second items."""
FEW_WORDS = 6
"""TAT-QA has five scales: none, thousand, million, billion and percent."""


_NOTES = {
    "ids": ("ids_as_text", "{:,} ids were matched with the examples' across text and number."),
    "candidates": ("candidates_as_text", "The candidates of {:,} rankings are text; they were read as numbers."),
    "lists": ("lists_as_text", "{:,} answers are lists in text; they were read as lists."),
    "barred": ("separators", "{:,} answers are text with bars; they were read as subject | relation | object."),
}
"""What a reader did -> the code and message of the note on it."""


class ListReader:
    """Reads ids and lists in text; `notes` says what was done, once all are read."""

    def __init__(self, benchmark: Benchmark, examples: Examples, separator: str | None) -> None:
        self._benchmark, self._examples, self._separator = benchmark, examples, separator
        self._kind = benchmark.scoring.answer
        self.known = {row["id"] for row in examples.rows}
        self.only_text = False
        """Whether the file is of a format that has nothing but text, so that numbers in text need no words."""
        self._done: Counter[str] = Counter()

    def example_id(self, found: object) -> object:
        """Return the id of an example as the example has it, where it is written as text or number."""
        if isinstance(found, str):
            found = found if found in self.known else found.strip()
        if isinstance(found, bool) or not isinstance(found, str | int) or found in self.known:
            return found
        other = str(found) if isinstance(found, int) else list_text.whole_number(found)
        if other is None or other not in self.known:
            return found
        self._done["ids"] += not self.only_text
        return other

    def typed(self, candidates: list[object], example_id: object) -> list[object]:
        """Return candidates as numbers where they are written as text and only numbers pass the benchmark's check."""
        if str not in {*map(type, candidates)}:
            return candidates
        numbers = [list_text.whole_number(each) if isinstance(each, str) else each for each in candidates]
        if None in numbers or self._passes(candidates, example_id) or not self._some_pass(numbers, example_id):
            return candidates
        self._done["candidates"] += not self.only_text
        return numbers

    def is_barred(self, text: object) -> bool:
        """Say whether a value is triples in text with bars between their parts, for a benchmark of triples."""
        return bool(self._kind.parts) and isinstance(text, str) and list_text.barred_triples(text) is not None

    def of_text(self, text: str, example_id: object) -> object:
        """Return the list that a text is.

        Raises:
            Unreadable: it has several readings, or none.
        """
        mend = "Write a JSON list."
        if not self._kind.separable and self._benchmark.asking.parsers:
            mend += f" To parse the text as a model's: --map response={self._kind.field}."
        if self._kind.parts and (triples := list_text.barred_triples(text)) is not None:
            self._done["barred"] += 1
            return triples
        if list_text.is_bracketed(text):
            try:
                parsed = list_text.parse_list(text)
            except list_text.ListTextError as error:
                if not self._kind.separable or not text.lstrip().startswith("("):
                    raise Unreadable(str(error), mend, shown=text[:160]) from None
            else:
                self._done["lists"] += not self.only_text
                return parsed
        if not self._kind.separable:
            raise Unreadable(f"{text[:60]!r} is not a list", mend, shown=text[:160])
        if text.strip().lower() in _NOTHING:
            remedy = f"Leave the cell empty if there is none; if it is the answer, write {json.dumps([text])}."
            raise Unreadable(f"{text!r} may be an answer, or mean that there is none", remedy, shown=text)
        if self._separator is not None:
            self._done[f"split {self._separator}"] += 1
            return list_text.split(text, self._separator)
        return self._only_reading(text, example_id)

    def _only_reading(self, text: str, example_id: object) -> object:
        """Return the items of a text without brackets where one reading alone passes the benchmark's check."""
        readings: dict[str, Sequence[object]] = dict(list_text.split_readings(text))
        if self._kind.ranked:
            numbers = {each: [list_text.whole_number(item) for item in items] for each, items in readings.items()}
            whole = [each for each in numbers if None not in numbers[each]]
            longest = max(whole, key=lambda each: len(numbers[each]), default="")
            if whole and self._some_pass(numbers[longest], example_id):
                readings = {longest: numbers[longest]}
        fitting = [each for each in readings if self._passes(readings[each], example_id)]
        if len(fitting) > 1:
            first, second = (json.dumps(readings[each], ensure_ascii=False) for each in fitting[:2])
            separators = f"--sep '{fitting[1]}' for lists, --sep none for one answer"
            remedy = f"Write JSON lists, or name the separator: {separators}."
            message = f"{text[:60]!r} may be one answer, {first}, or a list, {second}"
            raise Unreadable(message, remedy, shown=text[:160])
        best = fitting[0] if fitting else max(readings, key=lambda each: len(readings[each]))
        if best:
            self._done[f"split {best}"] += 1
        else:
            self._done["lists"] += not self.only_text
        return list(readings[best])

    def _some_pass(self, numbers: Sequence[object], example_id: object) -> bool:
        return any(self._passes([number], example_id) for number in numbers[:20])

    def _passes(self, answer: object, example_id: object) -> bool:
        """Say whether an answer has the benchmark's shape and passes its check."""
        try:
            read = self._kind.read({self._kind.field: answer})
        except ShapeError:
            return False
        if not isinstance(example_id, str | int) or example_id not in self.known:
            return True
        return self._benchmark.scoring.check(self._examples, example_id, read) is None

    def notes(self) -> list[ScoreWarning]:
        """Return what was read from text."""
        names = {**list_text.SEPARATORS, " ": "spaces", "": "nothing (each text is one item)"}
        without = "{:,} answers without brackets were read as lists with %s between items."
        found = [(self._done[done], *_NOTES[done]) for done in _NOTES]
        found += [(self._done[f"split {each}"], "separators", without % name) for each, name in names.items()]
        remedies = {"separators": "To be sure, write JSON lists."}
        return [
            ScoreWarning(code, message.format(n), remedies.get(code, ""), severity="note")
            for n, code, message in found
            if n
        ]


class AnswerPairs:
    """Looks at all answers of one file together: in pairs such as TAT-QA's [answer, scale] the second is no answer."""

    def __init__(self, kind: AnswerKind, options: ReadOptions) -> None:
        self._field = kind.field
        self._may_be = kind.separable and not kind.ranked and kind.field not in (options.fields or {})
        self._of_stranger = options.of_stranger
        self._firsts, self._seconds, self._n = set[str](), Counter[str](), 0

    def add(self, answer: object) -> None:
        """Take the answer of a line."""
        if not self._may_be or not isinstance(answer, list) or not answer:
            return
        self._may_be = len(answer) == 2
        if self._may_be:
            first, second = answer
            self._n += 1
            self._firsts.update(map(str, first) if isinstance(first, list) else [str(first)])
            self._seconds["a score" if isinstance(second, float) and 0 <= second <= 1 else str(second)] += 1

    def problem(self) -> Unreadable | None:
        """Return what is wrong where every answer has two items, of which the second is one of a few words."""
        few = len(self._seconds) <= max(1, min(FEW_WORDS, self._n // 3))
        if not self._may_be or self._n < LEAST_PAIRS or not few or self._firsts & self._seconds.keys():
            return None
        words = ", ".join(map(repr, list(self._seconds)[:FEW_WORDS]))
        remedy = f"--map {self._field}={self._field}.0 reads the first, {self._field}={self._field} both."
        return Unreadable(
            f"every answer has two items, the second of them {words}: is that a scale (as in TAT-QA) or an answer?",
            "Send only the answers." if self._of_stranger else remedy,
        )


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

    def next_id(self, row: object) -> Id:
        """Return the id of the next row's example.

        Raises:
            Unreadable: more rows than examples, an input that no example or several examples have, or an input of
                another example where rows are joined by order.
        """
        self._n_rows += 1
        ids = self._ids_of(row)
        if self._join == "order":
            if self._n_rows > len(self._ids):
                raise Unreadable(f"row {self._n_rows:,}, for {len(self._ids):,} examples", _ORDER)
            own: Id = self._ids[self._n_rows - 1]
            if not ids or own in ids:
                return own
            message = f"row {self._n_rows:,} has the input of example {next(iter(ids))!r}, not of {own!r}"
            raise Unreadable(message, "The order differs from the dataset's. Join by the input: --join input.")
        if len(ids) > 1:
            few = ", ".join(map(repr, sorted(map(str, ids))[:3]))
            raise Unreadable(f"{len(ids)} examples have the input of this row: {few}", _WRITE_IDS)
        if ids:
            return next(iter(ids))
        remedy = "Add the input of each example as it is in the dataset, or its id."
        raise Unreadable("no text of this row is the input of an example", remedy)

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
