"""Which type of node a question asks for, read from its wording and the knowledge base's own words; nothing is trained.

A question names what it wants in its first noun phrase ("Which cellular structures ...", "Could you list medications
that ..."). That phrase is compared with the names of the types, and where these do not occur in it with the words that
the names and texts of each type use.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase

SAMPLE = 2000
"""Nodes of each type whose words are read."""

_WORD = re.compile(r"[^\W_]+")


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_LINKS = _set("""
    in on to for with by from as at into among between within through via during under over that which who whom whose
    where when is are was were be been being am do does did has have had having of can could may might must should will
    would and also""")
"""Words that end a noun phrase."""
_FUNCTION = _LINKS | _set("""
    a an the or but nor what how why i me my we us our you your he she it its they them their this these those any
    some all each every both either neither no not if whether than then so such only very more most""")
_REQUESTS = _set("""
    identify find list lists provide search name recommend suggest show give tell know need want looking look seek
    seeking searching someone anyone interested curious let see get discover determine describe explain please m s
    information details detail info about rundown overview example examples several few kind kinds type types sort sorts
    form there exist exists known possible potential common shared specific particular certain various other another
    same like shall kindly""")
"""Words with which one asks; they say nothing about what is asked for."""
_VERBS = _set("""
    share interact involve associate relate link connect affect influence cause contain include exhibit engage act serve
    use work help target treat bind make take participate occur play impact lead function""")
"""Verbs that commonly follow the noun phrase."""

_NAMED = 16.0
"""Weight of the name of a type in the phrase, in units of the evidence of one word."""
_FADING = 0.9
"""What each word counts against the one after it: the head of an English noun phrase stands last."""


class AnswerTypes:
    """The words of each node type, and how much text its nodes have.

    >>> import pyarrow as pa
    >>> columns = {"id": [0, 1, 2], "type": ["cell_part", "drug", "drug"], "name": ["nucleus", "Aspirin", "Codeine"],
    ...            "text": ["", "A medication against pain.", "A medication against cough."]}
    >>> no_edges = pa.schema([("head", pa.int64()), ("relation", pa.string()), ("tail", pa.int64())]).empty_table()
    >>> types = AnswerTypes(KnowledgeBase.from_arrow(pa.table(columns), no_edges))
    >>> types.log_probabilities("Which parts of a cell break down?").argmax().item()
    0
    >>> types.log_probabilities("Could you name medications that help?").argmax().item()
    1
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self.names = kb.graph.node_types
        self._labels = [
            (number, [stem(word) for word in _WORD.findall(label.lower())])
            for number, name in enumerate(self.names)
            for label in name.replace("_", " ").split("/")
        ]
        counts, sizes, self.own_words = _read(kb)
        frequency = {word: (count + 0.01) / (sizes + 0.5) for word, count in counts.items()}
        self._evidence = {word: np.clip(np.log(p / p.mean()), -1, 1) for word, p in frequency.items()}

    def log_probabilities(self, question: str, named: Iterable[str] = ()) -> NDArray[np.float64]:
        """Return the logarithm of each type's probability of being asked for, shape (types,).

        `named` are names that the question spells out: their words say nothing about what it wants.
        """
        spelled_out = {word for name in named for word in words(name)}
        given = {
            word for word in spelled_out if not any(related(word, part) for _, label in self._labels for part in label)
        }
        phrase = [stem(word) for word in asked_for(question, given)][::-1]
        evidence, named = np.zeros(len(self.names)), np.zeros(len(self.names))
        for place, word in enumerate(phrase):
            evidence += _FADING**place * self._evidence.get(word, 0.0)
        for number, label in self._labels:
            found = [
                max((_FADING**i for i, word in enumerate(phrase) if related(word, part)), default=0.0) for part in label
            ]
            named[number] = max(named[number], sum(found) / max(len(label), 1))
        total = evidence + _NAMED * named
        total -= total.max()
        log_probabilities: NDArray[np.float64] = total - np.log(np.exp(total).sum())
        return log_probabilities


def words(text: str) -> Iterator[str]:
    """Yield the stems of the words of a text that are no function words.

    >>> list(words("The genes of a family"))
    ['gene', 'family']
    """
    return (stem(word) for word in _WORD.findall(text.lower()) if word not in _FUNCTION)


def stem(word: str) -> str:
    """Return an English word without its plural ending.

    >>> [stem(word) for word in ("bodies", "drugs", "is")]
    ['body', 'drug', 'is']
    """
    for ending, singular in (("ies", "y"), ("s", "")):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word.removesuffix(ending) + singular
    return word


def related(one: str, other: str) -> bool:
    """Whether one word begins with the other, of four letters or more: cellular with cell, interacts with interact."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= 4 and long.startswith(short))


def asked_for(question: str, given: Collection[str] = ()) -> list[str]:
    """Return the words of the first noun phrase that is no part of the asking, at most five; none of the stems `given`.

    >>> asked_for("Could you provide a list of cellular structures that engage with TNF?")
    ['cellular', 'structures']
    """
    phrase: list[str] = []
    for word in _WORD.findall(question.lower()):
        verb = _is_verb(word)
        if phrase and (word in _LINKS or verb):
            break
        if not (verb or word in _FUNCTION or word in _REQUESTS or stem(word) in given):
            phrase.append(word)
    return phrase[:5]


def _is_verb(word: str) -> bool:
    bases = (word, word[:-1], word[:-2], f"{word[:-2]}e", word[:-3], f"{word[:-3]}e")
    return any(base in _VERBS for base in bases)


def _read(kb: KnowledgeBase) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64], NDArray[np.float64]]:
    """Return how many sampled nodes of each type use a word, how many were sampled, and the mean of own words per node.

    A node's own words are those of its text that neither its name nor its type nor half of its type's texts have.
    """
    n_types = len(kb.graph.node_types)
    counts: dict[str, NDArray[np.float64]] = {}
    sizes, own_words = np.zeros(n_types), np.zeros(n_types)
    for number, node_type in enumerate(kb.graph.node_types):
        rows = kb.of_type(node_type)
        rows = rows[:: max(1, -(-len(rows) // SAMPLE))]
        names, texts = kb.names(rows), kb.nodes["text"].chunk(0).take(rows).to_pylist()
        own: Counter[str] = Counter()
        for name, text in zip(names, texts, strict=True):
            in_text = set(words(text or ""))
            own.update(in_text - set(words(name)) - set(words(node_type)))
            for word in in_text | set(words(name)):
                counts.setdefault(word, np.zeros(n_types))[number] += 1
        sizes[number] = len(rows)
        own_words[number] = sum(n for n in own.values() if n < len(rows) / 2) / max(len(rows), 1)
    return counts, sizes, own_words
