"""English word lists of query understanding, a stemmer for plurals, and labels of the schema that a text mentions.

The graph ranker, entity linking, planners and the training of planners use them. A changed list, stem or form changes
published scores of the graph ranker and what trained planners read.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.text.words import WORD, break_words

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def word_list(*names: str) -> frozenset[str]:
    """Return the words in the lists of these names in `query_words.toml`, which describes them."""
    return frozenset(word for name in names for word in WORDS[name].split())


LINKS, FUNCTION = word_list("links"), word_list("links", "function_words")
ASKED_WITH, CONTRACTED = word_list("asked_with"), word_list("contracted")
REQUESTS = word_list("asked_with", "kinds", "contracted")
VERBS = word_list("verbs")
VERB_FORMS = word_list("verbs", "irregular_forms") | {
    f"{verb.removesuffix(ending)}{suffix}"
    for verb in VERBS
    for ending, suffix in (("", "s"), ("e", "ed"), ("e", "ing"))
}


def words(text: str) -> Iterator[str]:
    """Yield the stems of the words of a text, without function words.

    >>> list(words("The genes of a family"))
    ['gene', 'family']
    """
    return (stem(word) for word in WORD.findall(break_words(text).lower()) if word not in FUNCTION)


_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", ""))
_SINGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot", "mice": "mouse"}


@lru_cache(maxsize=2**16)
def stem(word: str) -> str:
    """Return an English word in the singular.

    >>> [stem(word) for word in ("bodies", "drugs", "people", "is")]
    ['body', 'drug', 'person', 'is']
    >>> [stem(word) for word in ("classes", "branches", "rashes", "boxes", "virus", "axis")]
    ['class', 'branch', 'rash', 'box', 'virus', 'axis']
    """
    if word in _SINGULAR:
        return _SINGULAR[word]
    for ending, singular in _ENDINGS:
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            root = word.removesuffix(ending) + singular
            if len(root) >= 3:
                return root
    return word


WITHIN = 0.25
"""The weight of a label or name that is mentioned only within a longer one."""
_PREFIX = 4
"""Letters that two forms of one word share: cellular and cell, interacts and interact."""


class SchemaLabels:
    """Labels such as `gene/protein` or `parent peak`, by the stems of their words.

    >>> SchemaLabels(["cell_part", "gene/protein"]).coverage({"cellular": 1.0, "gene": 0.5}).tolist()
    [0.5, 0.5]
    >>> SchemaLabels(["cook", "cookbook"]).coverage({"cookbook": 1.0}).tolist()
    [0.0, 1.0]

    A label within a longer one that is mentioned too counts less.

    >>> SchemaLabels(["company", "record company"]).coverage({"record": 0.9, "company": 1.0}).round(2).tolist()
    [0.25, 0.95]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._size = len(names)
        self._labels: list[tuple[int, list[str]]] = []
        self._by_prefix: dict[str, set[str]] = {}
        self._with_word: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            for label in name.replace("_", " ").split("/"):
                parts = [stem(word) for word in WORD.findall(break_words(label).lower())]
                for part in set(parts):
                    self._by_prefix.setdefault(part[:_PREFIX], set()).add(part)
                    self._with_word.setdefault(part, []).append(len(self._labels))
                if parts:
                    self._labels.append((number, parts))

    @property
    def words(self) -> Iterable[str]:
        """The stems of the words of all labels."""
        return self._with_word

    def forms(self, word: str) -> list[str]:
        """Return the words of labels of which this stem is a form, unordered: itself alone where it is one of them."""
        if word in self._with_word:
            return [word]
        return [part for part in self._by_prefix.get(word[:_PREFIX], ()) if _are_forms(word, part)]

    def coverage(self, weights: Mapping[str, float]) -> NDArray[np.float64]:
        """Return how far a text mentions each name, shape (names,): the mean over the words of its best label.

        `weights` are those of the text's stems.
        """
        best: dict[str, float] = {}
        for word, weight in weights.items():
            for part in self.forms(word):
                best[part] = max(best.get(part, 0.0), weight)
        covered = np.zeros(self._size)
        places = {position for part in best for position in self._with_word[part]}
        whole = [set(parts) for _, parts in map(self._labels.__getitem__, places) if best.keys() >= set(parts)]
        for position in places:
            number, parts = self._labels[position]
            mean = sum(best.get(part, 0.0) for part in parts) / len(parts)
            is_within = any(set(parts) < longer for longer in whole)
            covered[number] = max(covered[number], mean * (WITHIN if is_within else 1))
        return covered


def _are_forms(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _PREFIX and long.startswith(short))
