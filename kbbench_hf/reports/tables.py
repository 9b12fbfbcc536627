"""Results as tables in a terminal, and as CSV and LaTeX text: rounded scores, each with its confidence interval.

All reports and the verbs that print scores use it, so that a score has the same digits and label everywhere.
"""

import csv
import io
import math
import re
import statistics
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import unknown_name
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.reports import terminal
from kbbench_hf.scoring.result import PlainScore, Result

if TYPE_CHECKING:
    from rich.console import Console

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that a spreadsheet takes for formulas."""
MOST_NOTES = 3
"""Maximum number of warnings and notes that are printed without --notes."""
EXPANSIONS = {
    "mrr": "mean reciprocal rank",
    "map": "mean average precision",
    "f1": "harmonic mean of precision and recall",
    "answer_f1": "harmonic mean of answer precision and recall",
    "r_precision": "precision at the number of gold nodes",
}
"""Metric -> expansion of its label, if it differs from the metric's name."""
_AT_K = {
    "Hit@": "share of queries with a gold node among the first k",
    "R@": "recall within the first k",
    "nDCG@": "normalized discounted cumulative gain within the first k",
}
_COUNTERS = {
    "n_examples": "examples",
    "n_missing": "without prediction",
    "n_parse_failures": "unparsable responses",
    "n_empty": "empty predictions",
    "n_filtered_out": "predictions without a relation that the gold uses",
    "n_empty_gold": "examples without gold",
    "n_duplicate_triples": "repeated triples",
    "n_near_miss_relations": "relations that differ from the ontology in case, spaces or underscores",
    "n_gold_not_named": "gold triples whose subject or object the sentence does not name",
    "n_not_candidates": "predicted ids that are not candidates",
    "n_not_determined": "queries whose rankings end before all values are known",
    "n_malformed_triples": "malformed triples",
    "n_backed_off": "queries ranked by the base retriever only",
    "n_repaired": "tool calls with repaired arguments",
    "n_answer_seen": "queries with a gold node seen",
    "n_answer_selected": "queries with a gold node selected",
}
"""Counter -> the noun after its number; other counters are shown by their names."""


def print_result(
    result: Result,
    benchmark: Benchmark,
    slices: str | None = None,
    *,
    all_metrics: bool = False,
    notes: bool = False,
) -> None:
    """Print the scores of a result with their intervals, the counters that are not zero, and the chosen slices.

    Args:
        result: the result.
        benchmark: its benchmark.
        slices: the slices to print, or `all`.
        all_metrics: whether all metrics are printed, not only the headline metrics.
        notes: whether all warnings and notes are printed, not only the most important three.
    """
    console, chosen = terminal.console(), chosen_slices(slices, result.slices)
    console.print(f"[bold]{escape(benchmark.title)}[/bold] · {place_words(result)}")
    scored = {metric: score for metric, score in result.scores.items() if score.n_scored} or dict(result.scores)
    shown = [*scored] if all_metrics else benchmark.headline_metrics(scored)
    scores = {metric: scored[metric] for metric in shown}
    cells = {metric: (number(each.value), interval(each.ci95), each._asdict()) for metric, each in scores.items()}
    terminal.print_table(console, *score_rows(benchmark, cells, result.repeats))
    console.print(f"[dim]{escape(metric_legend(benchmark, scores))}[/dim]")
    counters = "; ".join(counted(count, counter_words(name)) for name, count in result.counters.items() if count)
    console.print(f"[dim]{counters}[/dim]")
    if hidden := [label(benchmark, metric) for metric in scored if metric not in scores]:
        console.print(f"[dim]{len(hidden)} more metrics ({', '.join(hidden)}): --all-metrics[/dim]")
    print_warnings(console, result.warnings, benchmark.headline, all_notes=notes)
    for name in chosen:
        console.print()
        _print_slice(name, result.slices[name], benchmark, scores)


