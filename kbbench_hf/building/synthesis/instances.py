"""Which topic entities and answers may serve: named without doubt, no hubs, none too often."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.building.synthesis.node_phrases import folded, is_named
from kbbench_hf.building.synthesis.schema import is_name
from kbbench_hf.building.synthesis.topic_entities import degrees_of
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.text.words import list_words

OF_A_TEMPLATE = 3
TOPIC_SHARE, ANSWER_SHARE, HUB_SHARE = 0.02, 0.05, 0.1
MOST_LINKED_SHARE = 0.12
"""The share of questions that a guess of the node with most edges, of the type that is asked for, may get right; they
share answers, so that most of them stand in one split."""
FEWEST_AS_TOPIC, FEWEST_AS_ANSWER = 3, 5
HUB_PERCENTILE = 99


class Names:
    """What the nodes are called, and which names are of several."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._names, self._types = kb.names(), kb.types()
        self._folded = list(map(_form, self._names))
        self._of_type = Counter(zip(self._types, self._folded, strict=True))
        self._of_all = Counter(self._folded)

    def of(self, rows: Sequence[int]) -> list[str]:
        """Return the names of rows."""
        return [self._names[row] for row in rows]

    def said(self, row: int, kind: str) -> str:
        """Return a name, after its type's where another type has it too."""
        name = self._names[row]
        return f"the {kind} {name}" if self._of_all[self._folded[row]] > 1 else name

    def refusal(self, topics: Sequence[int]) -> str | None:
        """Return why topics cannot be told apart by their names, or None."""
        for row in topics:
            if not is_name(self._names[row]):
                return "a topic has no name to be called by"
            if self._of_type[self._types[row], self._folded[row]] > 1:
                return "another node of its type has a topic's name"
        names = self.of(topics)
        if any(is_named(one, other) for n, one in enumerate(names) for m, other in enumerate(names) if n != m):
            return "a topic's name stands in another's"
        return None


def _form(name: str) -> str:
    """Return a name in the form that all ways of writing it have in common."""
    return "".join(list_words(folded(name))) or name.strip()


class Usage:
    """How often nodes have served, and what that refuses for a number of questions to be made."""

    def __init__(self, kb: KnowledgeBase, count: int) -> None:
        self._kb, self._count = kb, count
        self._topics: Counter[int] = Counter()
        self._in_template: Counter[tuple[str, int]] = Counter()
        self._answers: Counter[int] = Counter()
        self._n_hubs = self._n_most_linked = 0

    @cached_property
    def hubs(self) -> NDArray[np.bool_]:
        """Which nodes have more edges than 99 % of their type, shape (n_nodes,)."""
        graph = self._kb.graph
        degrees = degrees_of(graph)
        found = np.zeros(len(degrees), np.bool_)
        for kind in graph.node_types:
            rows = graph.of_type(kind)
            if len(rows):
                found[rows] = degrees[rows] > np.percentile(degrees[rows], HUB_PERCENTILE)
        return found

    @cached_property
    def most_linked(self) -> frozenset[int]:
        """Of each type the node with most edges, the first of several."""
        degrees = degrees_of(self._kb.graph)
        of_types = map(self._kb.graph.of_type, self._kb.graph.node_types)
        return frozenset(int(rows[np.argmax(degrees[rows])]) for rows in of_types if len(rows))

    def refusal_of_topics(self, path: Metapath, topics: Sequence[int]) -> str | None:
        """Return why topics may not serve once more, or None."""
        if any(self._in_template[path.text, row] >= OF_A_TEMPLATE for row in topics):
            return "a topic serves three questions of the template"
        if any(self._topics[row] >= max(FEWEST_AS_TOPIC, TOPIC_SHARE * self._count) for row in topics):
            return "a topic serves too many questions"
        if self._leads_by_hub(path, topics) and self._n_hubs >= HUB_SHARE * self._count:
            return "a hub"
        return None

    def refusal_of_answers(self, answers: Sequence[int]) -> str | None:
        """Return why answers may not serve once more, or None."""
        most = max(FEWEST_AS_ANSWER, ANSWER_SHARE * self._count)
        if any(self._answers[row] >= most for row in answers):
            return "a node answers too many questions"
        most = max(FEWEST_AS_ANSWER, MOST_LINKED_SHARE * self._count)
        if self._n_most_linked >= most and not self.most_linked.isdisjoint(answers):
            return "the node of its type with most edges is an answer"
        return None

    def take(self, path: Metapath, topics: Sequence[int], answers: Sequence[int]) -> None:
        """Note a question that was made."""
        self._topics.update(topics)
        self._in_template.update((path.text, row) for row in topics)
        self._answers.update(answers)
        self._n_hubs += self._leads_by_hub(path, topics)
        self._n_most_linked += not self.most_linked.isdisjoint(answers)

    def _leads_by_hub(self, path: Metapath, topics: Sequence[int]) -> bool:
        """Say whether a topic, or a node between it and the answers, is a hub."""
        if self.hubs[list(topics)].any():
            return True
        rows = dict(zip(path.topics, topics, strict=True))
        for walk in path.walks:
            if walk.topic is None or len(walk.hops) == 1:
                continue
            nodes = np.array([rows[walk.topic]])
            for hop in walk.hops[:-1]:
                found = np.unique(self._kb.graph.neighbors_of(nodes, hop.relation, hop.direction).rows)
                nodes = found[self._kb.graph.type_ids[found] == self._kb.graph.type_id(hop.node_type)]
                if self.hubs[nodes].any():
                    return True
        return False
