"""How far a judge agrees with released verdicts: what every figure that it gives carries with it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.agreement import Agreement


@dataclass(frozen=True)
class JudgeAgreement:
    """A judge beside the released one, on documents that it was neither chosen nor fitted on.

    Where something is fitted to verdicts (a threshold, the surface features' weights), it is fitted on other documents
    and, in turn, on all other systems than the one judged.
    """

    corpus: str
    released_by: str
    """The judge whose released verdicts stand for the truth."""
    n_documents: int
    n_systems: int
    judge: Agreement
    constant: Agreement
    """Of saying of all items what is true of most."""
    surface: Agreement
    """Of the model of surface features, on the same items."""
    ceiling: Agreement
    """Of the released judge with itself, on items that it judged twice."""
    spearman: float
    """Rank correlation of the systems' figures. Surface features alone reach .7 to .96: it proves no judge."""
    mean_absolute_error: float
    """Of the systems' figures, a fraction."""
    n_unread: int = 0
    """Answers without a verdict; they are in none of the figures above."""
    threshold: float | None = None
    """From which probability on this judge says yes, where it has a choice."""
    cost: Mapping[str, float] | None = None
    """What its judging cost: `seconds`, and for served models `requests`, `prompt_tokens` and `completion_tokens`."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as files have them."""
        return {**asdict(self), **{name: _plain(getattr(self, name)) for name in _MEASURED}}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "JudgeAgreement":
        """Return the agreement that `to_dict` wrote."""
        return cls(**{**plain, **{name: _measured(plain[name]) for name in _MEASURED}})

    def __str__(self) -> str:
        """Say how far it agrees, beside what costs nothing and what nobody can pass."""
        beside = {"surface features": self.surface, "a constant": self.constant, "the latter itself": self.ceiling}
        if self.surface == self.judge:
            del beside["surface features"]
        others = ", ".join(f"{name} {_in_short(each)}" for name, each in beside.items())
        return (
            f"with {self.released_by} it agrees at kappa / balanced accuracy {_in_short(self.judge)} ({others}), and "
            f"systems' figures are {100 * self.mean_absolute_error:.1f} points off on average (Spearman "
            f"{self.spearman:.2f}); measured on {self.judge.n:,} triples of {self.corpus}"
        )


_MEASURED = ("judge", "constant", "surface", "ceiling")


def _in_short(measured: Agreement) -> str:
    return f"{measured.kappa:z.2f} / {measured.balanced_accuracy:.2f}"


def _plain(measured: Agreement) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in measured._asdict().items()}


def _measured(plain: Mapping[str, Any]) -> Agreement:
    n, *figures = (plain[name] for name in Agreement._fields)
    return Agreement(n, *(math.nan if figure is None else figure for figure in figures))


def agreement_warnings(labels: Mapping[str, str], identities: Mapping[str, Mapping[str, Any]]) -> list[ScoreWarning]:
    """Return what stands beside judged figures: how far their judge agrees with released ones, or that nobody knows.

    Args:
        labels: kind of annotation -> its metric's label in tables.
        identities: kind -> what it was made with: its `judge`, and its `agreement` where it was calibrated.
    """
    found = []
    for kind, label in labels.items():
        if kind not in identities:
            continue
        judge, plain = str(identities[kind].get("judge", "an unnamed judge")), identities[kind].get("agreement")
        if judge.startswith(("stored:", "by-hand:")):
            continue  # the released verdicts themselves, or a person's
        if plain is None:
            message = f"{label} is judged by {judge}; nobody has measured how far it agrees with released verdicts."
            found.append(ScoreWarning("judge_not_calibrated", message, "Calibrate it: kbbench annotate --calibrate."))
        else:
            agreement = JudgeAgreement.of(plain)
            baseline = ", a baseline that reads no meaning" if judge.startswith("surface:") else ""
            weak = agreement.judge.kappa <= agreement.surface.kappa
            message = f"{label} is judged by {judge}{baseline}: {agreement}."
            found.append(ScoreWarning("judge_agreement", message, severity="warning" if weak else "note"))
    return found
