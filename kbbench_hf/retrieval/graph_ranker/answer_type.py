"""Answer-type prediction: which type of node a query asks for, by its noun phrases, the best texts and the neighbors.

The phrases are compared with the labels of types, with those of relations, whose tails have types, and with the words
of the names and texts of each type. The likelihood of a type given the phrases is multiplied by its share in what texts
and edges found, which decides where the phrases say nothing.

Exclusions of a query (negation, asides, comparisons) are split off before by the form of English sentences. No grammar
here tells where such a phrase ends. At the edge of a sentence it is all that is there ("Unlike my last question, which
was about X, ..."; "... that treat Y, but not by X."). Right after the noun that is asked for ("drugs other than X that
treat Y") it ends with its first names, which are names of the knowledge base; between commas at the second.

The graph ranker and the planners use both. Constants and patterns were tuned on training and validation queries, and
published scores depend on them.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import dropwhile, takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.query_words import (
    FUNCTION,
    LINKS,
    REQUESTS,
    SchemaLabels,
    stem,
    word_list,
    words,
)
from kbbench_hf.text.words import WORD

Vector = NDArray[np.float64]
Texts = Callable[[NDArray[np.int64]], Sequence[str]]
"""The texts of some nodes, as the base retriever reads them."""

SAMPLE = 2000
"""Nodes of each type whose words are counted."""
_WORD = 1.0
"""The most log-odds of one word of a type's texts: words of texts are weak evidence."""
_FEW = 4.0
"""A word of so many nodes has half of that."""
_LABELED = 16.0
"""The log-odds of a type whose label is in the phrase: more than any five words."""
_RELATION = 8.0
"""Those of the tails of a relation whose label is there: half of that, since it may be the verb of the phrase."""
_MENTIONED = 3.0
"""Those of a type whose label is anywhere in a query that names nothing it asks for."""
_FADING = 0.9
"""The weight of each word relative to the next: the head of an English noun phrase is its last word."""
_COMMON = 0.02
"""A word is common if this share of a type's nodes has it: spelling is corrected to common words only."""
_UNSEEN = 5.0
"""Smoothing of the shares in texts, so that types not found stay possible."""
_STRAY = 0.3
"""Smoothing of the shares among neighbors."""
_NEIGHBORS = 1.5
"""The exponent of shares among neighbors against those in texts."""
_MISREAD = 0.1
"""How often a prediction is wrong (one in twenty of the queries looked at, one in ten under other wordings)."""


