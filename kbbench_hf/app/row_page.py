"""One row in full: its figures, their sources, parts and examples, how it was made, and the way to make it again."""

import json
import math
from collections.abc import Collection, Mapping
from functools import partial

from kbbench_hf.app.board_table import n_systems, row_address
from kbbench_hf.app.boards import Board, Boards, place_label
from kbbench_hf.app.drawings import Bar, axis_of
from kbbench_hf.app.examples import MOST_ITEMS, Shown, examples_of, why_no_answers
from kbbench_hf.app.html import rendered, table
from kbbench_hf.app.multiples import Panel, multiples
from kbbench_hf.benchmarks import Place, benchmark
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files.datasets import Id
from kbbench_hf.leaderboard.table import Figure, Row
from kbbench_hf.leaderboard.view import p_text
from kbbench_hf.metrics.significance import ALPHA
from kbbench_hf.reports.page import MARKS, spread
from kbbench_hf.scoring.result import PlainResult

N_EXAMPLES = 12
NO_SYSTEM = "Choose a system on the Leaderboard tab."
MAX_KEYS = 40
"""A slice with more keys than this is in the result's file only."""


def row_html(boards: Boards, place: Place | None, row_id: str) -> str:
    """Return the page of a row: of the one with exactly this id, wherever it stands, or that there is none."""
    if not row_id:
        return rendered("words", text=NO_SYSTEM)
    found_at = place if place and boards.row(place, row_id) else boards.place_of(row_id)
    row = boards.row(found_at, row_id) if found_at else None
    if found_at is None or row is None:
        return rendered("no_row", row=row_id[:80])
    found = boards.board(found_at)
    stored = row.badge != "published"
    result = boards.index.store.result(row.id) if stored else None
    others = same_system(boards, found_at, row)
    return rendered(
        "row",
        head=head_html(row, found_at),
        state=boards.outbox.state(row.id) if boards.outbox and stored else "",
        rank=rank_words(found, row),
        links=neighbours(found, found_at, row),
        board=f"?place={found_at}",
        figures=figures_table(found.benchmark, row, result),
        elsewhere=elsewhere_table(found, others) if len(others) > 1 else "",
        slices=slices_html(found, row, result),
        examples=worst_examples(boards, found, found_at, row) if stored else "",
        command=command_text(found_at, row) if stored else "",
        provenance=provenance_text(boards, row.id) if stored else "",
        downloads=downloads(boards, found_at, row),
        citation=citation(found_at, row, found.benchmark),
    )


def head_html(row: Row, place: Place) -> str:
    """Return the row's name and what was said of it."""
    submitter = f"submitted by {row.submitter}" if row.submitter else ""
    size = f"{row.parameters_b:g} B parameters" if row.parameters_b else ""
    annotated = f"annotated by the submitter with {row.annotators}" if row.annotators else ""
    cost = f"{row.cost_per_1000_usd:g} US dollars per 1,000 examples" if row.cost_per_1000_usd else ""
    latency = f"p95 {row.latency_p95_s:g} s" if row.latency_p95_s else ""
    facts = [place_label(place), row.badge, submitter, row.stored[:10], size, row.licence, annotated, latency, cost]
    return rendered("row_head", row=row, facts=facts)


def rank_words(found: Board, row: Row) -> str:
    """Return where a row stands on its board, and what is known of its difference to the first of its group."""
    position = next(n for n, each in enumerate(found.rows, 1) if each.id == row.id)
    figure = row.figures.get(found.headline)
    if figure is None or math.isnan(figure.value):
        return ""
    words = f"{found.label} {figure.text()}: number {position} of {n_systems(len(found.rows))}"
    if row.group is None:
        return f"{words}. Not tested against others." if row.badge == "published" else f"{words}."
    alike = [each.system for each in found.rows if each.group == row.group and each.id != row.id]
    if not alike:
        return f"{words}, in rank group {row.group}, alone."
    first = next(each for each in found.rows if each.group == row.group)
    others = f"{len(alike)} other{' does' if len(alike) == 1 else 's do'}"
    if first.id == row.id:
        return f"{words}, first of rank group {row.group}: {others} not differ significantly from it."
    return f"{words}, in rank group {row.group}: not significantly different from {first.system}."


