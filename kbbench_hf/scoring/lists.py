"""Parsing of ids, lists and rankings of predictions files: lists in text, ids by `--join`, tables of one item a row.

`rows` uses it for each row. Each conversion is counted and reported in a note. A text with two readings that both fit
the benchmark is refused, and so are judgments (gold) in place of a run: a guess would change scores without a word.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import islice

from kbbench_hf.benchmarks.answers import AnswerKind, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files import list_text
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.list_text import whole_number
from kbbench_hf.files.rows import ParsedFile, ParsedRow, Problem, ReadSettings, Unreadable, value_or_none
from kbbench_hf.files.trec import LIKELY_QRELS, QRELS, TrecRun, score_of
from kbbench_hf.scoring.options import ReadOptions

_NOTHING = frozenset({"nan", "none", "null", "<na>", "na", "n/a"})
"""Texts that programs write into a cell without a value."""


LEAST_PAIRS = 3
"""Fewer answers with two items prove nothing about the second ones."""
FEW_WORDS = 6
"""TAT-QA has five scales: none, thousand, million, billion and percent."""


_NOTES = {
    "ids": ("ids_as_text", "{:,} ids were matched with the examples' across text and number."),
    "candidates": ("candidates_as_text", "The candidates of {:,} rankings are text; they were read as numbers."),
    "lists": ("lists_as_text", "{:,} answers are lists in text; they were read as lists."),
    "barred": ("separators", "{:,} answers are text with bars; they were read as subject | relation | object."),
}
"""Conversion -> code and message of its note."""


class ListReader:
    """Converts ids and lists in text; `notes` reports the conversions, once all rows are read."""

    def __init__(self, benchmark: Benchmark, examples: Examples, separator: str | None) -> None:
        self._benchmark, self._examples, self._separator = benchmark, examples, separator
        self._kind = benchmark.scoring.answer
        self.known = {row["id"] for row in examples.rows}
        self.only_text = False
        """Whether the format of the file has only text, so that numbers in text need no note."""
        self._done: Counter[str] = Counter()
        """Conversion -> how often it was made."""

    def example_id(self, found: object) -> object:
        """Return an id with the type and blanks of the example's id; unchanged if no example has it."""
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
        """Return whether a value is triples in text with bars between their parts, for a benchmark of triples."""
        return bool(self._kind.parts) and isinstance(text, str) and list_text.barred_triples(text) is not None

    def of_text(self, text: str, example_id: object) -> object:
        """Return the list in a text.

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
        """Return whether one of the first numbers alone passes the benchmark's check."""
        return any(self._passes([number], example_id) for number in numbers[:20])

    def _passes(self, answer: object, example_id: object) -> bool:
        """Return whether an answer has the benchmark's shape and, for a known example, passes its check."""
        try:
            read = self._kind.read({self._kind.field: answer})
        except ShapeError:
            return False
        if not isinstance(example_id, str | int) or example_id not in self.known:
            return True
        return self._benchmark.scoring.check(self._examples, example_id, read) is None

    def notes(self) -> list[ScoreWarning]:
        """Return the notes on what was read from text."""
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
    """Detects files whose answers are all pairs such as TAT-QA's [answer, scale], where the second is no answer."""

    def __init__(self, kind: AnswerKind, options: ReadOptions) -> None:
        self._field = kind.field
        self._may_be = kind.separable and not kind.ranked and kind.field not in (options.fields or {})
        self._of_stranger = options.of_stranger
        self._firsts, self._seconds, self._n = set[str](), Counter[str](), 0

    def add(self, answer: object) -> None:
        """Count the answer of a line."""
        if not self._may_be or not isinstance(answer, list) or not answer:
            return
        self._may_be = len(answer) == 2
        if self._may_be:
            first, second = answer
            self._n += 1
            self._firsts.update(map(str, first) if isinstance(first, list) else [str(first)])
            self._seconds["a score" if isinstance(second, float) and 0 <= second <= 1 else str(second)] += 1

    def problem(self) -> Unreadable | None:
        """Return the error if every answer has two items, the second of them one of a few words; else None."""
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
"""Columns of an example with its input; the first one that it has is taken."""
_LOOKED_AT = 300
"""Maximum number of texts of a row that are compared."""


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
        """Return the error of all rows together: by order, there must be one for each example; else None."""
        if self._join == "order" and 0 < self._n_rows < len(self._ids):
            return Unreadable(f"{self._n_rows:,} rows without ids, for {len(self._ids):,} examples", _ORDER)
        return None

    def note(self) -> ScoreWarning:
        """Return the note on how rows were joined with examples."""
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


