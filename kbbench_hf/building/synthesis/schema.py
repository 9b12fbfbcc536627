"""Schema of a knowledge base for templates: typed relation steps, and node types whose nodes have names."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.metapaths import Hop, Metapath, MetapathWalk
from kbbench_hf.knowledge_base.store import KnowledgeBase

FEWEST_EDGES = 5
NAMED_SHARE = 0.5
"""Least share of a type's nodes that have a name; other types are never topics."""
PLACEHOLDERS = frozenset({"none", "nan", "null", "n/a", "na", "unknown", "untitled", "no name"})


@dataclass(frozen=True)
class RelationStep:
    """One hop from nodes of a type."""

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
        """Whether a metapath can express it: a type `A & B` or `drug:1` is misparsed."""
        try:
            walks = Metapath.parse(f"{self.start} -[{self.arrow}]-> {self.end}").walks
        except UsageError:
            return False
        return walks == (MetapathWalk(self.start, self.start, (self.hop,)),)


@dataclass(frozen=True)
class Schema:
    """The steps of a knowledge base with the inverse of each, and the types whose nodes have names."""

    back: dict[RelationStep, RelationStep]
    nameable: frozenset[str]
    unwritable: tuple[str, ...] = ()
    """Steps whose type or relation the notation of metapaths has no place for."""

    @property
    def steps(self) -> list[RelationStep]:
        """All steps, in the order of their names."""
        return list(self.back)

    @property
    def mutual(self) -> frozenset[RelationStep]:
        """The steps of symmetric relations: nothing distinguishes head and tail."""
        return frozenset(step for step, back in self.back.items() if step.hop.direction == back.hop.direction)


def is_name(name: str) -> bool:
    """Return whether a text serves as a name: one line of 2 to 80 characters with a letter, and no placeholder.

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
    """Return the steps with at least 5 edges, self-loops aside, in both directions; one for a symmetric relation."""
    back: dict[RelationStep, RelationStep] = {}
    unwritable = []
    for head, relation, tail, n in kb.tuples():
        out, into = RelationStep(head, Hop(relation, tail, "out")), RelationStep(tail, Hop(relation, head, "in"))
        if n - (_n_loops(kb, out) if head == tail else 0) < FEWEST_EDGES:
            continue
        if not (out.is_writable and into.is_writable):
            unwritable.append(f"{head} {relation} {tail}")
            continue
        if _same_both_ways(kb, out):
            into = RelationStep(tail, replace(into.hop, direction="out"))
        back[out], back[into] = into, out
    order = sorted(back, key=lambda step: (step.start, step.hop.relation, step.hop.node_type, step.hop.direction))
    nameable = frozenset(kind for kind in kb.graph.node_types if _is_nameable(kb, kind))
    return Schema({step: back[step] for step in order}, nameable, tuple(unwritable))


def _n_loops(kb: KnowledgeBase, step: RelationStep) -> int:
    rows = kb.of_type(step.start)
    offsets, reached = kb.neighbors_of(rows, step.hop.relation, "out")
    return int((np.repeat(rows, np.diff(offsets)) == reached).sum())


def _same_both_ways(kb: KnowledgeBase, step: RelationStep) -> bool:
    """Return whether a relation gives the same nodes forwards and backwards from the nodes of the type."""
    if kb.graph.symmetric:
        return True
    rows, end = kb.of_type(step.start), kb.graph.type_id(step.end)

    def pairs(direction: Direction) -> NDArray[np.int64]:
        offsets, reached = kb.neighbors_of(rows, step.hop.relation, direction)
        return np.stack([np.repeat(rows, np.diff(offsets)), reached])[:, kb.graph.type_ids[reached] == end]

    return np.array_equal(pairs("out"), pairs("in"))


def _is_nameable(kb: KnowledgeBase, kind: str) -> bool:
    names = kb.names(kb.of_type(kind))
    return bool(names) and sum(map(is_name, names)) >= NAMED_SHARE * len(names)
