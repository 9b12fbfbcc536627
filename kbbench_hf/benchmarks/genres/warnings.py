"""What weakens GenRES figures besides missing answers: annotations that do not cover the answers."""

import math
from collections.abc import Sequence

from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.triple_lists import Triple, triples_of

_NEEDS = {
    "topics-reference": ("topical_similarity",),
    "embeddings": ("uniqueness", "completeness"),
    "factualness": ("factualness",),
    "granularity": ("granularity",),
}
"""Kind of annotation -> the metrics that are not scored where it is missing."""


def coverage_warnings(
    benchmark: Benchmark, annotations: Annotations, examples: Examples, answers: Sequence[Answer | None]
) -> list[ScoreWarning]:
    """Return a warning for each kind of annotation that covers only some of the answered documents.

    A mean over those that a judge happened to see, or over answers of before, is no figure of the system.
    """
    pairs = zip(examples.ids, answers, strict=True)
    answered = [(name, triples_of(answer, "reference")) for name, answer in pairs if answer]
    found = []
    for kind, metrics in _NEEDS.items():
        if annotations.has(kind) and (n := sum(not each for each in _covered(annotations, kind, answered))):
            names = ", ".join(benchmark.metrics[metric] for metric in metrics)
            message = (
                f"{names}: of {len(answered):,} answered documents {n:,} have no annotation ({kind}); "
                "the figures are means over the others."
            )
            found.append(ScoreWarning("annotations_partial", message, "Run 'kbbench annotate' on these answers.", n))
    return found


def _covered(annotations: Annotations, kind: str, answered: Sequence[tuple[str, list[Triple]]]) -> list[bool]:
    if kind == "topics-reference":
        ids, triples = [name for name, _ in answered], [each for _, each in answered]
        shares = annotations.topics("reference", ids, triples)[1]  # (models, documents, topics)
        return [not math.isnan(first) for first in shares[0, :, 0]]
    if kind == "embeddings":
        return [annotations.places(triples) is not None for _, triples in answered]
    judged = annotations.verdicts if kind == "factualness" else annotations.splits
    return [judged(name, triples) is not None for name, triples in answered]
