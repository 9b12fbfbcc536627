"""Rows with a cell emptied, which take the places of rows in rejection twins of tables.

`dataset.build` adds them to `table`, and `table_text` to its own instances. They are a stored group of the pool, last
among an instance's noise groups, and no context but a twin shows them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Origin, Program, UnitPool
from kbbench_hf.building.ska_bench.name_matching import normalize_cell
from kbbench_hf.building.ska_bench.program_induction import columns_in_question
from kbbench_hf.building.ska_bench.programs import TABLE_TYPES, execute, reads

TOTALS = frozenset({"count", "sum"})
"""Programs that give another answer, and not none, where a row lacks a cell: their questions have no twins."""


def add_emptied_rows(release: InstanceSet) -> InstanceSet:
    """Return a release whose `table` instances have, after all other rows, their own rows with a cell emptied.

    An instance whose program is a total, or has no such column, stays as it is. The column is the same in all rows.
    It is the cell of one column: the first without which the program reads the positives and finds nothing. Where the
    words of a comparison do not name its column, another column might still tell, and there is no such row.
    """
    if "table" not in release.pools:
        return release
    pool, columns = release.pools["table"], dict[str, Sequence[int]]()
    for instance in release.instances:
        program = instance.program
        if instance.subset == "table" and program and program["type"] in TABLE_TYPES - TOTALS:
            question, header = normalize_cell(instance.question), pool.headers[instance.group]
            if program["type"] == "compare" and program["by"] not in columns_in_question(question, header):
                continue
            rows = pool.sk[instance.group]
            column = _answer_column(program, [rows[number] for number in instance.positive_sk])
            columns |= {} if column is None else {instance.id: (column,)}
    instances, pool = empty_columns(columns, release.instances, pool)
    return release._replace(instances=instances, pools={**release.pools, "table": pool})


def empty_columns(
    columns: Mapping[str, Sequence[int]], instances: Sequence[Instance], pool: UnitPool
) -> tuple[list[Instance], UnitPool]:
    """Return instances, and their pool, with a last group of their own rows in which these columns are empty.

    Args:
        columns: instance id -> columns of its table; instances without any stay as they are.
        instances: the instances of a release.
        pool: the pool of those with columns.
    """
    sk, origins, found = dict(pool.sk), dict(pool.origins), list(instances)
    for place, instance in enumerate(instances):
        if chosen := columns.get(instance.id):
            group = instance.emptied_group
            sk[group] = [_without_cells(row, chosen) for row in pool.sk[instance.group]]
            origins[group] = pool.origins.get(instance.group, Origin("", ""))._replace(made=True)
            found[place] = replace(instance, noise_groups=(*instance.noise_groups, group))
    return found, replace(pool, sk=sk, origins=origins)


def _without_cells(row: Cells, columns: Sequence[int]) -> Cells:
    return tuple("" if column in columns else cell for column, cell in enumerate(row))


def has_answer(program: Program, rows: Iterable[Cells]) -> bool:
    """Return whether a program finds anything in these rows but empty cells; an empty answer is none."""
    return any(answer.strip() for answer in execute(program, rows))


def _answer_column(program: Program, positives: Sequence[Cells]) -> int | None:
    """Return the first column without which the program reads all positives and finds nothing; None without one."""
    for column in range(len(positives[0])):
        without = [_without_cells(row, [column]) for row in positives]
        if all(reads(program, row) for row in without) and not has_answer(program, without):
            return column
    return None
