"""Reader of relevance judgments (qrels) with grades: TREC, BEIR, csv."""

import re
from contextlib import closing
from pathlib import Path

from kbbench_hf.files.rows import Unreadable
from kbbench_hf.files.table_files import file_errors, open_text
from kbbench_hf.files.texts import text_lines

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
