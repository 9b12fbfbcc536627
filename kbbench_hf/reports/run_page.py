"""One run as one HTML file that opens offline: figures, slices, cost, and examples to read."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from kbbench_hf.benchmarks import benchmark, find_dataset
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.baselines import answers_of, is_published
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.files.writing import write_text
from kbbench_hf.reports.figure_table import cells
from kbbench_hf.reports.page import MARKS, MOST_ITEMS, TEMPLATES, Bar, bar, cut, in_order, spread
from kbbench_hf.reports.retrieval_page import reasons_of
from kbbench_hf.reports.tables import label, mean_and_deviation, number, plain_interval, plain_value, words
from kbbench_hf.reports.trajectory_page import beside_base, totals, trajectory
from kbbench_hf.scoring.asked import load_examples, system_of
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions
from kbbench_hf.scoring.result import Figures, PlainFigure, PlainResult, Result, read_result, write_result
from kbbench_hf.scoring.score import annotated, annotations_beside
from kbbench_hf.scoring.trajectories import read_trajectories

N_EXAMPLES = 30
UNSHOWN = ("model", "canaries")
"""Facts of a run that stand elsewhere on the page, or say nothing by themselves."""


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
    answered = _answered(folder, result, found)
    examples = answered if isinstance(answered, str) else _examples(folder, result, found, answered)
    slices = {name: keys for name, keys in result["slices"].items() if len(keys) > 1}
    n_shown = len(examples) if isinstance(examples, list) else 0
    return TEMPLATES.get_template("run.html.jinja").render(
        title=f"{found.title}: {system_of(run.get('settings', {})) or folder.name}",
        place=f"{result['config']}, {result['split']}, mode {result['mode']}, data {result['dataset_revision']}",
        warnings=[ScoreWarning.of(each) for each in result.get("warnings", [])],
        scores=_scores(result, found),
        counters=[[words(name), f"{count:,}"] for name, count in result["counters"].items()],
        facts=[
            [words(name), _fact(value)]
            for name, value in {**run.get("summary", {}), **run.get("latency", {})}.items()
            if value not in (None, {}, []) and name not in UNSHOWN
        ],
        agent=totals(walks) if (walks := read_trajectories(folder)) else [],
        beside_base=beside_base(folder, found) if walks else [],
        slices=[_slice(name, keys, found, result["config"]) for name, keys in slices.items()],
        errors=None if isinstance(answered, str) else _errors(found, answered),
        examples=examples,
        n_shown=f"{n_shown:,} of {result['counters']['n_examples']:,}",
        provenance=_provenance(run, result),
        marks=MARKS,
        most_items=MOST_ITEMS,
        cut=cut,
    )


def answers_page(answers: Path | str, result: Result, options: ReadOptions) -> str:
    """Return the report of a predictions file, or of a published system's answers, that was scored.

    Args:
        answers: the file, or `published:NAME`.
        result: its score.
        options: how it was read.
    """
    name, file = str(answers), Path(answers)
    if is_published(name):
        file, options = answers_of(name, result.place), ReadOptions(source=options.source, parser=options.parser)
    found, examples, *_ = load_examples(*result.place)
    read = read_predictions([file], found, examples, options)
    rows = zip(examples.ids, read.answers, strict=True)
    lines = [
        json.dumps({"id": each, found.scoring.answer.field: answer}) for each, answer in rows if answer is not None
    ]
    with TemporaryDirectory() as work:
        folder = Path(work) / file.stem
        write_result(result, folder)
        write_text(folder / "predictions.jsonl", "".join(f"{line}\n" for line in lines))
        if (beside := annotations_beside(file)) is not None:
            copytree(beside, folder / "annotations")
        return run_page(folder)


def _scores(result: PlainResult, benchmark: Benchmark) -> dict[str, object]:
    counts: tuple[Literal["n_scored", "n_unscored", "n_missing"], ...] = ("n_scored", "n_unscored", "n_missing")
    repeats = result.get("repeats", {})
    spread = {
        name: mean_and_deviation([each for each in values if each is not None]) for name, values in repeats.items()
    }
    rows = [
        [
            label(benchmark, name),
            plain_value(each),
            plain_interval(each),
            *([spread.get(name, "")] if spread else []),
            *(f"{each[count]:,}" for count in counts),
        ]
        for name, each in result["scores"].items()
    ]
    of_repeats = [f"mean ± sd of {len(next(iter(repeats.values())))} runs"] if repeats else []
    heads = ["metric", "value", "95 % interval", *of_repeats, *map(words, counts)]
    return {"heads": heads, "rows": rows, "bars": [_bar(benchmark, *each) for each in result["scores"].items()]}


def _bar(benchmark: Benchmark, metric: str, figure: PlainFigure) -> Bar | None:
    return bar(figure["value"], *figure["ci95"], unbounded=metric in benchmark.scoring.unbounded)


def _slice(name: str, keys: Figures, benchmark: Benchmark, config: str) -> dict[str, object]:
    metrics = [metric for metric in next(iter(keys.values())) if metric in benchmark.metrics_of(config)]
    headline, ordered = next(iter(benchmark.metrics_of(config))), in_order(keys)
    return {
        "words": words(name),
        "drawn": label(benchmark, headline),
        "heads": [words(name), "n", *(label(benchmark, metric) for metric in metrics)],
        "rows": [
            [key, f"{keys[key][headline]['n_scored']:,}", *(plain_value(keys[key][metric]) for metric in metrics)]
            for key in ordered
        ],
        "bars": [_bar(benchmark, headline, keys[key][headline]) for key in ordered],
    }


class _Answered(NamedTuple):
    """The examples that were scored, what was answered to each, and its figures."""

    examples: Examples
    answers: Sequence[Answer | None]
    scores: Sequence[Row]


def _answered(folder: Path, result: PlainResult, benchmark: Benchmark) -> _Answered | str:
    """Return what was answered to the examples at hand; or why nothing of it is shown."""
    if not (folder / "predictions.jsonl").is_file():
        return "There are no predictions beside the figures; no examples are shown."
    place = load_examples(result["benchmark"], result["config"], result["split"])
    _, examples, _, revision, *_ = annotated(place, annotations_beside(folder))
    if revision != result["dataset_revision"]:
        return "The dataset at hand is another one than was scored; no examples are shown."
    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {each["id"] for each in scores}
    examples = replace(examples, rows=[row for row in examples.rows if row["id"] in asked])
    predictions = read_predictions([folder / "predictions.jsonl"], benchmark, examples)
    return _Answered(examples, predictions.answers, scores)


def _errors(benchmark: Benchmark, answered: _Answered) -> dict[str, object] | None:
    """Return the table of errors by class, where the benchmark tells some apart."""
    if benchmark.showing.errors is None:
        return None
    table = benchmark.showing.errors(answered.examples, answered.answers)
    return {
        "title": table.title,
        "heads": [table.corner, *(name for _, name in table.columns)],
        "rows": [[name, *(cell.value for cell in row)] for name, row in cells(table).items()],
        "notes": table.notes,
    }


def _examples(folder: Path, result: PlainResult, benchmark: Benchmark, answered: _Answered) -> list[dict[str, object]]:
    """Return the worst examples, and as many from the middle and the top; metrics after the headline break ties."""
    examples, answers, scores = answered
    responses, reasons = _responses(folder / "predictions.jsonl"), reasons_of(folder)
    walks = {each.id: each for each in read_trajectories(folder)}
    kb = None
    if walks:
        from kbbench_hf.knowledge_base.store import KnowledgeBase

        kb = KnowledgeBase.open(find_dataset(result["benchmark"]).path)
    explain, metrics = benchmark.showing.explain, benchmark.metrics_of(result["config"])
    headline, lower = next(iter(metrics)), benchmark.scoring.lower_is_better
    figures: list[Any] = [each.get(headline) for each in scores]

    def goodness(position: int) -> list[float]:
        found: dict[str, Any] = {metric: scores[position].get(metric) for metric in metrics}
        return [math.inf if each is None else -each if metric in lower else each for metric, each in found.items()]

    order = sorted(range(len(scores)), key=goodness)
    shown = []
    for position in spread(order, N_EXAMPLES):
        row, answer, figure = examples.rows[position], answers[position], figures[position]
        explained = explain(examples, row, answer) if explain and answer is not None else None
        shown.append(
            {
                "id": row["id"],
                "figure": f"{label(benchmark, headline)} {'-' if figure is None else number(figure)}",
                "answered": answer is not None,
                "question": explained and explained.question,
                "lists": explained and {"gold": [(each, "") for each in explained.gold], "answer": explained.answer},
                "row": json.dumps(row, ensure_ascii=False, indent=1, default=str),
                "answer": json.dumps(answer, ensure_ascii=False),
                "response": responses.get(row["id"]),
                "reasons": trajectory(walks[row["id"]], row["answer_ids"], kb)
                if kb is not None and row["id"] in walks
                else reasons.get(row["id"]),
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


def _fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_fact, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