GRADES = range(-2, 5)
"""The grades of relevance that qrels have; those below 0 are spam and unjudged."""
_LEAST_DEPTH = 3
"""Rankings of one depth, at least this one, without equal scores are a run, even if the scores look like grades."""


def are_scores(answer: Mapping[str, object]) -> bool:
    """Return whether an object may be candidate -> score: all values are single ones, and one can be a number.

    >>> are_scores({"d1": "0.9", "d2": None}), are_scores({"d1": "text"}), are_scores({"d1": [1]})
    (True, False, False)
    """
    if any(isinstance(each, bool | list | dict) for each in answer.values()):
        return False
    texts = [each.replace(",", ".") for each in answer.values() if isinstance(each, str)]  # a comma is refused later
    return len(texts) < len(answer) or not answer or any(_passes(float, each) for each in texts)


def _passes(read: Callable[[str], object], text: str) -> bool:
    """Return whether a function accepts a text; `Unreadable` is a ValueError."""
    try:
        read(text)
    except ValueError:
        return False
    return True


class Rankings:
    """Orders the rankings of one file one by one; `problem` and `notes` are about all of them."""

    def __init__(self, options: ReadOptions, reading: ParsedFile) -> None:
        self._options, self._reading = options, reading
        self._n, self._depths = Counter[str](), set[int]()
        self._graded = True

    def ordered(self, ids: Sequence[object], scores: Sequence[object], *, in_object: bool) -> list[object]:
        """Return candidates best first: the score descending, then the id ascending.

        `in_object` says that they are keys of an object, whose order may be that of the ranking.

        Raises:
            Unreadable: a score gives no order.
        """
        settings, sign = self._options.read_settings(), -1 if self._options.scores == "distance" else 1
        numbers = [sign * score_of(each, settings) for each in scores]
        tied, is_long = len(set(numbers)) < len(numbers), in_object and len(numbers) > 2
        self._n.update(all=1, tied=tied, ordered=len(numbers) > 1 and not tied, long=is_long)
        self._n.update(
            text=any(isinstance(each, str) for each in scores),
            rising=is_long and not tied and numbers == sorted(numbers),
        )
        self._graded = self._graded and all(each in GRADES for each in numbers)
        self._depths.add(len(numbers))
        pairs = sorted(zip(numbers, ids, strict=True), key=lambda pair: (-pair[0], _sort_key(pair[1])))
        return [candidate for _, candidate in pairs]

    def problem(self) -> Unreadable | None:
        """Return the error if all rankings together may be judgments or have distances; else None."""
        n, depths = self._n, self._depths
        if n["all"] and self._graded and self._reading.judgments != "no":
            one_depth = len(depths) == 1 and min(depths) >= _LEAST_DEPTH and n["ordered"] == n["all"]
            if not n["ordered"] or self._options.of_stranger:
                return QRELS
            if self._options.scores is None and (not one_depth or self._reading.judgments == "likely"):
                return LIKELY_QRELS
        if self._options.scores is None and n["long"] > 1 and n["rising"] == n["long"]:
            return Unreadable(
                "the scores of every example rise from its first candidate to its last: are they distances?",
                "Choose the order: --scores distance (the lowest is best) or --scores similarity.",
            )
        return None

    def notes(self) -> list[ScoreWarning]:
        """Return the notes on rankings with scores in text, and with ties."""
        n_text, n_tied = 0 if self._reading.only_text else self._n["text"], self._n["tied"]
        message = f"The scores of {n_text:,} rankings are text; they were read as numbers."
        results = [ScoreWarning("scores_as_text", message, severity="note")] if n_text else []
        if n_tied:
            message = f"{n_tied:,} rankings have candidates with equal scores; these are ordered by id."
            remedy = "Give each candidate a score of its own, or order a run by its rank column: --scores rank."
            results.append(ScoreWarning("ties", message, remedy, n_tied))
        return results


def _sort_key(candidate: object) -> tuple[int, Id]:
    """Return the key that orders candidates with equal scores: integers first, as numbers, then texts."""
    return (0, candidate) if isinstance(candidate, int) else (1, str(candidate))


