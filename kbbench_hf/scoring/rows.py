"""From the rows of any format to the fields that are scored: names mapped, lists in text read, ids in their type."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kbbench_hf.benchmarks.answers import ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.list_text import (
    SEPARATORS,
    ListTextError,
    is_bracketed,
    parse_list,
    split,
    split_readings,
    whole_number,
)
from kbbench_hf.files.rows import How, Keyed, Line, Problem, Reading, Unreadable, at
from kbbench_hf.files.trec import QRELS, Run

Fields = dict[str, object]
"""The fields of a row that are looked at: `id`, the answer or `response`, `error`, `scores`."""
_CANDIDATE = ("candidate", "candidate_id", "doc_id", "docid", "docno", "corpus-id", "corpus_id", "node_id", "entity_id")
_GRADES = 4
"""The highest grade of relevance that qrels have."""


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
    separator: str | None = None
    """What stands between the items of a list in text; "" for nothing, one item; None where only one reading fits."""
    scores: Literal["similarity", "distance", "rank"] | None = None
    """How the order of a run is known: the highest score first, the lowest, or its rank column."""

    def how(self) -> How:
        """Return what a reader of files must know of it."""
        return How(((self.fields or {}).get("id") or "id").partition(".")[0], self.scores)


class Placed(NamedTuple):
    """A row, or what is wrong with it, and where it stands."""

    file: str
    line: int | None
    value: object


class RowReader:
    """Reads rows of any format as a benchmark's: `notes` says what was done to them, once all are read."""

    def __init__(self, benchmark: Benchmark, examples: Examples, options: ReadOptions) -> None:
        self._benchmark, self._examples, self._options = benchmark, examples, options
        self._kind = benchmark.scoring.answer
        self._known = {row["id"] for row in examples.rows}
        self._has_parser = bool(benchmark.asking.parsers)
        self._read_as: list[ScoreWarning] = []
        self._done: Counter[str] = Counter()
        self._cells = False
        """Whether the rows are a table's, whose cells may be text whatever they hold."""

    def rows(self, name: str, reading: Reading) -> Iterator[Placed]:
        """Yield the row, or the problem, of every line of a file that holds a prediction."""
        order, self._cells = _Order(), reading.columns is not None
        chosen: dict[str, None] = {}
        for line in self._one_a_line(name, reading):
            value = line.value
            if isinstance(value, Problem):
                yield Placed(name, line.number, value)
                continue
            found = self._fields(value, reading, chosen)
            if isinstance(found, dict):
                found = self._in_type(found, order, isinstance(value, Keyed))
            if isinstance(found, Unreadable):
                as_it_is = found.shown or shown(value)
                yield Placed(name, line.number, Problem(name, line.number, found.message, found.remedy, as_it_is))
            elif found is not None:
                yield Placed(name, line.number, found)
        if problem := order.problem(self._options):
            yield Placed(name, None, problem.problem(name))
        if not reading.words.startswith("JSON Lines"):
            self._note("read_as", f"{name} was read as {reading.words}.", severity="note")
        for note in reading.notes:
            self._read_as.append(
                ScoreWarning(note.code, note.message, note.remedy, note.n_examples, severity=note.severity)
            )
        if order.n_tied:
            self._note(
                "ties",
                f"{order.n_tied:,} rankings have candidates with equal scores; these stand in the order of their ids.",
                "Give each candidate a score of its own, or order the run by its rank column: --scores rank.",
                order.n_tied,
                "warning",
            )

    def notes(self) -> list[ScoreWarning]:
        """Return what should be known of how the rows were read."""
        found = list(self._read_as)
        if n := self._done["ids"]:
            found.append(
                _note("ids_as_text", f"{n:,} ids were matched with those of the examples across text and number.")
            )
        if n := self._done["candidates"]:
            found.append(
                _note("candidates_as_text", f"The candidates of {n:,} rankings are text; they were read as numbers.")
            )
        for separator, name in {**SEPARATORS, " ": "spaces", "": "nothing (each text is one item)"}.items():
            if n := self._done[f"split {separator}"]:
                message = f"{n:,} answers without brackets were read as lists with {name} between items."
                found.append(_note("separators", message, "To be sure, write JSON lists."))
        return found

    def _note(
        self,
        code: str,
        message: str,
        remedy: str = "",
        n_examples: int = 0,
        severity: Literal["note", "warning"] = "note",
    ) -> None:
        self._read_as.append(ScoreWarning(code, message, remedy, n_examples, severity=severity))

    def _fields(self, value: object, reading: Reading, chosen: dict[str, None]) -> Fields | Unreadable | object:
        """Return the fields of a row under their own names; None where it is not among those that are read."""
        if isinstance(value, Keyed):
            row = self._of_key(value)
            if isinstance(row, Unreadable):
                return row
        elif isinstance(value, dict):
            row = value
        else:
            return value
        if reading.one_of is not None:
            chosen[str(_found(row, reading.one_of))] = None
            if len(chosen) > 1:
                return Unreadable(
                    f"each example has several answers, one for each {reading.one_of}: {', '.join(chosen)}; repeats "
                    "are no duplicates, and none is chosen for you",
                    f"Score one at a time: --where {reading.one_of}={next(iter(chosen))}",
                )
        return self._mapped(row, reading)

    def _of_key(self, keyed: Keyed) -> Fields | Unreadable:
        """Return an answer under its id as a row."""
        answer = keyed.answer
        if isinstance(answer, dict) and not (self._kind.ranked and _are_scores(answer)):
            return {**answer, "id": keyed.id}
        if isinstance(answer, str) and self._has_parser:
            if self._options.source == "response":
                return {"id": keyed.id, "response": answer}
            if not is_bracketed(answer):
                return Unreadable(
                    f"{answer[:60]!r} under an id: the answer, or a model's response?",
                    'For responses: --from response. For answers write a list: {"id": ["..."]}.',
                )
        return {"id": keyed.id, self._kind.field: answer}

    def _mapped(self, row: Fields, reading: Reading) -> Fields | Unreadable:
        """Return the fields from where the format, or the user, says that they are."""
        told = dict(self._options.fields or {})
        if not (told or reading.fields):
            return row
        answers = {self._kind.field, "response"}
        own = {"id", "error", "scores", *answers} if not reading.fields else set[str]()
        if told.keys() & answers:
            own -= answers
        found = {name: row[name] for name in own if name in row}
        of_format = {
            name: path for name, path in reading.fields.items() if not (name in answers and told.keys() & answers)
        }
        for name, path in {**of_format, **told}.items():
            try:
                found[name] = at(row, path)
            except KeyError as error:
                if name in told or name == "id":
                    keys = ", ".join(map(repr, sorted(map(str, row))[:8]))
                    return Unreadable(
                        f"no {path!r}, of which {error} is missing; the keys are {keys}", self.suggestion(row)
                    )
        return found

    def _in_type(self, row: Fields, order: "_Order", keyed: bool) -> Fields | Unreadable | None:
        """Return the fields with ids, lists and rankings as the benchmark has them; None where all cells are empty."""
        table = self._cells
        row = {name: value for name, value in row.items() if value is not None or not table}
        if "id" in row:
            row["id"] = self._example_id(row["id"])
        field = self._kind.field
        if table and not row.keys() & {field, "response", "error"} and row.get("id") in self._known:
            return None
        answer, example_id = row.get(field), row.get("id")
        if isinstance(answer, str) and (table or keyed or self._kind.ranked or is_bracketed(answer)):
            answer = self._listed(answer, example_id)
        if isinstance(answer, Unreadable):
            return answer
        if self._kind.ranked and isinstance(answer, dict):
            if not _are_scores(answer):
                return Unreadable("the scores of its candidates are not all finite numbers")
            answer = order.ranked(
                self._typed(list(answer), example_id), list(answer.values()), self._options, keyed, keyed or table
            )
        elif self._kind.ranked and isinstance(answer, list):
            answer = self._typed(answer, example_id)
        if field in row:
            row[field] = answer
        if self._options.scores == "distance" and isinstance(scores := row.get("scores"), list):
            row["scores"] = [-each if isinstance(each, int | float) else each for each in scores]
        return row

    def _example_id(self, found: object) -> object:
        """Return the id of an example as the example has it, where it is written as text or number."""
        if isinstance(found, str):
            found = found if found in self._known else found.strip()
        if isinstance(found, bool) or not isinstance(found, str | int) or found in self._known:
            return found
        other = str(found) if isinstance(found, int) else whole_number(found)
        if other is None or other not in self._known:
            return found
        self._done["ids"] += not self._cells
        return other

    def _typed(self, candidates: list[object], example_id: object) -> list[object]:
        """Return candidates as numbers where they are written as text and only numbers pass the benchmark's check."""
        if not any(isinstance(each, str) for each in candidates):
            return candidates
        numbers = [whole_number(each) if isinstance(each, str) else each for each in candidates]
        if None in numbers or self._passes(candidates, example_id) or not self._known_as(numbers, example_id):
            return candidates
        self._done["candidates"] += not self._cells
        return numbers

    def _known_as(self, numbers: Sequence[object], example_id: object) -> bool:
        return any(self._passes([number], example_id) for number in numbers[:20])

    def _passes(self, answer: object, example_id: object) -> bool:
        return self._wrong(answer, example_id) is None

    def _wrong(self, answer: object, example_id: object) -> str | None:
        """Return what is wrong with an answer, in words, or None."""
        try:
            read = self._kind.read({self._kind.field: answer})
        except ShapeError as error:
            return str(error)
        if not isinstance(example_id, str | int) or example_id not in self._known:
            return None
        return self._benchmark.scoring.check(self._examples, example_id, read)

    def _listed(self, text: str, example_id: object) -> object:
        """Return the list that a text is, or what is wrong with it: several readings of it, or none."""
        if is_bracketed(text):
            try:
                return parse_list(text)
            except ListTextError as error:
                if not self._kind.separable:
                    return Unreadable(str(error), shown=text[:160])
                if text.lstrip()[0] in "[{":
                    return Unreadable(str(error), 'Write a JSON list, such as ["a", "b"].', shown=text[:160])
        if not self._kind.separable:
            return Unreadable(f"{text[:60]!r} is no list", "Write a JSON list.", shown=text[:160])
        if self._options.separator is not None:
            self._done[f"split {self._options.separator}"] += 1
            return split(text, self._options.separator)
        readings: dict[str, Sequence[object]] = dict(split_readings(text))
        if self._kind.ranked:
            numbers = {each: [whole_number(item) for item in items] for each, items in readings.items()}
            whole = [each for each in numbers if None not in numbers[each]]
            longest = max(whole, key=lambda each: len(numbers[each]), default="")
            if whole and self._known_as(numbers[longest], example_id):
                readings = {longest: numbers[longest]}
        fitting = [each for each in readings if self._passes(readings[each], example_id)]
        if len(fitting) > 1:
            first, second = (json.dumps(readings[each], ensure_ascii=False) for each in fitting[:2])
            return Unreadable(
                f"{text[:60]!r} may be one answer, {first}, or a list, {second}",
                f"Write JSON lists, or name the separator: --sep '{fitting[1]}' for lists, --sep none for one answer.",
                shown=text[:160],
            )
        best = fitting[0] if fitting else max(readings, key=lambda each: len(readings[each]))
        if best:
            self._done[f"split {best}"] += 1
        return list(readings[best])

    def _one_a_line(self, name: str, reading: Reading) -> Iterator[Line]:
        """Yield the lines of a reading, those of a table of one item a row gathered by example."""
        columns, told = reading.columns, self._options.fields or {}
        if self._options.where:
            reading.lines = self._chosen(reading.lines, self._options.where)
        if columns is None:
            return reading.lines
        id_path = told.get("id", "id")
        if id_path.partition(".")[0] not in columns and id_path not in columns:
            what = f"no column 'id'; the columns are {', '.join(columns)}"
            return iter([Line(1, self._misnamed(name, reading, columns, what))])
        if {self._kind.field, "response"} & {*columns, *told}:
            return reading.lines
        lower = {column.lower(): column for column in columns}
        parts = [next((lower[each] for each in names if each in lower), None) for names in self._kind.parts]
        if parts and None not in parts:
            return self._gathered(reading, id_path, [part for part in parts if part])
        candidate = next((lower[each] for each in _CANDIDATE if each in lower), None)
        if self._kind.ranked and candidate and lower.keys() & {"rank", "score", "similarity", "distance"}:
            return self._of_run(name, reading, id_path, candidate, lower)
        what = f"no column '{self._kind.field}'{self._or_response()}; the columns are {', '.join(columns)}"
        return iter([Line(1, self._misnamed(name, reading, columns, what))])

    def _chosen(self, lines: Iterator[Line], where: Mapping[str, str]) -> Iterator[Line]:
        """Yield the lines whose rows have the wanted values."""
        for line in lines:
            row = line.value.answer if isinstance(line.value, Keyed) else line.value
            if not isinstance(row, dict) or all(str(_found(row, path)) == wanted for path, wanted in where.items()):
                yield line

    def _misnamed(self, name: str, reading: Reading, columns: Sequence[str], message: str) -> Problem:
        """Return what is wrong with a table whose columns are not the benchmark's."""
        first = next((line.value for line in reading.lines if isinstance(line.value, dict)), {})
        if {str(each) for each in self._known} & {*columns}:
            message = "the first line holds an id: the table has no header"
            return Problem(
                name, 1, message, f"Begin it with a line of names: id,{self._kind.field}.", ",".join(columns)
            )
        return Problem(name, 1, message, self.suggestion(first), ",".join(columns)[:160])

    def _or_response(self) -> str:
        return " or 'response'" if self._has_parser else ""

    def _gathered(self, reading: Reading, id_path: str, parts: Sequence[str]) -> Iterator[Line]:
        """Yield each example with all of its items; a row without any part says that there are none."""
        gathered: dict[object, tuple[int | None, list[object]]] = {}
        for number, row in reading.lines:
            if not isinstance(row, dict):
                yield Line(number, row)
                continue
            _, items = gathered.setdefault(_found(row, id_path), (number, []))
            item = [row.get(part) for part in parts]
            if any(each is not None for each in item):
                items.append(item)
        reading.words += f", one item a row ({', '.join(parts)})"
        for example_id, (number, items) in gathered.items():
            yield Line(number, {id_path: example_id, "id": example_id, self._kind.field: items})

    def _of_run(
        self, name: str, reading: Reading, id_path: str, candidate: str, columns: Mapping[str, str]
    ) -> Iterator[Line]:
        """Yield the ranking of each example from a table of one candidate a row."""
        scored = next((columns[each] for each in ("score", "similarity", "distance") if each in columns), None)
        how = self._options.how()
        if scored == columns.get("distance") and scored is not None and how.scores is None:
            how = how._replace(scores="distance")
        run = Run(name, how)
        for number, row in reading.lines:
            if not isinstance(row, dict):
                yield Line(number, row)
                continue
            try:
                rank = int(str(row[columns["rank"]])) if "rank" in columns else None
                score = float(str(row[scored])) if scored else None
            except ValueError as error:
                yield Line(
                    number, Problem(name, number, f"no number: {error}", "Write numbers with a point.", shown(row))
                )
                continue
            problem = run.add(str(_found(row, id_path)), str(row[candidate]), rank, score, number or 0)
            if problem:
                yield Line(number, problem)
        reading.words += f", one candidate a row ({candidate})"
        for line in run.rows(reading):
            row = line.value
            assert isinstance(row, dict)  # noqa: S101 (so are the rows of a run)
            yield Line(line.number, {id_path: row["id"], "id": row["id"], self._kind.field: row["ids"]})

    def suggestion(self, row: object) -> str:
        """Return the --map that may fit a row whose fields have other names."""
        field = self._kind.field
        paths = dict(_paths(row)) if isinstance(row, dict) else {}
        ids = [path for path, value in paths.items() if self._is_id(path, value)]
        lists = [path for path, value in paths.items() if isinstance(value, list)]
        id_path = ids[0] if ids else "PATH"
        answer = f"{field}={lists[0] if len(lists) == 1 else 'PATH'}"
        return f"Say where the fields are: --map id={id_path},{answer}" + (
            " (or response=PATH for a model's text)." if self._has_parser else "."
        )

    def _is_id(self, path: str, value: object) -> bool:
        if path.endswith("doc_id") or isinstance(value, bool) or not isinstance(value, str | int):
            return False
        if isinstance(value, str) and value in self._known:
            return True
        name = path.rpartition(".")[2].lower()
        return name.endswith("id") and ({value, whole_number(value), str(value)} & self._known != set())


