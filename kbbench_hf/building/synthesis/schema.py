"""What a knowledge base lets one ask: typed steps between nodes that have a name to be called by."""

from dataclasses import dataclass, replace

import numpy as np

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.metapaths import Hop, Metapath, Walk
from kbbench_hf.knowledge_base.store import KnowledgeBase

FEWEST_EDGES = 5
NAMED_SHARE = 0.5
"""Of a type's nodes so many have a name; those without are never topics."""
PLACEHOLDERS = frozenset({"none", "nan", "null", "n/a", "na", "unknown", "untitled", "no name"})


@dataclass(frozen=True)
class Step:
    """From nodes of one type to others, by one hop."""

    start: str
    hop: Hop

    @property
    def end(self) -> str:
        """The type that it leads to."""
        return self.hop.node_type

    @property
    def arrow(self) -> str:
        """The relation as metapaths have it."""
        return f"^{self.hop.relation}" if self.hop.direction == "in" else self.hop.relation

    @property
    def is_writable(self) -> bool:
        """Whether a metapath with it is read as it was meant: a type `A & B` or `drug:1` is not."""
        try:
            walks = Metapath.parse(f"{self.start} -[{self.arrow}]-> {self.end}").walks
        except UsageError:
            return False
        return walks == (Walk(self.start, self.start, (self.hop,)),)


@dataclass(frozen=True)
class Schema:
    """The steps of a knowledge base, the way back of each, and the types that can be named."""

    back: dict[Step, Step]
    nameable: frozenset[str]
    unwritable: tuple[str, ...] = ()
    """Steps whose type or relation the notation of metapaths has no place for."""

    @property
    def steps(self) -> list[Step]:
        """All steps, in the order of their names."""
        return list(self.back)

    @property
    def mutual(self) -> frozenset[Step]:
        """The steps whose edges all have their reverse: nothing tells which end is the head."""
        return frozenset(step for step, back in self.back.items() if step.hop.direction == back.hop.direction)


def is_name(name: str) -> bool:
    """Say whether a node can be called by its name: one line of 2 to 80 signs with a letter, and no word for "none".

    >>> [is_name(name) for name in ("Ada", "1984", "x", "Blade Runner 2049", "nan", "???")]
    [True, False, False, True, False, False]
    """
    return (
        2 <= len(name) <= 80
        and name == name.strip()
        and name.isprintable()
        and any(map(str.isalpha, name))
        and name.casefold() not in PLACEHOLDERS
    )


def read_schema(kb: KnowledgeBase) -> Schema:
    """Return the steps with at least 5 edges, each in both directions, or in one where it is its own way back.

    Edges from a node to itself do not count: a relation that has no others leads nowhere.
    """
    back: dict[Step, Step] = {}
    unwritable = []
    for head, relation, tail, n in kb.tuples():
        out, into = Step(head, Hop(relation, tail, "out")), Step(tail, Hop(relation, head, "in"))
        if n - (_n_loops(kb, out) if head == tail else 0) < FEWEST_EDGES:
            continue
        if not (out.is_writable and into.is_writable):
            unwritable.append(f"{head} {relation} {tail}")
            continue
        mutual = _same_both_ways(kb, out)
        if mutual:
            into = Step(tail, replace(into.hop, direction="out"))
        back[out], back[into] = into, out
    order = sorted(back, key=lambda step: (step.start, step.hop.relation, step.hop.node_type, step.hop.direction))
    nameable = frozenset(kind for kind in kb.graph.node_types if _is_nameable(kb, kind))
    return Schema({step: back[step] for step in order}, nameable, tuple(unwritable))


def _n_loops(kb: KnowledgeBase, step: Step) -> int:
    rows = kb.of_type(step.start)
    offsets, reached = kb.neighbors_of(rows, step.hop.relation, "out")
    return int((np.repeat(rows, np.diff(offsets)) == reached).sum())


def _same_both_ways(kb: KnowledgeBase, step: Step) -> bool:
    """Say whether following the relation forwards and backwards from the nodes of the type gives the same."""
    if kb.graph.symmetric:
        return True
    rows, end = kb.of_type(step.start), kb.graph.type_id(step.end)
    found = []
    directions: tuple[Direction, ...] = ("out", "in")
    for direction in directions:
        offsets, reached = kb.neighbors_of(rows, step.hop.relation, direction)
        owners = np.repeat(rows, np.diff(offsets))
        kept = kb.graph.type_ids[reached] == end
        found.append((owners[kept], reached[kept]))
    return all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


def _is_nameable(kb: KnowledgeBase, kind: str) -> bool:
    names = kb.names(kb.of_type(kind))
    return bool(names) and sum(map(is_name, names)) >= NAMED_SHARE * len(names)
