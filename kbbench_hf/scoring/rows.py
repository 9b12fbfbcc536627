"""Rows of any predictions format as fields of a benchmark: mapped names, parsed lists, typed ids.

`predictions` pairs the rows with examples. A row is read in one way or refused with what to type (`--map`, `--where`).
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.list_text import is_bracketed
from kbbench_hf.files.rows import (
    KeyedAnswer,
    ParsedFile,
    ParsedRow,
    Problem,
    Unreadable,
    until_unreadable,
    value_at,
    value_or_none,
)
from kbbench_hf.files.trec import score_of
from kbbench_hf.scoring import lists
from kbbench_hf.scoring.gold_columns import EqualColumns, is_gold_name, suggested_map
from kbbench_hf.scoring.options import ReadOptions

Fields = dict[str, object]
"""The fields of a row that are looked at: `id`, the answer or `response`, `error`, `scores`."""
_PLAIN = ("JSON Lines", "JSON Lines, gzip")
"""The formats in which the package writes predictions; they need no note."""


class Placed(NamedTuple):
    """A row or the problem in its place, with its file and line."""

    file: str
    line: int | None
    value: object
    whole: object = None
    """The row as the file has it."""


class RowReader:
    """Converts rows of any format to a benchmark's; `notes` reports the conversions, once all rows are read."""

    def __init__(self, benchmark: Benchmark, examples: Examples, options: ReadOptions) -> None:
        self._options, self._kind = options, benchmark.scoring.answer
        self._lists = lists.ListReader(benchmark, examples, options.separator)
        self._known = self._lists.known
        self._has_parser = bool(benchmark.asking.parsers)
        self._joiner = lists.Joiner(examples, options.join) if options.join else None
        self._notes: list[ScoreWarning] = []
        self._hits: tuple[str, str, str | None] | None = None
        self._equal, self._suggested = EqualColumns(examples, self._kind), dict[str, tuple[object, Sequence[str]]]()
        self.n_empty = 0
        """Number of rows of tables with an id and nothing else: their answers are missing."""
        fields = ("id", self._kind.field, *(["response"] if self._has_parser else []), "error", "scores")
        if wrong := next((name for name in options.fields or {} if name not in fields), None):
            raise UsageError(
                f"--map has {wrong!r} before '='; expected a field of a prediction ({', '.join(fields)}). Write the "
                "field, then where the file has it: id=qid."
            )

    def rows(self, name: str, reading: ParsedFile) -> Iterator[Placed]:
        """Yield the row, or the problem, of every line of a file that holds a prediction."""
        self._lists.only_text = reading.only_text
        rankings, chosen, readable = lists.Rankings(self._options, reading), dict[str, None](), True
        pairs = lists.AnswerPairs(self._kind, self._options)
        for line in until_unreadable(name, self._one_example_a_line(name, reading)):
            value = line.value
            if isinstance(value, Problem):
                readable = False
                yield Placed(name, line.number, value)
                continue
            try:
                fields = self._row_fields(value, reading, chosen)
                if isinstance(fields, dict):
                    fields = self._convert_row(fields, value, reading, rankings, pairs)
            except Unreadable as error:
                as_it_is = error.shown or shown(value)
                yield Placed(name, line.number, Problem(name, line.number, error.message, error.remedy, as_it_is))
                if len(chosen) > 1:
                    return
            else:
                if fields is not None:
                    yield Placed(name, line.number, fields, value)
        if problem := (rankings.problem() if readable else None) or pairs.problem():
            yield Placed(name, None, problem.problem(name))
        if reading.format not in _PLAIN:
            self._notes.append(ScoreWarning("read_as", f"{name} was read as {reading.format}.", severity="note"))
        self._notes += [ScoreWarning(*note[:4], severity=note.severity) for note in reading.notes]
        self._notes += rankings.notes()

    def notes(self) -> list[ScoreWarning]:
        """Return the notes on how the rows of all files were read."""
        joined = [self._joiner.note()] if self._joiner else []
        return [*self._notes, *joined, *self._lists.notes()]

    def problem(self) -> Unreadable | None:
        """Return the error of the rows of all files together; None if there is none."""
        return self._joiner.problem() if self._joiner else None

    def _row_fields(self, value: object, reading: ParsedFile, chosen: dict[str, None]) -> object:
        """Return the fields of a row by their own names; a value that is no row unchanged.

        `chosen` collects the values of the format's `one_of`.

        Raises:
            Unreadable: a field is missing, or a second value of `one_of`.
        """
        row = self._keyed_row(value) if isinstance(value, KeyedAnswer) else value
        if row is None:
            raise Unreadable("expected an object with 'id', found null", "Take the line out.")
        if not isinstance(row, dict):
            return row
        if reading.one_of is not None:
            chosen[str(value_or_none(row, reading.one_of))] = None
            if len(chosen) > 1:
                each = f"examples have an answer for each {reading.one_of} ({', '.join(chosen)}, ...)"
                remedy = f"Score one at a time: --where {reading.one_of}={next(iter(chosen))}"
                raise Unreadable(f"{each}, and one of them must be chosen", remedy)
        return self._map_fields(row, reading)

    def _convert_row(
        self, row: Fields, whole: object, reading: ParsedFile, rankings: lists.Rankings, pairs: lists.AnswerPairs
    ) -> Fields | None:
        """Return the fields of a row in the benchmark's types; None if all cells are empty.

        Raises:
            Unreadable: a field is missing or has another form.
        """
        if self._joiner:
            row = {**row, "id": self._joiner.next_id(whole)}
        typed = self._convert_types(row, rankings, reading.columns is not None, isinstance(whole, KeyedAnswer))
        if typed is not None:
            if "response" not in typed:  # what a model wrote is scored, never refused
                pairs.add(typed.get(self._kind.field))
            self._refuse_incomplete(typed, whole)
            self._refuse_other_id(typed, whole)
        return typed

    def _keyed_row(self, keyed: KeyedAnswer) -> Fields:
        """Return an answer under its id as a row."""
        answer = keyed.answer
        if isinstance(answer, dict):
            is_row = self._options.fields or {self._kind.field, "response", "error"} & answer.keys()
            if is_row or not (self._kind.ranked and lists.are_scores(answer)):
                return {**answer, "id": keyed.id}
        if isinstance(answer, str) and self._has_parser:
            if self._options.source == "response":
                return {"id": keyed.id, "response": answer}
            if not is_bracketed(answer):
                remedy = 'For responses: --from response. For answers write a list: {"id": ["..."]}.'
                raise Unreadable(f"{answer[:60]!r} under an id: the answer, or a model's response?", remedy)
        return {"id": keyed.id, self._kind.field: answer}

    def _map_fields(self, row: Fields, reading: ParsedFile) -> Fields:
        """Return the fields at the paths of the format, or of the user (`--map`), which come first.

        Raises:
            Unreadable: a path does not exist.
        """
        told = dict(self._options.fields or {})
        if not told and (not reading.fields or {"id", self._kind.field} <= row.keys()):
            return row
        answers = {self._kind.field, "response"}
        own = {"id", "error", "scores", *answers} if not reading.fields else set[str]()
        if told.keys() & answers:
            own -= answers
        fields = {name: row[name] for name in own if name in row}
        of_format = {
            name: path for name, path in reading.fields.items() if not (name in answers and told.keys() & answers)
        }
        for name, path in sorted({**of_format, **told}.items()):  # `error` before the answer that it may stand for
            try:
                fields[name] = path(row) if callable(path) else value_at(row, path)
            except Unreadable as several:
                raise Unreadable(several.message, self._suggestion(row, [self._kind.field])) from None
            except KeyError as error:
                lacks_id = name == "id" and not self._joiner
                if lacks_id or (name in told and fields.get("error") is None):
                    keys = ", ".join(map(repr, sorted(map(str, row))[:8]))
                    message = f"no {path!r}: {error} is missing; the keys are {keys}"
                    raise Unreadable(message, self._suggestion(row, [name])) from None
        return fields

    def _refuse_incomplete(self, row: Fields, whole: object) -> None:
        """Raise `Unreadable` for a row without an id, or with an id of an example and nothing that may be an answer."""
        field, example_id, has_answer = self._kind.field, row.get("id"), self._has_answer(row)
        lacks, wanted = f"neither '{field}' nor 'response'", [field]
        if "id" not in row:
            lacks, wanted = "no 'id'", ["id"] if has_answer else ["id", field]
        elif has_answer or not isinstance(example_id, str | int) or example_id not in self._known:
            return
        elif isinstance(row.get("response"), dict | list):
            lacks = f"'response' is {type(row['response']).__name__}, expected text"
        raise Unreadable(f"{lacks}; the keys are {sorted(row)[:5]}", self._suggestion(whole, wanted))

    def _has_answer(self, row: Fields) -> bool:
        """Return whether a row has an answer, a text to parse or an error by their own names."""
        is_nested = isinstance(row.get("response"), dict | list) and not self._options.of_stranger
        return self._kind.field in row or row.get("error") is not None or ("response" in row and not is_nested)

    def _refuse_other_id(self, row: Fields, whole: object) -> None:
        """Raise `Unreadable` for a row whose id no example has, if another of its fields has one."""
        example_id = row.get("id")
        if not isinstance(whole, dict) or "id" in (self._options.fields or {}) or self._options.of_stranger:
            return
        is_unknown = isinstance(example_id, str | int) and example_id not in self._known
        if is_unknown and "PATH" not in self._suggestion(whole, ["id"]):
            wanted = ["id"] if self._has_answer(row) else ["id", self._kind.field]
            raise Unreadable(f"id {example_id!r} matches no example", self._suggestion(whole, wanted))

    def _convert_types(self, row: Fields, rankings: lists.Rankings, table: bool, keyed: bool) -> Fields | None:
        """Return the fields with ids, lists and rankings as the benchmark has them; None if all cells are empty.

        `table` says that the row is of a table, `keyed` that it is of an object id -> answer.
        """
        row = {name: value for name, value in row.items() if value is not None or not table}
        if "id" in row:
            row["id"] = self._lists.example_id(row["id"])
        field, example_id = self._kind.field, row.get("id")
        if table and not row.keys() & {field, "response", "error"} and example_id in self._known:
            self.n_empty += 1
            return None
        if table and str(row.get("response")).strip() in ("nan", "NaN", "<NA>", "NaT"):
            raise Unreadable(f"'response' is {row['response']!r}, as pandas writes what is missing", "Empty the cell.")
        answer = row.get(field)
        is_told = self._kind.separable and field in (self._options.fields or {})
        is_text = table or keyed or self._kind.ranked or is_told
        if isinstance(answer, str) and (is_text or answer.lstrip().startswith("[") or self._lists.is_barred(answer)):
            answer = self._lists.of_text(answer, example_id)
        elif isinstance(answer, list) and answer and all(map(self._lists.is_barred, answer)):  # as WebNLG's
            answer = self._lists.of_text("\n".join(map(str, answer)), example_id)
        if self._kind.ranked and isinstance(answer, dict):
            if self._options.scores == "rank":
                raise Unreadable("its candidates have scores, and no ranks", "Leave out --scores rank.")
            ids = self._lists.typed(list(answer), example_id)
            answer = rankings.ordered(ids, list(answer.values()), in_object=keyed)
        elif self._kind.ranked and isinstance(answer, list):
            if lists.hit_fields({field: answer}):
                message = f"candidate {answer[0]!r} is neither an integer nor a string"
                raise Unreadable(message, self._suggestion({field: answer}, [field]))
            answer = self._lists.typed(answer, example_id)
        if field in row:
            row[field] = answer
        if self._kind.ranked and isinstance(scores := row.get("scores"), list):
            settings, sign = self._options.read_settings(), -1 if self._options.scores == "distance" else 1
            # an infinite score is in order where it is last; the check of the order takes finite numbers
            row["scores"] = [max(sign * score_of(each, settings), -sys.float_info.max) for each in scores]
        return row

    def _one_example_a_line(self, name: str, reading: ParsedFile) -> Iterator[ParsedRow]:
        """Yield the lines of a file that `--where` chooses; those of a table of one item a row gathered by example."""
        columns, told = reading.columns, self._options.fields or {}
        if self._options.where:
            reading.lines = self._filter_lines(reading.lines, self._options.where)
        field, id_path = self._kind.field, told.get("id")
        if reading.cells and self._is_headless(columns or ()):
            reading.format = "WikiTableQuestions' predictions (tabs between an id and its answers)"
            for number, cells in enumerate(reading.cells, start=1):
                yield ParsedRow(number, {"id": cells[0], field: [_unescaped(each) for each in cells[1:]]})
            return
        if columns is not None:
            columns = self._rename_columns(reading, columns)
        keys, single = columns, None
        if not reading.fields and (first := next(reading.lines, None)):
            row = first.value if isinstance(first.value, dict) else {}
            keys = list(row) if keys is None else keys
            single = (
                field if self._kind.ranked and field not in told and lists.is_one_candidate(row.get(field)) else None
            )
            reading.lines = chain([first], reading.lines)
        has_answers = bool({field, "response", "error"} & {*(keys or ()), *told})
        if (single or not has_answers) and (items := lists.ItemTable.of(keys or (), self._kind, id_path, single)):
            yield from items.rows(name, reading, self._options.read_settings(), field)
            return
        id_columns = {"id", id_path or "id", (id_path or "id").partition(".")[0]}
        has_ids = bool(self._joiner or id_columns & {*(columns or ())})
        if columns is None or (has_ids and has_answers):
            yield from reading.lines
            return
        wanted = f"'{field}'{' or ' + repr('response') if self._has_parser else ''}" if has_ids else "'id'"
        what = f"no column {wanted}; the columns are {', '.join(columns)}"
        yield ParsedRow(1, self._column_problem(name, reading, columns, what))

    def _rename_columns(self, reading: ParsedFile, columns: Sequence[str]) -> Sequence[str]:
        """Rename columns of a table that differ from our fields in blanks and capitals only; return all columns."""
        fields = ("id", self._kind.field, "response", "error", "scores")
        told = {path.partition(".")[0] for path in (self._options.fields or {}).values()}
        names = {each: lists.column_name(each) for each in columns if each not in told}
        names = {old: new for old, new in names.items() if new in fields and new not in columns}
        if len({*names.values()}) < len(names) or not names:
            return columns

        def renamed(row: object) -> object:
            return {names.get(name, name): cell for name, cell in row.items()} if isinstance(row, dict) else row

        reading.lines = (ParsedRow(number, renamed(row)) for number, row in reading.lines)
        reading.columns = [names.get(each, each) for each in columns]
        return reading.columns

    def _is_headless(self, columns: Sequence[str]) -> bool:
        """Return whether the first line of a table has an example's id, and answers in place of names."""
        is_list = self._kind.separable and not self._kind.ranked
        return is_list and bool(columns) and columns[0] in {str(each) for each in self._known}

    def _filter_lines(self, lines: Iterator[ParsedRow], where: Mapping[str, str]) -> Iterator[ParsedRow]:
        """Yield the lines whose rows have the wanted values."""
        for line in lines:
            row = line.value.answer if isinstance(line.value, KeyedAnswer) else line.value
            # what is no object is a problem, which is reported later
            if not isinstance(row, dict) or all(str(value_or_none(row, path)) == of for path, of in where.items()):
                yield line

    def _column_problem(self, name: str, reading: ParsedFile, columns: Sequence[str], message: str) -> Problem:
        """Return the problem of a table whose columns are not the benchmark's, with the header or `--map` that fits."""
        known, line = {str(each) for each in self._known}, reading.separator.join(columns)[:160]
        values = (line.value for line in islice(reading.lines, lists.LOOKED_AT))
        rows = [row for row in values if isinstance(row, dict)]
        if known & {*columns}:
            cells = [list(columns), *([str(cell) for cell in row.values()] for row in rows)]
            header = f"Begin it with a line of names: id,{self._kind.field}."
            mistake = lists.headed(cells, known, self._kind.field) if self._kind.ranked else None
            mistake = mistake or Unreadable("the first line holds an id: the table has no header", header)
            return Problem(name, 1, mistake.message, mistake.remedy, line)
        wanted = [each for each in ("id", self._kind.field) if each not in columns]
        return Problem(name, 1, message, self._suggestion(rows[0] if rows else {}, wanted), line)

    def _suggestion(self, row: object, wanted: Sequence[str]) -> str:
        """Return the --map that may fit a row in which these fields have other names."""
        if self._options.of_stranger:
            return f"Call the fields {' and '.join(map(repr, wanted))}."
        if isinstance(row, KeyedAnswer):
            row = row.answer
        if self._kind.ranked and self._kind.field in wanted and isinstance(row, dict):
            self._hits = (
                lists.hit_fields({name: each for name, each in row.items() if not is_gold_name(name)}) or self._hits
            )
            if self._hits is not None:  # a row without hits has the same fields as the others
                field, candidate, score = self._hits
                mapping = f"{self._kind.field}={field}.{candidate}{f',scores={field}.{score}' if score else ''}"
                if "id" not in wanted:
                    return f"Map your columns: --map {mapping}."
                with_id = suggested_map({**row, field: []}, ["id"], self._known, self._kind)
                return f"{with_id.removesuffix('.')},{mapping}."
        self._equal.add(row)
        mapping = suggested_map(row, wanted, self._known, self._kind, self._has_parser)
        if "id=PATH" in mapping and not self._joiner:
            mapping += " For rows without ids: --join input, or --join order if there is one row for each example."
        self._suggested.setdefault(mapping, (row, wanted))
        return mapping

    def without_gold(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return problems whose remedies no longer suggest columns that turned out to equal the gold."""
        if not (equal := self._equal.paths):
            return list(problems)
        new = {
            remedy: suggested_map(row, wanted, self._known, self._kind, self._has_parser, equal)
            for remedy, (row, wanted) in self._suggested.items()
        }
        return [replace(problem, remedy=new.get(problem.remedy, problem.remedy)) for problem in problems]


def _unescaped(cell: str) -> str:
    """Return a cell of WikiTableQuestions' tsv as its evaluator reads it: with escapes of line ends and bars."""
    return re.sub(r"\\([np\\])", lambda found: {"n": "\n", "p": "|"}.get(found[1], "\\"), cell)


def shown(value: object) -> str:
    """Return a row as a line of text of at most 160 characters; empty if it cannot be written."""
    if isinstance(value, KeyedAnswer):
        value = {value.id: value.answer}
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= 160 else f"{text[:157]}..."