CANDIDATE = (
    "candidate candidate_id doc_id docid docno corpus_id node_id entity_id document_id doc document passage_id pid did "
    "item_id"
).split()
_QUERY = "id query_id qid q_id queryid topic_id topic question_id".split()
_SCORE = ("score", "similarity", "distance", "sim")
_GRADE = "relevance rel label grade judgment judgement gain qrel".split()
"""Names of columns in tables of runs and of qrels, as `column_name` returns them; the first one there is taken."""
_BEIR_QRELS = ["query_id", "corpus_id", "score"]
LOOKED_AT = 1000
"""Rows from which the header of a table without one is guessed."""
_NO_LIST = frozenset("[](){};,| \t\n")
"""Characters that a single candidate does not have."""


def column_name(text: str) -> str:
    """Return the normalized name of a column.

    >>> column_name(" Query-ID "), column_name("Doc ID")
    ('query_id', 'doc_id')
    """
    return text.strip(" \t\ufeff").lower().replace("-", "_").replace(" ", "_")


@dataclass(frozen=True)
class ItemTable:
    """The columns of a table with one item (a triple, a candidate) per row."""

    id: str
    parts: Sequence[str] = ()
    """The parts of an item, in order."""
    candidate: str = ""
    rank: str | None = None
    score: str | None = None
    qrels: bool = False
    """Whether the columns are those of qrels, which some call their scores' too."""

    @classmethod
    def of(
        cls, columns: Sequence[str], kind: AnswerKind, id_path: str | None, single: str | None = None
    ) -> "ItemTable | None":
        """Return the columns of a table by their names; None if the table has another form.

        `single` is the column of whole answers where its first cell is one candidate and no list.

        Raises:
            Unreadable: two columns may hold the candidates.
        """
        lower = {column_name(column): column for column in columns}

        def named(names: Sequence[str]) -> str | None:
            return next((lower[name] for name in names if name in lower), None)

        parts = [named(names) for names in kind.parts]
        if parts and None not in parts and (id_path or "id" in lower):
            return cls(id_path or lower["id"], [part for part in parts if part])
        candidate, query = single or named(CANDIDATE), id_path or named(_QUERY)
        rank, score, grade = named(("rank",)), named(_SCORE), None if single else named(_GRADE)
        if not (kind.ranked and candidate and query and candidate != query and (rank or score or grade)):
            return None
        others = [lower[name] for name in CANDIDATE if name in lower and lower[name] not in (candidate, query)]
        if others and not single:
            message = f"the candidates may be in the column {candidate} or in {others[0]}"
            raise Unreadable(message, "Leave one of them out.", 1)
        qrels = not single and not rank and (not score or [*lower] == _BEIR_QRELS)
        return cls(query, (), candidate, rank, score or (None if rank else grade), qrels)

    def rows(self, name: str, reading: ParsedFile, settings: ReadSettings, field: str) -> Iterator[ParsedRow]:
        """Yield the row of each example, in the order of their first rows."""
        return self._items(reading, field) if self.parts else self._rankings(name, reading, settings, field)

    def _items(self, reading: ParsedFile, field: str) -> Iterator[ParsedRow]:
        """Yield each example with all of its items; a row without any part says that there are none."""
        gathered: dict[object, tuple[int | None, list[object]]] = {}
        for number, row in reading.lines:
            example_id = value_or_none(row, self.id) if isinstance(row, dict) else None
            if not isinstance(row, dict) or not row.keys() & {*self.parts} or isinstance(example_id, dict | list):
                yield ParsedRow(number, row)
                continue
            _, items = gathered.setdefault(example_id, (number, []))
            item = [row.get(part) for part in self.parts]
            if any(each is not None for each in item):
                items.append(item)
        reading.format += f", one item a row ({', '.join(self.parts)})"
        for example_id, (number, items) in gathered.items():
            yield ParsedRow(number, {self.id: example_id, "id": example_id, field: items})

    def _rankings(self, name: str, reading: ParsedFile, settings: ReadSettings, field: str) -> Iterator[ParsedRow]:
        """Yield problems of rows, then each query with its candidates."""
        is_distance = self.score is not None and column_name(self.score) == "distance" and settings.scores is None
        sign, order = (-1, settings._replace(scores="distance")) if is_distance else (1, settings)
        reading.judgments = "no" if self.rank else "likely" if self.qrels else "maybe"
        run = TrecRun(name, settings)
        for number, row in reading.lines:
            if not isinstance(row, dict):
                yield ParsedRow(number, row)
                continue
            try:
                rank = _rank(row.get(self.rank)) if self.rank else None
                score = score_of(row.get(self.score), order) * sign if self.score else None
            except Unreadable as error:
                cells = reading.separator.join("" if cell is None else str(cell) for cell in row.values())[:160]
                yield ParsedRow(number, Problem(name, number, error.message, error.remedy, cells))
                continue
            query, candidate = str(value_or_none(row, self.id)), str(row.get(self.candidate))
            if problem := run.add(query, candidate, rank, score, number or 0):
                yield ParsedRow(number, problem)
        reading.format += f", one candidate a row ({self.candidate})"
        for number, value in run.rows(reading):
            if isinstance(value, dict):
                yield ParsedRow(number, {self.id: value["id"], "id": value["id"], field: value["ids"]})