def score_rows(
    benchmark: Benchmark,
    scores: Mapping[str, tuple[str, str, Mapping[str, Any]]],
    repeats: Mapping[str, Sequence[float | None]],
) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a table of scores; a count of examples that is 0 for all metrics has no column.

    Args:
        benchmark: whose metrics they are.
        scores: metric -> its value and interval as shown, and the counts of examples.
        repeats: metric -> its value in each run; empty without repeats.
    """
    heads = {"n_scored": "n", "n_unscored": "not applicable", "n_missing": "no prediction"}
    counts = [name for name in heads if name == "n_scored" or any(of[name] for *_, of in scores.values())]
    rows = []
    for metric, (value, ends, of) in scores.items():
        known = [each for each in repeats.get(metric, ()) if each is not None]
        deviation = [mean_and_deviation(known)] if repeats else []
        rows.append([label(benchmark, metric), value, ends, *deviation, *(f"{of[name]:,}" for name in counts)])
    of_repeats = [f"mean ± sd of {len(next(iter(repeats.values())))} runs"] if repeats else []
    return ["metric", "value", "95 % interval", *of_repeats, *(heads[name] for name in counts)], rows


def counted(count: int, what: str) -> str:
    """Return a number with what it counts, in the singular for 1.

    >>> counted(1, "empty predictions"), counted(1, "queries without gold"), counted(1_200, "examples")
    ('1 empty prediction', '1 query without gold', '1,200 examples')
    """
    if count == 1:
        what = re.sub(r"^((?:\w+ )??\w+?)(?:(ie)?s)\b(?! of)", lambda m: f"{m[1]}{'y' if m[2] else ''}", what)
    return f"{count:,} {what}"


def metric_legend(benchmark: Benchmark, metrics: Iterable[str]) -> str:
    """Return the legend of metric labels, in one line; empty if all labels are their own expansions.

    >>> from kbbench_hf.benchmarks import benchmark
    >>> metric_legend(benchmark("mini-stark"), ["hit_at_1", "mrr"])
    'Hit@k: share of queries with a gold node among the first k; MRR: mean reciprocal rank.'
    >>> metric_legend(benchmark("mini-text2kg"), ["precision", "subject_hallucination"])
    'P: precision; SH: subject hallucination (↓ lower is better).'
    """
    meant: dict[str, str] = {}
    for metric in metrics:
        name = benchmark.metrics.get(metric, metric)
        family = next((each for each in _AT_K if name.startswith(each)), None)
        lower = " (↓ lower is better)" if metric in benchmark.scoring.lower_is_better and "↓" not in str(meant) else ""
        if family:
            meant[f"{family}k"] = _AT_K[family]
        elif (expanded := EXPANSIONS.get(metric, words(metric))).lower() != name.lower():
            meant[name] = f"{expanded}{lower}"
    return f"{'; '.join(f'{name}: {what}' for name, what in meant.items())}." if meant else ""


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return the mean of the values of several runs and their sample standard deviation; of one run its value.

    >>> mean_and_deviation([0.25, 0.35]), mean_and_deviation([])
    ('0.3000 ± 0.0707', '-')
    """
    if len(values) < 2:
        return number(values[0]) if values else "-"
    return f"{number(statistics.fmean(values))} ± {number(statistics.stdev(values))}"


def number(value: float) -> str:
    """Return a score with four decimals, or a dash if nothing was scored.

    >>> number(0.34758), number(float("nan"))
    ('0.3476', '-')
    """
    return f"{value:.4f}" if math.isfinite(value) else "-"


def label(benchmark: Benchmark, metric: str) -> str:
    """Return the label of a metric, with ↓ if lower is better."""
    name = benchmark.metrics.get(metric, words(metric))
    return f"{name} ↓" if metric in benchmark.scoring.lower_is_better else name


