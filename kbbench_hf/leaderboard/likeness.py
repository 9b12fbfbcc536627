"""Similarity of answers to the gold and to other submissions: counts of gold answers, and fingerprints.

The board flags suspicious submissions with them. Records store the counts, and the index stores the fingerprints: raise
`index.VERSION` if a fingerprint changes, because an index with fingerprints of two kinds finds no copies.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.scoring.result import Result

N_PARTS = 16
"""Number of parts, each with a hash of its own, into which a fingerprint divides the examples."""
N_PARTS_LONG = 64
"""The same for submissions with at least `LONG` examples."""
LONG = 512
RANKED = 10
"""Number of candidates of a ranking that are compared: a copy could easily get other ones below them."""
ENOUGH = 20
"""Minimum number of examples with gold for a flag: a good system may answer all of fewer examples correctly."""
ENOUGH_SHORT = 100
"""The same for short answers that are in the prompt, which are easier to get right."""
N_LETTERS = 10_000
"""Size of the cache of letters."""


class GoldLikeness(NamedTuple):
    """Numbers of answers that are the gold; the order of the fields is that of stored records."""

    n: int
    """Examples with gold."""
    exact: int
    """Examples whose answer is the gold and nothing else."""
    padded: int
    """Examples whose answer contains the whole gold and something else."""
    short: bool
    """Whether answers are single values from the prompt."""

    def suspicious(self) -> bool:
        """Return whether more answers are the gold than a system would reach; False where there are too few examples.

        Suspicious: at most 5 % of the answers differ from the gold (1 % of short answers); or every answer contains the
        gold, most of them with something else, and answers are not short.

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
    """Return how many answers are the gold, without regard to case, spaces, punctuation and order.

    A ranking is the gold if its R-precision, or else its headline score, is 1; so is an answer to a benchmark that does
    not show its gold. `answers` are in the order of the examples, None where a prediction is missing.
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
    """Return a hash for each part of the predictions, `{"id", field: answer}` in the order of the dataset.

    Case, spaces and punctuation are ignored, and the order of items, except in rankings. Without predictions, the list
    is empty.

    >>> a = fingerprint([{"id": 1, "triples": [["A b", "r", "c"], ["d", "r", "e"]]}])
    >>> a == fingerprint([{"id": 1, "triples": [["d", "r", "e"], ["a  B", "r", "c"]]}])
    True
    """
    hashes = [_hash([json.dumps(line["id"]), *_comparable_items(line)]) for line in lines]
    n, n_parts = len(hashes), min(len(hashes), N_PARTS_LONG if len(hashes) >= LONG else N_PARTS)
    return [_hash(hashes[part * n // n_parts : (part + 1) * n // n_parts]) for part in range(n_parts)]


def _comparable_items(line: Mapping[str, object]) -> list[str]:
    """Return the items of an answer: the first ids of a ranking, else the normalized items, sorted and each once."""
    (field, answer), *_ = ((name, value) for name, value in line.items() if name != "id")
    items = answer if isinstance(answer, list) else [answer]
    if field == "ids":
        return [str(each) for each in items[:RANKED]]
    return sorted({_normalize(" | ".join(map(str, each)) if isinstance(each, list) else str(each)) for each in items})


def _normalize(text: str) -> str:
    """Return text in NFKC, without case, spaces and punctuation; "|" stays, as it separates the items of triples."""
    return "".join(filter(_is_compared, unicodedata.normalize("NFKC", text).casefold()))


@lru_cache(maxsize=N_LETTERS)  # `unicodedata` is slow, and texts have few different letters
def _is_compared(letter: str) -> bool:
    return letter.isalnum() or letter == "|" or unicodedata.category(letter)[0] == "M"


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
