"""Tables with one item of an answer a row, a triple or a candidate: their rows gathered by example."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbbench_hf.benchmarks.answers import AnswerKind
from kbbench_hf.files.rows import How, Line, Problem, Reading, Unreadable, at
from kbbench_hf.files.trec import Run

_CANDIDATE = ("candidate", "candidate_id", "doc_id", "docid", "docno", "corpus-id", "corpus_id", "node_id", "entity_id")
_QUERY = ("id", "query-id", "query_id", "qid", "q_id")
_SCORE = ("score", "similarity", "distance")
"""What tables of runs call their columns; the first that is there counts."""


@dataclass(frozen=True)
class ItemTable:
    """The columns of such a table."""

    id: str
    parts: Sequence[str] = ()
    """The parts of an item, in order."""
    candidate: str = ""
    rank: str | None = None
    score: str | None = None

    @classmethod
    def of(cls, columns: Sequence[str], kind: AnswerKind, id_path: str | None) -> "ItemTable | None":
        """Return what columns of a table are, or None where it is none of this form.

        Raises:
            Unreadable: two columns may hold the candidates.
        """
        lower = {column.lower(): column for column in columns}

        def named(names: Sequence[str]) -> str | None:
            return next((lower[name] for name in names if name in lower), None)

        parts = [named(names) for names in kind.parts]
        if parts and None not in parts and (id_path or "id" in columns):
            return cls(id_path or "id", [part for part in parts if part])
        candidate, query = named(_CANDIDATE), id_path or named(_QUERY)
        others = [lower[name] for name in _CANDIDATE if name in lower and lower[name] not in (candidate, query)]
        if kind.ranked and others and candidate and query and named(("rank", *_SCORE)):
            raise Unreadable(
                f"the candidates may stand in the column {candidate} or in {others[0]}", "Leave one of them out.", 1
            )
        if kind.ranked and candidate and query and candidate != query and named(("rank", *_SCORE)):
            return cls(query, (), candidate, named(("rank",)), named(_SCORE))
        return None

    def rows(self, name: str, reading: Reading, how: How, field: str) -> Iterator[Line]:
        """Yield the row of each example, in the order of their first rows."""
        return self._items(reading, field) if self.parts else self._rankings(name, reading, how, field)

    def _items(self, reading: Reading, field: str) -> Iterator[Line]:
        """Yield each example with all of its items; a row without any part says that there are none."""
        gathered: dict[object, tuple[int | None, list[object]]] = {}
        for number, row in reading.lines:
            if not isinstance(row, dict) or not row.keys() & {*self.parts}:
                yield Line(number, row)
                continue
            _, items = gathered.setdefault(_at(row, self.id), (number, []))
            item = [row.get(part) for part in self.parts]
            if any(each is not None for each in item):
                items.append(item)
        reading.words += f", one item a row ({', '.join(self.parts)})"
        for example_id, (number, items) in gathered.items():
            yield Line(number, {self.id: example_id, "id": example_id, field: items})

    def _rankings(self, name: str, reading: Reading, how: How, field: str) -> Iterator[Line]:
        sign = -1 if self.score and self.score.lower() == "distance" and how.scores is None else 1
        run = Run(name, how)
        for number, row in reading.lines:
            if not isinstance(row, dict):
                yield Line(number, row)
                continue
            try:
                rank = int(str(row[self.rank])) if self.rank else None
                score = float(str(row[self.score])) * sign if self.score else None
            except ValueError as error:
                yield Line(number, Problem(name, number, f"no number: {error}", "Write numbers with a point."))
                continue
            found = run.add(str(_at(row, self.id)), str(row[self.candidate]), rank, score, number or 0)
            if found:
                yield Line(number, found)
        reading.words += f", one candidate a row ({self.candidate})"
        for number, value in run.rows(reading):
            if isinstance(value, dict):
                yield Line(number, {self.id: value["id"], "id": value["id"], field: value["ids"]})


def _at(row: dict[str, object], path: str) -> object:
    try:
        return at(row, path)
    except KeyError:
        return None
