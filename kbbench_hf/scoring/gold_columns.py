"""Columns of a predictions file that hold the gold answer in place of the prediction."""

import json
from collections import Counter
from collections.abc import Mapping

from kbbench_hf.benchmarks.answers import Answer, AnswerKind, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Example, Examples, ParseFunction
from kbbench_hf.benchmarks.warnings import is_gold, is_nearly_all
from kbbench_hf.files.list_text import is_bracketed
from kbbench_hf.files.rows import Unreadable, value_at
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.scoring.options import ReadOptions
from kbbench_hf.scoring.suggestions import (
    PLAIN,
    CandidateColumn,
    answer_columns,
    example_id,
    is_gold_name,
    prediction_columns,
)
from kbbench_hf.scoring.warnings import gold_answers

LEAST_COPIED = 20
"""Fewer answers may all be right without being the dataset's own."""
LEAST_EQUAL = 5
"""Fewer answers that equal the gold say nothing of which column they are."""


class EqualColumns:
    """Counts in how many rows of a file a column equals the gold: by its name, nobody may know it for the gold."""

    def __init__(self, examples: Examples, kind: AnswerKind) -> None:
        self._examples, self._kind, self._n = {row["id"]: row for row in examples.rows}, kind, 0
        self._n_equal: Counter[str] = Counter()

    def add(self, row: object) -> None:
        """Take a row, of any columns."""
        own_id = example_id(row, self._examples.keys()) if isinstance(row, dict) else None
        golds = gold_answers(self._examples[own_id], self._kind) if own_id is not None else []
        if not isinstance(row, dict) or not golds:
            return
        self._n += 1
        for _, path, value in answer_columns(row, self._kind):
            try:
                if isinstance(value, str):
                    value = json.loads(value) if is_bracketed(value) else [value]
                self._n_equal[path] += is_gold(self._kind.read({self._kind.field: value}), golds)
            except ValueError:
                continue

    @property
    def paths(self) -> set[str]:
        """The columns that equal the gold in nearly every row."""
        if self._n < LEAST_EQUAL:
            return set()
        return {path for path, n in self._n_equal.items() if is_nearly_all(n, self._n, self._kind)}


class GoldColumn:
    """Finds out, line by line, whether the column that is read is the gold and another one holds the predictions."""

    def __init__(self, benchmark: Benchmark, options: ReadOptions, parse: ParseFunction | None) -> None:
        self._kind, self._parse, self._options = benchmark.scoring.answer, parse, options
        paths = [path for name, path in (options.fields or {}).items() if name in (self._kind.field, "response")]
        self._is_told = bool(paths) or options.source == "response"
        self.name = next((path for path in paths if is_gold_name(path)), "")
        """The path that the user named, where it is that of a gold column."""
        self._told = paths
        self._n = self._n_equal = self._n_copied = self._n_lines = 0
        self._others: list[CandidateColumn] | None = None
        self._n_other: Counter[CandidateColumn] = Counter()

    @property
    def with_texts(self) -> bool:
        """Whether most lines have a text of their example, or other answers, too: the file may hold the gold."""
        return 2 * self._n_copied > self._n_lines or bool(self._other_columns())

    def add(self, whole: object, answer: Answer, example: Example) -> None:
        """Take a line of the file with the answer that was read from it."""
        field = self._kind.field
        if not isinstance(whole, dict):
            return
        golds = gold_answers(example, self._kind)
        is_equal = is_gold(answer, golds)
        self._n, self._n_equal, self._n_lines = self._n + bool(golds), self._n_equal + is_equal, self._n_lines + 1
        if is_equal:
            texts = {each for name, each in example.items() if name != "id" and isinstance(each, str) and " " in each}
            self._n_copied += any(isinstance(each, str) and each in texts for each in whole.values())
        if self._others is None:
            left = {*whole} - {*example, *(self._told or [field])}  # no predictions are in columns of the dataset
            columns = {name: each for name, each in whole.items() if name in left}
            self._others = prediction_columns(columns, self._kind, self._parse is not None)
        for column in self._others:
            if is_equal or column.field == field:  # a text is parsed only where that may tell something
                self._n_other[column] += self._differs(whole, column, answer, example)

    def _differs(self, whole: Mapping[str, object], column: CandidateColumn, answer: Answer, example: Example) -> bool:
        try:
            value = value_at(whole, column.path)
            if isinstance(value, str) and self._parse is not None:
                return not is_gold(self._parse(value, example).answer, [answer])  # parsers return tuples
            return bool(self._kind.read({self._kind.field: value}) != answer)
        except (KeyError, ShapeError):
            return False
        except ParseError:
            return True

    def _other_columns(self) -> list[CandidateColumn]:
        return [column for column, n in self._n_other.items() if 2 * n > self._n]

    def problem(self, n_answers: int) -> Unreadable | None:
        """Return what is wrong where another column seems to hold the predictions, with the `--map` that reads it."""
        if self._is_told:
            return None
        field, path = self._kind.field, "PATH"
        others = [column for column in self._other_columns() if column.strength]
        named = [column for column in others if column.strength >= PLAIN and field in column.path.lower()]
        is_gold = self._n >= LEAST_EQUAL and is_nearly_all(self._n_equal, self._n, self._kind)
        if is_gold and others:
            name, path = others[0].field, others[0].path
            what = (
                f"{field!r} equals the gold answer in {self._n_equal:,} of {self._n:,} lines, and {path!r} holds "
                "other answers"
            )
        elif named:
            name, path = named[0].field, named[0].path
            what = f"the predictions may be in {field!r} or in {path!r}"
        elif self._n_copied == n_answers >= LEAST_COPIED:
            name, what = field, f"every line is the dataset's own, where {field!r} is the gold answer"
        else:
            return None
        remedy = f"Name the column of the predictions: --map {name}={path}, or {field}={field} for {field!r}."
        if path == "PATH" and self._parse is not None:
            remedy += " For a model's text: --from response."
        if self._options.of_stranger:
            remedy = f"Send your system's answers as {field!r}, and no other answers."
        return Unreadable(what, remedy)
