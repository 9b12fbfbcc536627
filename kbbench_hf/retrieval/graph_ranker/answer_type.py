"""Which type of node a question asks for: what its noun phrases say of each type, weighed against what was found.

The phrases that a question asks for are compared with the names of the types, with those of the relations, whose tails
have types, and with the words of the names and texts of each type. The likelihood of a type, given the phrases, is
multiplied by its share in what texts and edges found, which decides where the phrases say nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.query_words import stem, words
from kbbench_hf.retrieval.graph_ranker.schema_labels import Labels

Vector = NDArray[np.float64]
Texts = Callable[[NDArray[np.int64]], Sequence[str]]
"""The texts of some nodes, as the base ranker reads them."""

SAMPLE = 2000
"""Nodes of each type whose words are read."""
_WORD = 1.0
"""The most that one word of a type's texts says for or against it, in log-odds: words of texts are weak evidence."""
_FEW = 4.0
"""A word that so many nodes have says half of that."""
_NAMED = 16.0
"""What the name of a type in the phrase says: more than any five words, so that a type that is named is the type."""
_RELATION = 8.0
"""What the name of a relation says for the types of its tails: half of that, since it may be the verb of the phrase."""
_MENTIONED = 3.0
"""What the name of a type says that is mentioned where nothing is known of what is asked for."""
_FADING = 0.9
"""What each word counts against the one after it: the head of an English noun phrase stands last."""
_COMMON = 0.02
"""A word is common if this share of a type's nodes uses it: what is misspelt is read as such a word alone."""
_UNSEEN = 5.0
"""What is added to all shares of what was found, the same to each type, so that others can still be asked for."""
_STRAY = 0.3
"""The same for the shares of what is joined."""
_JOINED = 1.5
"""How much the logarithm of a share of what is joined counts against that of a share of what was found."""
_MISREAD = 0.1
"""How often a reading is wrong (of questions that were looked at, one in twenty, under other wordings one in ten)."""