class AnswerTypePredictor:
    """Predicts the answer type of a query, from the words of each node type and how much text its nodes have.

    Vectors over types are in the order of `names`.

    >>> import pyarrow as pa
    >>> columns = {"id": [0, 1, 2], "type": ["cell_part", "drug", "drug"], "name": ["nucleus", "Aspirin", "Codeine"],
    ...            "text": ["", "A medication against pain.", "A medication against cough."]}
    >>> no_edges = pa.schema([("head", pa.int64()), ("relation", pa.string()), ("tail", pa.int64())]).empty_table()
    >>> types = AnswerTypePredictor(KnowledgeBase.from_arrow(pa.table(columns), no_edges))
    >>> even = np.array([0.5, 0.5])
    >>> types.probabilities([["parts"]], even).round(2).tolist()
    [0.95, 0.05]
    >>> types.probabilities([["useful", "medications"]], even).round(2).tolist()
    [0.38, 0.62]
    """

    def __init__(self, kb: KnowledgeBase, texts: Texts | None = None) -> None:
        self.names = kb.graph.node_types
        self._labels, self._relations = SchemaLabels(self.names), SchemaLabels(kb.graph.relations)
        self._tails = _tail_types(kb)
        counts, sizes, self.own_words = _count_words(kb, texts or kb.texts)
        self._all_read = sizes.sum() == len(kb)
        frequency = {word: (count + 0.01) / (sizes + 0.5) for word, count in counts.items()}
        used = [word for word, p in frequency.items() if p.max() >= _COMMON]
        self.common = {*used, *self._labels.words, *self._relations.words}
        sure = {word: _WORD * count.sum() / (count.sum() + _FEW) for word, count in counts.items()}
        self._evidence = {word: sure[word] * np.clip(np.log(p / p.mean()), -1, 1) for word, p in frequency.items()}

    def probabilities(
        self,
        phrases: Sequence[Sequence[str]],
        by_text: Vector,
        by_edges: Vector | float = 0.0,
        text_share: float = 1.0,
        uncued: Sequence[str] = (),
    ) -> Vector:
        """Return the probability of each type to be the answer type, shape (types,).

        Args:
            phrases: the noun phrases that the query asks for. Those with the label of a type or a relation alone count,
                where there are any ("which drugs ...? Give sources.").
            by_text: the share of each type in the base ranking.
            by_edges: the share of each type among the neighbors of linked entities.
            text_share: how much the query leaves to texts; the rest it leaves to edges.
            uncued: all words of a query without a cue. Where no phrase has a word that is common here ("On a quiz
                night: a bridge over ..."), the first type that they mention counts.
        """
        in_texts, near = text_share * by_text + _UNSEEN / len(by_text), by_edges + _STRAY / len(by_text)
        prior = in_texts * near ** (_NEIGHBORS * (1 - text_share))
        prior /= prior.sum()
        evidence = np.log(prior)
        stems = [[stem(word) for word in phrase] for phrase in phrases]
        for phrase in [phrase for phrase in stems if any(map(self.is_schema_word, phrase))] or stems:
            evidence += self._evidence_of(phrase)
        if not any(word in self.common for phrase in stems for word in phrase):
            first = takewhile(self.is_label, dropwhile(lambda word: not self.is_label(word), map(stem, uncued)))
            evidence += _MENTIONED * self._labels.coverage(dict.fromkeys(first, 1.0))
        likely = np.exp(evidence - evidence.max())
        mixed: Vector = (1 - _MISREAD) * likely / likely.sum() + _MISREAD * prior
        return mixed

    def knows(self, word: str) -> bool:
        """Whether a stem occurs in the names and texts that were counted."""
        return word in self._evidence

    def is_unused(self, word: str) -> bool:
        """Whether no name or text has a stem; False where not all were counted."""
        return self._all_read and not self.knows(word)

    def is_label(self, word: str) -> bool:
        """Whether a stem is a form of a word in the label of a type."""
        return bool(self._labels.forms(word))

    def is_schema_word(self, word: str) -> bool:
        """Whether a stem is a form of a word in the label of a type or of a relation."""
        return self.is_label(word) or bool(self._relations.forms(word))

    def _evidence_of(self, phrase: Sequence[str]) -> Vector:
        weights = {word: _FADING**position for position, word in reversed(list(enumerate(reversed(phrase))))}
        evidence = np.zeros(len(self.names))
        for word, weight in weights.items():
            evidence += weight * self._evidence.get(word, 0.0)
        by_relation = (self._relations.coverage(weights)[:, None] * self._tails).max(axis=0, initial=0.0)
        labeled: Vector = np.maximum(_LABELED * self._labels.coverage(weights), _RELATION * by_relation)
        return evidence + labeled