def directed_label(benchmark: Benchmark, metric: str) -> str:
    """Return the label of a metric with an arrow: ↓ if lower is better, else ↑."""
    name = label(benchmark, metric)
    return name if metric in benchmark.scoring.lower_is_better else f"{name} ↑"


def counter_words(name: str) -> str:
    """Return the words after the number of a counter.

    >>> counter_words("n_missing"), counter_words("n_tool_calls")
    ('without prediction', 'tool calls')
    """
    return _COUNTERS.get(name, words(name))


def value_text(score: PlainScore) -> str:
    """Return a score of a `result.json` as tables show it."""
    return "-" if score["value"] is None else number(score["value"])


def interval_text(score: PlainScore) -> str:
    """Return the interval of a score of a `result.json` as tables show it."""
    low, high = score["ci95"]
    return "-" if low is None or high is None else interval((low, high))


def words(name: str) -> str:
    """Return a key of a result as words.

    >>> words("n_parse_failures")
    'parse failures'
    """
    return name.removeprefix("n_").replace("_", " ")


def interval(bounds: tuple[float, float]) -> str:
    """Return an interval as tables show it.

    >>> interval((0.1, 0.25))
    '[0.100, 0.250]'
    """
    return f"[{', '.join(f'{bound:.3f}' if math.isfinite(bound) else '-' for bound in bounds)}]"


def print_warnings(
    console: "Console", warnings: Iterable[ScoreWarning], headline: str = "", *, all_notes: bool = True
) -> None:
    """Print warnings and notes, those first that change the headline metric most; notes are dim.

    Unless `all_notes`, at most three are printed, and every further one is counted by its code.
    """
    ordered = ordered_warnings(warnings, headline)
    shown = ordered if all_notes else ordered[:MOST_NOTES]
    for warning in shown:
        mark = "[yellow]![/yellow] " if warning.severity == "warning" else "[dim]i[/dim] "
        console.print(f"{mark}{escape(str(warning))}")
    if more := ordered[len(shown) :]:
        codes = ", ".join(dict.fromkeys(each.code.replace("_", " ") for each in more))
        console.print(f"[yellow]![/yellow] {len(more)} more ({codes}): --notes")


def ordered_warnings(warnings: Iterable[ScoreWarning], headline: str) -> list[ScoreWarning]:
    """Return one warning for each text, naming all its systems; those first that change the headline metric most."""
    by_text: dict[tuple[str, str], ScoreWarning] = {}
    for warning in warnings:
        text = (warning.message, warning.remedy)
        systems = dict.fromkeys([by_text.get(text, warning).system, warning.system])
        by_text[text] = replace(warning, system=", ".join(filter(None, systems)))
    return sorted(by_text.values(), key=lambda each: (each.severity != "warning", -abs(each.effect.get(headline, 0.0))))


def _print_slice(
    name: str, keys: Mapping[str, Mapping[str, Estimate]], benchmark: Benchmark, shown: Collection[str]
) -> None:
    rows = []
    for key, scores in keys.items():
        count = next(iter(scores.values()))
        values = (number(score.value) for metric, score in scores.items() if metric in shown)
        rows.append([key, f"{count.n_scored + count.n_unscored:,}", *values])
    metrics = [metric for metric in next(iter(keys.values())) if metric in shown]
    heads = [words(name), "n", *(label(benchmark, metric) for metric in metrics)]
    terminal.print_table(terminal.console(), heads, rows)


def chosen_slices(slices: str | None, known: Iterable[str]) -> list[str]:
    """Return the slices to print: those of a comma-separated list, all known ones for `all`, none for None.

    Raises:
        UsageError: an unknown slice.
    """
    names = list(known)
    chosen = [] if slices is None else names if slices == "all" else slices.split(",")
    if unknown := [name for name in chosen if name not in names]:
        raise unknown_name("slice of this dataset", unknown[0], names)
    return chosen


