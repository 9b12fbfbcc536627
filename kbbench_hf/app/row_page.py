"""System page (scores, slices, examples, provenance, command), and the comparison of two to five systems.

Nothing here shows the gold, examples or answers of private or unlicensed data: `why_no_answers` decides, for the API
too. The tests are those of `kbbench compare`: on the same two systems they have the same p-values.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from kbbench_hf.app.board_page import n_systems, row_address
from kbbench_hf.app.boards import Board, Boards, task_keys_apart, task_label
from kbbench_hf.app.html import ChartBar, around_zero, axis_of, multiples, render_html, table
from kbbench_hf.benchmarks import TaskKey, at_hand, benchmark
from kbbench_hf.benchmarks.base import Benchmark, Explanation
from kbbench_hf.files.datasets import DatasetFolder, Id
from kbbench_hf.hub.download import cached_dataset
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.leaderboard.view import ORIGINS, p_text
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.significance import ALPHA, PairedTest, minimum_detectable_effect, paired_test
from kbbench_hf.reports.page import MARKS, sample_positions
from kbbench_hf.reports.tables import directed_label
from kbbench_hf.scoring.comparison import ShownTest, adjusted_tests
from kbbench_hf.scoring.eval_task import EvalTask, load_examples
from kbbench_hf.scoring.result import PlainResult
from kbbench_hf.scoring.score import add_annotations

MOST_ITEMS = 20
MOST_CHARACTERS = 1500


@dataclass(frozen=True)
class ShownExample:
    """An example, with the scores, the explanations and the answers of systems."""

    id: Id
    scores: Mapping[str, str]
    """System -> the headline score of its answer."""
    explained: Mapping[str, Explanation | None]
    """System -> its answer, explained; None without an answer, or where the data is not here."""
    answers: Mapping[str, str]
    """System -> its answer as JSON, shortened."""

    @property
    def first(self) -> Explanation | None:
        """An explanation, for the question and the gold, which are the same in all; None without any."""
        return next((each for each in self.explained.values() if each), None)


def examples_of(
    boards: Boards, task_key: TaskKey, rows: Sequence[Row], chosen: Mapping[Id, Mapping[str, str]]
) -> list[ShownExample]:
    """Return examples with the answers of rows; the keys of `chosen`, id -> system -> score, in their order."""
    task = _examples_at_hand(task_key, rows[0].id, boards)
    field, store = benchmark(task_key.benchmark).scoring.answer.field, boards.index.store
    answers = {row.system: {each["id"]: each.get(field) for each in store.predictions(row.id)} for row in rows}
    by_id = {each["id"]: each for each in task.examples.rows} if task else {}
    explain = task.benchmark.showing.explain if task else None
    return [
        ShownExample(
            example_id,
            scores,
            {
                name: explain(task.examples, by_id[example_id], own[example_id])
                if explain and task and example_id in by_id and own.get(example_id) is not None
                else None
                for name, own in answers.items()
            },
            {name: _shorten(json.dumps(own.get(example_id), ensure_ascii=False)) for name, own in answers.items()},
        )
        for example_id, scores in chosen.items()
    ]


def why_no_answers(boards: Boards, task_key: TaskKey, rows: Sequence[Row]) -> str:
    """Return why the answers of rows are not public; an empty string where they are.

    On private data answers are private, too: correct answers are the gold.
    """
    if not benchmark(task_key.benchmark).facts.redistributable:
        return "The source states no license under which examples could be shown: scores only."
    downloaded = cached_dataset(task_key.benchmark)
    folder = at_hand(task_key.benchmark) or (DatasetFolder(downloaded) if downloaded else None)
    if folder is not None and folder.is_private:
        return "This split is private: its examples, gold and answers are not shown."
    all_stored = all(boards.index.store.has_predictions(row.id) for row in rows)
    return "" if all_stored else "Only scores are stored: the source states no license for its answers."


def _examples_at_hand(task_key: TaskKey, row_id: str, boards: Boards) -> EvalTask | None:
    """Return the examples on which a row was scored, with its annotations; None if they are not here or changed."""
    store = boards.index.store
    revision = store.record(row_id).dataset_revision
    if at_hand(task_key.benchmark) is None and cached_dataset(task_key.benchmark) is None:
        return None
    task = _load_revision(task_key, revision)
    folder = store.annotations(row_id)
    return add_annotations(task, folder) if task and folder else task


@lru_cache(maxsize=4)
def _load_revision(task_key: TaskKey, revision: str) -> EvalTask | None:
    """Return the examples of a task; None if they have another revision."""
    task = load_examples(*task_key)
    return task if task.revision == revision else None


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."


N_EXAMPLES = 12
NO_SYSTEM = "Choose a system on the Leaderboard tab."
MAX_KEYS = 40
"""A slice with more keys than this is only in `result.json`."""


def row_html(boards: Boards, task_key: TaskKey | None, row_id: str) -> str:
    """Return the System page of a row as HTML, from its board or any other, or a notice that there is no such row."""
    if not row_id:
        return render_html("words", text=NO_SYSTEM)
    found_at = task_key if task_key and boards.row(task_key, row_id) else boards.task_key_of(row_id)
    row = boards.row(found_at, row_id) if found_at else None
    if found_at is None or row is None:
        return render_html("no_row", row=row_id[:80])
    board = boards.board(found_at)
    stored = row.badge != "published"
    result = boards.index.store.result(row.id) if stored else None
    others = same_system(boards, found_at, row)
    return render_html(
        "row",
        head=head_html(row, found_at),
        state=boards.outbox.state(row.id) if boards.outbox and stored else "",
        rank=rank_words(board, row),
        links=neighbours(board, found_at, row),
        board=f"?place={found_at}",
        figures=score_table(board.benchmark, row, result),
        elsewhere=other_places_table(board, others) if len(others) > 1 else "",
        slices=slices_html(board, row, result),
        examples=worst_examples(boards, board, found_at, row) if stored else "",
        command=command_text(found_at, row) if stored else "",
        provenance=provenance_text(boards, row.id) if stored else "",
        downloads=downloads(boards, found_at, row),
        citation=citation(found_at, row, board.benchmark),
    )


def head_html(row: Row, task_key: TaskKey) -> str:
    """Return the head of the page as HTML: name, facts and notes."""
    submitter = f"submitted by {row.submitter}" if row.submitter else ""
    size = f"{row.parameters_b:g} B parameters" if row.parameters_b else ""
    annotated = f"annotated by the submitter with {row.annotators}" if row.annotators else ""
    cost = f"{row.cost_per_1000_usd:g} US dollars per 1,000 examples" if row.cost_per_1000_usd else ""
    latency = f"p95 {row.latency_p95_s:g} s" if row.latency_p95_s else ""
    origin = ORIGINS[row.badge]
    facts = [task_label(task_key), origin, submitter, row.stored[:10], row.type, size, row.licence, annotated]
    return render_html("row_head", row=row, facts=[*facts, latency, cost])


def rank_words(board: Board, row: Row) -> str:
    """Return a sentence on the rank of a row on its board, and its rank group; empty without a headline score."""
    position = next(n for n, each in enumerate(board.rows, 1) if each.id == row.id)
    score = row.score(board.headline)
    if math.isnan(score.value):
        return ""
    words = f"{board.label} {score.text()}: rank {position} of {n_systems(len(board.rows))}"
    if row.group is None:
        return f"{words}. Not tested against others." if row.badge == "published" else f"{words}."
    group = [each for each in board.rows if each.group == row.group]
    if len(group) == 1:
        return f"{words}, alone in rank group {row.group}."
    if group[0].id == row.id:
        others = f"{len(group) - 1} other{' does' if len(group) == 2 else 's do'}"
        return f"{words}, first of rank group {row.group}: {others} not differ significantly from it."
    return f"{words}, in rank group {row.group}: not significantly different from {group[0].system}."


def neighbours(board: Board, task_key: TaskKey, row: Row) -> list[tuple[str, str]]:
    """Return the links of a row, (text, address): to the rows above and below, and to comparisons."""
    position = next(n for n, each in enumerate(board.rows) if each.id == row.id)
    near = {
        "above": board.rows[position - 1] if position else None,
        "below": next(iter(board.rows[position + 1 :]), None),
    }
    links = [
        (f"{where.capitalize()}: {each.system}", row_address(task_key, each)) for where, each in near.items() if each
    ]
    rivals = {"the best": board.rows[0], "the row above": near["above"], "the row below": near["below"]}
    seen = {row.id}
    for words, other in rivals.items():
        if other is not None and other.id not in seen:
            seen.add(other.id)
            links.append((f"Compare with {words}", f"?place={task_key}&tab=compare&compare={row.id},{other.id}"))
    return links


def score_table(of: Benchmark, row: Row, result: PlainResult | None) -> str:
    """Return the table of a row's scores as HTML, with intervals and counts if there is a `result`."""
    names = {**of.metrics, **{name: name.replace("_", " ") for name in row.scores if name not in of.metrics}}
    scores = {name: row.scores[name] for name in names if name in row.scores}
    labels = [directed_label(of, name) if name in of.metrics else names[name] for name in scores]
    whole, unbounded = axis_of([BoardScore(0.0), BoardScore(1.0)]), of.scoring.unbounded
    bars = [whole.bar(each) if whole and name not in unbounded else None for name, each in scores.items()]
    lines = [[label, each.text()] for label, each in zip(labels, scores.values(), strict=True)]
    if result is None:
        return table(["metric", "value"], lines, "Scores", bars=bars)
    for line, (name, each) in zip(lines, scores.items(), strict=True):
        line += [each.interval(4), f"{result['scores'][name]['n_scored']:,}"]
    return table(["metric", "value", "95 % interval", "examples"], lines, "Scores", bars=bars)