def _tail_types(kb: KnowledgeBase) -> Vector:
    """Return the share of each type among the tails of each relation, shape (relations, types)."""
    out, shape = kb.graph.without_loops.out, (len(kb.graph.relations), len(kb.graph.node_types))
    relations = np.repeat(np.arange(len(out.indptr) - 1) % out.n_relations, np.diff(out.indptr))
    pairs = relations * shape[1] + kb.graph.type_ids[out.indices]
    counts = np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)
    shares: Vector = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def _count_words(kb: KnowledgeBase, texts_of: Texts) -> tuple[dict[str, Vector], Vector, Vector]:
    """Return the nodes of each type with a word, of those sampled; the size of each sample; own words per node.

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
            in_text, in_name = set(words(text)), set(words(name))
            own.update(in_text - in_name - set(words(node_type)))
            for word in in_text | in_name:
                counts.setdefault(word, np.zeros(n_types))[number] += 1
        sizes[number] = len(rows)
        own_words[number] = sum(n for n in own.values() if n < len(rows) / 2) / max(len(rows), 1)
    return counts, sizes, own_words


# Patterns of `split_exclusions`: it drops asides first; then what `_NEGATED`, and `_EXCEPT`, match is excluded.
_CUE = (
    r"(?:which(?!\s+(?:is|was|are|were|has|had|have|i|we)\b)|what|whose|where|how|list|find|name|give|identify|tell|"
    r"show|search|please|can|could|would|will|are|is|do|does|i|we|this|that|here|let)"
)
_ABBREVIATED = re.compile(rf"\b([A-Z]|Dr|Mr|Mrs|Ms|St|Jr|Sr|Prof)\.(?=,| (?!(?i:{_CUE})\b)\w)")
_REST = rf".*?(?=$|[.!?;:](?:\s|$)|\n|,\s*{_CUE}\b|[)\"”])"
_ABOUT = r"(?:\s+(?:on|about|regarding|concerning|of|was|were))"
_TURN = r"(?:question|search|request|query|post|topic|answer|reply|response|message|conversation|chat)s?"
_THOSE = r"(?:any|those|the ones)"
_ASIDE = re.compile(
    r"\b(?:unlike|forget|ignore|never mind|nothing to do with|already know|already have|instead of|regardless of|"
    r"(?:apart|aside) from(?! "
    + _THOSE
    + r"\b)|not (?:asking )?about|(?:do not|don't|did not|didn't) (?:need|want|care|mean|ask)|"
    r"(?:not |un)related to|in contrast to|contrary to|as opposed to|not to be confused with|so much for|"
    r"no longer (?:interested in|about)|moving on from|(?:let us|let's) (?:drop|skip|leave)|"
    r"(?:after|since|before|besides?|following) (?:my|our|the|your) (?:\w+ )?" + _TURN + r"|"
    r"(?:last|previous|earlier|former|first|other) " + _TURN + _ABOUT + r")\b" + _REST,
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"\b(?:except(?:ing)?(?: for)?|excluding|excludes?|leaving (?:out|aside)|leave out|other than|rather than|save for|"
    r"minus|without (?:any|those|the ones)|(?:apart|aside) from|"
    r"(?:but |and )?(?:is |are |was |were )?not (?=(?:that|those|the ones|any|by|in|with|from|on|of|for|\w+ed)\b)|"
    r"but not)\b"
    r"[^,.;:!?]*",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:(?<=[\w,] )(?:that|which|who|whom|where|when|yet|but|and)"
    r"(?: (?!(?:i|we|you|it|this|please|that|which|who)\b)[^\s,.;:!?]+){0,3}? "
    r"(?:(?:do|does|did|has|have|had|is|are|was|were)(?: not|n['’]t)|never)|(?:are|were|is|was)n['’]t|never|without|"
    r"outside(?: of)?|absent from|missing from|skipped by|(?:but (?:please )?)?none (?:that|which|of|by|in|at|from)|"
    r"(?:any|every)(?:thing|where|one|body) but|all but)\b[^,.;:!?]*",
    re.IGNORECASE,
)
"""Excludes only where a name follows: the text of an answer may be negated too ("who never drove a car")."""
_COMPARED = re.compile(r"\bthan\b(?:\s+[^\s,.;:!?]+){1,6}", re.IGNORECASE)
_WITHIN_NAMES = word_list("within_names")


class SplitQuery(NamedTuple):
    """A query, and what its answers must not have."""

    included: str
    excluded: str


def split_exclusions(query: str, name_stems: Collection[str] = ()) -> SplitQuery:
    """Return a query without asides and exclusions, and its exclusions; the whole query where nothing would be left.

    `name_stems` are the stems of the names of linked entities.

    >>> split_exclusions("Unlike Speed, which films are set in Rome, but not directed by Fellini?")
    SplitQuery(included=' , which films are set in Rome,  ?', excluded='but not directed by Fellini')
    >>> split_exclusions("Which films other than Speed are set in Rome?", {"speed", "rome"})
    SplitQuery(included='Which films   are set in Rome?', excluded='other than Speed')
    """
    query = _ABBREVIATED.sub(r"\1", query)  # "Dr. No" is one sentence
    excluded: list[str] = []

    def exclude(match: re.Match[str]) -> str:
        end = _extent(match, name_stems)
        excluded.append(match[0][:end].strip())
        return " " + match[0][end:]

    def exclude_if_named(match: re.Match[str]) -> str:
        named = any(stem(word.lower()) in name_stems for word in WORD.findall(match[0]))
        return exclude(match) if named else match[0]

    included = _ASIDE.sub(lambda match: " " + match[0][_extent(match, name_stems) :], query)
    included = _EXCEPT.sub(exclude, _NEGATED.sub(exclude_if_named, included))
    return SplitQuery(included, " ".join(excluded)) if any(words(included)) else SplitQuery(query, "")


def remove_comparisons(text: str) -> str:
    """Return a text without its standards of comparison.

    >>> remove_comparisons("Which film is longer than Speed, and older?")
    'Which film is longer  , and older?'
    """
    return _COMPARED.sub(" ", text)


def _extent(match: re.Match[str], name_stems: Collection[str]) -> int:
    """Return how many characters of a matched phrase belong to it."""
    phrase, before = match[0], re.split(r"[.!?;:\n]", match.string[: match.start()])[-1]
    if before.rstrip().endswith(",") and "," in phrase:
        return phrase.index(",")
    end = 0
    if _is_noun_phrase(WORD.findall(before.lower())):
        for word in WORD.finditer(phrase):
            if stem(word[0].lower()) in name_stems:
                end = word.end()
            elif end and word[0].lower() not in _WITHIN_NAMES:
                break
    return end or len(phrase)


def _is_noun_phrase(tokens: Sequence[str]) -> bool:
    """Whether words are a bare noun phrase: "which small films", but not "which films of Rome"."""
    places = [position for position, word in enumerate(tokens) if word not in FUNCTION and word not in REQUESTS]
    return bool(places) and LINKS.isdisjoint(tokens[places[0] : places[-1]])
