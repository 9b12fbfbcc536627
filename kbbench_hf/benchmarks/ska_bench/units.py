"""Knowledge units, instances and pools of SKA-Bench, and the contexts rendered from unit numbers.

A testbed stores unit numbers. In the text section a number is the index of a passage in the subset's pool; in the
structured section it is the index of a unit among those of the instance's `group`, followed by those of its
`noise_groups` (`UnitPool.structured`).

The benchmark renders contexts and prompts from these; `building` makes and stores them. Numbers of units, the columns
of rows and the text of a unit are those of published datasets: none may change.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.datasets import Row

SUBSETS = ("kg", "table", "kg_text", "table_text")
SEED = 42
"""The seed in every recipe; the paper shuffles with 42."""

Cells = tuple[str, ...]
Program = Mapping[str, Any]
"""An answer program as JSON (`building/ska_bench/programs.py`)."""
_LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


def clean(text: str) -> str:
    r"""Return a cell, title or passage on one line: line breaks become blanks, outer white space is removed.

    Readers of sources apply this once, so that everything below can rely on it.

    >>> clean("Margin\nof victory ")
    'Margin of victory'
    """
    return _LINE_BREAKS.sub(" ", text).strip()


def write_row(cells: Sequence[str]) -> str:
    r"""Return a table row, or header, as the paper writes it; a pipe inside a cell is escaped.

    >>> write_row(["1", "a|b"])
    '|1|a\\|b|'
    """
    line = "|".join(cell.replace("|", "\\|") for cell in cells)
    return f"|{line}|"


def write_triple(cells: Sequence[str]) -> str:
    """Return a triple as the paper writes it.

    >>> write_triple(["George Weah", "position held", "President of Liberia"])
    '(George Weah, position held, President of Liberia)'
    """
    return f"({', '.join(cells)})"


def write_passage(cells: Sequence[str]) -> str:
    r"""Return a passage, (title, text), as the paper writes it; without a title the text alone.

    A `/` at the start of a line is escaped, because GPT-4o's tokenizer joins it with the line break before it, and the
    counts of lines would no longer add up.

    >>> write_passage(["Navy", "A service."]), write_passage(["", "/ns/ is a path."])
    ('Navy: A service.', '\\/ns/ is a path.')
    """
    title, text = cells
    line = f"{title}: {text}" if title else text
    return f"\\{line}" if line.startswith("/") else line


@dataclass(frozen=True)
class Instance:
    """A question, its answers, and the units that are needed to answer it."""

    id: str
    subset: str
    question: str
    answers: Cells
    group: str
    """Its table or graph."""
    answer_type: str = "entity"
    """How an answer is compared: `entity`, `number` or `date`."""
    answer_aliases: tuple[Cells, ...] = ()
    """For each answer, the other names that are right; empty where no answer has one."""
    split: str = "test"
    """`test`, `demo`, or `unreviewed`: separate until reviewed."""
    split_key: str = ""
    """Its topic or table: no two splits share one."""
    title: str = ""
    positive_sk: tuple[int, ...] = ()
    positive_text: tuple[int, ...] = ()
    withheld_sk: tuple[int, ...] = ()
    """Triples that are never shown, because they must be read from text."""
    noise_groups: Cells = ()
    """Further groups of the pool whose units are noise: tables with the same header, and near rows."""
    own_text: tuple[int, ...] = ()
    """The passages that belong to its table or subgraph; empty where the whole pool does."""
    topics: Cells = ()
    decoys: Cells = ()
    """Entities similar to its positive ones, whose neighbors are noise too."""
    program: Program | None = None
    method: str = ""
    """How its positives were found, or how it was made, such as `composed`."""
    reviewed: int = 0
    """Number of reviewers."""
    source: str = ""
    source_id: str = ""
    commit: str = ""
    licence: str = ""

    @property
    def is_table(self) -> bool:
        """Whether its structured units are table rows."""
        return self.subset.startswith("table")

    @property
    def emptied_group(self) -> str:
        """The group of its own rows with a cell emptied, the last of `noise_groups` where it has one."""
        return f"{self.id}#emptied"

    def to_row(self) -> Row:
        """Return the instance as a row of its dataset config; the program is written as JSON."""
        program = json.dumps(self.program, ensure_ascii=False, sort_keys=True) if self.program else ""
        lists = {name: list(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        aliases = [list(names) for names in self.answer_aliases] or [[] for _ in self.answers]
        return {**vars(self), **lists, "answer_aliases": aliases, "program": program}

    @classmethod
    def from_row(cls, row: Row) -> "Instance":
        """Return the instance that `to_row` wrote."""
        values: Row = {n: tuple(value) if isinstance(value, list) else value for n, value in row.items()}
        aliases = tuple(map(tuple, row["answer_aliases"])) if any(row["answer_aliases"]) else ()
        program = json.loads(row["program"]) if row["program"] else None
        return cls(**{**values, "answer_aliases": aliases, "program": program})


class Origin(NamedTuple):
    """The source of a unit; `made` if no source states it."""

    source: str
    licence: str
    made: bool = False


UNKNOWN = Origin("", "")


@dataclass(frozen=True)
class UnitPool:
    """All units of a subset: the structured ones by group and number, the passages by number.

    A group (a table, a graph, near rows) has one origin; passages have one each.
    """

    sk: Mapping[str, Sequence[Cells]] = field(default_factory=dict)
    text: Sequence[Cells] = ()
    headers: Mapping[str, Cells] = field(default_factory=dict)
    links: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Passage -> the numbers of the triples of its graph that it states."""
    text_groups: Sequence[str] = ()
    """The graph of each passage; empty where the pool has one graph, or none."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Origin of each group of structured units."""
    text_origins: Sequence[Origin] = ()
    """Origin of each passage."""

    def structured(self, instance: Instance) -> Sequence[Cells]:
        """Return the structured units of an instance by number: its own group's, then those of its noise groups.

        >>> pool = UnitPool({"t": [("a",)], "t#near": [("b",)]})
        >>> pool.structured(Instance("q", "table", "?", ("a",), "t", noise_groups=("t#near",)))
        [('a',), ('b',)]
        """
        if not instance.noise_groups:
            return self.sk[instance.group]
        return [cells for group in (instance.group, *instance.noise_groups) for cells in self.sk.get(group, ())]

    def links_of(self, group: str) -> dict[int, tuple[int, ...]]:
        """Return the links of the passages that belong to a graph."""
        if not self.text_groups:
            return dict(self.links)
        return {number: links for number, links in self.links.items() if self.text_groups[number] == group}

    def to_rows(self) -> list[Row]:
        """Return the pool as rows of its dataset config: sections `header`, `sk`, `text`."""
        origins = defaultdict(lambda: UNKNOWN, self.origins)
        rows = [_pool_row(group, "header", 0, self.headers[group], origins[group]) for group in sorted(self.headers)]
        for group in sorted(self.sk):
            rows += [_pool_row(group, "sk", n, cells, origins[group]) for n, cells in enumerate(self.sk[group])]
        n_text = len(self.text)
        groups, text_origins = self.text_groups or [""] * n_text, self.text_origins or [UNKNOWN] * n_text
        for n, (cells, group, origin) in enumerate(zip(self.text, groups, text_origins, strict=True)):
            rows.append(_pool_row(group, "text", n, cells, origin, self.links.get(n, ())))
        return rows

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> "UnitPool":
        """Return the pool that `to_rows` wrote."""
        sk, headers, origins = dict[str, list[Cells]](), dict[str, Cells](), dict[str, Origin]()
        text, text_groups, text_origins = list[Cells](), list[str](), list[Origin]()
        links = dict[int, tuple[int, ...]]()
        for row in rows:
            cells, group, origin = tuple(row["cells"]), row["group"], Origin(row["source"], row["licence"], row["made"])
            if row["section"] == "text":
                text.append(cells)
                text_groups.append(group)
                text_origins.append(origin)
                links |= {row["number"]: tuple(row["links"])} if row["links"] else {}
                continue
            origins[group], units = origin, sk.setdefault(group, [])  # a table may have no row of some kind
            if row["section"] == "header":
                headers[group] = cells
            else:
                units.append(cells)
        return cls(sk, text, headers, links, text_groups if any(text_groups) else (), origins, text_origins)