def neighbours(found: Board, place: Place, row: Row) -> list[tuple[str, str]]:
    """Return where to go from a row: the rows above and below, and comparisons that can be tested."""
    position = next(n for n, each in enumerate(found.rows) if each.id == row.id)
    near = {
        "above": found.rows[position - 1] if position else None,
        "below": next(iter(found.rows[position + 1 :]), None),
    }
    links = [(f"Row {where}: {each.system}", row_address(place, each)) for where, each in near.items() if each]
    rivals = {"the best": found.rows[0], "the row above": near["above"], "the row below": near["below"]}
    seen = {row.id}
    for words, other in rivals.items():
        if other is not None and other.id not in seen:
            seen.add(other.id)
            links.append((f"Compare with {words}", f"?place={place}&tab=compare&compare={row.id},{other.id}"))
    return links


def figures_table(of: Benchmark, row: Row, result: PlainResult | None) -> str:
    """Return the figures of a row: with intervals where it was scored here, without where it was published."""
    names = {**of.metrics, **{name: name.replace("_", " ") for name in row.figures if name not in of.metrics}}
    there = {name: row.figures[name] for name in names if name in row.figures}
    arrows = {name: "↓" if name in of.scoring.lower_is_better else "↑" for name in of.metrics}
    labels = {name: f"{names[name]} {arrows.get(name, '')}".strip() for name in there}
    bars = _bars(of, there)
    if result is None:
        values = [[labels[name], each.text()] for name, each in there.items()]
        return table(["metric", "value"], values, "Figures", bars=list(bars.values()))
    lines = [
        [labels[name], _number(each.value), _interval(each), f"{result['scores'][name]['n_scored']:,}"]
        for name, each in there.items()
    ]
    return table(["metric", "value", "95 % interval", "scored"], lines, "Figures", bars=list(bars.values()))


def slices_html(found: Board, row: Row, result: PlainResult | None) -> str:
    """Return the headline figure on parts of the examples, a small picture for each way to part them."""
    parts: dict[str, dict[str, Figure]] = {
        name: {key: part[found.headline] for key, part in keys.items() if found.headline in part}
        for name, keys in row.slices.items()
    }
    for name, scored in (result["slices"] if result else {}).items():
        parts[name] = {
            f"{key} (n = {part[found.headline]['n_scored']:,})": Figure.of(part[found.headline])
            for key, part in scored.items()
            if found.headline in part
        }
    panels = [
        Panel(name.replace("_", " "), {key: (each, "") for key, each in keys.items()})
        for name, keys in parts.items()
        if 1 < len(keys) <= MAX_KEYS
    ]
    return multiples(panels, f"{found.label} on parts of the examples")


def same_system(boards: Boards, place: Place, row: Row) -> dict[Place, Row]:
    """Return the rows of the same name and origin in the family's other places of the same kind, this one among them.

    Of the same kind are configs that share their first word, `noise_kg_4k` and `noise_table_1k` say; where config names
    have one word only, all of the family are.
    """
    kind = place.config.split("_")[0] if "_" in place.config else None
    found = {}
    for each in boards.families().get(benchmark(place.benchmark).facts.family, []):
        if each.mode == place.mode and kind in (None, each.config.split("_")[0]):
            rows = [row] if each == place else boards.board(each).rows
            if same := [other for other in rows if (other.system, other.badge) == (row.system, row.badge)]:
                found[each] = same[0]
    return found


def elsewhere_table(found: Board, others: Mapping[Place, Row]) -> str:
    """Return the headline figure of a system in this and in other places, on one axis."""
    figures = {
        _short(place, others): (row.figures[found.headline], row_address(place, row))
        for place, row in others.items()
        if found.headline in row.figures
    }
    return multiples([Panel("The same name elsewhere", figures)], found.label) if len(figures) > 1 else ""