def slices_html(board: Board, row: Row, result: PlainResult | None) -> str:
    """Return the headline scores by slice as HTML, with a panel for each slice of 2 to `MAX_KEYS` keys."""
    parts: dict[str, dict[str, BoardScore]] = {
        name: {key: part[board.headline] for key, part in keys.items() if board.headline in part}
        for name, keys in row.slices.items()
    }
    for name, scored in (result["slices"] if result else {}).items():
        parts[name] = {
            f"{key} (n = {part[board.headline]['n_scored']:,})": BoardScore.of(part[board.headline])
            for key, part in scored.items()
            if board.headline in part
        }
    panels = {
        name.replace("_", " "): {key: (each, "") for key, each in keys.items()}
        for name, keys in parts.items()
        if 1 < len(keys) <= MAX_KEYS
    }
    return multiples(panels, f"{board.label} by slice")


def same_system(boards: Boards, task_key: TaskKey, row: Row) -> dict[TaskKey, Row]:
    """Return task key -> row with the same name and origin on the related boards, including this one."""
    found = {}
    for each in boards.related(task_key):
        rows = [row] if each == task_key else boards.board(each).rows
        if same := [other for other in rows if (other.system, other.badge) == (row.system, row.badge)]:
            found[each] = same[0]
    return found


def other_places_table(board: Board, others: Mapping[TaskKey, Row]) -> str:
    """Return the headline scores of a system on related boards as HTML, on one axis; empty with one score."""
    scores = {
        task_keys_apart(task_key, others): (row.scores[board.headline], row_address(task_key, row))
        for task_key, row in others.items()
        if board.headline in row.scores
    }
    return multiples({"Other results of this system": scores}, board.label) if len(scores) > 1 else ""