def _pool_row(group: str, section: str, number: int, cells: Cells, origin: Origin, links: Sequence[int] = ()) -> Row:
    place = {"group": group, "section": section, "number": number, "cells": list(cells), "links": list(links)}
    return place | origin._asdict()


class StepCount(NamedTuple):
    """How many questions of a source, or which share of them, remain after a step of the construction."""

    subset: str
    source: str
    step: str
    left: str


class InstanceSet(NamedTuple):
    """Instances, and the pool of each of their subsets."""

    instances: list[Instance]
    pools: dict[str, UnitPool]
    counts: tuple[StepCount, ...] = ()


def counts(subset: str, source: str, steps: Mapping[str, int]) -> tuple[StepCount, ...]:
    """Return how many questions of a source remain after each step.

    >>> counts("kg", "MetaQA", {"asked": 3568})
    (StepCount(subset='kg', source='MetaQA', step='asked', left='3,568'),)
    """
    return tuple(StepCount(subset, source, step, f"{n:,}") for step, n in steps.items())


@dataclass(frozen=True)
class RenderedContext:
    """The knowledge base of a question: lines of each section, and which of them are positive."""

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


def render_context(instance: Instance, pool: UnitPool, sk: Iterable[int], text: Iterable[int]) -> RenderedContext:
    """Return the context of an instance that shows the units with these numbers, in their order.

    >>> pool = UnitPool(sk={"t": [("a", "1"), ("b", "2")]}, headers={"t": ("Name", "Size")})
    >>> question = Instance("q", "table", "How big is b?", ("2",), "t", positive_sk=(1,))
    >>> print(render_context(question, pool, [0, 1], []).sk_text, end="")
    |Name|Size|
    |a|1|
    |b|2|
    """
    units, write = pool.structured(instance), write_row if instance.is_table else write_triple
    return RenderedContext(
        write_row(pool.headers[instance.group]) if instance.is_table else "",
        [write(units[number]) for number in sk],
        [write_passage(pool.text[number]) for number in text],
        [number in instance.positive_sk for number in sk],
        [number in instance.positive_text for number in text],
    )


