"""What the readers of table sources return: tables, and questions on them whose programs are proved."""

from collections.abc import Mapping
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.table_programs import normal
from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.building.ska_bench.raw_files import Source


class Table(NamedTuple):
    """A table of one source; cells are on one line."""

    header: Cells
    rows: list[Cells]

    @property
    def kind(self) -> Cells:
        """The header in normal form: tables of one kind lend each other rows."""
        return tuple(map(normal, self.header))


class TableQuestion(NamedTuple):
    """A question on a table, the program that answers it, and the rows that the program reads."""

    id: str
    question: str
    answers: Cells
    answer_type: str
    aliases: tuple[Cells, ...]
    table: str
    program: Program
    positive: tuple[int, ...]


class Tables(NamedTuple):
    """The tables of a source by name, and the questions that were settled on them."""

    source: Source
    tables: Mapping[str, Table]
    questions: list[TableQuestion]
    n_asked: int
    """How many questions the source has, settled or not."""
