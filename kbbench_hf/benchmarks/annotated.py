"""Annotation needs of a benchmark's metrics, and the annotations of scored examples with their identities.

A benchmark's `Scoring.annotations` is an `AnnotationRules`; `kbbench annotate`, calibration and scoring use it. Light
by intent: `benchmarks.annotations`, which reads the files, is imported only where there are some.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbbench_hf.benchmarks.answers import Answer, Id
from kbbench_hf.benchmarks.examples import Example, Examples
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder

if TYPE_CHECKING:
    from kbbench_hf.metrics.agreement import Vote


class TopicCorpus(NamedTuple):
    """The training texts of a topic model."""

    texts: Sequence[str]
    name: str
    """Their description."""
    instead_of: str = ""
    """The corpus of the published scores, where these texts are another one."""


class HumanVote(NamedTuple):
    """A vote of people on two systems' answers to one document, and the released scores of both."""

    metric: str
    id: Id
    a: str
    """A system, by its name in the release's files."""
    b: str
    vote: "Vote"
    score_a: float
    score_b: float


def _nothing_released(*arguments: object) -> Any:
    """Refuse to calibrate, for benchmarks without released verdicts and outputs."""
    raise UsageError("Of this benchmark nothing is released that judges or embedders could be calibrated on.")


@dataclass(frozen=True)
class AnnotationRules:
    """The annotations that metrics need, the input of the annotating models, and their calibration data."""

    needs: Mapping[str, tuple[str, ...]]
    """Kind of annotation, see `benchmarks.annotations` -> the metrics that are not scored without it."""
    gold: Callable[[Example, str], Sequence[tuple[str, str, str]]]
    """(example, mode) -> its gold triples."""
    text: str = "text"
    """The field of an example with the text for judges."""
    n_topics: Callable[[str], int] = lambda config: 0
    """config -> the number of topics of its topic model."""
    corpus: Callable[[DatasetFolder, str], TopicCorpus] = _nothing_released
    """(folder, config) -> the training texts of the topic models."""
    released_outputs: Callable[[Path, Examples], list[tuple[str, list[Answer], Mapping[str, float]]]] = (
        _nothing_released
    )
    """(release, examples) -> (system, its stored answers, its published scores), to calibrate an embedder."""
    released_verdicts: Callable[[Path, Examples, str], list[tuple[str, list[Answer], Path]]] = _nothing_released
    """(release, examples, kind) -> (system, its stored answers, the file of verdicts on them), to calibrate a judge."""
    calibrates: Callable[[Example], bool] = lambda row: True
    """Example -> whether judges and thresholds may be fitted on it; the others are for evaluating them."""
    human_votes: Callable[[Path, Examples], list[HumanVote]] = lambda release, examples: []
    """(release, examples) -> people's votes on its systems' answers."""

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that are not scored without annotations."""
        return frozenset(metric for metrics in self.needs.values() for metric in metrics)


def with_annotations(examples: Examples, folder: Path) -> Examples:
    """Return the examples with the annotations in a folder.

    Raises:
        UsageError: the folder has none.
    """
    from kbbench_hf.benchmarks.annotations import Annotations

    return replace(examples, annotations=Annotations(folder))


def made_with(examples: Examples) -> Mapping[str, Mapping[str, Any]]:
    """Return the identity of each kind of annotation, with the agreement of its judge where it was calibrated."""
    return examples.annotations.identities() if examples.annotations else {}
