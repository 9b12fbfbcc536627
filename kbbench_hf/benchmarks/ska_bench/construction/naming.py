"""Which passages name which entities, and which two of them in one breath."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import Cells

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W_a-z])")


class Naming:
    """Where names of entities stand in passages: a sentence names what it holds as whole words, and what it is about.

    A passage is about its title, which its sentences need not repeat. Names are in normal form.

    >>> naming = Naming([("Ann", "She lives in Oslo. Bo came from Lund.")], {"ann", "oslo", "lund", "bo"})
    >>> sorted(naming.beside("ann")), sorted(naming.beside("lund"))
    (['bo', 'lund', 'oslo'], ['ann', 'bo'])
    """

    def __init__(self, passages: Sequence[Cells], names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._titles = [normal_name(title) for title, _ in passages]
        self._sentences = [
            [f" {normal_name(sentence)} " for sentence in _SENTENCE_END.split(text)] for _, text in passages
        ]
        self._named: list[list[frozenset[str]]] = []
        self._places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        longest: defaultdict[str, int] = defaultdict(int)
        for name in self._names - {""}:
            words = name.split()
            longest[words[0]] = max(longest[words[0]], len(words))
        for number, sentences in enumerate(self._sentences):
            self._named.append([frozenset(self._in(sentence.split(), longest)) for sentence in sentences])
            for place, named in enumerate(self._named[-1]):
                for name in named:
                    self._places[name].append((number, place))
        self._about: defaultdict[str, list[int]] = defaultdict(list)
        for number, title in enumerate(self._titles):
            self._about[title].append(number)
        self._beside: dict[str, dict[str, set[int]]] = {}
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        for number, sentences in enumerate(self._sentences):
            for word in " ".join([self._titles[number], *sentences]).split():
                self._holding[word].add(number)

    def about(self, name: str) -> Sequence[int]:
        """Return the passages whose title is this name."""
        return self._about.get(name, ())

    def title(self, number: int) -> str:
        """Return the title of a passage."""
        return self._titles[number]

    def saying(self, words: str) -> set[int]:
        """Return the passages that hold all of these words."""
        return set.intersection(*(self._holding.get(word, set()) for word in words.split()))

    def beside(self, name: str) -> Mapping[str, Collection[int]]:
        """Return the names that a sentence names together with this one, each with the passages that do."""
        if name not in self._beside:
            found: defaultdict[str, set[int]] = defaultdict(set)
            for number, place in self._where(name):
                for other in (*self._named[number][place], self._titles[number]):
                    found[other].add(number)
            for number in self.about(name):
                for other in frozenset[str]().union(*self._named[number]):
                    found[other].add(number)
            self._beside[name] = {other: numbers for other, numbers in found.items() if other not in ("", name)}
        return self._beside[name]

    def _where(self, name: str) -> list[tuple[int, int]]:
        if name and name not in self._names and name not in self._places:  # a name of a question that is no entity
            self._places[name] = [
                (number, place)
                for number, sentences in enumerate(self._sentences)
                for place, sentence in enumerate(sentences)
                if f" {name} " in sentence
            ]
        return self._places.get(name, [])

    def _in(self, words: Sequence[str], longest: dict[str, int]) -> Iterator[str]:
        for start, word in enumerate(words):
            if word in longest:
                for end in range(start + 1, min(start + longest[word], len(words)) + 1):
                    if (name := " ".join(words[start:end])) in self._names:
                        yield name
