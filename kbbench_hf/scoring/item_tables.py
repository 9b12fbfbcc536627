"""Tables with one item of an answer a row, a triple or a candidate; rankings given as candidate -> score.

The rows of a table are gathered by example. Rankings are sorted, and checked for qrels, distances and ties.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from kbbench_hf.benchmarks.answers import AnswerKind
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.list_text import whole_number
from kbbench_hf.files.rows import ParsedFile, ParsedRow, Problem, ReadSettings, Unreadable, value_or_none
from kbbench_hf.files.trec import LIKELY_QRELS, QRELS, TrecRun, score_of
from kbbench_hf.scoring.options import ReadOptions

GRADES = range(-2, 5)
"""The grades of relevance that qrels have; those below 0 are spam and unjudged."""
_LEAST_DEPTH = 3
"""Rankings of one depth, this one at least, in which no two scores are equal are a run, whatever the scores."""


def are_scores(answer: Mapping[str, object]) -> bool:
    """Say whether an object may be candidate -> score: all values are single ones, and some can be a number.

    >>> are_scores({"d1": "0.9", "d2": None}), are_scores({"d1": "text"}), are_scores({"d1": [1]})
    (True, False, False)
    """
    if any(isinstance(each, bool | list | dict) for each in answer.values()):
        return False
    texts = [each.replace(",", ".") for each in answer.values() if isinstance(each, str)]  # a comma is refused later
    return len(texts) < len(answer) or not answer or any(_passes(float, each) for each in texts)


def _passes(read: Callable[[str], object], text: str) -> bool:
    """Say whether a text can be read; `Unreadable` is a ValueError."""
    try:
        read(text)
    except ValueError:
        return False
    return True


class Rankings:
    """The rankings of one file, put in order one by one; `problem` and `notes` are of all of them."""

    def __init__(self, options: ReadOptions, reading: ParsedFile) -> None:
        self._options, self._reading = options, reading
        self._n = self._n_tied = self._n_ordered = self._n_long = self._n_rising = self._n_text = 0
        self._graded = True
        self._depths = set[int]()

    def ordered(self, ids: Sequence[object], scores: Sequence[object], *, in_object: bool) -> list[object]:
        """Return candidates best first: the score descending, then the id ascending.

        `in_object` says that they stand under keys, in an order that may be that of the ranking.

        Raises:
            Unreadable: a score gives no order.
        """
        read_settings = self._options.read_settings()
        numbers = [score_of(each, read_settings) for each in scores]
        self._n_text += any(isinstance(each, str) for each in scores)
        if self._options.scores == "distance":
            numbers = [-each for each in numbers]
        tied = len(set(numbers)) < len(numbers)
        self._n += 1
        self._n_tied += tied
        self._n_ordered += len(numbers) > 1 and not tied
        self._graded = self._graded and all(each in GRADES for each in numbers)
        self._depths.add(len(numbers))
        if in_object and len(numbers) > 2:
            self._n_long += 1
            self._n_rising += not tied and numbers == sorted(numbers)
        pairs = sorted(zip(numbers, ids, strict=True), key=lambda pair: (-pair[0], _sort_key(pair[1])))
        return [candidate for _, candidate in pairs]

    def problem(self) -> Unreadable | None:
        """Return what all rankings together may be instead: judgements, or distances."""
        if self._n and self._graded and self._reading.judgments != "no":
            one_depth = len(self._depths) == 1 and min(self._depths) >= _LEAST_DEPTH and self._n_ordered == self._n
            if not self._n_ordered or self._options.of_stranger:
                return QRELS
            if self._options.scores is None and (not one_depth or self._reading.judgments == "likely"):
                return LIKELY_QRELS
        if self._options.scores is None and self._n_long > 1 and self._n_rising == self._n_long:
            return Unreadable(
                "the scores of every example rise from its first candidate to its last: are they distances?",
                "Choose the order: --scores distance (the lowest is best) or --scores similarity.",
            )
        return None

    def notes(self) -> list[ScoreWarning]:
        """Return how many rankings have scores in text, and how many have ties."""
        results = []
        if self._n_text and not self._reading.only_text:
            message = f"The scores of {self._n_text:,} rankings are text; they were read as numbers."
            results.append(ScoreWarning("scores_as_text", message, severity="note"))
        if self._n_tied:
            message = f"{self._n_tied:,} rankings have candidates with equal scores; these are ordered by id."
            remedy = "Give each candidate a score of its own, or order a run by its rank column: --scores rank."
            results.append(ScoreWarning("ties", message, remedy, self._n_tied))
        return results


def _sort_key(candidate: object) -> tuple[int, Id]:
    return (0, candidate) if isinstance(candidate, int) else (1, str(candidate))


CANDIDATE = (
    "candidate candidate_id doc_id docid docno corpus_id node_id entity_id document_id doc document passage_id pid did "
    "item_id"
).split()
_QUERY = "id query_id qid q_id queryid topic_id topic question_id".split()
_SCORE = ("score", "similarity", "distance", "sim")
_GRADE = "relevance rel label grade judgment judgement gain qrel".split()
"""What tables of runs and of qrels call their columns, hyphens and blanks aside; the first that is there counts."""
_BEIR_QRELS = ["query_id", "corpus_id", "score"]
LOOKED_AT = 1000
"""So many rows tell what the columns of a table without a header are."""
_NO_LIST = frozenset("[](){};,| \t\n")
"""What a candidate alone has not in it."""


def column_name(text: str) -> str:
    """Return the name of a column as it is looked up.

    >>> column_name(" Query-ID "), column_name("Doc ID")
    ('query_id', 'doc_id')
    """
    return text.strip(" \t\ufeff").lower().replace("-", "_").replace(" ", "_")


@dataclass(frozen=True)
class ItemTable:
    """The columns of such a table."""

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
        """Return what columns of a table are, or None where it is none of this form.

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
            if not isinstance(row, dict) or not row.keys() & {*self.parts}:
                yield ParsedRow(number, row)
                continue
            _, items = gathered.setdefault(value_or_none(row, self.id), (number, []))
            item = [row.get(part) for part in self.parts]
            if any(each is not None for each in item):
                items.append(item)
        reading.format += f", one item a row ({', '.join(self.parts)})"
        for example_id, (number, items) in gathered.items():
            yield ParsedRow(number, {self.id: example_id, "id": example_id, field: items})

    def _rankings(self, name: str, reading: ParsedFile, settings: ReadSettings, field: str) -> Iterator[ParsedRow]:
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
            problem = run.add(str(value_or_none(row, self.id)), str(row.get(self.candidate)), rank, score, number or 0)
            if problem:
                yield ParsedRow(number, problem)
        reading.format += f", one candidate a row ({self.candidate})"
        for number, value in run.rows(reading):
            if isinstance(value, dict):
                yield ParsedRow(number, {self.id: value["id"], "id": value["id"], field: value["ids"]})


def hit_fields(row: Mapping[str, object]) -> tuple[str, str, str | None] | None:
    """Return the field of a row that is a list of hits, and what these call the candidate and, if at all, its score.

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
    """Say whether the cell of an answer is one candidate and no list."""
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
    """Say whether ranks are 1, 2, 3, ... or 0, 1, 2, ..."""
    return ranks in ([*range(1, len(ranks) + 1)], [*range(len(ranks))])


def headed(rows: Sequence[Sequence[str]], known: AbstractSet[str], answer: str) -> Unreadable | None:
    """Return what is wrong with a table whose first line is a row; None where its first cell is no known id.

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
