"""Report of several systems as one HTML file that opens offline: scores, paired tests, slices and examples."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.reports import page
from kbbench_hf.reports.results_table import TEST_HEADS, sheet, test_cells
from kbbench_hf.reports.tables import interval, label, number, ordered_warnings, words
from kbbench_hf.scoring.comparison import ShownTest
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions
from kbbench_hf.scoring.results_table import Block, HeadToHead, SystemScore

N_EXAMPLES = 20
N_PAIRS = 10
"""How many differences are drawn; the others are folded."""


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
    examples = _examples(block, scored, options)
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


def _examples(block: Block, scored: Sequence[SystemScore], options: ReadOptions | None) -> list[dict[str, Any]] | str:
    """Return the examples whose scores differ most, with each system's prediction; or why none are shown."""
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
    order = [int(each) for each in np.argsort(-distance, kind="stable")[:N_EXAMPLES] if distance[each] > 0]
    return [
        (n, ", ".join(f"{each.name} {number(float(v))}" for each, v in zip(scored, columns[:, n], strict=True)))
        for n in order
    ]


def _example(benchmark: Benchmark, examples: Examples, row: Row, answers: dict[str, object]) -> dict[str, object]:
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
