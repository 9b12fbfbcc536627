"""Topic entities of questions: random draws, names that identify them, and limits on repeated topics and answers.

`templates` and `questions` draw with it. The order of random numbers decides which questions a seed gives.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from random import Random

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.building.synthesis import english
from kbbench_hf.building.synthesis.requirements import Requirement, folded, is_named
from kbbench_hf.building.synthesis.schema import is_name
from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.metapaths import Metapath, MetapathWalk, reverse_hops
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.text.words import list_words

OF_A_TEMPLATE = 3
"""Questions of one template that a topic may serve."""
TOPIC_SHARE, ANSWER_SHARE, HUB_SHARE = 0.02, 0.05, 0.1
"""Shares of all questions that a topic may serve, that a node may answer, and that hubs may lead to."""
MOST_LINKED_SHARE = 0.12
"""The share of questions that the node of the answer type with most edges may answer; such questions share answers, so
that most of them are in one split."""
FEWEST_AS_TOPIC, FEWEST_AS_ANSWER = 3, 5
"""Questions that a topic may serve, and that a node may answer, where these shares are smaller."""
HUB_PERCENTILE = 99


class TopicDraws:
    """Random draws of topic entities from one knowledge base; the same random numbers give the same topics."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.graph = kb.graph
        self._starts: dict[tuple[str, str, Direction], tuple[list[int], list[float]]] = {}

    def draw(self, path: Metapath, rng: Random) -> tuple[list[int], list[int], list[int]] | None:
        """Return a row for each topic of a template, the rows of its answers, and the topics that meet it themselves.

        None where no node meets the template. Topics are no answers, so that there may be none beside them.

        The first topic is drawn by the inverse square root of its degree. Another one is found by walking back from an
        answer that the walks so far have in common; if its walk is negated, that answer is removed.
        """
        drawn: dict[str, int] = {}
        met: NDArray[np.int64] | None = None
        for walk in sorted(path.walks, key=lambda each: any(hop.negated for hop in each.hops)):
            if walk.topic is not None and walk.topic not in drawn:
                topic = (
                    self._draw_first(walk, rng)
                    if met is None
                    else self._draw_meeting(walk, met, set(drawn.values()), rng)
                )
                if topic is None:
                    return None
                drawn[walk.topic] = topic
            start = self.graph.of_type(walk.start_type) if walk.topic is None else np.array([drawn[walk.topic]])
            reached = walk.follow(self.graph, start)
            met = reached if met is None else np.intersect1d(met, reached, assume_unique=True)
            if not len(met):
                return None
        topics = [drawn[topic] for topic in path.topics]
        shared = [] if met is None else met.tolist()
        return topics, [row for row in shared if row not in topics], [row for row in topics if row in shared]

    def reached(self, path: Metapath, topics: Sequence[int]) -> list[list[int]]:
        """Return to how many nodes each hop of each walk of a template leads from these topics."""
        rows = dict(zip(path.topics, topics, strict=True))
        counts: list[list[int]] = []
        for walk in path.walks:
            nodes = self.graph.of_type(walk.start_type) if walk.topic is None else np.array([rows[walk.topic]])
            counts.append([])
            for hop in walk.hops:
                nodes = hop.follow(self.graph, nodes)
                counts[-1].append(len(nodes))
        return counts

    def _draw_first(self, walk: MetapathWalk, rng: Random) -> int | None:
        """Return a random row from which the first hop of a walk leads on; None where there is none."""
        hop = walk.hops[0]
        key = (walk.start_type, hop.relation, hop.direction)
        if key not in self._starts:
            rows = self.graph.of_type(walk.start_type)
            rows = rows[self.graph.degrees(hop.relation, hop.direction)[rows] > 0]
            self._starts[key] = rows.tolist(), list(accumulate((1 / np.sqrt(self.graph.total_degrees[rows])).tolist()))
        rows_of, weights = self._starts[key]
        return rng.choices(rows_of, cum_weights=weights)[0] if rows_of else None

    def _draw_meeting(self, walk: MetapathWalk, met: NDArray[np.int64], drawn: set[int], rng: Random) -> int | None:
        """Return a random row, none of `drawn`, from which a walk leads to a random one of `met`; None for none."""
        answer = int(met[rng.randrange(len(met))])
        back = MetapathWalk(None, walk.hops[-1].node_type, reverse_hops(walk.start_type, walk.hops))
        possible = [row for row in back.follow(self.graph, np.array([answer])).tolist() if row not in drawn]
        return possible[rng.randrange(len(possible))] if possible else None


