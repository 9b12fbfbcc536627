"""Metapath queries: walks over typed relations from topic entities to the nodes where they meet.

The notation is the paper's::

    drug -[target]-> gene/protein -[interacts with]-> cellular_component
    anatomy:1 -[expression present]-> gene/protein <-[expression absent]- anatomy:2
    effect/phenotype -[phenotype absent]-> disease <-[!indication]- any drug
    drug -[indication]-> disease -[indication]-> drug & drug -[synergistic interaction]-> drug

Arrows lead from topic entities to the answer, the one node that no arrow leaves. Walks that meet there are intersected,
and `&` intersects further walks. A topic is written as its type, with `:1`, `:2` where two of one type differ; `any`
starts from every node of the type instead. `^` before a relation follows its edges from tail to head; `!` takes the
nodes of the next type that the relation does *not* reach.

Plans are made of these walks; synthesis and audits of retrieval benchmarks use templates. The notation is stored in
datasets (columns of templates and plans): it stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.graph import Direction, Graph
from kbbench_hf.metrics.ranks import distinct

_ARROW = re.compile(r"(-\[[^\]]+\]->|<-\[[^\]]+\]-)")
_LABEL = re.compile(r":\d+$")
_ANY = "any "
BACK: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
"""Direction of a hop -> that of the way back."""


@dataclass(frozen=True)
class Hop:
    """A step of a walk: follow `relation`, keep the nodes of `node_type`, or those not reached."""

    relation: str
    node_type: str
    direction: Direction = "out"
    negated: bool = False

    @property
    def arrow(self) -> str:
        """The relation as the notation has it: `^` before one that is followed from tail to head, `!` before that."""
        return f"{'!' * self.negated}{'^' * (self.direction == 'in')}{self.relation}"

    def follow(self, graph: Graph, nodes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the nodes that the hop leads to, ascending."""
        type_id = graph.type_id(self.node_type)
        if len(nodes) == 1:  # most walks start from one node, and synthesis makes them by the hundred thousand
            result: NDArray[np.integer] = graph.neighbors(int(nodes[0]), self.relation, self.direction)
        else:
            result = distinct(graph.neighbors_of(nodes, self.relation, self.direction).rows)
        reached: NDArray[np.int64] = result[graph.type_ids[result] == type_id].astype(np.int64)
        if self.negated:
            others = graph.type_ids == type_id
            others[reached] = False
            return np.flatnonzero(others)
        return reached


def reverse_hops(start_type: str, hops: Sequence[Hop]) -> tuple[Hop, ...]:
    """Return the hops that lead back from the end of others to their start; negations are left out.

    >>> back = reverse_hops("ore", [Hop("yields", "metal"), Hop("made of", "coin", "in")])
    >>> [(hop.arrow, hop.node_type) for hop in back]
    [('made of', 'metal'), ('^yields', 'ore')]
    """
    types = [start_type, *(hop.node_type for hop in hops)]
    return tuple(Hop(hop.relation, before, BACK[hop.direction]) for hop, before in zip(hops, types, strict=False))[::-1]


@dataclass(frozen=True)
class MetapathWalk:
    """Hops from a topic to the answer. `topic` is None where the walk starts from every node of `start_type`."""

    topic: str | None
    start_type: str
    hops: tuple[Hop, ...]

    def follow(self, graph: Graph, start: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the nodes at the end of the walk, ascending."""
        return reduce(lambda nodes, hop: hop.follow(graph, nodes), self.hops, start.astype(np.int64))


@dataclass(frozen=True)
class Metapath:
    """A relational template: walks that meet at one answer.

    >>> Metapath.parse("anatomy:1 -[expression present]-> gene/protein <-[!expression present]- anatomy:2").topics
    ('anatomy:1', 'anatomy:2')
    """

    text: str
    answer_type: str
    walks: tuple[MetapathWalk, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the notation of this module.

        Raises:
            UsageError: the text does not follow it; the message quotes the offending part.
        """
        walks = [walk for chain in text.split("&") for walk in _walks(chain)]
        answers = sorted({walk.hops[-1].node_type for walk in walks})
        if len(answers) != 1:
            raise UsageError(f"{text!r} has the answers {', '.join(answers)}; expected walks that end in one type.")
        return cls(text, answers[0], tuple(walks))

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """The topic entities to name, each once, in the order of the text."""
        return tuple(dict.fromkeys(walk.topic for walk in self.walks if walk.topic is not None))

    def is_within(self, graph: Graph) -> bool:
        """Return whether a graph has all types and relations of the template."""
        types = {walk.start_type for walk in self.walks} | {hop.node_type for walk in self.walks for hop in walk.hops}
        relations = {hop.relation for walk in self.walks for hop in walk.hops}
        return types <= set(graph.node_types) and relations <= set(graph.relations)

    def answers(self, graph: Graph, *topics: int) -> NDArray[np.int64]:
        """Return the nodes that satisfy the template for these topic entities, ascending; the topics are no answers.

        Raises:
            UsageError: another number of topics than `self.topics` names, or a topic of another type.
        """
        if len(topics) != len(self.topics):
            raise UsageError(
                f"{len(topics)} topics for {self.text!r}; expected {len(self.topics)}: {', '.join(self.topics)}."
            )
        rows = dict(zip(self.topics, graph.checked(list(topics)).tolist(), strict=True))
        met = [walk.follow(graph, self._start(graph, walk, rows)) for walk in self.walks]
        every = reduce(partial(np.intersect1d, assume_unique=True), met)
        return np.setdiff1d(every, list({*rows.values()}), assume_unique=True)

    def __str__(self) -> str:
        return self.text

    def _start(self, graph: Graph, walk: MetapathWalk, rows: dict[str, int]) -> NDArray[np.integer]:
        if walk.topic is None:
            return graph.of_type(walk.start_type)
        topic_type = graph.node_types[graph.type_ids[rows[walk.topic]]]
        if topic_type != walk.start_type:
            raise UsageError(
                f"Row {rows[walk.topic]} is a {topic_type}; expected a {walk.start_type} as topic {walk.topic!r} "
                f"of {self.text!r}."
            )
        return np.array([rows[walk.topic]])


def _walks(chain: str) -> list[MetapathWalk]:
    """Return the one or two walks of a chain `A -> B -> answer <- C`."""
    nodes, arrows = [part.strip() for part in _ARROW.split(chain)][::2], _ARROW.findall(chain)
    forward = sum(arrow.startswith("-") for arrow in arrows)
    if not arrows or not all(nodes) or any(arrow.startswith("-") for arrow in arrows[forward:]):
        raise UsageError(
            f"{chain.strip()!r} is not a metapath; expected 'type -[relation]-> type ... <-[relation]- type'."
        )
    halves = [
        (nodes[: forward + 1], arrows[:forward]),
        (nodes[: forward - 1 if forward else None : -1], arrows[forward:][::-1]),
    ]
    return [_walk(half, steps) for half, steps in halves if steps]


def _walk(nodes: list[str], arrows: list[str]) -> MetapathWalk:
    types = [_LABEL.sub("", node.removeprefix(_ANY)).strip() for node in nodes]
    hops = []
    for arrow, node_type in zip(arrows, types[1:], strict=True):
        label = arrow.strip("<->")[1:-1].strip()
        relation = label.removeprefix("!").strip()
        direction: Direction = "in" if relation.startswith("^") else "out"
        hops.append(Hop(relation.removeprefix("^").strip(), node_type, direction, label.startswith("!")))
    return MetapathWalk(None if nodes[0].startswith(_ANY) else nodes[0], types[0], tuple(hops))
