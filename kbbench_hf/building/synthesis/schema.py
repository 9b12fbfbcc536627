"""Schema of a knowledge base for templates: typed relation steps, and node types whose nodes have names.

`questions` reads it once for a knowledge base; `templates` combines the steps, `wording` asks which lead to one node.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.metapaths import Hop, Metapath, MetapathWalk
from kbbench_hf.knowledge_base.store import KnowledgeBase

FEWEST_EDGES = 5
"""Least number of edges of a step, self-loops aside."""
NAMED_SHARE = 0.5
"""Least share of a type's nodes that have a name; other types are never topics."""
SINGLE_SHARE = 0.9
"""Least share of the nodes with edges of a functional relation from which it leads to one node."""
PLACEHOLDERS = frozenset({"none", "nan", "null", "n/a", "na", "unknown", "untitled", "no name"})
"""Texts in place of a name."""


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
        return self.hop.arrow

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
    single: frozenset[RelationStep] = frozenset()
    """Steps that lead from a node to one node as a rule (functional relations, and the inverse of others)."""
    open_ended: frozenset[RelationStep] = frozenset()
    """Steps whose relation leads to nodes of other types as well."""
    inverses: tuple[str, ...] = ()
    """Relations that are left out because their edges are those of another one, reversed."""

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
    unwritable: list[str] = []
    inverses: list[str] = []
    ends = Counter[tuple[str, str, str]]()
    for head, relation, tail, n in kb.tuples():
        out, into = RelationStep(head, Hop(relation, tail, "out")), RelationStep(tail, Hop(relation, head, "in"))
        ends.update((step.start, relation, step.hop.direction) for step in (out, into))
        if n - (_n_loops(kb, out) if head == tail else 0) < FEWEST_EDGES:
            continue
        if not (out.is_writable and into.is_writable):
            unwritable.append(f"{head} {relation} {tail}")
            continue
        reverse = (step for step in back if (step.start, step.end, step.hop.direction) == (tail, head, "out"))
        if any(step.hop.relation != relation and _is_inverse(kb, step, out) for step in reverse):
            inverses.append(relation)
            continue
        if _same_both_ways(kb, out):
            into = RelationStep(tail, replace(into.hop, direction="out"))
        back[out], back[into] = into, out
    order = sorted(back, key=lambda step: (step.start, step.hop.relation, step.hop.node_type, step.hop.direction))
    nameable = frozenset(kind for kind in kb.graph.node_types if _is_nameable(kb, kind))
    single = frozenset(step for step in order if _leads_to_one(kb, step))
    several = frozenset(step for step in order if ends[step.start, step.hop.relation, step.hop.direction] > 1)
    return Schema({step: back[step] for step in order}, nameable, tuple(unwritable), single, several, tuple(inverses))


def _n_loops(kb: KnowledgeBase, step: RelationStep) -> int:
    """Return the number of self-loops of a relation at nodes of the step's type."""
    rows = kb.of_type(step.start)
    offsets, reached = kb.neighbors_of(rows, step.hop.relation, "out")
    return int((np.repeat(rows, np.diff(offsets)) == reached).sum())


def _pairs(kb: KnowledgeBase, step: RelationStep, direction: Direction) -> NDArray[np.int64]:
    """Return the different edges from nodes of the step's type, ascending, shape (2, n)."""
    rows = kb.of_type(step.start)
    offsets, reached = kb.neighbors_of(rows, step.hop.relation, direction)
    pairs = np.stack([np.repeat(rows, np.diff(offsets)), reached])
    return np.unique(pairs[:, kb.graph.type_ids[reached] == kb.graph.type_id(step.end)], axis=1)


def _same_both_ways(kb: KnowledgeBase, step: RelationStep) -> bool:
    """Return whether a relation gives the same nodes forwards and backwards from the nodes of the type."""
    return kb.graph.symmetric or np.array_equal(_pairs(kb, step, "out"), _pairs(kb, step, "in"))


def _is_inverse(kb: KnowledgeBase, step: RelationStep, other: RelationStep) -> bool:
    """Return whether the edges of a relation are those of another one, reversed."""
    inverse = _pairs(kb, other, "out")[::-1]
    return np.array_equal(_pairs(kb, step, "out"), inverse[:, np.lexsort(inverse[::-1])])


def _leads_to_one(kb: KnowledgeBase, step: RelationStep) -> bool:
    """Return whether a step leads to one node from at least 90 % of the nodes from which it leads on."""
    _, counts = np.unique(_pairs(kb, step, step.hop.direction)[0], return_counts=True)
    return bool(np.mean(counts == 1) >= SINGLE_SHARE)


def _is_nameable(kb: KnowledgeBase, kind: str) -> bool:
    """Return whether at least half of a type's nodes have a name."""
    names = kb.names(kb.of_type(kind))
    return bool(names) and sum(map(is_name, names)) >= NAMED_SHARE * len(names)
