"""TREC runs, as trec_eval reads them: `query Q0 candidate rank score tag`, split at any white space."""

import math
import sys
from collections.abc import Callable, Iterator

from kbbench_hf.files.packing import HEAD, Opened
from kbbench_hf.files.rows import How, Line, Note, Problem, Reading, Unreadable
from kbbench_hf.files.texts import text_lines

_LOOKED_AT = 50
SEND_RUN = "Send the run: lines of 'query Q0 candidate rank score tag', or JSON Lines."
QRELS = Unreadable("these are qrels: judgements (gold), no run", SEND_RUN)
LIKELY_QRELS = Unreadable(
    "all scores are small whole numbers, as in qrels: judgements (gold), no run",
    f"{SEND_RUN} If this is the run: --scores similarity.",
)
"""Where some candidates are ordered by these numbers, so that they may be the scores of a run."""


def recognises(head: bytes) -> bool:
    """Say whether the first lines of a text, but for a header, are those of a run."""
    return _all(head, _is_of_run)


def are_qrels(head: bytes) -> bool:
    """Say whether the first lines of a text are those of qrels: `query iteration candidate relevance`.

    The iteration is one constant, 0 or Q0: in `query candidate rank score` the second column changes.
    """
    body = _body(head, _is_judgement)
    return bool(body) and all(map(_is_judgement, body)) and (len(body) == 1 or len({cells[1] for cells in body}) == 1)


def _is_judgement(cells: list[str]) -> bool:
    return len(cells) == 4 and (_is_whole(cells[1]) or cells[1].upper() == "Q0") and _is_whole(cells[3])


def _all(head: bytes, holds: Callable[[list[str]], bool]) -> bool:
    body = _body(head, holds)
    return bool(body) and all(map(holds, body))


def _body(head: bytes, holds: Callable[[list[str]], bool]) -> list[list[str]]:
    """Return the cells of the first lines, without a first line for which `holds` is false."""
    lines = head.decode("utf-8", "replace").split("\n")
    if len(head) >= HEAD:
        lines = lines[:-1]
    rows = [line.split() for line in lines[:_LOOKED_AT] if line.strip()]
    return rows[1:] if len(rows) > 1 and not holds(rows[0]) else rows


def _is_of_run(cells: list[str]) -> bool:
    return len(cells) in (5, 6) and _is_whole(cells[3]) and _number(cells[4]) is not None


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) <= sys.get_int_max_str_digits()


def score_of(value: object, how: How) -> float:
    """Return a score as a number to sort by; text is read, and an infinite score is valid where it sorts last.

    >>> score_of(" 0.75 ", How()), score_of(float("-inf"), How())
    (0.75, -inf)

    Raises:
        Unreadable: it gives no order.
    """
    number = value if isinstance(value, float) else None if isinstance(value, bool) else _number(str(value))
    if number is None:
        remedy = "Write scores as numbers with a point, such as 0.75."
        raise Unreadable(f"the score {value!r} is not a finite number", remedy)
    if math.isnan(number):
        remedy = "Write a score worse than all others where the candidate is last."
        raise Unreadable("the score NaN is not a finite number, and gives no order", remedy)
    if math.isinf(number) and (number > 0) != (how.scores == "distance"):
        remedy = "Write the score that was meant; where the candidate is last, one worse than all others."
        raise Unreadable(f"the score {value} is not a finite number, and would be first", remedy)
    return number


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read(opened: Opened, how: How) -> Reading:
    """Return one row per query: its `ids`, candidate -> score, to be ranked by score."""
    reading = Reading("a TREC run", iter(()), only_text=True, judgements="no")
    reading.lines = _rows(opened, how, reading)
    return reading


def read_qrels(opened: Opened, how: How) -> Reading:
    """Refuse judgements in the place of a run."""
    raise QRELS


