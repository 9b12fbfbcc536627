"""Calibration of judges on the verdicts of a release, and of embedder thresholds on its published scores.

`kbbench annotate --calibrate` uses it. Judges are evaluated on held-out documents and systems: thresholds and weights
are fitted on one half of the documents, without the judged system, and all systems are judged on the other half. The
samples are drawn with a fixed seed: a change of the drawing or its order changes every stored agreement.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.annotated import AnnotationRules
from kbbench_hf.benchmarks.annotations import Annotations, triple_keys
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.judge_agreement import HumanCheck, JudgeAgreement, write_agreement
from kbbench_hf.judges.llm_judges import RELEASE_JUDGE, Item, StoredFacts, StoredSplits
from kbbench_hf.judges.surface import FEATURES, SurfaceJudge, fit_logistic
from kbbench_hf.judges.thresholds import Calibration, Thresholds, calibrate, spearman
from kbbench_hf.metrics.agreement import (
    agreeing_threshold,
    agreement,
    bradley_terry,
    constant_agreement,
    decided_votes,
    self_agreement,
    vote,
)
from kbbench_hf.metrics.generative_re import (
    EMPTY_SCORES,
    all_cosines,
    completeness,
    factualness,
    granularity,
    uniqueness,
)
from kbbench_hf.protocols import Embedder, Tunable, Verdict
from kbbench_hf.runners.annotators import annotate_embeddings
from kbbench_hf.runners.judge import AnyJudge, calibration_identity, corpus_of, judge_each_once

Bools = NDArray[np.bool_]
Values = NDArray[np.float64]
SAMPLE = 2000
"""Triples of each half that a judge judges: kappa is then known to about .03."""
YES = {"factualness": 1.0, "granularity": 2.0}
"""The lowest verdict that is a yes: supported; split into two or more."""
_FEWEST = 30
"""A system with fewer triples has no score: of two systems, the release judged only a few documents."""


@dataclass(frozen=True)
class JudgedItems:
    """Triples with a released verdict; all columns have one entry per triple, in one order."""

    kind: str
    items: Sequence[Item]
    values: Values
    """The released verdict: 1 or 0, or the number of sub-triples."""
    systems: NDArray[np.str_]
    documents: NDArray[np.str_]
    fits: Bools
    """Whether the row's document is of the half that may be fitted on."""

    def of(self, chosen: Bools) -> "JudgedItems":
        """Return the chosen rows, in their order; `chosen` is a mask over all rows."""
        items = [item for item, wanted in zip(self.items, chosen.tolist(), strict=True) if wanted]
        columns = {name: getattr(self, name)[chosen] for name in ("values", "systems", "documents", "fits")}
        return replace(self, items=items, **columns)

    @property
    def yes(self) -> Bools:
        """Whether each verdict is a yes: supported, or several facts."""
        found: Bools = self.values >= YES[self.kind]
        return found


def calibrate_judge(
    rules: AnnotationRules,
    release: Path,
    examples: Examples,
    kind: str,
    judge: AnyJudge,
    folder: Path,
    *,
    sample: int | None = SAMPLE,
    show: bool = True,
) -> JudgeAgreement:
    """Return the agreement of a judge with a release's verdicts; write it into `folder`, where annotating finds it.

    A judge whose threshold is not given gets the one that agrees best on the half of the documents for fitting; on the
    other half each system is judged with the threshold of all others. Verdicts are journaled: an interrupted
    calibration resumes. Surface features are fitted anew and not written: they know their agreement themselves.

    Args:
        rules: the benchmark's.
        release: the folder of the release.
        examples: those of the config to calibrate on.
        kind: `factualness` or `granularity`.
        judge: the judge; surface features judge all triples of the half that is not for fitting.
        folder: the folder of calibrations.
        sample: maximum number of triples of each half, drawn at random with a fixed seed; None for all.
        show: whether to show progress.

    Raises:
        DataError: the release has no verdicts of the examples' config.
        UnreadError: more than a tenth of a language model's answers hold no verdict.
    """
    found, corpus = released_items(rules, release, examples, kind), corpus_of(examples)
    if isinstance(judge, SurfaceJudge):
        predicted = predict_from_surface(found, ~found.fits)
        measured = agreement_on(found, ~found.fits, corpus, predicted.astype(np.float64) * YES[kind], predicted)
        return replace(measured, people=check_by_people(rules, release, examples, kind, judge, folder, show=show))
    tunes = isinstance(judge, Tunable) and not judge.chosen
    checked, fitted = _sample_rows(~found.fits, sample), _sample_rows(found.fits & tunes, sample)
    drawn_items = found.of(checked | fitted)
    verdicts, identity, cost = judge_each_once(drawn_items.items, folder / "work" / kind, kind, judge, show=show)
    values = np.array([math.nan if each.value is None else each.value for each in verdicts])
    threshold, tuned = None, judge
    if isinstance(judge, Tunable) and not judge.chosen:
        threshold, values = _by_threshold(judge, drawn_items, [verdict.raw for verdict in verdicts])
        tuned = judge.at(threshold)
    measured = replace(
        agreement_on(found, checked, corpus, values[~drawn_items.fits], predict_from_surface(found, checked)),
        threshold=threshold,
        cost=cost,
        people=check_by_people(rules, release, examples, kind, tuned, folder, show=show),
    )
    write_agreement(folder, calibration_identity(judge, identity), kind, measured)
    return measured


