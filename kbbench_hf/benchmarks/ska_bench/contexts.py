"""A context: the text of the knowledge base that a question is asked on, made from unit numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kbbench_hf.benchmarks.ska_bench.programs import execute
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool, write_passage, write_row, write_triple


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
    def units(self) -> Sequence[Cells]:
        """The structured units of the instance, by number."""
        return self._pool.structured(self._instance)

    def context(self, sk: Sequence[int], text: Sequence[int]) -> Context:
        """Return the context that these unit numbers stand for, in their order."""
        instance, pool = self._instance, self._pool
        header = write_row(pool.headers[instance.group]) if instance.is_table else ""
        write = write_row if instance.is_table else write_triple
        lines = [write(self.units[number]) for number in sk]
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
        links = pool.links_of(instance.group) if text else {}
        stated = [link for number in text for link in links.get(number, ())]
        return execute(instance.program, (self.units[number] for number in (*sk, *stated)))


def pieces(context: Context, around: int) -> list[tuple[str, bool]]:
    r"""Return the lines of a context in pieces, True for a positive unit.

    Kept are positive units, so many lines `around` each, and a table's header; how many lines are left out is said.

    >>> pieces(Context("|a|", ["|1|", "|2|", "|3|", "|4|"], [], [False, False, False, True], []), around=1)
    [('|a|\n', False), ('(2 more lines)\n', False), ('|3|\n', False), ('|4|\n', True)]
    """
    found = [(f"{context.header}\n", False)] if context.header else []
    for lines, positive in ((context.sk, context.sk_positive), (context.text, context.text_positive)):
        places = [place for place, yes in enumerate(positive) if yes]
        left_out = 0
        for place, (line, yes) in enumerate(zip(lines, positive, strict=True)):
            if not any(abs(place - each) <= around for each in places):
                left_out += 1
                continue
            found += _gap(left_out)
            left_out = 0
            found.append((f"{line}\n", yes))
        found += _gap(left_out)
    return found


def _gap(count: int) -> list[tuple[str, bool]]:
    return [(f"({count:,} more lines)\n", False)] if count else []
