"""Two to five rows side by side: scores, paired tests with Holm's correction, and examples of disagreement."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.html import ChartBar, Panel, around_zero, multiples, render_html, table
from kbbench_hf.app.row_page import examples_html, examples_of, test_words, why_no_answers
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.files.datasets import Id
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.significance import ALPHA, PairedTest, minimum_detectable_effect, paired_test
from kbbench_hf.reports.tables import directed_label
from kbbench_hf.scoring.comparison import ShownTest, adjusted_tests

MOST = 5
N_DISAGREEMENTS = 20
N_EXAMPLES = 10
MAX_KEYS = 20


def compare_html(boards: Boards, task_key: TaskKey, ids: Sequence[str]) -> str:
    """Return rows of a place side by side; rows without scores per example are listed as untested."""
    board = boards.board(task_key)
    rows = [row for each in list(dict.fromkeys(ids))[:MOST] if (row := boards.row(task_key, str(each)))]
    if len(rows) < 2:
        return render_html("words", text="Choose two to five systems of the dataset that the Leaderboard tab shows.")
    store = boards.index.store
    scored = [row for row in rows if row.badge != "published"]
    tested = len(scored) > 1
    return render_html(
        "compare",
        warnings=render_html("warnings", warnings=[(row.system, each) for row in rows for each in row.warnings]),
        figures=score_table(board, rows),
        untested=[row.system for row in rows if row.badge == "published"],
        tests=test_table(store, board, scored) if tested else "",
        differences=difference_table(store, board, scored) if len(rows) == len(scored) == 2 else "",
        slices=slice_differences(store, board, scored) if tested else "",
        disagreements=disagreement_table(store, board, scored) if tested else "",
        examples=disagreement_examples(boards, board, task_key, scored) if tested else "",
    )


def score_table(board: Board, rows: Sequence[Row]) -> str:
    """Return the scores of all rows with their intervals, and the headline metric as bars."""
    lines = [
        [directed_label(board.benchmark, metric)]
        + [f"{(score := row.score(metric)).text()} {score.interval()}".strip() for row in rows]
        for metric in board.benchmark.metrics
        if any(metric in row.figures for row in rows)
    ]
    drawn = {row.system: (row.figures[board.headline], "") for row in rows if board.headline in row.figures}
    return multiples([Panel(directed_label(board.benchmark, board.headline), drawn)], board.label) + table(
        ["metric", *(row.system for row in rows)], lines, "Scores"
    )


def test_table(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return the paired tests of all pairs of rows, and the minimum detectable difference."""
    values = {row.id: store.values(row.id, board.headline) for row in rows}
    pairs = {f"{a.id} {b.id}": (a, b) for a, b in combinations(rows, 2)}
    shown = adjusted_tests(lambda pair, level: _paired(store, board, board.headline, *pairs[pair], level), list(pairs))
    tests = [each.test for each in shown.values()]
    lines = [
        [f"{a.system} - {b.system}", f"{test.difference:+z.4f}", _signed(test.ci95),
         test_words(p), f"{test.wins:,} / {test.ties:,} / {test.losses:,}"]
        for (a, b), (test, p, _) in zip(pairs.values(), shown.values(), strict=True)
    ]  # fmt: skip
    differences = values[rows[0].id] - values[rows[1].id]
    smallest = minimum_detectable_effect(differences, groups=_groups(store, board, rows[0]))
    note = (
        f"Minimum detectable difference between the first two on {len(values[rows[0].id]):,} examples (80 % power): "
        f"{smallest:.4f}."
    )
    p = "p (Holm)" if len(pairs) > 1 else "p"
    headings = ["systems", f"difference in {board.label}", "95 % interval", p, "wins / ties / losses"]
    note = note if np.isfinite(smallest) else ""
    return table(headings, lines, "Paired tests on the same examples", note=note, bars=_bars(tests))


