"""Rows with one cell emptied, which take the place of real ones in the rejection twins of a table.

Where the cell that an answer is read from is empty, or the one that leads to the passage with the answer, the question
cannot be answered, though all its words are there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.table_programs import TYPES, execute, normal, reads
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Origin, Pool, Release
from kbbench_hf.building.ska_bench.question_words import spoken_of

TOTALS = frozenset({"count", "sum"})
"""Programs that find another answer, and not none, where a row lacks a cell: their questions have no twins."""


def group_of(instance: Instance) -> str:
    """Return the name of an instance's group of emptied rows, the last of its `noise_groups` where it has one."""
    return f"{instance.id}#emptied"


def with_emptied_rows(release: Release) -> Release:
    """Return a release whose `table` instances have, after all other rows, their own rows with a cell emptied.

    It is the cell of one column: the first without which the program reads the positives and finds nothing. Where the
    words of a comparison do not say which column it is made in, another one might still tell, and there is no such row.
    """
    if "table" not in release.pools:
        return release
    pool, columns = release.pools["table"], dict[str, Sequence[int]]()
    for instance in release.instances:
        program = instance.program
        if instance.subset == "table" and program and program["type"] in TYPES - TOTALS:
            rows = pool.sk[instance.group]
            if program["type"] == "compare" and program["by"] not in spoken_of(
                normal(instance.question), pool.headers[instance.group]
            ):
                continue
            column = _answer_column(program, [rows[number] for number in instance.positive_sk])
            columns |= {} if column is None else {instance.id: (column,)}
    instances, pool = emptied_in(columns, release.instances, pool)
    return release._replace(instances=instances, pools={**release.pools, "table": pool})


def emptied_in(
    columns: Mapping[str, Sequence[int]], instances: Sequence[Instance], pool: Pool
) -> tuple[list[Instance], Pool]:
    """Return instances, and their pool, with a last group of their own rows in which these columns are empty.

    Args:
        columns: instance id -> columns of its table; instances without any stay as they are.
        instances: the instances of a release.
        pool: the pool of those with columns.
    """
    sk, origins, found = dict(pool.sk), dict(pool.origins), list(instances)
    for place, instance in enumerate(instances):
        if chosen := columns.get(instance.id):
            group = group_of(instance)
            sk[group] = [emptied(row, chosen) for row in pool.sk[instance.group]]
            origins[group] = pool.origins.get(instance.group, Origin("", ""))._replace(made=True)
            found[place] = replace(instance, noise_groups=(*instance.noise_groups, group))
    return found, replace(pool, sk=sk, origins=origins)


def emptied(row: Cells, columns: Sequence[int]) -> Cells:
    """Return a row with the cells of some columns empty.

    >>> emptied(("Ann", "12"), [1])
    ('Ann', '')
    """
    return tuple("" if column in columns else cell for column, cell in enumerate(row))


def finds(program: Program, rows: Sequence[Cells]) -> bool:
    """Say whether a program finds anything in these rows but empty cells."""
    return any(answer.strip() for answer in execute(program, rows))


def _answer_column(program: Program, positives: Sequence[Cells]) -> int | None:
    for column in range(len(positives[0])):
        without = [emptied(row, [column]) for row in positives]
        if all(reads(program, row) for row in without) and not finds(program, without):
            return column
    return None
