"""Reports as one HTML file that opens offline: of a run (scores, slices, cost, examples), and of several systems.

`kbbench report` uses it. Texts come from models and datasets, so that templates escape all values. A page stays under
5 MB: `N_EXAMPLES` examples, and long texts shortened.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from kbbench_hf.benchmarks import benchmark, find_dataset, is_published
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.baselines import answers_of
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.reports import page, tables
from kbbench_hf.reports.plans import PlannedQuery, plan_section, plan_totals, read_planned
from kbbench_hf.reports.results_table import TEST_HEADS, sheet, test_cells
from kbbench_hf.reports.score_table import cells
from kbbench_hf.reports.tables import interval, label, number, ordered_warnings, words
from kbbench_hf.reports.trajectory_page import compare_with_base, totals, trajectory
from kbbench_hf.scoring.comparison import ShownTest
from kbbench_hf.scoring.eval_task import load_examples, system_name
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions, write_predictions
from kbbench_hf.scoring.result import PlainResult, PlainScore, Result, read_result, stored_rows, write_result
from kbbench_hf.scoring.results_table import Block, HeadToHead, SystemScore
from kbbench_hf.scoring.score import add_annotations, find_annotations, read_explanations
from kbbench_hf.scoring.trajectories import read_trajectories

N_EXAMPLES = 30
"""Examples of a page, besides those of lost gold."""
UNSHOWN = ("model", "canaries", "servers")
"""Facts of a run that are not in its table: the title or the provenance has them."""
_FACTS = {
    "n_prompts": "prompts",
    "n_answered": "responses",
    "n_failed": "errors",
    "n_cut_off": "truncated responses",
    "n_empty": "empty responses",
    "n_parse_failures": "unparsable responses",
    "n_without_usage": "responses without token counts",
    "n_most_common": "copies of the most frequent response",
    "timed": "timed queries",
    "latency_p50_s": "median latency, s",
    "latency_p95_s": "95th-percentile latency, s",
}
"""Fact of a run -> its name on the page, where its key does not say it."""


def run_page(folder: Path) -> str:
    """Return the report of a scored run folder, a single HTML document without outside references.

    Raises:
        UsageError: the folder holds no scored run.
    """
    if not (folder / "result.json").is_file():
        message = f"{folder} holds no result.json; expected the folder of a finished run."
        raise UsageError(f"{message} Run it again to resume it.")
    result = read_result(folder / "result.json")
    run = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
    bench = benchmark(result["benchmark"])
    answered = _answered(folder, result, bench)
    examples = answered if isinstance(answered, str) else _examples(folder, result, bench, answered)
    n_shown = len(examples) if isinstance(examples, list) else 0
    facts = {**run.get("summary", {}), **run.get("latency", {})}
    facts = {name: value for name, value in facts.items() if name not in UNSHOWN}
    return page.TEMPLATES.get_template("run.html.jinja").render(
        title=f"{bench.title}: {system_name(run.get('settings', {})) or folder.name}",
        place=f"{result['config']}, {result['split']}, mode {result['mode']}, "
        f"n = {result['counters']['n_examples']:,}, data {result['dataset_revision'][:8]}",
        warnings=tables.ordered_warnings(map(ScoreWarning.of, result.get("warnings", [])), bench.headline),
        scores=_scores(result, bench),
        counters=_without_zeros({tables.counter_words(name): count for name, count in result["counters"].items()}),
        facts=_without_zeros({_FACTS.get(name, tables.words(name)): each for name, each in facts.items()}),
        agent=totals(walks) if (walks := read_trajectories(folder)) else [],
        base_tests=compare_with_base(folder, bench) if walks else None,
        slices=[_slice(name, result, bench) for name, keys in result["slices"].items() if len(keys) > 1],
        plans=None if isinstance(answered, str) else answered.losses,
        errors=None if isinstance(answered, str) else _errors(bench, answered),
        examples=examples,
        n_shown=f"{n_shown:,} of {result['counters']['n_examples']:,}",
        provenance=_provenance(run, result),
        marks=page.marks_in(each["lists"] for each in examples) if isinstance(examples, list) else {},
    )


def answers_page(answers: Path | str, result: Result, options: ReadOptions) -> str:
    """Return the report of a predictions file, or of a published system's answers, that was scored.

    Args:
        answers: the file, or `published:NAME`.
        result: its scores.
        options: how it was parsed.
    """
    name, file = str(answers), Path(answers)
    if is_published(name):
        file, options = answers_of(name, result.task_key), ReadOptions(source=options.source, parser=options.parser)
    bench, examples, *_ = load_examples(*result.task_key)
    read = read_predictions([file], bench, examples, options)
    with TemporaryDirectory() as work:
        folder = Path(work) / file.stem
        write_result(result, folder)
        write_predictions(read, examples, bench.scoring.answer.field, folder / "predictions.jsonl")
        if (beside := find_annotations(file)) is not None:
            copytree(beside, folder / "annotations")
        return run_page(folder)


def _scores(result: PlainResult, benchmark: Benchmark) -> dict[str, object]:
    """Return the charts of the headline metrics and of the other ones, and the legend of the first."""
    scored = {name: each for name, each in result["scores"].items() if each["n_scored"]} or result["scores"]
    headline = benchmark.headline_metrics(scored)
    others = [name for name in scored if name not in headline]
    return {
        "chart": _score_chart(result, benchmark, headline),
        "legend": tables.metric_legend(benchmark, headline),
        "others": _score_chart(result, benchmark, others) if others else None,
    }


def _score_chart(result: PlainResult, benchmark: Benchmark, metrics: Sequence[str]) -> page.Chart:
    """Return the chart of some metrics, with one scale if all can share it."""
    scores = {name: result["scores"][name] for name in metrics}
    cells = {name: (tables.value_text(each), tables.interval_text(each), each) for name, each in scores.items()}
    heads, rows = tables.score_rows(benchmark, cells, result.get("repeats", {}))
    unbounded = benchmark.scoring.unbounded
    drawn = [page.score_bars([_drawable(each)], unbounded=name in unbounded) for name, each in scores.items()]
    scales = {scale for _, scale in drawn}
    bars = [bar and bar._replace(scale=scale if len(scales) > 1 else "") for (bar,), scale in drawn]
    return page.Chart(heads, rows, bars, next(iter(scales)) if len(scales) == 1 else "")


def _drawable(score: PlainScore) -> page.Drawable:
    low, high = score["ci95"]
    return score["value"], low, high


def _without_zeros(facts: Mapping[str, object]) -> dict[str, list[list[str]]]:
    """Return facts as rows: `shown` ones, and `hidden` ones, which are zero; facts without a value are left out."""
    there = {name: value for name, value in facts.items() if value not in (None, {}, [])}
    return {
        "shown": [[name, _fact_text(value)] for name, value in there.items() if value],
        "hidden": [[name, _fact_text(value)] for name, value in there.items() if not value],
    }


def _slice(name: str, result: PlainResult, benchmark: Benchmark) -> dict[str, object]:
    """Return the chart of the headline metric in each key of a slice, and the table of all metrics."""
    of_config, keys = benchmark.metrics_of(result["config"]), result["slices"][name]
    scores = {key: keys[key] for key in page.sort_slice_keys(keys)}
    first, some = next(iter(of_config)), next(iter(keys.values()))
    metrics = [each for each in some if each in of_config and any(of[each]["n_scored"] for of in keys.values())]
    headline = [metric for metric in benchmark.headline_metrics(metrics) if metric != first]
    drawn = [_drawable(of[first]) for of in scores.values()]
    bars, scale = page.score_bars(drawn, unbounded=first in benchmark.scoring.unbounded)
    rows, all_rows = [], []
    for key, of in scores.items():
        texts = {metric: tables.value_text(of[metric]) for metric in (first, *metrics)}
        ends, n = tables.interval_text(of[first]), f"{of[first]['n_scored']:,}"
        rows.append([key, texts[first], ends, n, *(texts[metric] for metric in headline)])
        all_rows.append([key, *(texts[metric] for metric in metrics)])
    corner, labels = tables.words(name), {each: tables.label(benchmark, each) for each in (first, *metrics)}
    heads = [corner, labels[first], "95 % interval", "n", *(labels[metric] for metric in headline)]
    return {
        "words": corner,
        "drawn": labels[first],
        "chart": page.Chart(heads, rows, bars, scale),
        "heads": [corner, *(labels[metric] for metric in metrics)],
        "rows": all_rows if len(metrics) > len(headline) + 1 else [],
    }


class _Answered(NamedTuple):
    """The examples that were scored, the prediction for each, and its scores; all in one order.

    For queries with plans also these, by their ids, and the totals of lost gold.
    """

    examples: Examples
    answers: Sequence[Answer | None]
    scores: Sequence[Row]
    planned: Mapping[Id, PlannedQuery]
    losses: Mapping[str, Any]


def _answered(folder: Path, result: PlainResult, benchmark: Benchmark) -> _Answered | str:
    """Return the scored examples with their predictions; or a sentence that says why none are shown."""
    if not (folder / "predictions.jsonl").is_file():
        return "The run has no predictions.jsonl; no examples are shown."
    task = load_examples(result["benchmark"], result["config"], result["split"], result["mode"])
    _, examples, _, revision, *_ = add_annotations(task, find_annotations(folder))
    if revision != result["dataset_revision"]:
        return "The installed dataset is not the revision that was scored; no examples are shown."
    scores = stored_rows(folder / "scores.jsonl")
    asked = {each["id"] for each in scores}
    examples = replace(examples, rows=[row for row in examples.rows if row["id"] in asked])
    predictions = read_predictions([folder / "predictions.jsonl"], benchmark, examples)
    planned = read_planned(folder, examples.rows, predictions.answers, find_dataset(result["benchmark"]).path)
    return _Answered(examples, predictions.answers, scores, planned, plan_totals([*planned.values()]))


def _errors(benchmark: Benchmark, answered: _Answered) -> dict[str, object] | None:
    """Return the table of errors by class, where the benchmark has classes."""
    if benchmark.showing.errors is None:
        return None
    table = benchmark.showing.errors(answered.examples, answered.answers)
    return {
        "title": table.title,
        "heads": [table.corner, *(name for _, name in table.columns)],
        "rows": [[name, *(cell.value for cell in row)] for name, row in cells(table).items()],
        "notes": table.notes,
    }


def _examples(folder: Path, result: PlainResult, benchmark: Benchmark, answered: _Answered) -> list[dict[str, Any]]:
    """Return the worst examples, a sample of the others, and those of lost gold; the worst first.

    Metrics after the headline break ties; unscored examples are last.
    """
    examples, answers, scores, planned, losses = answered
    lines = [line for line in stored_rows(folder / "predictions.jsonl") if {"response", "error"} & line.keys()]
    responses, reasons = {line["id"]: line.get("response") or line["error"] for line in lines}, reasons_of(folder)
    explain, metrics = benchmark.showing.explain, benchmark.metrics_of(result["config"])
    headline, lower = next(iter(metrics)), benchmark.scoring.lower_is_better
    figures: list[Any] = [each.get(headline) for each in scores]

    def goodness(position: int) -> list[float]:
        signs = (-1 if metric in lower else 1 for metric in metrics)
        values = [scores[position].get(metric) for metric in metrics]
        return [math.inf if value is None else sign * value for sign, value in zip(signs, values, strict=True)]

    order = sorted(range(len(scores)), key=goodness)
    shown, sample = [], {*page.sample_positions(order, N_EXAMPLES)}
    named = {each for *_, ids in losses.get("losses", ()) for each in ids}
    chosen = [each for each in order if each in sample or examples.rows[each]["id"] in named]
    if walks := {each.id: each for each in read_trajectories(folder)}:
        from kbbench_hf.knowledge_base.store import KnowledgeBase

        kb, rows = KnowledgeBase.open(find_dataset(result["benchmark"]).path), [examples.rows[n] for n in chosen]
        walked = (row for row in rows if row["id"] in walks)
        reasons |= {row["id"]: trajectory(walks[row["id"]], row["answer_ids"], kb) for row in walked}
    for position in chosen:
        row, answer, figure = examples.rows[position], answers[position], figures[position]
        explained = explain(examples, row, answer) if explain and answer is not None else None
        shown.append(
            {
                "id": row["id"],
                "score": f"{tables.label(benchmark, headline)} {'-' if figure is None else tables.number(figure)}",
                "answered": answer is not None,
                "question": explained and explained.question,
                "lists": explained and {"gold": [(n, "") for n in explained.gold], "prediction": explained.answer},
                "row": json.dumps(row, ensure_ascii=False, indent=1, default=str),
                "answer": json.dumps(answer, ensure_ascii=False),
                "response": responses.get(row["id"]),
                "plan": plan_section(planned[row["id"]]) if row["id"] in planned else None,
                "reasons": reasons.get(row["id"]),
            }
        )
    return shown


def _provenance(run: Row, result: PlainResult) -> str:
    """Return the settings, versions and hashes of a run as JSON text."""
    facts: Row = {key: run[key] for key in ("settings", "started", "versions", "model", "revisions") if key in run}
    facts |= {name: result[name] for name in ("dataset_revision", "predictions_sha256")}
    facts["scored_with"] = result["versions"]
    return json.dumps(facts, indent=2, ensure_ascii=False)


def _fact_text(value: object) -> str:
    """Return a value of a run as text: floats with four digits, integers with commas, lists in one line."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact_text(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_fact_text, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def reasons_of(folder: Path) -> dict[Id, Markup]:
    """Return id -> HTML of the explanation of each explained query of a run; empty without explanations."""
    template = page.TEMPLATES.get_template("reasons.html.jinja")
    return {each["id"]: Markup(template.render(_record_context(each))) for each in read_explanations(folder)}  # noqa: S704


