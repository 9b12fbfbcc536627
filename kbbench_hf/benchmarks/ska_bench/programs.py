"""Answer programs: what makes an answer right, in a form that can be executed again on any set of units.

A program is a JSON object with a `type`. On table rows: `lookup`, `lookup2` (the `select` cells of the rows that match
`where`), `count` (their number), `diff` and `compare` (the numbers in column `by` of the two rows whose `key` cell is
one of `values`). On triples: `follow` (a list of relations from each topic entity), `intersect` (the same, results
intersected), `conj` (the entities that have both (r1, o1) and (r2, o2)). Conditions are stored in normal form.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbbench_hf.errors import DataError
from kbbench_hf.metrics.answers import wtq_normal, wtq_number

Program = Mapping[str, Any]
Cells = Sequence[str]
TABLE_PROGRAMS = frozenset({"lookup", "lookup2", "count", "diff", "compare"})
GRAPH_PROGRAMS = frozenset({"follow", "intersect", "conj"})


def conditions(program: Program) -> list[tuple[int, str]]:
    """Return the (column, normal form) pairs that decide which rows a table program reads.

    >>> conditions({"type": "diff", "key": 0, "by": 2, "values": ["a", "b"]})
    [(0, 'a'), (0, 'b')]
    """
    if "where" in program:
        return [(column, value) for column, value in program["where"]]
    return [(program["key"], value) for value in program["values"]]


def reads(program: Program, row: Cells) -> bool:
    """Say whether a table program's answer can depend on this row: whether it meets the conditions.

    >>> reads({"type": "lookup2", "where": [[0, "1993"], [1, "orlando"]], "select": 2}, ["1993", "Tampa", "9"])
    False
    """
    test = all if "where" in program else any
    return test(wtq_normal(row[column]) == value for column, value in conditions(program))


def execute(program: Program, units: Iterable[Cells]) -> list[str]:
    """Return the answers of a program on table rows or triples; an empty list where it has none.

    `diff` and `compare` have an answer only where each of their two values has exactly one row with a number.

    >>> rows = [["Stade Toulousain", "19"], ["CA Brive", "10"]]
    >>> execute({"type": "diff", "key": 0, "by": 1, "values": ["stade toulousain", "ca brive"]}, rows)
    ['9']
    >>> execute({"type": "follow", "topics": ["Ann"], "relations": [["child", "sex"]]},
    ...         [["Ann", "child", "Bea"], ["Bea", "sex", "female"]])
    ['female']

    Raises:
        DataError: the program's type is unknown.
    """
    kind = program.get("type")
    if kind in TABLE_PROGRAMS:
        return _execute_on_rows(program, [row for row in units if reads(program, row)])
    if kind in GRAPH_PROGRAMS:
        return sorted(_execute_on_triples(program, units))
    known = ", ".join(sorted(TABLE_PROGRAMS | GRAPH_PROGRAMS))
    raise DataError(f"Unknown answer program {kind!r}; expected one of {known}. Correct the instance's 'program'.")


def _execute_on_rows(program: Program, rows: list[Cells]) -> list[str]:
    match program["type"]:
        case "lookup" | "lookup2":
            return list(dict.fromkeys(row[program["select"]] for row in rows))
        case "count":
            return [str(len(rows))]
    found: list[tuple[float, str]] = []
    for value in program["values"]:
        matching = [row for row in rows if wtq_normal(row[program["key"]]) == value]
        number = wtq_number(matching[0][program["by"]]) if len(matching) == 1 else None
        if number is None:
            return []
        found.append((number, matching[0][program["key"]]))
    if program["type"] == "diff":
        return [f"{abs(found[0][0] - found[1][0]):.12g}"]
    if found[0][0] == found[1][0]:
        return []
    return [(max if program["op"] == "argmax2" else min)(found)[1]]


def _execute_on_triples(program: Program, triples: Iterable[Cells]) -> set[str]:
    if program["type"] == "conj":
        subjects: dict[tuple[str, str], set[str]] = {
            (program[r], program[o]): set() for r, o in (("r1", "o1"), ("r2", "o2"))
        }
        for head, relation, tail in triples:
            if (relation, tail) in subjects:
                subjects[relation, tail].add(head)
        return set.intersection(*subjects.values())
    tails: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    followed = {relation for relations in program["relations"] for relation in relations}
    for head, relation, tail in triples:
        if relation in followed:
            tails[head, relation].add(tail)
    reached = []
    for topic, relations in zip(program["topics"], program["relations"], strict=True):
        entities = {topic}
        for relation in relations:
            entities = {tail for entity in entities for tail in tails.get((entity, relation), ())}
        reached.append(entities)
    return set.intersection(*reached) if program["type"] == "intersect" else set.union(*reached)


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
