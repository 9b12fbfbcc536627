"""Importer of TREC runs (trec_eval), and reader of relevance judgments (qrels) with grades: TREC, BEIR, csv.

`formats`, tables of one candidate a row and builders use it. A run is ordered as trec_eval orders it, by score; where
ranks and scores disagree, a note says so. Judgments must never be scored as a run: they are the gold.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from kbbench_hf.files.packing import HEAD, OpenedFile, text_lines
from kbbench_hf.files.rows import Note, ParsedFile, ParsedRow, Problem, ReadSettings, Unreadable
from kbbench_hf.files.table_files import file_errors, open_text

_N_LINES = 50
"""Lines from which the format is detected."""
SEND_RUN = "Send the run: lines of 'query Q0 candidate rank score tag', or JSON Lines."
QRELS = Unreadable("these are qrels: judgements (gold), no run", SEND_RUN)
LIKELY_QRELS = Unreadable(
    "all scores are small whole numbers, as in qrels: judgements (gold), no run",
    f"{SEND_RUN} If this is the run: --scores similarity.",
)
"""For runs whose scores may be relevance grades, or not."""


def is_trec_run(head: bytes) -> bool:
    """Return whether the first lines of a text, except a header, are those of a run."""
    body = _split_body(head, _is_run_line)
    return bool(body) and all(map(_is_run_line, body))


def is_qrels(head: bytes) -> bool:
    """Return whether the first lines of a text are those of qrels: `query iteration candidate relevance`.

    The iteration is one constant, 0 or Q0: in `query candidate rank score` the second column changes.
    """
    body = _split_body(head, _is_judgment)
    return bool(body) and all(map(_is_judgment, body)) and len({cells[1] for cells in body}) == 1


def _is_judgment(cells: list[str]) -> bool:
    """Return whether the cells of a line are those of qrels."""
    return len(cells) == 4 and (_is_whole(cells[1]) or cells[1].upper() == "Q0") and _is_whole(cells[3])


def _split_body(head: bytes, is_row: Callable[[list[str]], bool]) -> list[list[str]]:
    """Return the cells of the first lines, without a header."""
    lines = head.decode("utf-8", "replace").split("\n")
    if len(head) >= HEAD:
        lines = lines[:-1]
    rows = [line.split() for line in lines[:_N_LINES] if line.strip()]
    return rows[1:] if len(rows) > 1 and not is_row(rows[0]) else rows


def _is_run_line(cells: list[str]) -> bool:
    """Return whether the cells of a line are `query Q0 candidate rank score`, perhaps with a tag."""
    return len(cells) in (5, 6) and _is_whole(cells[3]) and _number(cells[4]) is not None


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) <= sys.get_int_max_str_digits()


def score_of(value: object, settings: ReadSettings) -> float:
    """Return a score as a number to sort by; text is parsed, and an infinite score is valid where it sorts last.

    >>> score_of(" 0.75 ", ReadSettings()), score_of(float("-inf"), ReadSettings())
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
    if math.isinf(number) and (number > 0) != (settings.scores == "distance"):
        remedy = "Write the score that was meant; where the candidate is last, one worse than all others."
        raise Unreadable(f"the score {value} is not a finite number, and would be first", remedy)
    return number


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def parse_trec_run(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return one row per query, with `id` and `ids`: candidate -> score, or candidates in order of rank."""
    parsed = ParsedFile("a TREC run", iter(()), only_text=True, judgments="no")
    parsed.lines = _rows(opened, settings, parsed)
    return parsed


def refuse_qrels(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Raise `Unreadable`: the file has judgments, and no run."""
    raise QRELS


def _rows(opened: OpenedFile, settings: ReadSettings, parsed: ParsedFile) -> Iterator[ParsedRow]:
    """Yield the problems of a run's lines, then the row of each query."""
    run = TrecRun(opened.name, settings)
    for number, line in enumerate(text_lines(opened), start=1):
        cells = line.split()
        if not cells or (number == 1 and not _is_run_line(cells) and "rank" in map(str.lower, cells)):
            continue
        score = _number(cells[4]) if _is_run_line(cells) else None
        if score is None:
            message = "no line of a TREC run: query Q0 candidate rank score tag"
            yield ParsedRow(number, Problem(opened.name, number, message, shown=line.strip()[:160]))
            continue
        try:
            problem = run.add(cells[0], cells[2], int(cells[3]), score_of(score, settings), number)
        except Unreadable as error:
            problem = Problem(opened.name, number, error.message, error.remedy, line.strip()[:160])
        if problem:
            yield ParsedRow(number, problem)
    yield from run.rows(parsed)


class TrecRun:
    """Builder of a run: candidates with scores or ranks, grouped by query in the order of the first lines."""

    def __init__(self, file: str, settings: ReadSettings) -> None:
        self._file, self._settings = file, settings
        self._queries: dict[str, dict[str, tuple[int | None, float | None, int]]] = {}

    def add(self, query: str, candidate: str, rank: int | None, score: float | None, line: int) -> Problem | None:
        """Add one candidate; return the problem where the query has it already."""
        of_query = self._queries.setdefault(query, {})
        if candidate in of_query:
            message = f"candidate {candidate} occurs twice for query {query}, first at line {of_query[candidate][2]}"
            remedy = "A run has each candidate once per query: remove one of the two."
            return Problem(self._file, line, message, remedy)
        of_query[candidate] = (rank, score, line)
        return None

    def rows(self, parsed: ParsedFile) -> Iterator[ParsedRow]:
        """Yield the row of each query, and add notes to `parsed`.

        Raises:
            Unreadable: scores and ranks give two orders, and neither is clearly right.
        """
        scores = (score for of_query in self._queries.values() for _, score, _ in of_query.values())
        by_rank = self._settings.scores == "rank" or None in scores
        if not by_rank and self._settings.scores is None:
            self._check_order(parsed)
        for query, of_query in self._queries.items():
            line = next(iter(of_query.values()))[2]
            ranks = {rank for rank, _, _ in of_query.values()}
            if by_rank and (None in ranks or len(ranks) < len(of_query)):
                remedy = "Order the run by its scores: --scores similarity, or --scores distance."
                raise Unreadable(f"query {query} has no rank of its own for each candidate", remedy, line)
            if by_rank:
                ids: object = sorted(of_query, key=lambda candidate: of_query[candidate][0] or 0)
            else:
                ids = {candidate: score for candidate, (_, score, _) in of_query.items()}
            yield ParsedRow(line, {"id": query, "ids": ids})

    def _check_order(self, parsed: ParsedFile) -> None:
        """Compare the orders by score and by rank in the queries that have both; add a note if some differ.

        Raises:
            Unreadable: scores rise with the rank in some of them and fall in none, or are equal in all of them.
        """
        orders: Counter[tuple[bool, bool]] = Counter()
        for candidates in self._queries.values():
            ranks = {rank for rank, _, _ in candidates.values()}
            if len(ranks) < 2 or None in ranks or len(ranks) < len(candidates):
                continue
            scores = [score or 0.0 for _, score, _ in sorted(candidates.values(), key=lambda each: each[0] or 0)]
            is_falling, is_rising = scores == sorted(scores, reverse=True), scores == sorted(scores)
            orders[is_falling, is_rising] += 1
        falling, rising = orders[True, False], orders[False, True]
        other, level = orders[False, False], orders[True, True]
        if rising and not falling:
            message = "the scores rise with the rank: are they distances, or is the rank column upside down?"
            remedy = "Choose the order: --scores distance (the lowest score is best) or --scores similarity."
            raise Unreadable(message, remedy)
        if level and not falling + other:
            remedy = "Choose the order: --scores rank (by the rank column) or --scores similarity (ties by candidate)."
            raise Unreadable("all scores of a query are equal (tied), while the ranks differ", remedy)
        if rising + other:
            message = f"In {rising + other:,} of {len(self._queries):,} queries the rank column and the scores give "
            message += "two orders; the run was ordered by score, as trec_eval does."
            remedy = "If the rank column is right: --scores rank."
            parsed.notes.append(Note("ranks_disagree", message, remedy, rising + other))


_WHOLE = re.compile(r"-?\d{1,9}(\.0+)?")
Judgments = dict[str, dict[str, int]]
"""Query -> candidate -> grade of relevance."""


def read_qrels(path: Path, encoding: str = "") -> Judgments:
    """Return the judgments in a file: TREC's four columns, or three under a header or none (BEIR, csv).

    Raises:
        DataError: a line is no judgment, or contradicts an earlier one.
    """
    judged: Judgments = {}
    with file_errors(path, "lines of query, 0, candidate, relevance"), closing(open_text(path, encoding)) as opened:
        for number, line in enumerate(text_lines(opened), start=1):
            separator = next((each for each in ("\t", ",", ";") if each in line), None)
            cells = [cell.strip(' "') for cell in line.strip().split(separator)]
            is_whole = _WHOLE.fullmatch(cells[-1]) is not None
            if not line.strip() or (number == 1 and not is_whole and len(cells) in (3, 4)):
                continue
            if len(cells) not in (3, 4) or not is_whole:
                remedy = "Write whole grades, such as: q1 0 d7 2"
                raise Unreadable(f"{line.strip()[:80]!r} is not a judgment", remedy, number)
            query, candidate, grade = cells[0], cells[-2], int(float(cells[-1]))
            if judged.setdefault(query, {}).setdefault(candidate, grade) != grade:
                raise Unreadable(f"{candidate!r} has two grades for query {query!r}", "Keep one.", number)
    return judged
