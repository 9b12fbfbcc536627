"""Warnings on annotations: agreement and coverage of judges, missing, constant and self-given verdicts."""

import math
import re
from collections.abc import Mapping, Sequence

from kbbench_hf.benchmarks.annotated import made_with
from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.judge_agreement import agreement_warnings
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.generative_re import Triple, select_triples

Needs = Mapping[str, Sequence[str]]
_JUDGED = ("factualness", "granularity")
_COVERING = ("topics-reference", "embeddings", *_JUDGED)


def annotation_warnings(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None]
) -> list[ScoreWarning]:
    """Return the warnings on the judges' agreement, and on missing and constant verdicts."""
    annotations, rules = examples.annotations, benchmark.scoring.annotations
    if annotations is None or rules is None:
        return []
    labels = {kind: benchmark.metrics[metric] for kind in _JUDGED for metric in rules.needs.get(kind, ())[:1]}
    return [
        *agreement_warnings(labels, made_with(examples)),
        *_coverage_warnings(benchmark, rules.needs, annotations, examples, answers),
        *_unread_verdict_warnings(annotations, labels),
        *_constant_verdict_warnings(annotations, labels),
    ]


def _coverage_warnings(
    benchmark: Benchmark, needs: Needs, annotations: Annotations, examples: Examples, answers: Sequence[Answer | None]
) -> list[ScoreWarning]:
    """Return a warning for each kind of annotation that covers only some of the answered documents.

    A mean over some documents, or over earlier answers, is no score of the system.
    """
    pairs = zip(examples.ids, answers, strict=True)
    answered = [(name, select_triples(answer, "reference")) for name, answer in pairs if answer]
    found = []
    for kind, metrics in needs.items():
        if (
            kind in _COVERING
            and annotations.has(kind)
            and (n := sum(not each for each in _covered(annotations, kind, answered)))
        ):
            names = ", ".join(benchmark.metrics[metric] for metric in metrics)
            message = (
                f"{names}: of {len(answered):,} answered documents {n:,} have no annotation ({kind}); "
                "the scores are means over the others."
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


_LANGUAGE_MODEL = "chat:"
"""Prefix of the identity of a language model as judge."""
FEWEST_VERDICTS = 10
"""Fewer equal verdicts give no warning."""


def self_judged_warnings(model: str, examples: Examples) -> list[ScoreWarning]:
    """Return a warning where the model that made the predictions also judged them.

    Args:
        model: the name under which the model ran; empty where it is not known.
        examples: the examples with their annotations.
    """
    judges = {str(identity.get("judge", "")) for identity in made_with(examples).values()}
    named = {_bare_name(judge.removeprefix(_LANGUAGE_MODEL)) for judge in judges if judge.startswith(_LANGUAGE_MODEL)}
    own = model.partition("@")[0].removeprefix("llm:")
    if not own or _bare_name(own) not in named:
        return []
    message = f"{own} judged its own predictions; models tend to prefer their own output."
    return [ScoreWarning("self_judged", message, "Annotate with another model as judge.")]


def _bare_name(model: str) -> str:
    """Return a model's name without organization, options, case, default tag and format."""
    name = model.partition("@")[0].removeprefix("llm:").removeprefix("hf:").rstrip("/").rpartition("/")[2]
    return re.sub(r":latest$|[-.]gguf$", "", name.casefold())


def _constant_verdict_warnings(annotations: Annotations, labels: Mapping[str, str]) -> list[ScoreWarning]:
    """Return a warning where a language model gave every triple the same verdict: it may not have read them."""
    found = []
    identities = annotations.identities()
    for kind, label in labels.items():
        values = annotations.values(kind)
        if not str(identities.get(kind, {}).get("judge", "")).startswith(_LANGUAGE_MODEL):
            continue
        if len(values) >= FEWEST_VERDICTS and len(set(values)) == 1:
            message = f"{label}: the judge gave the same verdict ({values[0]:g}) to all {len(values):,} triples."
            remedy = (
                "Check the judge's replies and its chat template, measure it with kbbench annotate --calibrate, or "
                "choose another judge."
            )
            found.append(ScoreWarning("constant_verdicts", message, remedy, len(values)))
    return found


def _unread_verdict_warnings(annotations: Annotations, labels: Mapping[str, str]) -> list[ScoreWarning]:
    """Return a warning for each kind of verdict (kind -> label of its metric) that a judge did not give on all."""
    found = []
    for kind, label in labels.items():
        if why := annotations.unread(kind):
            n = sum(why.values())
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in why.items())
            message = f"{label}: the judge gave no verdict on {n:,} triples ({reasons}); they are in no mean."
            remedy = "Give the judge more room with --max-tokens, or name another." if "cut off" in why else ""
            found.append(ScoreWarning("unread_verdicts", message, remedy, n))
    return found