def _rows(opened: Opened, how: How, reading: Reading) -> Iterator[Line]:
    run = Run(opened.name, how)
    for number, line in enumerate(text_lines(opened), start=1):
        cells = line.split()
        if not cells or (number == 1 and not _is_of_run(cells) and "rank" in map(str.lower, cells)):
            continue
        score = _number(cells[4]) if _is_of_run(cells) else None
        if score is None:
            message = "no line of a TREC run: query Q0 candidate rank score tag"
            yield Line(number, Problem(opened.name, number, message, shown=line.strip()[:160]))
            continue
        try:
            problem = run.add(cells[0], cells[2], int(cells[3]), score_of(score, how), number)
        except Unreadable as error:
            problem = Problem(opened.name, number, error.message, error.remedy, line.strip()[:160])
        if problem:
            yield Line(number, problem)
    yield from run.rows(reading)


class Run:
    """Candidates with scores or ranks, one at a time, gathered by query."""

    def __init__(self, file: str, how: How) -> None:
        self._file, self._how = file, how
        self._found: dict[str, dict[str, tuple[int | None, float | None, int]]] = {}

    def add(self, query: str, candidate: str, rank: int | None, score: float | None, line: int) -> Problem | None:
        """Take one candidate; return what is wrong where the query has it already."""
        of_query = self._found.setdefault(query, {})
        if candidate in of_query:
            return Problem(
                self._file,
                line,
                f"candidate {candidate} occurs twice for query {query}, first at line {of_query[candidate][2]}",
                "A run has each candidate once per query: remove one of the two.",
            )
        of_query[candidate] = (rank, score, line)
        return None

    def rows(self, reading: Reading) -> Iterator[Line]:
        """Yield the row of each query, and note in the reading what is odd.

        Raises:
            Unreadable: scores and ranks give two orders, of which neither is plainly right.
        """
        by_rank = self._how.scores == "rank" or any(
            score is None for of_query in self._found.values() for _, score, _ in of_query.values()
        )
        if not by_rank and self._how.scores is None:
            self._check_order(reading)
        for query, of_query in self._found.items():
            line = next(iter(of_query.values()))[2]
            ranks = {rank for rank, _, _ in of_query.values()}
            if by_rank and (None in ranks or len(ranks) < len(of_query)):
                raise Unreadable(
                    f"query {query} has no rank of its own for each candidate",
                    "Order the run by its scores: --scores similarity, or --scores distance.",
                    line,
                )
            if by_rank:
                ids: object = sorted(of_query, key=lambda candidate: of_query[candidate][0] or 0)
            else:
                ids = {candidate: score for candidate, (_, score, _) in of_query.items()}
            yield Line(line, {"id": query, "ids": ids})

    def _check_order(self, reading: Reading) -> None:
        falling = rising = other = level = 0
        for of_query in self._found.values():
            ranks = [rank for rank, _, _ in of_query.values()]
            if len(ranks) < 2 or None in ranks or len(set(ranks)) < len(ranks):
                continue
            scores = [score or 0.0 for _, score, _ in sorted(of_query.values(), key=lambda each: each[0] or 0)]
            if len(set(scores)) == 1:
                level += 1
            elif scores == sorted(scores, reverse=True):
                falling += 1
            elif scores == sorted(scores):
                rising += 1
            else:
                other += 1
        if rising and not falling:
            raise Unreadable(
                "the scores rise with the rank: are they distances, or is the rank column upside down?",
                "Choose the order: --scores distance (the lowest score is best) or --scores similarity.",
            )
        if level and not falling + other:
            raise Unreadable(
                "all scores of a query are equal (tied), while the ranks differ",
                "Choose the order: --scores rank (by the rank column) or --scores similarity (ties by candidate).",
            )
        if rising + other:
            reading.notes.append(
                Note(
                    "ranks_disagree",
                    f"In {rising + other:,} of {len(self._found):,} queries the rank column and the scores give two "
                    "orders; the run was ordered by score, as trec_eval does.",
                    "If the rank column is right: --scores rank.",
                    rising + other,
                )
            )
