"""Rankings given as candidate -> score: sorted, and checked for qrels, distances and ties."""

from collections.abc import Mapping, Sequence

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.rows import ParsedFile, Unreadable
from kbbench_hf.files.trec import LIKELY_QRELS, QRELS, score_of
from kbbench_hf.scoring.options import ReadOptions

GRADES = range(-2, 5)
"""The grades of relevance that qrels have; those below 0 are spam and unjudged."""
_LEAST_DEPTH = 3
"""Rankings of one depth, this one at least, in which no two scores are equal are a run, whatever the scores."""


def are_scores(answer: Mapping[str, object]) -> bool:
    """Say whether an object may be candidate -> score: all values are single ones, and some can be a number.

    >>> are_scores({"d1": "0.9", "d2": None}), are_scores({"d1": "text"}), are_scores({"d1": [1]})
    (True, False, False)
    """
    if any(isinstance(each, bool | list | dict) for each in answer.values()):
        return False
    return not answer or any(not isinstance(each, str) or _is_number(each) for each in answer.values())


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))  # a comma is refused later, by its name
    except ValueError:
        return False
    return True


class Rankings:
    """The rankings of one file, put in order one by one; `problem` and `notes` are of all of them."""

    def __init__(self, options: ReadOptions, reading: ParsedFile) -> None:
        self._options, self._reading = options, reading
        self._n = self._n_tied = self._n_ordered = self._n_long = self._n_rising = self._n_text = 0
        self._graded = True
        self._depths = set[int]()

    def ordered(self, ids: Sequence[object], scores: Sequence[object], *, in_object: bool) -> list[object]:
        """Return candidates best first: the score descending, then the id ascending.

        `in_object` says that they stand under keys, in an order that may be that of the ranking.

        Raises:
            Unreadable: a score gives no order.
        """
        read_settings = self._options.read_settings()
        numbers = [score_of(each, read_settings) for each in scores]
        self._n_text += any(isinstance(each, str) for each in scores)
        if self._options.scores == "distance":
            numbers = [-each for each in numbers]
        tied = len(set(numbers)) < len(numbers)
        self._n += 1
        self._n_tied += tied
        self._n_ordered += len(numbers) > 1 and not tied
        self._graded = self._graded and all(each in GRADES for each in numbers)
        self._depths.add(len(numbers))
        if in_object and len(numbers) > 2:
            self._n_long += 1
            self._n_rising += not tied and numbers == sorted(numbers)
        pairs = sorted(zip(numbers, ids, strict=True), key=lambda pair: (-pair[0], _sort_key(pair[1])))
        return [candidate for _, candidate in pairs]

    def problem(self) -> Unreadable | None:
        """Return what all rankings together may be instead: judgements, or distances."""
        if self._n and self._graded and self._reading.judgments != "no":
            one_depth = len(self._depths) == 1 and min(self._depths) >= _LEAST_DEPTH and self._n_ordered == self._n
            if not self._n_ordered or self._options.of_stranger:
                return QRELS
            if self._options.scores is None and (not one_depth or self._reading.judgments == "likely"):
                return LIKELY_QRELS
        if self._options.scores is None and self._n_long > 1 and self._n_rising == self._n_long:
            return Unreadable(
                "the scores of every example rise from its first candidate to its last: are they distances?",
                "Choose the order: --scores distance (the lowest is best) or --scores similarity.",
            )
        return None

    def notes(self) -> list[ScoreWarning]:
        """Return how many rankings have scores in text, and how many have ties."""
        results = []
        if self._n_text and not self._reading.only_text:
            message = f"The scores of {self._n_text:,} rankings are text; they were read as numbers."
            results.append(ScoreWarning("scores_as_text", message, severity="note"))
        if not self._n_tied:
            return results
        message = f"{self._n_tied:,} rankings have candidates with equal scores; these are ordered by id."
        remedy = "Give each candidate a score of its own, or order a run by its rank column: --scores rank."
        return [*results, ScoreWarning("ties", message, remedy, self._n_tied)]


def _sort_key(candidate: object) -> tuple[int, Id]:
    return (0, candidate) if isinstance(candidate, int) else (1, str(candidate))