def difference_table(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return the difference of two rows in every metric with its test: the headline's alone, the others adjusted."""
    a, b = rows
    metrics = [each for each in board.benchmark.metrics if each in a.figures and each in b.figures]
    metrics = [each for each in metrics if math.isfinite(_paired(store, board, each, a, b).difference)]
    headline = [each for each in metrics if each == board.headline]
    shown: dict[str, ShownTest] = {}
    for family in (headline, [each for each in metrics if each not in headline]):
        shown |= adjusted_tests(lambda metric, level: _paired(store, board, metric, a, b, level), family)
    tests = {metric: shown[metric].test for metric in metrics}
    of = board.benchmark
    lines = [
        [directed_label(of, metric), f"{test.difference:+z.4f}", _signed(test.ci95), test_words(shown[metric].p)]
        for metric, test in tests.items()
    ]
    unbounded = of.scoring.unbounded
    bars = _bars([test._replace(difference=math.nan) if m in unbounded else test for m, test in tests.items()])
    caption = f"Differences, {a.system} - {b.system}"
    note = (
        f"p of {board.label} is unadjusted; the others and their intervals are Holm-adjusted over "
        f"{len(metrics) - len(headline)} metrics."
    )
    return table(["metric", "difference", "95 % interval", "p"], lines, caption, note=note, bars=bars)


def slices(store: Store, rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the slices that all rows share, of 2 to `MAX_KEYS` keys."""
    shared = [store.slices(row.id) for row in rows]
    return {
        name: keys
        for name, keys in shared[0].items()
        if 1 < len(set(keys)) <= MAX_KEYS and all(other.get(name) == keys for other in shared[1:])
    }


def slice_differences(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return the differences of the first row to every other one in each key of each slice, on one axis."""
    first, *others = rows
    values = {row.id: store.values(row.id, board.headline) for row in rows}
    panels = []
    for name, all_keys in slices(store, rows).items():
        keys = np.asarray(all_keys)
        for other in others:
            differences = values[first.id] - values[other.id]
            parts = {str(key): differences[keys == key] for key in np.unique(keys)}
            gaps = {key: estimate(part, bounded=False) for key, part in parts.items() if np.isfinite(part).any()}
            drawn = {
                f"{key} (n = {gap.n_scored:,})": (BoardScore(gap.value, *gap.ci95), "") for key, gap in gaps.items()
            }
            against = f": {first.system} - {other.system}" if len(others) > 1 else ""
            panels.append(Panel(f"{name.replace('_', ' ')}{against}", drawn))
    minus = " and ".join(other.system for other in others)
    axis = around_zero([score for panel in panels for score, _ in panel.figures.values()])
    return multiples(panels, f"Difference in {board.label}, {first.system} minus {minus}", axis)


def disagreement_table(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return the examples on which the headline scores of the rows differ most."""
    lines = [[each, *scores.values()] for each, scores in disagreements(store, board, rows, N_DISAGREEMENTS).items()]
    return table(["id", *(row.system for row in rows)], lines, f"Largest differences in {board.label}")


def disagreement_examples(boards: Boards, board: Board, task_key: TaskKey, rows: Sequence[Row]) -> str:
    """Return the first of these examples in full, with every answer marked, or the reason why not."""
    if why := why_no_answers(boards, task_key, rows):
        return render_html("words", text=why)
    chosen = disagreements(boards.index.store, board, rows, N_EXAMPLES)
    return examples_html(examples_of(boards, task_key, rows, chosen), "The first of these in full", board.label)


def disagreements(store: Store, board: Board, rows: Sequence[Row], n: int) -> dict[Id, Mapping[str, str]]:
    """Return the examples on which the rows differ most: id -> system -> score, the widest difference first."""
    columns = [store.values(row.id, board.headline).tolist() for row in rows]
    widths = [(max(values) - min(values), position) for position, values in enumerate(zip(*columns, strict=True))]
    ids = store.ids(rows[0].id)
    return {
        ids[position]: {row.system: f"{column[position]:.4f}" for row, column in zip(rows, columns, strict=True)}
        for width, position in sorted(widths, reverse=True)[:n]
        if width > 0
    }


def _paired(store: Store, board: Board, metric: str, a: Row, b: Row, level: float = ALPHA) -> PairedTest:
    return paired_test(store.values(a.id, metric), store.values(b.id, metric), _groups(store, board, a), level=level)


def _groups(store: Store, board: Board, row: Row) -> Sequence[str] | None:
    """Return the key of each example, where scores are means of the keys' means."""
    group_by = board.benchmark.scoring.group_by
    return store.slices(row.id).get(group_by) if group_by else None


def _bars(tests: Sequence[PairedTest]) -> list[ChartBar | None]:
    scores = [BoardScore(test.difference, *test.ci95) for test in tests]
    axis = around_zero(scores)
    return [axis.bar(each) if axis else None for each in scores]


def _signed(ends: tuple[float, float]) -> str:
    return f"{ends[0]:+z.4f} to {ends[1]:+z.4f}" if math.isfinite(ends[1] - ends[0]) else ""