def released_items(rules: AnnotationRules, release: Path, examples: Examples, kind: str) -> JudgedItems:
    """Return every stored triple of the release's systems that its judge gave a verdict on, system by system.

    Raises:
        DataError: the release has no verdicts of the examples' config.
    """
    rows: list[tuple[Any, ...]] = []
    for system, answers, file in rules.released_verdicts(release, examples, kind):
        triples = [
            (row, (row["text"], key))
            for row, answer in zip(examples.rows, answers, strict=True)
            for key in triple_keys(answer or [], once=kind == "granularity")
        ]
        stored = (StoredFacts if kind == "factualness" else StoredSplits)(file)
        for (row, item), verdict in zip(triples, stored.judge([item for _, item in triples]), strict=True):
            if verdict.value is not None:
                rows.append((item, verdict.value, system, row["id"], rules.calibrates(row)))
    items, *columns = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return JudgedItems(kind, items, *map(np.array, columns))


def predict_from_surface(found: JudgedItems, chosen: Bools) -> Bools:
    """Return whether surface features say yes to each chosen row, fitted on other documents and other systems."""
    features = FEATURES[found.kind](found.items)
    predicted = np.zeros(len(found.items), dtype=np.bool_)
    for system in np.unique(found.systems[chosen]):
        fitted, judged = found.fits & (found.systems != system), chosen & (found.systems == system)
        predicted[judged] = fit_logistic(features[fitted], found.yes[fitted]).says(features[judged])
    return predicted[chosen]


def agreement_on(found: JudgedItems, chosen: Bools, corpus: str, values: Values, surface: Bools) -> JudgeAgreement:
    """Return how far a judge's verdicts on the chosen rows agree with the released ones; rows without one are left out.

    Args:
        found: all rows.
        chosen: a mask of the judged ones, on none of which anything was fitted.
        corpus: the config of their texts.
        values: the judge's verdict on each chosen row, NaN where it gave none.
        surface: whether surface features say yes to each chosen row.
    """
    judged, has_verdict, half = found.of(chosen), ~np.isnan(values), found.of(~found.fits)
    kept, given = judged.of(has_verdict), values[has_verdict]
    released, by_judge = (_system_scores(kept, each) for each in (kept.values, given))
    keys = [item if found.kind == "factualness" else item[1] for item in half.items]
    return JudgeAgreement(
        corpus=corpus,
        released_by=RELEASE_JUDGE,
        n_documents=len(set(kept.documents.tolist())),
        n_systems=len(released),
        judge=agreement(kept.yes, given >= YES[found.kind]),
        constant=constant_agreement(kept.yes),
        surface=agreement(kept.yes, surface[has_verdict]),
        ceiling=self_agreement(keys, half.yes),
        spearman=spearman(released, by_judge) if len(released) > 1 else None,
        mean_absolute_error=float(np.abs(released - by_judge).mean()) if len(released) else None,
        n_unread=int((~has_verdict).sum()),
    )


def _by_threshold(judge: Tunable, drawn_items: JudgedItems, raws: Sequence[str]) -> tuple[float, Values]:
    """Return the threshold that agrees best over all systems, and a verdict for each row.

    The verdicts on a system's triples use the threshold that agrees best over all other systems.
    """
    probabilities = np.array([judge.probability(raw) for raw in raws])

    def best(rows: Bools) -> float:
        return agreeing_threshold(drawn_items.yes[rows], probabilities[rows])

    values = np.full(len(raws), math.nan)
    for system in np.unique(drawn_items.systems):
        tuned = judge.at(best(drawn_items.fits & (drawn_items.systems != system)))
        for row in np.flatnonzero(drawn_items.systems == system).tolist():
            values[row] = tuned.read(raws[row])
    return best(drawn_items.fits), values


def _sample_rows(rows: Bools, sample: int | None) -> Bools:
    """Return a mask of the rows; where they are more than the sample, of so many of them, drawn with a fixed seed."""
    places = np.flatnonzero(rows)
    if sample is None or len(places) <= sample:
        return rows
    drawn = np.zeros(len(rows), dtype=np.bool_)
    drawn[np.random.default_rng(0).choice(places, sample, replace=False)] = True
    return drawn


def _system_scores(found: JudgedItems, values: Values) -> Values:
    """Return the mean of each system's verdicts over its triples, systems by name: supported, or exp(-sub-triples).

    Systems with fewer than `_FEWEST` triples are left out.
    """
    if found.kind == "granularity":
        values = np.exp(-np.where(values > 1, values, 0.0))
    systems, counts = np.unique(found.systems, return_counts=True)
    return np.array([values[found.systems == system].mean() for system in systems[counts >= _FEWEST]])


