"""CSV in which no cell is a formula."""

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(heads: Sequence[str], lines: Iterable[Sequence[str | float | Decimal]]) -> str:
    r"""Return lines as CSV; a text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> csv_text(["system", "difference"], [["=1+1", -0.5]])
    "system,difference\n'=1+1,-0.5\n"
    """
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(
        [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in line] for line in lines
    )
    return sink.getvalue()
