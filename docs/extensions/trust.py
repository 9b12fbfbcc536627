"""The directives `trust-totals` and `trust-benchmarks`: which published scores are reproduced.

No verdict is written by hand. It compares the published value with the value that released outputs give, which
`tests/golden/recomputed.csv` holds.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extensions.published import markdown_table
from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import TaskKey
from kbbench_hf.benchmarks.baselines import published_places, published_rows
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore
from kbbench_hf.reports.tables import label
from tests.golden.recompute import FILE, read

Verdict = Literal["exact", "cut", "close", "other", "not again"]
WORDS: dict[Verdict, str] = {
    "exact": "exact",
    "cut": "exact (truncated)",
    "close": "close",
    "other": "different",
    "not again": "not verifiable",
}


@dataclass(frozen=True)
class Judged:
    """A published score, the recomputed value and the verdict."""

    row: PublishedRow
    part: str
    metric: str
    figure: PublishedScore
    ours: float | None
    verdict: Verdict
    why: str

    @property
    def metric_label(self) -> str:
        """The metric as tables call it."""
        return label(benchmark(self.row.task_key.benchmark), self.metric)


CLOSE = Fraction(1, 100)
"""Largest absolute difference of a close score; a relative difference of 2 % is close, too."""


def verdict_of(figure: PublishedScore, ours: float | None) -> Verdict:
    """Return the verdict on a score at the digits of its source; a half may be rounded up or down."""
    if ours is None:
        return "not again"
    unit = Fraction(1, 10**figure.digits)
    printed, found = Fraction(figure.printed), Fraction(ours).limit_denominator(10**12)
    if abs(printed - found) * 2 <= unit:
        return "exact"
    if math.floor(found / unit) * unit == printed:
        return "cut"
    return "close" if abs(printed - found) <= max(CLOSE, printed / 50) else "other"


def judged() -> Iterator[Judged]:
    """Yield every published score of every benchmark with its verdict; second-hand ones have none."""
    recomputed = read()
    for place in published_places():
        for row in published_rows(*place):
            parts = {"": row.figures}
            parts |= {f"{name}={key}": figures for name, keys in row.slices.items() for key, figures in keys.items()}
            again = any((place, row.system, part, metric) in recomputed for part in parts for metric in parts[part])
            for part, figures in parts.items():
                for metric, figure in figures.items():
                    if figure.second_hand:
                        continue
                    ours = recomputed.get((place, row.system, part, metric))
                    why = "; ".join(filter(None, (_why(row, metric, again) if ours is None else "", figure.note)))
                    yield Judged(row, part, metric, figure, ours, verdict_of(figure, ours), why)


def _why(row: PublishedRow, metric: str, again: bool) -> str:
    if not again:
        return "no outputs of the system were released" if row.system != "data" else "the data could not be obtained"
    rules = benchmark(row.task_key.benchmark).scoring.annotations
    if rules is not None and metric in rules.metrics:
        return "the outputs of the judges were not released"
    return "the inputs of this score were not released"


def _counts(found: list[Judged]) -> list[str]:
    """Return the number of scores, and how many have each verdict."""
    counts = Counter(each.verdict for each in found)
    return [f"{len(found):,}", *(f"{counts[verdict]:,}" for verdict in WORDS)]


def _by_family(found: list[Judged]) -> dict[str, list[Judged]]:
    families: dict[str, list[Judged]] = {}
    for each in found:
        families.setdefault(benchmark(each.row.task_key.benchmark).facts.family, []).append(each)
    return families


def _totals(found: list[Judged]) -> str:
    body = [[family, *_counts(of)] for family, of in _by_family(found).items()]
    return markdown_table(["benchmark", "scores", *WORDS.values()], [*body, ["all", *_counts(found)]])


def _by_source(found: list[Judged]) -> str:
    sources: dict[str, list[Judged]] = {}
    for each in found:
        source = each.figure.source
        where = f"[{source.work}]({source.url}) {source.where.rpartition('/')[2]}".rstrip()
        sources.setdefault(f"{where}, {source.kind}", []).append(each)
    return markdown_table(["source", "scores", *WORDS.values()], ([key, *_counts(of)] for key, of in sources.items()))


def _place(place: TaskKey) -> str:
    return f"{place.benchmark}/{place.config}, {place.split}{f', {place.mode}' if place.mode else ''}"


def _exceptions(found: list[Judged]) -> str:
    body = [
        [
            f"{each.row.system}{f', {each.part}' if each.part else ''}",
            _place(each.row.task_key),
            each.metric_label,
            each.figure.printed,
            f"{each.ours:.{each.figure.digits + 1}f}",
            f"{WORDS[each.verdict]}{f': {each.why}' if each.why else ''}",
        ]
        for each in found
        if each.ours is not None and each.verdict != "exact"
    ]
    return markdown_table(["system", "dataset", "metric", "published", "recomputed", "verdict"], body, n_words=6)


def _scores(found: list[Judged]) -> str:
    """Return all scores of a benchmark: those of a row that share verdict and reason together."""
    groups: dict[tuple[TaskKey, str, Verdict, str], list[str]] = {}
    for each in found:
        part = each.part.partition("=")[2]
        shown = f"{f'{part} ' if part else ''}{each.metric_label} {each.figure.printed}"
        if each.ours is not None and each.verdict != "exact":
            shown += f" (recomputed {each.ours:.{each.figure.digits + 1}f})"
        groups.setdefault((each.row.task_key, each.row.system, each.verdict, each.why), []).append(shown)
    body = [
        [_place(place), system, WORDS[verdict], "; ".join(shown), why]
        for (place, system, verdict, why), shown in groups.items()
    ]
    return markdown_table(["dataset", "system", "verdict", "scores", "reason"], body, n_words=5)


class _Totals(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FILE))
        return self.parse_text_to_nodes(_totals(list(judged())))


class _Folded(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        """Return a `details` element per benchmark: sources, scores that are not exact, all scores."""
        self.env.note_dependency(str(FILE))
        shown: list[nodes.Node] = []
        for family, found in _by_family(list(judged())).items():
            counts = Counter(each.verdict for each in found)
            verdicts = ", ".join(f"{counts[verdict]:,} {word}" for verdict, word in WORDS.items() if counts[verdict])
            text = f"**By source**\n\n{_by_source(found)}\n\n"
            if any(each.ours is not None and each.verdict != "exact" for each in found):
                text += f"**Recomputed scores that are not exact**\n\n{_exceptions(found)}\n\n"
            summary = f"{family}: {len(found):,} scores, {verdicts}"
            shown += [
                nodes.raw("", f"<details><summary>{summary}</summary>", format="html"),
                *self.parse_text_to_nodes(f"{text}**All scores**\n\n{_scores(found)}"),
                nodes.raw("", "</details>", format="html"),
            ]
        return shown


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("trust-totals", _Totals)
    app.add_directive("trust-benchmarks", _Folded)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