def check_by_people(
    rules: AnnotationRules,
    release: Path,
    examples: Examples,
    kind: str,
    judge: AnyJudge,
    folder: Path,
    *,
    show: bool = True,
) -> HumanCheck | None:
    """Return the agreement of a judge's scores with human votes; None without votes on these examples.

    The arguments are those of `calibrate_judge`.
    """
    votes = [each for each in rules.human_votes(release, examples) if each.metric == kind]
    if not votes:
        return None
    answers = {name: stored for name, stored, _ in rules.released_outputs(release, examples)}
    rows = {row["id"]: (place, row["text"]) for place, row in enumerate(examples.rows)}
    items = {
        (name, each.id): [
            (rows[each.id][1], key)
            for key in triple_keys(answers[name][rows[each.id][0]] or [], once=kind == "granularity")
        ]
        for each in votes
        for name in (each.a, each.b)
    }
    distinct = [item for each in items.values() for item in each]
    judged = judge_each_once(distinct, folder / "work" / kind, kind, judge, show=show).verdicts
    verdicts = dict(zip(distinct, judged, strict=True))
    scores = {place: _document_score([verdicts[item] for item in each], kind) for place, each in items.items()}
    people = [each.vote for each in votes]
    its = [vote(scores[each.a, each.id], scores[each.b, each.id]) for each in votes]
    released = [vote(each.score_a, each.score_b) for each in votes]
    by_people, by_judge = (
        bradley_terry([(each.a, each.b, outcome) for each, outcome in zip(votes, outcomes, strict=True)])
        for outcomes in (people, its)
    )
    return HumanCheck(decided_votes(people, its), decided_votes(people, released), by_people, by_judge)


def _document_score(verdicts: list[Verdict], kind: str) -> float:
    """Return the score of a document's triples in mode `reference`."""
    empty, values = EMPTY_SCORES["reference"][kind], [each.value for each in verdicts]
    if kind == "factualness":
        return float(factualness([values], empty=empty)[0])
    return float(granularity([[None if each is None else int(each) for each in values]], empty=empty)[0])


def calibrate_embedder(
    rules: AnnotationRules, release: Path, examples: Examples, embedder: Embedder, work: Path, *, show: bool = True
) -> tuple[Thresholds, dict[str, Calibration]]:
    """Return the thresholds for an embedder, and for each metric how close its scores come to the published ones.

    Uses the stored outputs in `release` of the examples' dataset that have a published score. Vectors are kept in the
    folder `work`, so that an interrupted calibration resumes.

    Raises:
        DataError: the release has no stored outputs of this dataset.
    """
    systems = []
    for name, answers, figures in rules.released_outputs(release, examples):
        thresholds = Thresholds(0.5, 0.5, "being sought")
        annotate_embeddings(rules, examples, answers, work / name, embedder, thresholds, show=show)
        systems.append((figures, Annotations(work / name), answers))

    def calibrated(metric: str, figure: Callable[[Examples, Annotations, list[Any], float], float]) -> Calibration:
        usable = [each for each in systems if metric in each[0]]
        return calibrate(
            lambda threshold: [figure(examples, annotations, answers, threshold) for _, annotations, answers in usable],
            [published[metric] for published, _, _ in usable],
        )

    unique = calibrated("uniqueness", _mean_uniqueness)
    complete = calibrated("completeness", partial(_mean_completeness, rules))
    corpus = examples.context.config
    basis = (
        f"published figures: CS of a system left out is off by {100 * complete.left_out_error:.1f} points on average "
        f"({complete.n_systems} systems), US by {100 * unique.left_out_error:.1f} ({unique.n_systems})"
    )
    thresholds = Thresholds(unique.threshold, complete.threshold, basis, corpus)
    return thresholds, {"uniqueness": unique, "completeness": complete}


def _mean_uniqueness(examples: Examples, annotations: Annotations, answers: list[Any], threshold: float) -> float:
    places = (annotations.places(answer) for answer in answers)
    vectors = (None if each is None else annotations.sums(each) for each in places)
    return float(np.nanmean(uniqueness(vectors, threshold, empty=EMPTY_SCORES["reference"]["uniqueness"])))


def _mean_completeness(
    rules: AnnotationRules, examples: Examples, annotations: Annotations, answers: list[Any], threshold: float
) -> float:
    pairs = (
        (annotations.places(list(dict.fromkeys(rules.gold(row, "reference")))), annotations.places(answer))
        for row, answer in zip(examples.rows, answers, strict=True)
    )
    cosines = (
        None if gold is None or answer is None else all_cosines(annotations.sums(gold), annotations.sums(answer))
        for gold, answer in pairs
    )
    return float(np.nanmean(completeness(cosines, threshold)))
