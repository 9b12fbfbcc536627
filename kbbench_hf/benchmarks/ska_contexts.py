"""A context: the text of the knowledge base that a question is asked on, made from unit numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kbbench_hf.benchmarks.ska_programs import execute
from kbbench_hf.benchmarks.ska_rows import TableRows
from kbbench_hf.benchmarks.ska_units import Instance, Pool, write_passage, write_row, write_triple


@dataclass(frozen=True)
class Context:
    """The knowledge base that a question is asked on: lines of each section, and which of them are positive."""

    header: str
    sk: list[str]
    text: list[str]
    sk_positive: list[bool]
    text_positive: list[bool]

    @property
    def sk_text(self) -> str:
        """The structured section, each line ended; a table's header is its first line."""
        return "".join(f"{line}\n" for line in ([self.header] if self.header else []) + self.sk)

    @property
    def text_text(self) -> str:
        """The text section, each line ended; empty where the subset has none."""
        return "".join(f"{line}\n" for line in self.text)

    @property
    def all_text(self) -> str:
        """Both sections: what a budget counts."""
        return self.sk_text + self.text_text


class Renderer:
    """Writes the contexts of one instance, and executes its answer program on them.

    >>> pool = Pool(sk={"t": [("a", "1"), ("b", "2")]}, headers={"t": ("Name", "Size")})
    >>> question = Instance("q", "table", "How big is b?", ("2",), "t", positive_sk=(1,))
    >>> print(Renderer(question, pool).context([0, 1], []).sk_text, end="")
    |Name|Size|
    |a|1|
    |b|2|
    """

    def __init__(self, instance: Instance, pool: Pool) -> None:
        self._instance = instance
        self._pool = pool

    @cached_property
    def rows(self) -> TableRows:
        """The rows of a table instance."""
        return TableRows(self._instance, self._pool)

    def context(self, sk: Sequence[int], text: Sequence[int]) -> Context:
        """Return the context that these unit numbers stand for, in their order."""
        instance, pool = self._instance, self._pool
        if instance.is_table:
            header = write_row(pool.headers[instance.group])
            lines = [write_row(self.rows.cells(number)) for number in sk]
        else:
            triples = pool.sk[instance.group]
            header, lines = "", [write_triple(triples[number]) for number in sk]
        sk_positive, text_positive = set(instance.positive_sk), set(instance.positive_text)
        return Context(
            header,
            lines,
            [write_passage(pool.text[number]) for number in text],
            [number in sk_positive for number in sk],
            [number in text_positive for number in text],
        )

    def execute(self, sk: Sequence[int], text: Sequence[int]) -> list[str] | None:
        """Return what the answer program finds in these units; None where the instance has no program.

        A passage counts as the triples that it is linked to.
        """
        instance, pool = self._instance, self._pool
        if instance.program is None:
            return None
        if instance.is_table:
            return execute(instance.program, (self.rows.cells(number) for number in sk))
        triples = pool.sk[instance.group]
        stated = [link for number in text for link in pool.links.get(number, ())]
        return execute(instance.program, (triples[number] for number in (*sk, *stated)))