class _Order:
    """What the scores of candidate -> score rankings look like, over a whole file."""

    def __init__(self) -> None:
        self.n_tied = 0
        self._n = self._n_ordered = self._n_rising = self._n_long = 0
        self._graded = True

    def ranked(
        self, ids: list[object], scores: list[object], options: ReadOptions, keyed: bool, loose: bool
    ) -> list[object]:
        """Return candidates best first: the score descending, then the id ascending.

        `keyed` says that they stand in an object, `loose` that no rank column says that these are no judgements.
        """
        numbers = [float(each) for each in scores if isinstance(each, int | float)]
        if options.scores == "distance":
            numbers = [-each for each in numbers]
        self._n += 1
        tied = len(set(numbers)) < len(numbers)
        self.n_tied += tied
        self._graded = self._graded and loose and all(each in range(_GRADES + 1) for each in numbers)
        self._n_ordered += len(numbers) > 1 and not tied
        if keyed and len(numbers) > 2:
            self._n_long += 1
            self._n_rising += not tied and numbers == sorted(numbers)
        return [each for _, each in sorted(zip(numbers, ids, strict=True), key=lambda pair: (-pair[0], _key(pair[1])))]

    def problem(self, options: ReadOptions) -> Unreadable | None:
        """Return what is wrong with all rankings together: they are judgements, or distances."""
        if self._n and self._graded and not self._n_ordered:
            return QRELS
        if options.scores is None and self._n_long > 1 and self._n_rising == self._n_long:
            return Unreadable(
                "the scores of every example rise from its first candidate to its last: are they distances?",
                "Say how to order them: --scores distance (the lowest is best) or --scores similarity.",
            )
        return None


def _key(candidate: object) -> tuple[int, Id]:
    return (0, candidate) if isinstance(candidate, int) else (1, str(candidate))


def _note(code: str, message: str, remedy: str = "") -> ScoreWarning:
    return ScoreWarning(code, message, remedy, severity="note")


def _found(row: Fields, path: str) -> object:
    try:
        return at(row, path)
    except KeyError:
        return None


def _are_scores(answer: Mapping[str, object]) -> bool:
    return all(
        isinstance(each, int | float) and not isinstance(each, bool) and abs(each) != float("inf") and each == each
        for each in answer.values()
    )


def _paths(row: Mapping[str, object], before: str = "", depth: int = 3) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and depth:
            yield from _paths(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}", value


def shown(value: object) -> str:
    """Return a row as a line of text."""
    if isinstance(value, Keyed):
        value = {value.id: value.answer}
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= 160 else f"{text[:157]}..."