def worst_examples(boards: Boards, board: Board, task_key: TaskKey, row: Row) -> str:
    """Return a sample of examples as HTML, worst headline score first, with marked answers; or why there is none."""
    if why := why_no_answers(boards, task_key, [row]):
        return render_html("words", text=why)
    store = boards.index.store
    values, ids = store.values(row.id, board.headline), store.ids(row.id)
    sign = -1 if board.lower_is_better else 1
    scored = sorted((sign * value, position) for position, value in enumerate(values) if not math.isnan(value))
    chosen: dict[Id, Mapping[str, str]] = {
        ids[position]: {row.system: f"{values[position]:.4f}"}
        for position in sample_positions([n for _, n in scored], N_EXAMPLES)
    }
    title = f"Sample of {len(chosen)} of {len(values):,} examples, sorted by {board.label} (worst first)"
    return examples_html(examples_of(boards, task_key, [row], chosen), title, board.label)


def examples_html(shown: list[ShownExample], title: str, label: str) -> str:
    """Return examples as HTML: the question, the gold, and each answer with marked parts; empty without examples."""
    values = {"examples": shown, "title": title, "label": label, "marks": MARKS, "most": MOST_ITEMS}
    return render_html("examples", **values) if shown else ""


def provenance_text(boards: Boards, row_id: str) -> str:
    """Return the record of a submission and the versions of its scoring, as indented JSON."""
    record = json.loads(boards.index.store.record(row_id).to_bytes())
    versions = boards.index.store.result(row_id)["versions"]
    return json.dumps({**record, "versions": versions}, indent=2, ensure_ascii=False)


