"""Agreement of a judge with released verdicts and human votes, and warnings on annotations.

The warnings are on agreement and coverage, and on missing, constant and self-given verdicts. `runners.calibration`
measures and stores an agreement as JSON; scoring and the leaderboard show it beside judged scores. Stored agreements
must stay readable.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.annotated import made_with
from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.agreement import Agreement, Decided
from kbbench_hf.metrics.generative_re import Triple, select_triples


@dataclass(frozen=True)
class HumanCheck:
    """Agreement of a judge's scores with people's votes on pairs of systems."""

    judge: Decided
    released: Decided
    """The same of the released judge."""
    people_strengths: Mapping[str, float]
    """System -> its Bradley-Terry strength by the people's votes; see `metrics.agreement.bradley_terry`."""
    judge_strengths: Mapping[str, float]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "HumanCheck":
        """Return the check from the JSON of `dataclasses.asdict`."""
        decided = {name: Decided(*plain[name]) for name in ("judge", "released")}
        return cls(**{**plain, **decided})

    def __str__(self) -> str:
        """Return the votes on pairs that people decide, and the strength of each system."""
        strengths = ", ".join(
            f"{name} {self.people_strengths[name]:+.2f} {self.judge_strengths[name]:+.2f}"
            for name in sorted(self.people_strengths, key=lambda name: -self.people_strengths[name])
        )
        return (
            f"people decide {self.judge.decided:,} of {self.judge.n:,} pairs: this judge says the same of "
            f"{self.judge.same:,} and the opposite of {self.judge.opposite:,} (released {self.released.same:,} and "
            f"{self.released.opposite:,}); strength by people and by this judge: {strengths}"
        )