def clusters_text(result: Result) -> str:
    """Return the number of clusters of a result's examples in words; empty where examples are independent."""
    return "" if result.clusters is None else f" in {len(set(result.clusters)):,} clusters"


def place_words(result: Result) -> str:
    """Return config, split, mode and data revision of a result, for the head of a table."""
    if result.log:
        return f"[dim]{len(result.ids):,} examples{clusters_text(result)}, {result.versions['format']}[/dim]"
    config = "" if result.config == "default" else f"{result.config}, "
    return f"[dim]{config}{result.split}, mode {result.mode}, data {result.dataset_revision[:8]}[/dim]"


def csv_text(heads: Sequence[str], lines: Iterable[Sequence[str | float | Decimal]]) -> str:
    r"""Return lines as CSV; a text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> csv_text(["system", "difference"], [["=1+1", -0.5]])
    "system,difference\n'=1+1,-0.5\n"
    """
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(
        [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell for cell in line]
        for line in lines
    )
    return sink.getvalue()


_TEXT = {"~": "asciitilde", "^": "asciicircum", "\\": "backslash", "<": "less", ">": "greater", "|": "bar"}
_TEXT |= {'"': "quotedbl", "·": "periodcentered"}
_MATH = {"↓": "downarrow", "↑": "uparrow", "±": "pm", "≥": "geq", "≤": "leq", "≈": "approx"}
_SPECIAL = {each: f"\\{each}" for each in "&%$#_{}"}
_SPECIAL |= {"†": "\\dag{}", "‡": "\\ddag{}", "–": "--", "—": "---", "’": "'", "−": "$-$"}
_SPECIAL |= {each: f"\\text{name}{{}}" for each, name in _TEXT.items()}
_SPECIAL |= {each: f"$\\{name}$" for each, name in _MATH.items()}
"""Character -> the LaTeX that shows it."""


def latex(text: str) -> str:
    r"""Return text as LaTeX that shows it; a letter that pdflatex does not know becomes its closest one, or `?`.

    >>> latex("50 % of R@20 ↓")
    '50 \\% of R@20 $\\downarrow$'
    """
    return "".join(_SPECIAL.get(each) or _letter(each) for each in text)


def _letter(letter: str) -> str:
    """Return a character without an entry in `_SPECIAL` as LaTeX; combining marks vanish, unknown ones are `?`."""
    if letter == "\n" or (letter.isprintable() and ord(letter) < 0x180):  # ASCII and the accented Latin letters
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_SPECIAL.get(each, each) for each in plain) or ("" if unicodedata.combining(letter) else "?")


def bold(text: str) -> str:
    """Return LaTeX in bold."""
    return f"\\textbf{{{text}}}"


def tabular(
    heads: Sequence[Sequence[tuple[str, int]]],
    rows: Sequence[Sequence[str]],
    spaced: Collection[int] = (),
    n_left: int = 1,
) -> str:
    r"""Return a booktabs table of cells that are LaTeX already.

    Args:
        heads: the lines of headings, each of (text, columns that it spans).
        rows: the lines of cells.
        spaced: the rows before which there is some space.
        n_left: how many columns, the first ones, hold words; the others hold numbers, to the right.
    """
    n_columns = sum(span for _, span in heads[-1])
    lines = [f"\\begin{{tabular}}{{{'l' * n_left}{'r' * (n_columns - n_left)}}}", "\\toprule"]
    for number, head in enumerate(heads):
        cells = [text if span == 1 else f"\\multicolumn{{{span}}}{{c}}{{{text}}}" for text, span in head]
        lines.append(" & ".join(cells) + " \\\\")
        if number < len(heads) - 1:
            start = 1
            for _, span in head:
                lines += [f"\\cmidrule(lr){{{start}-{start + span - 1}}}"] if span > 1 else []
                start += span
    lines.append("\\midrule")
    for position, row in enumerate(rows):
        lines += ["\\addlinespace"] if position in spaced else []
        lines.append(" & ".join(row) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])
