"""One run as one HTML file that opens offline: figures, slices, cost, and examples to read."""

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.reports.html import templates
from kbbench_hf.reports.plots import plot_figures, plot_slice
from kbbench_hf.reports.tables import label, number, plain_interval, plain_value, words
from kbbench_hf.scoring.predictions import read_predictions
from kbbench_hf.scoring.result import Figures, PlainResult, read_result
from kbbench_hf.scoring.score import load_examples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_EXAMPLES = 30
MOST_CHARACTERS = 4000
"""Longer texts are cut, and their length is said."""
MOST_ITEMS = 50
"""Longer lists of triples or answers likewise: a page stays under 5 MB whatever a model writes."""
UNSHOWN = ("model", "canaries")
"""Facts of a run that stand elsewhere on the page, or say nothing by themselves."""
MARKS = {"right": "✓", "wrong": "✗", "hallucinated": "☁"}
TEMPLATES = templates(Path(__file__).parent / "templates")


def run_page(folder: Path) -> str:
    """Return the report of a scored run folder, a single HTML document without outside references.

    Raises:
        UsageError: the folder holds no scored run.
    """
    if not (folder / "result.json").is_file():
        raise UsageError(
            f"{folder} holds no result.json; expected the folder of a finished run. Run it again to resume it."
        )
    result = read_result(folder / "result.json")
    run = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
    found = benchmark(result["benchmark"])
    return TEMPLATES.get_template("run.html.jinja").render(
        title=f"{found.title}: {run.get('settings', {}).get('model', folder.name)}",
        place=f"{result['config']}, {result['split']}, mode {result['mode']}, data {result['dataset_revision']}",
        warnings=[ScoreWarning.of(each) for each in result.get("warnings", [])],
        scores=_scores(result, found),
        counters=[[words(name), f"{count:,}"] for name, count in result["counters"].items()],
        facts=[
            [words(name), _fact(value)]
            for name, value in {**run.get("summary", {}), **run.get("latency", {})}.items()
            if value not in (None, {}, []) and name not in UNSHOWN
        ],
        slices=[_slice(name, keys, found) for name, keys in result["slices"].items() if len(keys) > 1],
        examples=_examples(folder, result, found),
        provenance=_provenance(run, result),
        marks=MARKS,
        most_items=MOST_ITEMS,
        cut=_cut,
    )


def _scores(result: PlainResult, benchmark: Benchmark) -> dict[str, object]:
    figures = {label(benchmark, name): figure for name, figure in result["scores"].items()}
    counts: tuple[Literal["n_scored", "n_unscored", "n_missing"], ...] = ("n_scored", "n_unscored", "n_missing")
    rows = [
        [name, plain_value(figure), plain_interval(figure), *(f"{figure[count]:,}" for count in counts)]
        for name, figure in figures.items()
    ]
    heads = ["metric", "value", "95 % interval", *map(words, counts)]
    return {"heads": heads, "rows": rows, "png": _png(plot_figures(figures))}


def _slice(name: str, keys: Figures, benchmark: Benchmark) -> dict[str, object]:
    metrics = list(next(iter(keys.values())))[:8]
    rows = [
        [key, f"{figures[metrics[0]]['n_scored']:,}", *(plain_value(figures[metric]) for metric in metrics)]
        for key, figures in keys.items()
    ]
    headline = {key: figures[benchmark.headline] for key, figures in list(keys.items())[:40]}
    picture = plot_slice(headline, benchmark.metrics[benchmark.headline], name)
    heads = ["", "n", *(label(benchmark, metric) for metric in metrics)]
    return {"name": name, "words": words(name), "heads": heads, "rows": rows, "png": _png(picture)}


def _examples(folder: Path, result: PlainResult, benchmark: Benchmark) -> list[dict[str, object]] | str:
    """Return the worst examples, and as many from the middle and the top; or why none are shown."""
    if not (folder / "predictions.jsonl").is_file():
        return "There are no predictions beside the figures; no examples are shown."
    _, examples, _, revision, _ = load_examples(result["benchmark"], result["config"], result["split"])
    if revision != result["dataset_revision"]:
        return "The dataset at hand is another one than was scored; no examples are shown."
    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {each["id"] for each in scores}
    examples = replace(examples, rows=[row for row in examples.rows if row["id"] in asked])
    predictions = read_predictions([folder / "predictions.jsonl"], benchmark, examples)
    responses = _responses(folder / "predictions.jsonl")
    explain = benchmark.showing.explain
    figures = [each.get(benchmark.headline) for each in scores]
    order = sorted(range(len(scores)), key=lambda n: math.inf if figures[n] is None else figures[n])
    shown = []
    for position in _spread(order, N_EXAMPLES):
        row, answer, figure = examples.rows[position], predictions.answers[position], figures[position]
        explained = explain(examples, row, answer) if explain and answer is not None else None
        shown.append(
            {
                "id": row["id"],
                "figure": f"{label(benchmark, benchmark.headline)} {'-' if figure is None else number(figure)}",
                "answered": answer is not None,
                "question": explained and explained.question,
                "lists": explained and {"gold": [(each, "") for each in explained.gold], "answer": explained.answer},
                "row": json.dumps(row, ensure_ascii=False, indent=1, default=str),
                "answer": json.dumps(answer, ensure_ascii=False),
                "response": responses.get(row["id"]),
            }
        )
    return shown


def _responses(file: Path) -> dict[Id, str]:
    """Return what a language model wrote, or why it wrote nothing, by id."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {line["id"]: line.get("response") or line["error"] for line in lines if {"response", "error"} & line.keys()}


def _provenance(run: Row, result: PlainResult) -> str:
    facts: Row = {key: run[key] for key in ("settings", "started", "versions", "model") if key in run}
    facts |= {"predictions_sha256": result["predictions_sha256"], "scored_with": result["versions"]}
    return json.dumps(facts, indent=2, ensure_ascii=False)


def _png(figure: "Figure") -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return base64.b64encode(data.getvalue()).decode()


def _spread(order: Sequence[int], n: int) -> list[int]:
    """Return n of the positions: all of a short list, else the first third of n, and then evenly to the very last."""
    if len(order) <= n:
        return list(order)
    rest, last = order[n // 3 :], n - n // 3 - 1
    return [*order[: n // 3], *(rest[k * (len(rest) - 1) // last] for k in range(last + 1))]


def _fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ... ({len(text):,} characters)"