class AnswerTypes:
    """The words of each node type, and how much text its nodes have.

    >>> import pyarrow as pa
    >>> columns = {"id": [0, 1, 2], "type": ["cell_part", "drug", "drug"], "name": ["nucleus", "Aspirin", "Codeine"],
    ...            "text": ["", "A medication against pain.", "A medication against cough."]}
    >>> no_edges = pa.schema([("head", pa.int64()), ("relation", pa.string()), ("tail", pa.int64())]).empty_table()
    >>> types = AnswerTypes(KnowledgeBase.from_arrow(pa.table(columns), no_edges))
    >>> even = np.array([0.5, 0.5])
    >>> types.probabilities([["parts"]], even).round(2).tolist()
    [0.95, 0.05]
    >>> types.probabilities([["useful", "medications"]], even).round(2).tolist()
    [0.38, 0.62]
    """

    def __init__(self, kb: KnowledgeBase, texts: Texts | None = None) -> None:
        self.names = kb.graph.node_types
        self._labels, self._relations = Labels(self.names), Labels(kb.graph.relations)
        self._tails = _tail_types(kb)
        counts, sizes, self.own_words = _read(kb, texts or kb.texts)
        self._all_read = sizes.sum() == len(kb)
        frequency = {word: (count + 0.01) / (sizes + 0.5) for word, count in counts.items()}
        used = [word for word, p in frequency.items() if p.max() >= _COMMON]
        self.common = {*used, *self._labels.words, *self._relations.words}
        sure = {word: _WORD * count.sum() / (count.sum() + _FEW) for word, count in counts.items()}
        self._evidence = {word: sure[word] * np.clip(np.log(p / p.mean()), -1, 1) for word, p in frequency.items()}

    def probabilities(
        self,
        phrases: Sequence[Sequence[str]],
        found: Vector,
        joined: Vector | float = 0.0,
        left: float = 1.0,
        uncued: Sequence[str] = (),
    ) -> Vector:
        """Return the probability of each type of being asked for, shape (types,).

        Args:
            phrases: the noun phrases that the question asks for. Those that name a type or a relation say it where
                there are any ("which drugs ...? Give sources."); where there are no phrases, `found` and `joined` do.
            found: the share of each type in what the base ranking found.
            joined: the share of each type in what is joined to the named nodes.
            left: how much the question leaves to texts; the rest it leaves to edges.
            uncued: all words of a question that has no cue of asking. Where no phrase has a word that is common here
                ("On a quiz night: a bridge over ..."), the first type that they mention may be asked for.
        """
        texts, edges = left * found + _UNSEEN / len(found), joined + _STRAY / len(found)
        prior = texts * edges ** (_JOINED * (1 - left))
        prior /= prior.sum()
        evidence = np.log(prior)
        stems = [[stem(word) for word in phrase] for phrase in phrases]
        for phrase in [phrase for phrase in stems if any(map(self.is_schema_word, phrase))] or stems:
            evidence += self._evidence_of(phrase)
        if not any(word in self.common for phrase in stems for word in phrase):
            evidence += _MENTIONED * self._labels.spoken(self._first_label(uncued))
        likely = np.exp(evidence - evidence.max())
        mixed: Vector = (1 - _MISREAD) * likely / likely.sum() + _MISREAD * prior
        return mixed

    def knows(self, word: str) -> bool:
        """Whether a stem stands in the names and texts that were read."""
        return word in self._evidence

    def is_unused(self, word: str) -> bool:
        """Whether no name or text has a stem; False where not all were read."""
        return self._all_read and not self.knows(word)

    def is_label(self, word: str) -> bool:
        """Whether a stem is a form of a word in the name of a type."""
        return bool(self._labels.related(word))

    def is_schema_word(self, word: str) -> bool:
        """Whether a stem is a form of a word in the name of a type or of a relation."""
        return self.is_label(word) or bool(self._relations.related(word))

    def _first_label(self, said: Sequence[str]) -> dict[str, float]:
        """Return the first words in a row that are words of labels, by their stems."""
        stems = dropwhile(lambda word: not self.is_label(word), map(stem, said))
        return dict.fromkeys(takewhile(self.is_label, stems), 1.0)

    def _evidence_of(self, phrase: Sequence[str]) -> Vector:
        weights = {word: _FADING**place for place, word in reversed(list(enumerate(reversed(phrase))))}
        evidence = np.zeros(len(self.names))
        for word, weight in weights.items():
            evidence += weight * self._evidence.get(word, 0.0)
        of_relations = (self._relations.spoken(weights)[:, None] * self._tails).max(axis=0, initial=0.0)
        named: Vector = np.maximum(_NAMED * self._labels.spoken(weights), _RELATION * of_relations)
        return evidence + named


def _tail_types(kb: KnowledgeBase) -> NDArray[np.float64]:
    """Return the share of each type among the tails of each relation, shape (relations, types)."""
    out, shape = kb.graph.without_loops.out, (len(kb.graph.relations), len(kb.graph.node_types))
    relations = np.repeat(np.arange(len(out.indptr) - 1) % out.n_relations, np.diff(out.indptr))
    pairs = relations * shape[1] + kb.graph.type_ids[out.indices]
    counts = np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)
    shares: Vector = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def _read(kb: KnowledgeBase, texts_of: Texts) -> tuple[dict[str, Vector], Vector, Vector]:
    """Return how many sampled nodes of each type use a word, how many were sampled, and the mean of own words per node.

    A node's own words are those of its text that neither its name nor its type nor half of its type's texts have.
    """
    n_types = len(kb.graph.node_types)
    counts: dict[str, Vector] = {}
    sizes, own_words = np.zeros(n_types), np.zeros(n_types)
    for number, node_type in enumerate(kb.graph.node_types):
        rows = kb.of_type(node_type)
        rows = rows[:: max(1, -(-len(rows) // SAMPLE))]
        own: Counter[str] = Counter()
        for name, text in zip(kb.names(rows), texts_of(rows), strict=True):
            in_text = set(words(text))
            own.update(in_text - set(words(name)) - set(words(node_type)))
            for word in in_text | set(words(name)):
                counts.setdefault(word, np.zeros(n_types))[number] += 1
        sizes[number] = len(rows)
        own_words[number] = sum(n for n in own.values() if n < len(rows) / 2) / max(len(rows), 1)
    return counts, sizes, own_words