class EntityNames:
    """The names of the nodes, and which of them are ambiguous."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._names, self._types = kb.names(), kb.types()
        self._folded = list(map(_normal_form, self._names))
        self._of_type = Counter(zip(self._types, self._folded, strict=True))
        self._of_all = Counter(self._folded)

    def unambiguous(self, row: int, kind: str) -> str:
        """Return a name, preceded by its type where another type has it too, and in quotes where it is a clause."""
        name = self._names[row]
        if english.is_clause(name):
            return f'the {kind} "{name}"'
        return f"the {kind} {name}" if self._of_all[self._folded[row]] > 1 else name

    def refusal(self, topics: Sequence[int]) -> str | None:
        """Return why names do not identify the topics, or None."""
        for row in topics:
            if not is_name(self._names[row]):
                return "a topic has no name to be called by"
            if self._of_type[self._types[row], self._folded[row]] > 1:
                return "another node of its type has a topic's name"
        names = [self._names[row] for row in topics]
        if any(is_named(one, other) for n, one in enumerate(names) for m, other in enumerate(names) if n != m):
            return "a topic's name stands in another's"
        return None


def _normal_form(name: str) -> str:
    """Return the normal form of a name, the same for all spellings."""
    return "".join(list_words(folded(name))) or name.strip()


class Usage:
    """Counts of how often nodes are topics and answers, and the limits on them for a number of questions."""

    def __init__(self, kb: KnowledgeBase, count: int) -> None:
        self._kb, self._count = kb, count
        self._topics: Counter[int] = Counter()
        self._in_template: Counter[tuple[str, int]] = Counter()
        self._answers: Counter[int] = Counter()
        self.phrases: Counter[str] = Counter()
        self.most_of_phrase = max(FEWEST_AS_TOPIC, TOPIC_SHARE * count)
        self._n_hubs = self._n_most_linked = 0

    @cached_property
    def hubs(self) -> NDArray[np.bool_]:
        """Which nodes have more edges than 99 % of their type, shape (n_nodes,)."""
        graph = self._kb.graph
        degrees = graph.total_degrees
        are_hubs = np.zeros(len(degrees), np.bool_)
        for kind in graph.node_types:
            rows = graph.of_type(kind)
            if len(rows):
                are_hubs[rows] = degrees[rows] > np.percentile(degrees[rows], HUB_PERCENTILE)
        return are_hubs

    @cached_property
    def most_linked(self) -> frozenset[int]:
        """Of each type the node with most edges, the first of several."""
        degrees = self._kb.graph.total_degrees
        of_types = map(self._kb.graph.of_type, self._kb.graph.node_types)
        return frozenset(int(rows[np.argmax(degrees[rows])]) for rows in of_types if len(rows))

    def refusal_of_topics(self, path: Metapath, topics: Sequence[int]) -> str | None:
        """Return why topics may not be used once more, or None."""
        if any(self._in_template[path.text, row] >= OF_A_TEMPLATE for row in topics):
            return "a topic serves three questions of the template"
        if any(self._topics[row] >= max(FEWEST_AS_TOPIC, TOPIC_SHARE * self._count) for row in topics):
            return "a topic serves too many questions"
        if self._leads_by_hub(path, topics) and self._n_hubs >= HUB_SHARE * self._count:
            return "a hub"
        return None

    def refusal_of_answers(self, answers: Sequence[int]) -> str | None:
        """Return why answers may not be used once more, or None."""
        most = max(FEWEST_AS_ANSWER, ANSWER_SHARE * self._count)
        if any(self._answers[row] >= most for row in answers):
            return "a node answers too many questions"
        most = max(FEWEST_AS_ANSWER, MOST_LINKED_SHARE * self._count)
        if self._n_most_linked >= most and not self.most_linked.isdisjoint(answers):
            return "the node of its type with most edges is an answer"
        return None

    def take(
        self, path: Metapath, topics: Sequence[int], answers: Sequence[int], requirements: Sequence[Requirement]
    ) -> None:
        """Count the topics, answers and phrases of a new question."""
        self.phrases.update(each["value"] for each in requirements if each["kind"] == "phrase")
        self._topics.update(topics)
        self._in_template.update((path.text, row) for row in topics)
        self._answers.update(answers)
        self._n_hubs += self._leads_by_hub(path, topics)
        self._n_most_linked += not self.most_linked.isdisjoint(answers)

    def _leads_by_hub(self, path: Metapath, topics: Sequence[int]) -> bool:
        """Return whether a topic, or a node between it and the answers, is a hub."""
        if self.hubs[list(topics)].any():
            return True
        rows = dict(zip(path.topics, topics, strict=True))
        for walk in path.walks:
            if walk.topic is None or len(walk.hops) == 1:
                continue
            nodes = np.array([rows[walk.topic]])
            for hop in walk.hops[:-1]:
                nodes = replace(hop, negated=False).follow(self._kb.graph, nodes)
                if self.hubs[nodes].any():
                    return True
        return False