@dataclass(frozen=True)
class JudgeAgreement:
    """Agreement of a judge with the released one, on documents that it was neither chosen nor fitted on.

    Thresholds and the weights of surface features are fitted on other documents and other systems than those judged.
    """

    corpus: str
    released_by: str
    """The judge whose released verdicts are the ground truth."""
    n_documents: int
    n_systems: int
    judge: Agreement
    constant: Agreement
    """Of the majority verdict for all items."""
    surface: Agreement
    """Of the model of surface features, on the same items."""
    ceiling: Agreement
    """Of the released judge with itself, on items that it judged twice."""
    spearman: float | None
    """Rank correlation of the systems' scores. Surface features alone reach .6 to .95: it proves no judge."""
    mean_absolute_error: float | None
    """Of the systems' scores, a fraction; like the correlation None where too few triples of each are judged."""
    n_unread: int = 0
    """Answers without a verdict; they are in none of the scores above."""
    threshold: float | None = None
    """From which probability on this judge says yes, where it has a choice."""
    cost: Mapping[str, float] | None = None
    """What its judging cost: `n_items`, `seconds`, and of language models `n_requests`, `prompt_tokens` and
    `completion_tokens`."""
    people: HumanCheck | None = None
    """Where people voted on the corpus: how far its scores decide as they do."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as files have them."""
        return {**asdict(self), **{name: _to_json(getattr(self, name)) for name in _MEASURED}}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "JudgeAgreement":
        """Return the agreement that `to_dict` wrote."""
        people = plain.get("people") and HumanCheck.of(plain["people"])
        return cls(**{**plain, "people": people, **{name: _from_json(plain[name]) for name in _MEASURED}})

    def table(self) -> str:
        """Return a table of the values, with the data they were measured on and their cost."""
        rows = {
            "this judge": self.judge,
            "surface features": self.surface,
            "always the same": self.constant,
            f"{self.released_by} with itself": self.ceiling,
        }
        width = max(map(len, rows))
        lines = [f"  {'':{width}}  accuracy  balanced   kappa  triples"]
        lines += [
            f"  {name:{width}}  {each.accuracy:8.3f}  {each.balanced_accuracy:8.3f}  {each.kappa:6.3f}  {each.n:7,}"
            for name, each in rows.items()
        ]
        lines.append(
            f"  against {self.released_by} on {self.corpus}: {self.n_documents:,} documents, {self.n_systems} systems, "
            f"{self.n_unread:,} answers without a verdict; {100 * self.judge.yes:.1f} % are yes"
        )
        if self.mean_absolute_error is not None and self.spearman is not None:
            lines.append(
                f"  systems' figures: mean absolute error {100 * self.mean_absolute_error:.1f} points, Spearman "
                f"{self.spearman:.3f} (surface features alone reach .6 to .95: it proves no judge)"
            )
        if self.people is not None:
            lines.append(f"  {self.people}")
        if self.threshold is not None:
            lines.append(f"  threshold {self.threshold:g}, fitted on the other half of the documents")
        if self.cost:
            costs = (f"{name.removeprefix('n_').replace('_', ' ')} {value:,}" for name, value in self.cost.items())
            lines.append(f"  cost: {', '.join(costs)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the agreement with its lower and upper baselines."""
        beside = {"surface features": self.surface, "a constant": self.constant, "that judge with itself": self.ceiling}
        if self.surface == self.judge:
            del beside["surface features"]
        others = ", ".join(f"{name} {_short(each)}" for name, each in beside.items())
        systems = ""
        if self.mean_absolute_error is not None:
            systems = f", and system scores are {100 * self.mean_absolute_error:.1f} points off on average"
        return (
            f"with {self.released_by} it agrees at kappa / balanced accuracy {_short(self.judge)} ({others})"
            f"{systems}; measured on {self.judge.n:,} triples of {self.corpus}"
        )


def write_agreement(folder: Path, judge: Mapping[str, Any], kind: str, measured: JudgeAgreement) -> Path:
    """Write a judge's agreement on one kind of verdict into a folder of calibrations; return the file.

    `judge` is its identity, as annotations have it.
    """
    file = _file(folder, judge, kind, measured.corpus)
    write_text(file, json.dumps({"kind": kind, "made_with": judge, "agreement": measured.to_dict()}, indent=2) + "\n")
    return file


def read_agreement(folder: Path, judge: Mapping[str, Any], kind: str, corpus: str) -> JudgeAgreement | None:
    """Return a judge's agreement on one kind of verdict from a calibration on the same corpus; None if there is none.

    Raises:
        DataError: the file was cut off or altered.
    """
    file = _file(folder, judge, kind, corpus)
    if not file.is_file():
        return None
    try:
        return JudgeAgreement.of(read_json(file)["agreement"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} holds no calibration ({error!r}). Remove it, and calibrate the judge again.") from None


def _file(folder: Path, judge: Mapping[str, Any], kind: str, corpus: str) -> Path:
    """Return the file of a judge's agreement, named by a hash of the judge's identity."""
    digest = sha256(json.dumps(judge, sort_keys=True).encode("ascii")).hexdigest()[:12]
    return folder / f"{kind}-{corpus or 'any'}-{digest}.json"


_MEASURED = ("judge", "constant", "surface", "ceiling")


def _short(measured: Agreement) -> str:
    return f"{measured.kappa:z.2f} / {measured.balanced_accuracy:.2f}"


def _to_json(measured: Agreement) -> dict[str, float | None]:
    """Return plain values, None for NaN, which JSON lacks."""
    return {name: None if math.isnan(value) else value for name, value in measured._asdict().items()}


def _from_json(plain: Mapping[str, Any]) -> Agreement:
    n, *values = (plain[name] for name in Agreement._fields)
    return Agreement(n, *(math.nan if value is None else value for value in values))


def agreement_warnings(labels: Mapping[str, str], identities: Mapping[str, Mapping[str, Any]]) -> list[ScoreWarning]:
    """Return a note or warning on each judged score: its judge's agreement, or that it was not measured.

    Args:
        labels: kind of annotation -> its metric's label in tables.
        identities: kind -> what it was made with: its `judge`, and its `agreement` where it was calibrated.
    """
    found = []
    for kind, label in labels.items():
        if kind not in identities:
            continue
        name, plain = str(identities[kind].get("judge", "an unnamed judge")), identities[kind].get("agreement")
        judge = name.partition("@{")[0]  # the facts of a server are for the files, not for a sentence
        if judge.startswith(("stored:", "by-hand:")):
            continue  # the released verdicts themselves, or a person's
        if plain is None:
            message = f"{label} is judged by {judge}; its agreement with released verdicts was not measured."
            found.append(ScoreWarning("judge_not_calibrated", message, "Calibrate it: kbbench annotate --calibrate."))
        else:
            agreement = JudgeAgreement.of(plain)
            baseline = ", a baseline that reads no meaning" if judge.startswith("surface:") else ""
            weak = agreement.judge.kappa <= agreement.surface.kappa
            message = f"{label} is judged by {judge}{baseline}: {agreement}."
            found.append(ScoreWarning("judge_agreement", message, severity="warning" if weak else "note"))
    return found


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
        covered = _covered(annotations, kind, answered) if kind in _COVERING and annotations.has(kind) else []
        if n := covered.count(False):
            names = ", ".join(benchmark.metrics[metric] for metric in metrics)
            message = (
                f"{names}: of {len(answered):,} answered documents {n:,} have no annotation ({kind}); "
                "the scores are means over the others."
            )
            found.append(ScoreWarning("annotations_partial", message, "Run 'kbbench annotate' on these answers.", n))
    return found


def _covered(annotations: Annotations, kind: str, answered: Sequence[tuple[str, list[Triple]]]) -> list[bool]:
    """Return for each answered document whether the annotation covers its triples."""
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