def _record_context(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the template for an explanation: the first node and the gold ones, with their signals."""
    winner, gold = record["winner"], record["gold"]
    nodes = [winner, *(each for each in gold if each["id"] != winner["id"])]
    right = {each["id"] for each in gold}
    signals = [name for name in winner["signals"] if any(round(each["signals"][name], 2) for each in nodes)]
    return {
        **record,
        "types": [(name, f"{100 * probability:.0f} %") for name, probability in record["types"]],
        "signals": signals,
        "nodes": [
            {
                "role": ("first, and gold" if each["id"] in right else "first") if each is winner else "gold",
                "name": f"{each['name']} ({each['id']})",
                "type": each["type"],
                "gave": [f"{each['signals'][name]:+.2f}" if each["signals"][name] else "" for name in signals],
                "score": f"{sum(each['signals'].values()):.2f}",
                "paths": [_steps(path) for path in each["paths"]],
            }
            for each in nodes
        ],
    }


def _steps(path: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a path as (relation with its direction, node), from its first node, which has no relation.

    >>> _steps({"nodes": ["Galena", "Lead"], "edges": [{"relation": "yields", "forward": True}]})
    [('', 'Galena'), ('yields →', 'Lead')]
    """
    first, *others = path["nodes"]
    relations = [f"{each['relation']} →" if each["forward"] else f"← {each['relation']}" for each in path["edges"]]
    return [("", first), *zip(relations, others, strict=True)]


N_DIFFERENT_EXAMPLES = 20
"""Examples of a page of several systems."""
N_PAIRS = 10
"""Differences that are drawn; the others are folded."""


def side_by_side_page(block: Block, options: ReadOptions | None = None) -> str:
    """Return the report of several systems, a single HTML document without outside references.

    Args:
        block: the systems; published scores among them are only in the first chart and the table.
        options: how the predictions were parsed.

    Raises:
        UsageError: fewer than two of the systems have answers.
    """
    scored = [each for each in block.systems if each.result is not None]
    if len(scored) < 2:
        raise UsageError(f"{len(scored)} of the systems has answers; expected two at least. Name another run or file.")
    found, metric = block.benchmark, block.metrics[0]
    shown = [(each.name, score) for each in block.systems if (score := each.figure(metric))]
    drawn = [(score.value, *(score.ci95 or (None, None))) for _, score in shown]
    bars, scale = page.score_bars(drawn, unbounded=metric in found.scoring.unbounded)
    rows = [[name, number(score.value), interval(score.ci95) if score.ci95 else "published"] for name, score in shown]
    examples = _unlike_examples(block, scored, options)
    n_shown = len(examples) if isinstance(examples, list) else 0
    return page.TEMPLATES.get_template("side_by_side.html.jinja").render(
        title=f"{found.title}: {len(block.systems)} systems",
        place=sheet([block]).title,
        prompts=[f"{each.name}: {each.result.prompt.name}" for each in scored if each.result and each.result.prompt],
        warnings=ordered_warnings(block.warnings, metric),
        sheet=sheet([block], warnings=False),
        headline=label(found, metric),
        systems=page.Chart(["system", label(found, metric), "95 % interval"], rows, bars, scale),
        tests=_test_chart(block, block.tests[:N_PAIRS]),
        other_tests=_test_chart(block, block.tests[N_PAIRS:]),
        test_note=_test_note(block),
        slices=_slices(scored, metric),
        examples=examples,
        n_shown=f"{n_shown:,} of {len(scored[0].result.ids):,}" if scored[0].result else "",
        marks=page.marks_in(each["answers"] for each in examples) if isinstance(examples, list) else {},
    )


def _test_chart(block: Block, tests: Sequence[HeadToHead]) -> page.Chart | None:
    """Return the chart of paired differences; None without any."""
    if not tests:
        return None
    bars, scale = page.difference_bars([(each.test.difference, *each.test.ci95) for each in tests])
    cells = test_cells(ShownTest(each.test, each.p_holm, len(block.tests)) for each in tests)
    rows = [[f"{each.a} - {each.b}", *row] for each, row in zip(tests, cells, strict=True)]
    return page.Chart(["pair", "A - B", *TEST_HEADS], rows, bars, scale)


def _test_note(block: Block) -> str:
    n = len(block.tests)
    adjusted = f"p-values and intervals are Holm-adjusted over the {n:,} pairs" if n > 1 else "p is unadjusted"
    return f"Paired over the examples scored for both. * significant at 5 %; {adjusted}."


def _slices(scored: Sequence[SystemScore], metric: str) -> list[dict[str, object]]:
    """Return the score of each system in each key of the slices that all have."""
    results = [each.result for each in scored if each.result is not None]
    shared = [name for name in results[0].slices if all(name in other.slices for other in results[1:])]
    tables: list[dict[str, object]] = []
    for name in shared:
        slices = [each.slices[name] for each in results]
        keys = [key for key in page.sort_slice_keys(slices[0]) if all(key in each for each in slices)]
        scores = {key: [each[key][metric] for each in slices] for key in keys}
        rows = [[key, f"{of[0].n_scored:,}", *(number(each.value) for each in of)] for key, of in scores.items()]
        if len(keys) > 1:
            heads = [words(name), "n", *(each.name for each in scored)]
            tables.append({"words": words(name), "heads": heads, "rows": rows})
    return tables


def _unlike_examples(
    block: Block, scored: Sequence[SystemScore], options: ReadOptions | None
) -> list[dict[str, Any]] | str:
    """Return the examples whose scores differ most, with each system's prediction; or a sentence why none are shown."""
    place, metric = block.task_key, block.metrics[0]
    first = scored[0].result
    if first and first.log:
        logs = {each.name: each.result.log for each in scored if each.result and each.result.log}
        texts = {name: [[(text, "")] if text else None for text in log.outputs] for name, log in logs.items()}
        return [
            {**first.log.rows[n], "answers": {name: of[n] for name, of in texts.items()}, "scores": scores}
            for n, scores in _most_different(scored, metric)
        ]
    asked = load_examples(*place)
    if first is None or asked.revision != first.dataset_revision or any(each.answers is None for each in scored):
        return "The predictions are not available locally; no examples are shown."
    rows = {row["id"]: row for row in asked.examples.rows}
    examples = replace(asked.examples, rows=[rows[each] for each in first.ids])
    answers = {
        each.name: read_predictions([each.answers], asked.benchmark, examples, options).answers
        for each in scored
        if each.answers is not None
    }
    return [
        _example(asked.benchmark, examples, examples.rows[n], {name: given[n] for name, given in answers.items()})
        | {"scores": scores}
        for n, scores in _most_different(scored, metric)
    ]


def _most_different(scored: Sequence[SystemScore], metric: str) -> list[tuple[int, str]]:
    """Return the positions of the examples whose scores differ most, each with the score of every system."""
    compared = (each.result.compared[metric] for each in scored if each.result is not None)
    columns = np.array([np.atleast_2d(each).mean(axis=0) for each in compared])
    distance = np.where(np.isnan(columns).any(axis=0), 0, columns.max(axis=0) - columns.min(axis=0))
    order = [int(each) for each in np.argsort(-distance, kind="stable")[:N_DIFFERENT_EXAMPLES] if distance[each] > 0]
    return [
        (n, ", ".join(f"{each.name} {number(float(v))}" for each, v in zip(scored, columns[:, n], strict=True)))
        for n in order
    ]


def _example(benchmark: Benchmark, examples: Examples, row: Row, answers: dict[str, object]) -> dict[str, object]:
    """Return an example with the prediction of each system, with verdicts on its parts if the benchmark has them."""
    explain = benchmark.showing.explain
    some, shown = None, dict[str, object]()
    for name, answer in answers.items():
        one = explain(examples, row, answer) if explain and answer is not None else None
        some, plain = some or one, None if answer is None else [(json.dumps(answer), "")]
        shown[name] = one.answer if one else plain
    return {
        "id": row["id"],
        "question": some and some.question,
        "row": json.dumps(row, ensure_ascii=False, indent=1, default=str),
        "gold": [(each, "") for each in some.gold] if some else [],
        "answers": shown,
    }