def command_text(task_key: TaskKey, row: Row) -> str:
    """Return the shell commands that reproduce the scores from the stored predictions."""
    annotations = "# and its .parquet files, in a folder predictions.annotations\n" if row.annotations else ""
    return (
        f"# predictions.jsonl.gz: the download above; submissions/{row.id[:2]}/{row.id}/ in the leaderboard's store\n"
        f"{annotations}pip install kbbench-hf\n"
        f"kbbench score predictions.jsonl.gz --benchmark {task_key.benchmark}/{task_key.config} "
        f"--split {task_key.split} --mode {task_key.mode}"
    )


def downloads(boards: Boards, task_key: TaskKey, row: Row) -> list[tuple[str, str]]:
    """Return the downloads of a row, (text, address); without predictions if they are not public."""
    files = [("Row as JSON", f"api/rows/{row.id}")]
    if row.badge != "published" and not why_no_answers(boards, task_key, [row]):
        files.append(("Predictions (.jsonl.gz)", f"api/rows/{row.id}/predictions.jsonl.gz"))
    return files


def citation(task_key: TaskKey, row: Row, of: Benchmark) -> str:
    """Return the BibTeX entries of a row and its benchmark; only the benchmark's for a published row."""
    name = row.system.replace("{", "").replace("}", "").replace("\\", "")  # they would break the entry
    fields = {
        "title": f"{name} on {task_label(task_key)}",
        "author": row.submitter,
        "year": row.stored[:4],
        "note": f"kbbench leaderboard, row {row.id}",
    }
    lines = ",\n".join(f"  {key} = {{{value}}}" for key, value in fields.items())
    own = f"@misc{{kbbench-{row.id[:12]},\n{lines}\n}}\n\n" if row.badge != "published" else ""
    return own + of.facts.citation.strip()


def test_words(p_value: float) -> str:
    """Return a p-value with the sign of significance at the 5 % level.

    >>> test_words(0.01), test_words(0.3)
    ('✓ p 0.0100', '≈ p 0.3000')
    """
    return f"{'✓' if p_value < ALPHA else '≈'} {p_text(p_value)}"


MOST = 5
"""Maximum number of systems in a comparison."""
N_DISAGREEMENTS = 20
N_DISAGREEMENTS_IN_FULL = 10
MAX_COMPARED_KEYS = 20


def compare_html(boards: Boards, task_key: TaskKey, ids: Sequence[str]) -> str:
    """Return the comparison of rows of a board as HTML; rows without scores per example are listed as untested.

    Unknown and repeated ids, and those after the first `MOST`, are left out. With fewer than two rows, a hint.
    """
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
        figures=scores_side_by_side(board, rows),
        untested=[row.system for row in rows if row.badge == "published"],
        tests=test_table(store, board, scored) if tested else "",
        differences=difference_table(store, board, scored) if len(rows) == len(scored) == 2 else "",
        slices=slice_differences(store, board, scored) if tested else "",
        disagreements=disagreement_table(store, board, scored) if tested else "",
        examples=disagreement_examples(boards, board, task_key, scored) if tested else "",
    )


def scores_side_by_side(board: Board, rows: Sequence[Row]) -> str:
    """Return the scores of all rows with their intervals as HTML, and bars of the headline metric."""
    lines = [
        [directed_label(board.benchmark, metric)]
        + [f"{(score := row.score(metric)).text()} {score.interval()}".strip() for row in rows]
        for metric in board.benchmark.metrics
        if any(metric in row.scores for row in rows)
    ]
    drawn = {row.system: (row.scores[board.headline], "") for row in rows if board.headline in row.scores}
    return multiples({directed_label(board.benchmark, board.headline): drawn}, board.label) + table(
        ["metric", *(row.system for row in rows)], lines, "Scores"
    )


