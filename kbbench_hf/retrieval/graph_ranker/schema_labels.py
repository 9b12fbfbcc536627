"""The names that a knowledge base gives to its types and relations, and which of them a text speaks of."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.retrieval.graph_ranker.query_words import stem
from kbbench_hf.text.words import WORD, break_words

WITHIN = 0.25
"""What a label or name counts all of whose words are said as part of a longer one: it may be meant beside it."""
_BEGINNING = 4
"""Letters in which two words agree that are forms of one: cellular and cell, interacts and interact."""


class Labels:
    """Labels such as `gene/protein` or `parent peak`, by the stems of their words.

    >>> Labels(["cell_part", "gene/protein"]).spoken({"cellular": 1.0, "gene": 0.5}).tolist()
    [0.5, 0.5]
    >>> Labels(["cook", "cookbook"]).spoken({"cookbook": 1.0}).tolist()
    [0.0, 1.0]

    Where all of a label is said as part of a longer one, the longer one is meant.

    >>> Labels(["company", "record company"]).spoken({"record": 0.9, "company": 1.0}).round(2).tolist()
    [0.25, 0.95]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._size = len(names)
        self._labels: list[tuple[int, list[str]]] = []
        self._by_beginning: dict[str, set[str]] = {}
        for number, name in enumerate(names):
            for label in name.replace("_", " ").split("/"):
                parts = [stem(word) for word in WORD.findall(break_words(label).lower())]
                if parts:
                    self._labels.append((number, parts))
                for part in parts:
                    self._by_beginning.setdefault(part[:_BEGINNING], set()).add(part)
        self._of_part: dict[str, list[int]] = {}
        for place, (_, parts) in enumerate(self._labels):
            for part in set(parts):
                self._of_part.setdefault(part, []).append(place)

    @property
    def words(self) -> Iterable[str]:
        """The stems of the words of all labels."""
        return self._of_part

    def related(self, word: str) -> list[str]:
        """Return the words of labels of which this stem is a form: itself alone where it is one of them."""
        if word in self._of_part:
            return [word]
        return [part for part in self._by_beginning.get(word[:_BEGINNING], ()) if related(word, part)]

    def spoken(self, weights: Mapping[str, float]) -> NDArray[np.float64]:
        """Return for each name how much of it is spoken of, shape (names,): of its best label, the mean over its words.

        `weights` are the stems of a text, each with what it counts.
        """
        best: dict[str, float] = {}
        for word, weight in weights.items():
            for part in self.related(word):
                best[part] = max(best.get(part, 0.0), weight)
        found = np.zeros(self._size)
        places = {place for part in best for place in self._of_part[part]}
        whole = [set(parts) for _, parts in map(self._labels.__getitem__, places) if best.keys() >= set(parts)]
        for place in places:
            number, parts = self._labels[place]
            said = sum(best.get(part, 0.0) for part in parts) / len(parts)
            is_within = any(set(parts) < longer for longer in whole)
            found[number] = max(found[number], said * (WITHIN if is_within else 1))
        return found


def related(one: str, other: str) -> bool:
    """Whether one word begins with the other, of four letters or more: cellular with cell, interacts with interact."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _BEGINNING and long.startswith(short))