def worst_examples(boards: Boards, found: Board, place: Place, row: Row) -> str:
    """Return examples from the lowest headline score to the highest, with the answers marked, or why there are none."""
    if why := why_no_answers(boards, place, [row]):
        return rendered("words", text=why)
    store = boards.index.store
    values, ids = store.values(row.id, found.headline), store.ids(row.id)
    sign = -1 if found.lower_is_better else 1
    scored = sorted((sign * value, position) for position, value in enumerate(values) if not math.isnan(value))
    chosen: dict[Id, Mapping[str, str]] = {
        ids[position]: {row.system: f"{values[position]:.4f}"}
        for position in spread([n for _, n in scored], N_EXAMPLES)
    }
    title = f"{len(chosen)} of {len(values):,} examples, the worst first"
    return examples_html(examples_of(boards, place, [row], chosen), title, found.label)


def examples_html(shown: list[Shown], title: str, label: str) -> str:
    """Return examples with the question, the gold, and each answer in parts that are marked."""
    return rendered("examples", examples=shown, title=title, label=label, marks=MARKS, most=MOST_ITEMS) if shown else ""


def provenance_text(boards: Boards, row_id: str) -> str:
    """Return the record of a submission: hashes, revisions, versions."""
    record = json.loads(boards.index.store.record(row_id).to_bytes())
    versions = boards.index.store.result(row_id)["versions"]
    return json.dumps({**record, "versions": versions}, indent=2, ensure_ascii=False)


def command_text(place: Place, row: Row) -> str:
    """Return the commands that score the stored predictions again."""
    beside = "# and its .parquet files, in a folder predictions.annotations\n" if row.annotations else ""
    return (
        f"# predictions.jsonl.gz: the download above; submissions/{row.id[:2]}/{row.id}/ in the leaderboard's store\n"
        f"{beside}pip install kbbench-hf\n"
        f"kbbench score predictions.jsonl.gz --benchmark {place.benchmark}/{place.config} "
        f"--split {place.split} --mode {place.mode}"
    )


def downloads(boards: Boards, place: Place, row: Row) -> list[tuple[str, str]]:
    """Return what there is to take away of a row: name -> address."""
    files = [("Row as JSON", f"api/rows/{row.id}")]
    if row.badge != "published" and not why_no_answers(boards, place, [row]):
        files.append(("Predictions (.jsonl.gz)", f"api/rows/{row.id}/predictions.jsonl.gz"))
    return files


def citation(place: Place, row: Row, of: Benchmark) -> str:
    """Return how to cite a row and the benchmark, as BibTeX."""
    name = row.system.replace("{", "").replace("}", "").replace("\\", "")
    fields = {
        "title": f"{name} on {place_label(place)}",
        "author": row.submitter,
        "year": row.stored[:4],
        "note": f"kbbench leaderboard, row {row.id}",
    }
    lines = ",\n".join(f"  {key} = {{{value}}}" for key, value in fields.items())
    own = f"@misc{{kbbench-{row.id[:12]},\n{lines}\n}}\n\n" if row.badge != "published" else ""
    return own + of.facts.citation.strip()


def test_words(p_value: float) -> str:
    """Return a p-value with its sign: told apart, or not.

    >>> test_words(0.01), test_words(0.3)
    ('✓ p 0.0100', '≈ p 0.3000')
    """
    return f"{'✓' if p_value < ALPHA else '≈'} {p_text(p_value)}"


def _bars(of: Benchmark, figures: Mapping[str, Figure]) -> dict[str, Bar | None]:
    """Return each figure as it is drawn from 0 to 1; those that may leave it are not drawn."""
    whole = axis_of([Figure(0.0), Figure(1.0)])
    return {
        name: whole.bar(each) if whole and name not in of.scoring.unbounded else None for name, each in figures.items()
    }


def _short(place: Place, places: Collection[Place]) -> str:
    """Return what tells a place from the others."""
    parts = zip(place[:3], zip(*places, strict=True), strict=False)
    return " ".join(part for part, all_of_it in parts if len(set(all_of_it)) > 1)


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4f}"


_interval = partial(Figure.interval, digits=4)
