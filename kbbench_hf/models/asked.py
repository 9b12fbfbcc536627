"""What a question says of a knowledge base: the nodes that it names, the relations that it speaks of, what is left."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.answer_type import AnswerTypes
from kbbench_hf.models.english import stem, words
from kbbench_hf.models.exclusions import without_comparison
from kbbench_hf.models.labels import Labels
from kbbench_hf.models.node_names import Named, NodeNames
from kbbench_hf.models.question import Reading, read
from kbbench_hf.models.spelling import Spelling
from kbbench_hf.models.spreading import Vector

ELSEWHERE = 0.5
"""What is named in a sentence that asks nothing may be part of a story, where those that ask name something."""
SPOKEN = 3.0
"""A relation that the question speaks of passes on so many times as much as another."""
ENOUGH_WORDS, LEAST_TEXT = 3, 0.15
"""With so many words of texts that name no node, type or relation, a question leaves all to texts; with none, so much.
Chosen on training and validation questions and on knowledge bases of other kinds."""


class Asked(NamedTuple):
    """What a question says of the knowledge base."""

    reading: Reading
    named: Named
    excluded: Named
    relations: Sequence[Vector]
    """What each relation passes on, from head to tail and back."""
    left: float
    """How much it leaves to texts, between 0 and 1: what it asks by names, types and relations, these tell."""


class Questions:
    """Questions to a knowledge base, as far as its names, types and relations tell what they say.

    Args:
        kb: the knowledge base.
        types: its types.
        n_ways: whether edges are followed both ways (2), or one where every edge has its reverse.
    """

    def __init__(self, kb: KnowledgeBase, types: AnswerTypes, n_ways: int) -> None:
        self._kb, self._types, self._n_ways = kb, types, n_ways
        self._names, self._relations = NodeNames(kb.names()), Labels(kb.graph.relations)
        self._spelling = Spelling(types.common, lambda word: types.knows(word) or self._names.knows(word))

    def understood(self, query: str) -> Asked:
        """Return what a question says, its misspelt words read as they were meant."""
        query = self._spelling.corrected(query)
        named = self._names.find(query)
        reading = read(query, *self._words_of(named))
        joined = without_comparison(reading.said)  # what is compared with need not be joined to what is asked for
        if joined != query:
            named = self._names.find(joined)
        if len(named.rows) > 1:
            meant = np.isin(named.rows, self._names.find(reading.asking).rows)
            named = Named(named.rows, named.strength * np.where(meant | ~meant.any(), 1, ELSEWHERE))
        relations = self.spoken(reading.said, reading.asked)
        return Asked(reading, named, self._names.find(reading.excluded), relations, self._left(reading.sought, named))

    def _words_of(self, named: Named) -> tuple[set[str], set[tuple[str, str]]]:
        """Return the stems of names that are in no name of a type, and the pairs in which they stand beside one."""
        stems = self._names.stems(named.rows)
        given = {word for word in stems if not self._types.is_label(word)}
        if len(given) == len(stems):
            return given, set()
        spelled = [list(words(name)) for name in self._kb.names(named.rows)]
        return given, {pair for name in spelled for pair in pairwise(name) if len(given.intersection(pair)) == 1}

    def _left(self, sought: str, named: Named) -> float:
        """Return how much a question leaves to texts: as far as it has words of theirs that name nothing."""
        sure = named.surest
        told = self._names.stems(named.rows[named.strength >= sure / 2])
        left = {word for word in words(sought) if not (word in told or self._types.is_schema_word(word))}
        n_left = sum(not self._types.is_unused(word) for word in left)
        return float(1 - sure * (1 - np.clip(n_left / ENOUGH_WORDS, LEAST_TEXT, 1)))

    def spoken(self, text: str, phrases: Sequence[Sequence[str]] = ()) -> list[Vector]:
        """Return what each relation passes on from head to tail and back: more where the text speaks of it.

        What is asked for by a relation's name alone ("the parent peak of X") is its tail: the way back to the head is
        not spoken of. Where every edge has its reverse, both ways are one.
        """
        spoken = self._relations.spoken(dict.fromkeys(words(text), 1.0)) > 0
        bare = [phrase for phrase in phrases if not any(self._types.is_label(stem(word)) for word in phrase)]
        asked = self._relations.spoken({stem(word): 1.0 for phrase in bare for word in phrase}) > 0
        ways = [spoken, spoken & ~asked][: self._n_ways]
        return [np.where(way, SPOKEN, 1.0) for way in ways]
