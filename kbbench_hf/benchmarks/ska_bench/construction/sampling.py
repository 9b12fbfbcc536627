"""Choosing instances by the number of units they need, none too often of one wording, answer or kind."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED, Instance


@dataclass(frozen=True)
class Candidate:
    """An instance that could be chosen."""

    instance: Instance
    wording: str
    """Its question without names: what a template leaves."""
    kind: str
    """What the choice spreads over, such as the path from topic to answer."""

    @property
    def size(self) -> int:
        """How many units it needs."""
        return len(self.instance.positive_sk) + len(self.instance.positive_text)


def choose(
    candidates: Iterable[Candidate], quotas: Mapping[int, int], *, wording_share: float, answer_share: float
) -> list[Instance]:
    """Return instances in the numbers that `quotas` asks for each size; one question for each `split_key`.

    Of each size the kind that was chosen least comes next, and within it the question with the fewest answers, then the
    order of hashes of ids. What a size lacks goes to the next smaller one, and what is still missing at the end to any
    size, larger ones first. No wording and no gold answer has more than its share of all that was asked for.
    """
    total = sum(quotas.values())
    chosen = _Choice(int(wording_share * total), int(answer_share * total))
    of_size: dict[int, list[Candidate]] = {size: [] for size in quotas}
    for candidate in sorted(candidates, key=lambda each: (len(each.instance.answers), _key(each.instance.id))):
        if candidate.size in of_size:
            of_size[candidate.size].append(candidate)
    missing = 0
    for size in sorted(quotas, reverse=True):
        missing = chosen.take(of_size[size], quotas[size] + missing)
    for size in sorted(quotas, reverse=True):
        missing = chosen.take(of_size[size], missing)
    return chosen.instances


class _Choice:
    def __init__(self, most_of_a_wording: int, most_of_an_answer: int) -> None:
        self.instances: list[Instance] = []
        self._most = (most_of_a_wording, most_of_an_answer)
        self._keys: set[str] = set()
        self._wordings, self._answers, self._kinds = Counter[str](), Counter[str](), Counter[str]()

    def take(self, candidates: Sequence[Candidate], number: int) -> int:
        """Take this many of the candidates; return how many could not be had."""
        of_kind: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            of_kind.setdefault(candidate.kind, []).append(candidate)
        while number > 0 and of_kind:
            kind = min(of_kind, key=lambda name: (self._kinds[name], _key(name)))
            allowed = next((n for n, each in enumerate(of_kind[kind]) if self._allows(each)), None)
            if allowed is None:
                del of_kind[kind]
                continue
            self._add(of_kind[kind][allowed])
            del of_kind[kind][: allowed + 1]
            number -= 1
        return number

    def _allows(self, candidate: Candidate) -> bool:
        return (
            candidate.instance.split_key not in self._keys
            and self._wordings[candidate.wording] < self._most[0]
            and all(self._answers[normal_name(answer)] < self._most[1] for answer in candidate.instance.answers)
        )

    def _add(self, candidate: Candidate) -> None:
        self.instances.append(candidate.instance)
        self._keys.add(candidate.instance.split_key)
        self._wordings[candidate.wording] += 1
        self._kinds[candidate.kind] += 1
        self._answers.update(map(normal_name, candidate.instance.answers))


def _key(text: str) -> bytes:
    return hashlib.sha256(f"{SEED}|{text}".encode()).digest()
