"""How far a judge agrees with a release's verdicts, measured where it was neither chosen nor fitted.

Documents are in halves: on one, thresholds and weights are fitted, always to the other systems than the one judged; on
the other half, every system is judged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.annotations import triple_key
from kbbench_hf.benchmarks.base import AnnotationRules, Examples
from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement
from kbbench_hf.metrics.agreement import agreement, constant_agreement, self_agreement
from kbbench_hf.models.judges import RELEASE_JUDGE, Item, StoredFacts, StoredSplits
from kbbench_hf.models.surface import FEATURES, fit_logistic
from kbbench_hf.models.thresholds import spearman

Bools = NDArray[np.bool_]
_FEWEST = 30
"""Triples of a system below which it has no figure: of two systems, the release judged only a few documents."""


@dataclass(frozen=True)
class JudgedItems:
    """Triples with a released verdict, one row each."""

    kind: str
    items: Sequence[Item]
    values: NDArray[np.float64]
    """The released verdict: 1 or 0, or the number of sub-triples."""
    systems: NDArray[np.str_]
    documents: NDArray[np.str_]
    fits: Bools
    """Whether the row's document is of the half that may be fitted on."""

    def of(self, chosen: Bools) -> "JudgedItems":
        """Return the chosen rows."""
        items = [item for item, wanted in zip(self.items, chosen.tolist(), strict=True) if wanted]
        values, systems, documents, fits = self.values, self.systems, self.documents, self.fits
        return JudgedItems(self.kind, items, values[chosen], systems[chosen], documents[chosen], fits[chosen])

    @property
    def yes(self) -> Bools:
        """Whether each verdict is a yes: supported, or several facts."""
        return says_yes(self.kind, self.values)


def says_yes(kind: str, values: NDArray[np.float64]) -> Bools:
    """Return which verdicts are a yes: supported, or split into two or more."""
    found: Bools = values >= (1 if kind == "factualness" else 2)
    return found


def released_items(rules: AnnotationRules, release: Path, examples: Examples, kind: str) -> JudgedItems:
    """Return every stored triple of the release's systems that its judge gave a verdict on.

    Raises:
        DataError: the release has no verdicts of the examples' config.
    """
    items: list[Item] = []
    values, systems, documents, fits = [], [], [], []
    for system, answers, file in rules.released_verdicts(release, examples, kind):
        asked = [
            (row, (row["text"], key))
            for row, answer in zip(examples.rows, answers, strict=True)
            for key in _keys(answer or [], once=kind == "granularity")
        ]
        stored = (StoredFacts if kind == "factualness" else StoredSplits)(file)
        for (row, item), verdict in zip(asked, stored.judge([item for _, item in asked]), strict=True):
            if verdict.value is not None:
                items.append(item)
                values.append(verdict.value)
                systems.append(system)
                documents.append(row["id"])
                fits.append(rules.calibrates(row))
    return JudgedItems(kind, items, np.array(values), np.array(systems), np.array(documents), np.array(fits))


def surface_says(found: JudgedItems) -> Bools:
    """Return what surface features say of the rows that are for checking, fitted to other documents and systems."""
    features = FEATURES[found.kind](found.items)
    said = np.zeros(len(found.items), dtype=np.bool_)
    for system in np.unique(found.systems):
        fitted = found.fits & (found.systems != system)
        judged = ~found.fits & (found.systems == system)
        if judged.any():
            said[judged] = fit_logistic(features[fitted], found.yes[fitted]).says(features[judged])
    return said[~found.fits]


def agreement_on(found: JudgedItems, corpus: str, values: NDArray[np.float64], surface: Bools) -> JudgeAgreement:
    """Return how far a judge's verdicts on rows agree with the released ones.

    Args:
        found: the rows judged, none of which anything was fitted on.
        corpus: what they are of.
        values: the judge's verdict on each, NaN where it gave none.
        surface: what surface features say of each.
    """
    read = ~np.isnan(values)
    kept = found.of(read)
    said = says_yes(found.kind, values[read])
    released, judged = (_figures(kept, each) for each in (kept.values, values[read]))
    keys = [item if found.kind == "factualness" else item[1] for item in found.items]
    return JudgeAgreement(
        corpus=corpus,
        released_by=RELEASE_JUDGE,
        n_documents=len(set(kept.documents.tolist())),
        n_systems=len(released),
        judge=agreement(kept.yes, said),
        constant=constant_agreement(kept.yes),
        surface=agreement(kept.yes, surface[read]),
        ceiling=self_agreement(keys, found.yes),
        spearman=spearman(released, judged),
        mean_absolute_error=float(np.abs(released - judged).mean()) if len(released) else math.nan,
        n_unread=int((~read).sum()),
    )


def _figures(found: JudgedItems, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each system's verdicts over its triples: supported, or exp(-sub-triples)."""
    if found.kind == "granularity":
        values = np.exp(-np.where(values > 1, values, 0.0))
    systems, counts = np.unique(found.systems, return_counts=True)
    return np.array([values[found.systems == system].mean() for system in systems[counts >= _FEWEST]])


def _keys(triples: Sequence[object], once: bool) -> list[str]:
    keys = [triple_key(triple) for triple in triples]  # type: ignore[arg-type]
    return list(dict.fromkeys(keys)) if once else keys