def pieces(context: RenderedContext, around: int) -> list[tuple[str, bool]]:
    r"""Return the lines of a context in pieces, True for a positive unit.

    Positive units, `around` lines before and after each, and a table's header are kept; gaps have their line counts.

    >>> pieces(RenderedContext("|a|", ["|1|", "|2|", "|3|", "|4|"], [], [False, False, False, True], []), around=1)
    [('|a|\n', False), ('(2 more lines)\n', False), ('|3|\n', False), ('|4|\n', True)]
    """
    found = [(f"{context.header}\n", False)] if context.header else []
    for lines, positive in ((context.sk, context.sk_positive), (context.text, context.text_positive)):
        kept = [any(positive[max(0, place - around) : place + around + 1]) for place in range(len(lines))]
        for is_kept, run in groupby(zip(kept, lines, positive, strict=True), key=itemgetter(0)):
            shown = [(f"{line}\n", yes) for _, line, yes in run]
            found += shown if is_kept else [(f"({len(shown):,} more lines)\n", False)]
    return found


UNREACHED = 255
"""The hop of a unit that no path connects to the topic."""


class TripleGraph:
    """One group of triples, its entities numbered."""

    def __init__(self, triples: Sequence[Cells]) -> None:
        self._entities: dict[str, int] = {}
        ends = [[self._entities.setdefault(e, len(self._entities)) for e in (head, tail)] for head, _, tail in triples]
        self._ends = np.array(ends, dtype=np.int64).reshape(-1, 2).T

    def touching(self, entity: str) -> NDArray[np.int64]:
        """Return the numbers of the triples that an entity is an end of; none where it is unknown."""
        return np.flatnonzero((self._ends == self._entities.get(entity, -1)).any(axis=0))

    def hops(self, topics: Sequence[str]) -> NDArray[np.int64]:
        """Return the hop of every triple: 1 + the distance of its nearer end from the nearest topic.

        Edges are walked in both directions; `UNREACHED` where there is no path.
        """
        distance = np.full(len(self._entities), UNREACHED - 1)
        distance[[self._entities[topic] for topic in topics if topic in self._entities]] = 0
        head, tail = self._ends
        for step in range(UNREACHED - 1):
            frontier = distance == step
            reached = np.concatenate([tail[frontier[head]], head[frontier[tail]]])
            reached = reached[distance[reached] > step]
            if not len(reached):
                break
            distance[reached] = np.minimum(distance[reached], step + 1)
        nearest: NDArray[np.int64] = 1 + np.minimum(distance[head], distance[tail])
        return nearest
