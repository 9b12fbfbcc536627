"""What a knowledge base lets one ask: typed steps between nodes that have a name to be called by."""

import re
from dataclasses import dataclass, replace

import numpy as np

from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.metapaths import Hop
from kbbench_hf.knowledge_base.store import KnowledgeBase

FEWEST_EDGES = 5
NAMED_SHARE = 0.9
_NUMBER = re.compile(r"[\d\s.,:/-]*")


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


@dataclass(frozen=True)
class Schema:
    """The steps of a knowledge base, the way back of each, and the types that can be named."""

    back: dict[Step, Step]
    nameable: frozenset[str]

    @property
    def steps(self) -> list[Step]:
        """All steps, in the order of their names."""
        return list(self.back)

    @property
    def mutual(self) -> frozenset[Step]:
        """The steps whose edges all have their reverse: nothing tells which end is the head."""
        return frozenset(step for step, back in self.back.items() if step.hop.direction == back.hop.direction)


def is_name(name: str) -> bool:
    """Say whether a node can be called by its name.

    >>> [is_name(name) for name in ("Ada", "1984", "x", "Blade Runner 2049")]
    [True, False, False, True]
    """
    return 2 <= len(name) <= 80 and name == name.strip() and "\n" not in name and not _NUMBER.fullmatch(name)


def read_schema(kb: KnowledgeBase) -> Schema:
    """Return the steps with at least 5 edges, each in both directions, or in one where it is its own way back."""
    back: dict[Step, Step] = {}
    for head, relation, tail, n in kb.tuples():
        if n < FEWEST_EDGES:
            continue
        out, into = Step(head, Hop(relation, tail, "out")), Step(tail, Hop(relation, head, "in"))
        mutual = _same_both_ways(kb, out)
        if mutual:
            into = Step(tail, replace(into.hop, direction="out"))
        back[out], back[into] = into, out
    order = sorted(back, key=lambda step: (step.start, step.hop.relation, step.hop.node_type, step.hop.direction))
    nameable = frozenset(kind for kind in kb.graph.node_types if _is_nameable(kb, kind))
    return Schema({step: back[step] for step in order}, nameable)


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
