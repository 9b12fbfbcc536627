"""Rankings that come as candidate -> score: put in order, and looked at together for what they may be instead."""

from collections.abc import Mapping, Sequence
from math import isfinite

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.rows import Unreadable
from kbbench_hf.files.trec import QRELS
from kbbench_hf.scoring.options import ReadOptions

HIGHEST_GRADE = 4
"""The highest grade of relevance that qrels have."""


def are_scores(answer: Mapping[str, object]) -> bool:
    """Say whether all values of an object are finite numbers."""
    return all(
        isinstance(each, int | float) and not isinstance(each, bool) and isfinite(each) for each in answer.values()
    )


class Rankings:
    """The rankings of one file, put in order one by one; `problem` and `notes` are of all of them."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._n = self._n_tied = self._n_ordered = self._n_long = self._n_rising = 0
        self._graded = True

    def ordered(
        self, ids: Sequence[object], scores: Sequence[object], *, in_object: bool, may_be_qrels: bool
    ) -> list[object]:
        """Return candidates best first: the score descending, then the id ascending.

        `in_object` says that they stand under keys, in an order that may be that of the ranking; `may_be_qrels`, that
        nothing says that these are no judgements.
        """
        numbers = [float(each) for each in scores if isinstance(each, int | float)]
        if self._options.scores == "distance":
            numbers = [-each for each in numbers]
        tied = len(set(numbers)) < len(numbers)
        self._n += 1
        self._n_tied += tied
        self._n_ordered += len(numbers) > 1 and not tied
        self._graded = self._graded and may_be_qrels and all(each in range(HIGHEST_GRADE + 1) for each in numbers)
        if in_object and len(numbers) > 2:
            self._n_long += 1
            self._n_rising += not tied and numbers == sorted(numbers)
        pairs = sorted(zip(numbers, ids, strict=True), key=lambda pair: (-pair[0], _key(pair[1])))
        return [candidate for _, candidate in pairs]

    def problem(self) -> Unreadable | None:
        """Return what all rankings together may be instead: judgements, or distances."""
        if self._n and self._graded and not self._n_ordered:
            return QRELS
        if self._options.scores is None and self._n_long > 1 and self._n_rising == self._n_long:
            return Unreadable(
                "the scores of every example rise from its first candidate to its last: are they distances?",
                "Say how to order them: --scores distance (the lowest is best) or --scores similarity.",
            )
        return None

    def notes(self) -> list[ScoreWarning]:
        """Return how many rankings have ties."""
        if not self._n_tied:
            return []
        message = f"{self._n_tied:,} rankings have candidates with equal scores; these stand in the order of their ids."
        remedy = "Give each candidate a score of its own, or order a run by its rank column: --scores rank."
        return [ScoreWarning("ties", message, remedy, self._n_tied)]


def _key(candidate: object) -> tuple[int, Id]:
    return (0, candidate) if isinstance(candidate, int) else (1, str(candidate))
