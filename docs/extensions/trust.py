"""The directives `trust`, `trust-exceptions`, `trust-figures FAMILY`: which published figures come out again here.

Nothing of it is written by hand: a figure's verdict follows from its published row and from what released answers give
of it here, `tests/golden/recomputed.csv`.
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
from kbbench_hf.benchmarks.base import Place
from kbbench_hf.benchmarks.baselines import published_places, published_rows
from kbbench_hf.benchmarks.published import PublishedFigure, PublishedRow
from kbbench_hf.reports.tables import label
from tests.golden.recompute import FILE, read

Verdict = Literal["exact", "cut", "close", "other", "not again"]
WORDS: dict[Verdict, str] = {
    "exact": "exact",
    "cut": "exact, but cut",
    "close": "close",
    "other": "different",
    "not again": "cannot be had",
}


@dataclass(frozen=True)
class Judged:
    """A published figure, what comes out here, and what that makes of it."""

    row: PublishedRow
    part: str
    metric: str
    figure: PublishedFigure
    ours: float | None
    verdict: Verdict
    why: str

    @property
    def metric_label(self) -> str:
        """The metric as tables call it."""
        return label(benchmark(self.row.place.benchmark), self.metric)


CLOSE = Fraction(1, 100)
"""What is off by no more, or by no more than a fiftieth of itself, is close."""


def verdict_of(figure: PublishedFigure, ours: float | None) -> Verdict:
    """Return what becomes of a figure: at the digits of its source, a half rounded either way."""
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
    """Yield every published figure of every benchmark with its verdict."""
    recomputed = read()
    for place in published_places():
        for row in published_rows(*place):
            parts = {"": row.figures}
            parts |= {f"{name}={key}": figures for name, keys in row.slices.items() for key, figures in keys.items()}
            again = any((place, row.system, part, metric) in recomputed for part in parts for metric in parts[part])
            for part, figures in parts.items():
                for metric, figure in figures.items():
                    ours = recomputed.get((place, row.system, part, metric))
                    why = "; ".join(filter(None, (_why(row, metric, again) if ours is None else "", figure.note)))
                    yield Judged(row, part, metric, figure, ours, verdict_of(figure, ours), why)


def _why(row: PublishedRow, metric: str, again: bool) -> str:
    if not again:
        return "no answers of it are at hand" if row.system != "data" else "the data are not at hand"
    rules = benchmark(row.place.benchmark).scoring.annotations
    if rules is not None and metric in rules.metrics:
        return "what models said of the answers is not at hand"
    return "what it was measured on is not at hand"


def _summary(found: list[Judged]) -> str:
    counts: dict[tuple[str, str], Counter[Verdict]] = {}
    for each in found:
        source, family = each.figure.source, benchmark(each.row.place.benchmark).facts.family
        where = f"[{source.work}]({source.url}) {source.where.rpartition('/')[2]}".rstrip()
        counts.setdefault((family, f"{where}, {source.kind}"), Counter())[each.verdict] += 1
    body = [
        [*key, f"{sum(of.values()):,}", *(f"{of[verdict]:,}" if of[verdict] else "" for verdict in WORDS)]
        for key, of in counts.items()
    ]
    total = Counter(each.verdict for each in found)
    body.append(["all", "", f"{len(found):,}", *(f"{total[verdict]:,}" for verdict in WORDS)])
    return markdown_table(["benchmark", "source", "figures", *WORDS.values()], body, n_words=2)


def _place(place: Place) -> str:
    return f"{place.benchmark}/{place.config}, {place.split}{f', {place.mode}' if place.mode else ''}"


def _exceptions(found: list[Judged]) -> str:
    body = [
        [
            f"{each.row.system}{f', {each.part}' if each.part else ''}",
            _place(each.row.place),
            each.metric_label,
            each.figure.printed,
            f"{each.ours:.{each.figure.digits + 1}f}",
            f"{WORDS[each.verdict]}{f': {each.why}' if each.why else ''}",
        ]
        for each in found
        if each.ours is not None and each.verdict != "exact"
    ]
    return markdown_table(["system", "of", "metric", "published", "here", "verdict"], body, n_words=6)


def _figures(found: list[Judged], family: str) -> str:
    """Return all figures of a benchmark: those of a row that share verdict and reason together."""
    groups: dict[tuple[Place, str, Verdict, str], list[str]] = {}
    for each in found:
        if benchmark(each.row.place.benchmark).facts.family == family:
            part = each.part.partition("=")[2]
            shown = f"{f'{part} ' if part else ''}{each.metric_label} {each.figure.printed}"
            if each.ours is not None and each.verdict != "exact":
                shown += f" (here {each.ours:.{each.figure.digits + 1}f})"
            groups.setdefault((each.row.place, each.row.system, each.verdict, each.why), []).append(shown)
    body = [
        [_place(place), system, WORDS[verdict], "; ".join(shown), why]
        for (place, system, verdict, why), shown in groups.items()
    ]
    return markdown_table(["of", "system", "verdict", "figures", "why"], body, n_words=5)


class _Trust(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FILE))
        found = list(judged())
        text = {"trust": _summary, "trust-exceptions": _exceptions}[self.name](found)
        return self.parse_text_to_nodes(text)


class _Figures(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FILE))
        return self.parse_text_to_nodes(_figures(list(judged()), self.arguments[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("trust", _Trust)
    app.add_directive("trust-exceptions", _Trust)
    app.add_directive("trust-figures", _Figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
