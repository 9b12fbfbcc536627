"""Rows with one cell emptied, which take the place of real ones in the rejection twins of a table.

Where the cell that an answer is read from is empty, the question cannot be answered, though all its words are there.
"""

from collections.abc import Sequence
from dataclasses import replace

from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.table_programs import TYPES, execute, reads
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Origin, Release

TOTALS = frozenset({"count", "sum"})
"""Programs that find another answer, and not none, where a row lacks a cell: their questions have no twins."""


def group_of(instance: Instance) -> str:
    """Return the name of an instance's group of emptied rows, the last of its `noise_groups` where it has one."""
    return f"{instance.id}#emptied"


def with_emptied_rows(release: Release) -> Release:
    """Return a release whose `table` instances have, after all other rows, their own rows with a cell emptied.

    It is the cell of one column: the first without which the program reads the positives and finds nothing.
    """
    if "table" not in release.pools:
        return release
    pool, instances = release.pools["table"], list(release.instances)
    sk, origins = dict(pool.sk), dict(pool.origins)
    for place, instance in enumerate(instances):
        program = instance.program
        if instance.subset != "table" or not program or program["type"] not in TYPES - TOTALS:
            continue
        rows, group = pool.sk[instance.group], group_of(instance)
        column = _answer_column(program, [rows[number] for number in instance.positive_sk])
        if column is not None:
            own = pool.origins.get(instance.group, Origin("", ""))
            sk[group], origins[group] = [emptied(row, column) for row in rows], own._replace(made=True)
            instances[place] = replace(instance, noise_groups=(*instance.noise_groups, group))
    return Release(instances, {**release.pools, "table": replace(pool, sk=sk, origins=origins)})


def emptied(row: Cells, column: int) -> Cells:
    """Return a row with one cell empty.

    >>> emptied(("Ann", "12"), 1)
    ('Ann', '')
    """
    return (*row[:column], "", *row[column + 1 :])


def finds(program: Program, rows: Sequence[Cells]) -> bool:
    """Say whether a program finds anything in these rows but empty cells."""
    return any(answer.strip() for answer in execute(program, rows))


def _answer_column(program: Program, positives: Sequence[Cells]) -> int | None:
    for column in range(len(positives[0])):
        without = [emptied(row, column) for row in positives]
        if all(reads(program, row) for row in without) and not finds(program, without):
            return column
    return None
