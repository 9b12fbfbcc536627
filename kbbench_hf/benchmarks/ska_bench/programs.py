"""Answer programs: what makes an answer right, in a form that can be executed again on any set of units.

A program is a JSON object with a `type`: one of those on table rows (`table_programs`) or on triples
(`graph_programs`). Conditions are stored in normal form.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbbench_hf.benchmarks.ska_bench import graph_programs, table_programs
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.answers import wtq_normal, wtq_number

Program = Mapping[str, Any]
Cells = Sequence[str]


def execute(program: Program, units: Iterable[Cells]) -> list[str]:
    """Return the answers of a program on table rows or triples; an empty list where it has none.

    >>> execute({"type": "count", "where": [[1, "oslo"]]}, [["Ann", "Oslo"], ["Bo", "Lund"]])
    ['1']

    Raises:
        DataError: the program's type is unknown.
    """
    kind = program.get("type")
    if kind in table_programs.TYPES:
        return table_programs.execute(program, units)
    if kind in graph_programs.TYPES:
        return graph_programs.execute(program, units)
    known = ", ".join(sorted(table_programs.TYPES | graph_programs.TYPES))
    raise DataError(f"Unknown answer program {kind!r}; expected one of {known}. Correct the instance's 'program'.")


def same_answers(answers: Sequence[str], gold: Sequence[str]) -> bool:
    """Say whether two answer lists are equal: equal sets of normal forms, or both one and the same number.

    >>> same_answers(["12,467"], ["12467"]), same_answers([], ["12467"])
    (True, False)
    """
    if {wtq_normal(answer) for answer in answers} == {wtq_normal(answer) for answer in gold}:
        return True
    if len(answers) != 1 or len(gold) != 1:
        return False
    number, wanted = wtq_number(answers[0]), wtq_number(gold[0])
    return number is not None and wanted is not None and math.isclose(number, wanted, rel_tol=1e-12)