def test_table(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return the paired tests of all pairs of rows as HTML, Holm-adjusted, and the minimum detectable difference."""
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
    """Return the differences of two rows in all metrics as HTML, with tests: Holm-adjusted, except the headline's."""
    a, b = rows
    metrics = [each for each in board.benchmark.metrics if each in a.scores and each in b.scores]
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
    """Return slice -> the key of each example, of the slices that all rows have, with 2 to `MAX_COMPARED_KEYS` keys."""
    shared = [store.slices(row.id) for row in rows]
    return {
        name: keys
        for name, keys in shared[0].items()
        if 1 < len(set(keys)) <= MAX_COMPARED_KEYS and all(other.get(name) == keys for other in shared[1:])
    }


def slice_differences(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return the differences of the first row to the others for each key of each slice, as HTML, on one axis."""
    first, *others = rows
    values = {row.id: store.values(row.id, board.headline) for row in rows}
    panels: dict[str, dict[str, tuple[BoardScore, str]]] = {}
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
            panels[f"{name.replace('_', ' ')}{against}"] = drawn
    minus = " and ".join(other.system for other in others)
    axis = around_zero([score for drawn in panels.values() for score, _ in drawn.values()])
    return multiples(panels, f"Difference in {board.label}, {first.system} minus {minus}", axis)


def disagreement_table(store: Store, board: Board, rows: Sequence[Row]) -> str:
    """Return a table of the examples on which the headline scores of the rows differ most, as HTML."""
    lines = [[each, *scores.values()] for each, scores in disagreements(store, board, rows, N_DISAGREEMENTS).items()]
    return table(["id", *(row.system for row in rows)], lines, f"Largest differences in {board.label}")


def disagreement_examples(boards: Boards, board: Board, task_key: TaskKey, rows: Sequence[Row]) -> str:
    """Return the first of these examples in full as HTML, with marked answers, or why they are not shown."""
    if why := why_no_answers(boards, task_key, rows):
        return render_html("words", text=why)
    chosen = disagreements(boards.index.store, board, rows, N_DISAGREEMENTS_IN_FULL)
    return examples_html(examples_of(boards, task_key, rows, chosen), "The first of these in full", board.label)


def disagreements(store: Store, board: Board, rows: Sequence[Row], n: int) -> dict[Id, Mapping[str, str]]:
    """Return id -> system -> score of the at most `n` examples on which the rows differ most, widest first.

    Examples with equal scores are left out; of equal widths, the later example comes first.
    """
    columns = [store.values(row.id, board.headline).tolist() for row in rows]
    widths = [(max(values) - min(values), position) for position, values in enumerate(zip(*columns, strict=True))]
    ids = store.ids(rows[0].id)
    return {
        ids[position]: {row.system: f"{column[position]:.4f}" for row, column in zip(rows, columns, strict=True)}
        for width, position in sorted(widths, reverse=True)[:n]
        if width > 0
    }


def _paired(store: Store, board: Board, metric: str, a: Row, b: Row, level: float = ALPHA) -> PairedTest:
    tested = paired_test(store.values(a.id, metric), store.values(b.id, metric), _groups(store, board, a), level=level)
    return tested.with_better(lower=metric in board.benchmark.scoring.lower_is_better)


def _groups(store: Store, board: Board, row: Row) -> Sequence[str] | None:
    """Return the group of each example, where the score is a mean over groups; else None."""
    group_by = board.benchmark.scoring.group_by
    return store.slices(row.id).get(group_by) if group_by else None


def _bars(tests: Sequence[PairedTest]) -> list[ChartBar | None]:
    scores = [BoardScore(test.difference, *test.ci95) for test in tests]
    axis = around_zero(scores)
    return [axis.bar(each) if axis else None for each in scores]


def _signed(ends: tuple[float, float]) -> str:
    return f"{ends[0]:+z.4f} to {ends[1]:+z.4f}" if math.isfinite(ends[1] - ends[0]) else ""
