"""A question on its context as a reader sees it who understands nothing: words, cells, and how often each is there."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log

from kbbench_hf.benchmarks.ska_bench.contexts import Renderer
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool, write_passage, write_row, write_triple
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import wtq_normal
from kbbench_hf.text.words import WORD

_STOP = frozenset(
    "a an and are as at be been by did do does for from had has have he her his how in is it its of on or s she than "
    "that the their there they this to was were what when where which who whom whose why will with".split()
)


@lru_cache(maxsize=1 << 20)
def normal(text: str) -> str:
    """Return a cell or question as it is looked up: in normal form, `_` a blank."""
    return wtq_normal(text.replace("_", " "))


@lru_cache(maxsize=1 << 18)
def words(text: str) -> frozenset[str]:
    """Return the words of a text in normal form, those aside that say nothing.

    >>> sorted(words("What is the name of the Café?"))
    ['cafe', 'name']
    """
    return frozenset(WORD.findall(normal(text))) - _STOP


@dataclass(frozen=True)
class Unit:
    """A unit of a context."""

    cells: Cells
    in_text: bool
    is_positive: bool
    line: str
    tokens: int

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words."""
        return words(" ".join(self.cells))


@dataclass(frozen=True)
class Seen:
    """A question on one context, with what an audit knows besides: gold and positives."""

    instance: Instance
    header: Cells
    units: list[Unit]
    answerable: bool = True

    @classmethod
    def of(cls, row: Row, instance: Instance, pool: Pool, count: Callable[[str], int]) -> "Seen":
        """Return what a row of a testbed shows; `count` gives the tokens of a line."""
        units, write = Renderer(instance, pool).units, write_row if instance.is_table else write_triple
        sk, text = set(instance.positive_sk), set(instance.positive_text)
        lines = [(units[n], n in sk, write(units[n])) for n in row["sk_units"]]
        passages = [(pool.text[n], n in text, write_passage(pool.text[n])) for n in row["text_units"]]
        seen = [
            Unit(cells, bool(in_text), is_positive, line, count(line))
            for in_text, part in enumerate((lines, passages))
            for cells, is_positive, line in part
        ]
        header = pool.headers[instance.group] if instance.is_table else ()
        return cls(instance, header, seen, bool(row["answerable"]))

    @cached_property
    def question(self) -> str:
        """The question in normal form."""
        return normal(self.instance.question)

    @cached_property
    def question_words(self) -> frozenset[str]:
        """The words of the question."""
        return words(self.instance.question)

    @property
    def structured(self) -> list[Unit]:
        """The rows or triples."""
        return [unit for unit in self.units if not unit.in_text]

    @cached_property
    def quoted(self) -> dict[str, float]:
        """Cell in normal form that the question quotes -> its inverse document frequency over rows or triples."""
        counts = Counter(cell for unit in self.structured for cell in {normal(cell) for cell in unit.cells})
        return {cell: log(1 + len(self.structured) / n) for cell, n in counts.items() if cell and self._mentions(cell)}

    def _mentions(self, cell: str) -> bool:
        return cell in self.question and mentions(self.question, cell)

    def quotes(self, unit: Unit) -> set[str]:
        """Return the cells of a row or triple that the question quotes."""
        return {form for cell in unit.cells if (form := normal(cell)) in self.quoted}

    def quoted_idf(self, unit: Unit) -> float:
        """Return how rare the quoted cells of a row or triple are, in sum."""
        return sum(self.quoted[cell] for cell in self.quotes(unit))

    @cached_property
    def word_idf(self) -> dict[str, float]:
        """Word of the question -> its inverse document frequency over all units; of those in the context."""
        counts = Counter(word for unit in self.units for word in unit.words & self.question_words)
        return {word: log(1 + len(self.units) / n) for word, n in counts.items()}

    def overlap(self, unit: Unit) -> int:
        """Return how many words of the question a unit has."""
        return len(unit.words & self.question_words)

    def overlap_idf(self, unit: Unit) -> float:
        """Return how rare the words are that a unit shares with the question, in sum."""
        return sum(self.word_idf[word] for word in unit.words & self.question_words)

    def answer_of(self, unit: Unit) -> str:
        """Return what a unit alone would answer: a row's cell under the likeliest header, a triple's unquoted end.

        A passage answers its title.
        """
        if unit.in_text:
            return unit.cells[0]
        if not self.header:
            head, tail = unit.cells[0], unit.cells[2]
            return head if normal(tail) in self.quoted and normal(head) not in self.quoted else tail
        columns = [n for n, cell in enumerate(unit.cells) if cell and normal(cell) not in self.quoted]
        best = max(columns, key=lambda n: len(words(self.header[n]) & self.question_words), default=0)
        return unit.cells[best]

    def options(self) -> Iterator[tuple[int, str]]:
        """Yield the cells that the question offers to choose from, each with its place in the question."""
        middle = self.question.find(" or ")
        if middle < 0:
            return
        places = [(self.question.find(cell), cell) for cell in self.quoted]
        # the longest of those that begin at one place: "new york city" and not "new york"
        before = max(
            (each for each in places if each[0] < middle), key=lambda e: (e[0] + len(e[1]), -e[0]), default=None
        )
        after = min((each for each in places if each[0] > middle), key=lambda e: (e[0], -len(e[1])), default=None)
        if before and after:
            yield from (before, after)
