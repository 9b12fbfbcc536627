"""Similarity of submissions: exact matches with the gold, and rows with the same answers."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.scoring.result import Result

N_PARTS = 16
N_PARTS_LONG = 64
LONG = 512
"""From so many examples on, answers are compared in more parts."""
RANKED = 10
"""So many candidates of a ranking are compared; what stands below them is easily made up."""
ENOUGH = 20
"""So many examples must have a gold before anything is said of answers that are all right."""
ENOUGH_SHORT = 100
"""The same where answers are short and stand in what was given: a good system may have every one."""
N_LETTERS = 10_000


class GoldLikeness(NamedTuple):
    """How many of the answers are the gold."""

    n: int
    """Examples with a gold."""
    exact: int
    """Those answered with the gold and nothing else."""
    padded: int
    """Those answered with the whole gold and something else."""
    short: bool
    """Whether answers are single values that stand in what was given."""

    def suspicious(self) -> bool:
        """Say whether so much gold is more than a system has, as far as so many examples can tell.

        At most one answer in twenty is not the gold (one in a hundred where answers are short), or every one holds the
        whole gold and most of them something else beside it. A benchmark that is too small for this accuses nobody.

        >>> GoldLikeness(48, 47, 0, False).suspicious(), GoldLikeness(48, 41, 2, False).suspicious()
        (True, False)
        >>> GoldLikeness(48, 0, 48, False).suspicious(), GoldLikeness(14, 14, 0, True).suspicious()
        (True, False)
        """
        if self.n < (ENOUGH_SHORT if self.short else ENOUGH):
            return False
        wrong = self.n - self.exact
        padded = not self.short and 2 * self.padded > self.n and self.exact + self.padded == self.n
        return wrong <= self.n // (100 if self.short else 20) or padded


def gold_likeness(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None], result: Result
) -> GoldLikeness:
    """Return how many answers are the gold, spelling and order aside.

    A ranking is the gold where its first candidates are, as many as there are gold ones. A benchmark that shows no gold
    is judged by its headline figure.
    """
    kind = benchmark.scoring.answer
    short = kind.separable and not kind.ranked
    if kind.ranked or benchmark.showing.explain is None:
        values = result.values.get("r_precision", result.values.get(benchmark.headline, np.zeros(0)))
        scored = values[~np.isnan(values)]
        return GoldLikeness(len(scored), int((scored == 1).sum()), 0, short)
    n = exact = padded = 0
    examples = replace(examples, mode="")  # the released gold, in every mode
    for example, answer in zip(examples.rows, answers, strict=True):
        gold = {_normalize(each) for each in benchmark.showing.explain(examples, example, []).gold}
        words = {_normalize(each) for each in kind.words(answer or [])}
        n, exact, padded = n + bool(gold), exact + (gold == words != set()), padded + (set() < gold < words)
    return GoldLikeness(n, exact, padded, short)


def fingerprint(lines: Iterable[Mapping[str, object]]) -> list[str]:
    """Return a hash of each part of the answers, `{"id", field: answer}` in the dataset's order.

    The same for the same answers however they are spelled; of lists that are no rankings the order does not count.

    >>> a = fingerprint([{"id": 1, "triples": [["A b", "r", "c"], ["d", "r", "e"]]}])
    >>> a == fingerprint([{"id": 1, "triples": [["d", "r", "e"], ["a  B", "r", "c"]]}])
    True
    """
    hashes = [_hash([json.dumps(line["id"]), *_comparable(line)]) for line in lines]
    n, n_parts = len(hashes), min(len(hashes), N_PARTS_LONG if len(hashes) >= LONG else N_PARTS)
    return [_hash(hashes[part * n // n_parts : (part + 1) * n // n_parts]) for part in range(n_parts)]


def _comparable(line: Mapping[str, object]) -> list[str]:
    (field, answer), *_ = ((name, value) for name, value in line.items() if name != "id")
    items = answer if isinstance(answer, list) else [answer]
    if field == "ids":
        return [str(each) for each in items[:RANKED]]
    return sorted({_normalize(" | ".join(map(str, each)) if isinstance(each, list) else str(each)) for each in items})


def _normalize(text: str) -> str:
    """Return text without case, spaces and punctuation, but with what parts the items of a triple."""
    return unicodedata.normalize("NFKC", text).casefold().translate(_KEPT)


class _KeptCharacters(dict[int, str | None]):
    """Each character, or None where it does not count; the common ones are looked up once."""

    def __missing__(self, code: int) -> str | None:
        letter = chr(code)
        counts = letter.isalnum() or letter == "|" or unicodedata.category(letter)[0] == "M"
        translation = letter if counts else None
        return self.setdefault(code, translation) if len(self) < N_LETTERS else translation


_KEPT = _KeptCharacters()


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