def hit_fields(row: Mapping[str, object]) -> tuple[str, str, str | None] | None:
    """Return the field of a row that is a list of hits, and their fields of the candidate and the score, if any.

    >>> hit_fields({"qid": "q1", "hits": [{"docid": "d1", "score": 2.5}]})
    ('hits', 'docid', 'score')
    """
    for field, hits in row.items():
        if isinstance(hits, list) and hits and all(isinstance(hit, dict) for hit in hits):
            names = {column_name(name): name for name in hits[0]}
            candidate = next((names[name] for name in (*CANDIDATE, "id", "_id", "pk") if name in names), None)
            if candidate is not None:
                return field, candidate, next((names[name] for name in _SCORE if name in names), None)
    return None


def is_one_candidate(cell: object) -> bool:
    """Return whether the cell of an answer is one candidate and no list."""
    return isinstance(cell, int) or (isinstance(cell, str) and not _NO_LIST & {*cell.strip()})


def _rank(value: object) -> int:
    """Return a rank as a whole number; pandas writes 1.0 where a column lacks some."""
    rank = score_of(value, ReadSettings())
    if not rank.is_integer():
        raise Unreadable(
            f"the rank {value!r} is not a whole number", "Write ranks as 1, 2, 3, or leave the column out."
        )
    return int(rank)


def _counts_up(ranks: Sequence[int | None]) -> bool:
    """Return whether ranks are 1, 2, 3, ... or 0, 1, 2, ..."""
    return ranks in ([*range(1, len(ranks) + 1)], [*range(len(ranks))])


def headed(rows: Sequence[Sequence[str]], known: AbstractSet[str], answer: str) -> Unreadable | None:
    """Return the error for a table whose first line is a row; None if its first cell is no known id.

    The remedy is the header that fits these rows, in which `answer` names the answer where a row holds a whole one.
    Qrels are told from ranks by their values: ranks count up from 1 or 0 in each query.
    """
    body = [[cell.strip() for cell in row] for row in rows if len(row) == len(rows[0])]
    if not body or body[0][0] not in known:
        return None
    queries: dict[str, list[Sequence[str]]] = defaultdict(list)
    for row in body:
        queries[row[0]].append(row)
    several = any(len(of_query) > 1 for of_query in queries.values())
    names, qrels = ["qid"], False
    for column in range(1, len(body[0])):
        values = [row[column] for row in body]
        numbers = [whole_number(value.removeprefix("-")) for value in values]
        by_query = [[whole_number(row[column]) for row in of_query] for of_query in queries.values()]
        if ("docid" not in names and len({*values}) > 1) or len(body) == 1 == column:
            names.append("docid")
        elif "docid" not in names:
            names.append(f"column{column}")
        elif "rank" not in names and several and all(map(_counts_up, by_query)):
            names.append("rank")
        elif not {"score", "rank"} & {*names} and None not in numbers and {*map(int, values)} <= {*GRADES}:
            names.append("score")
            qrels = True
        elif "score" not in names and all(_passes(partial(score_of, settings=ReadSettings()), each) for each in values):
            names.append("score")
        else:
            names.append(f"column{column}")
    if qrels:
        return QRELS
    if not several and len(body[0]) == 2:
        names = ["id", answer]
    remedy = "Give each candidate its rank, under a line of names: qid,docid,rank."
    if {"rank", "score"} & {*names} or names[0] == "id":
        remedy = f"Begin it with a line of names: {','.join(names)}."
    return Unreadable("the first line holds an id: the table has no header", remedy, 1)
