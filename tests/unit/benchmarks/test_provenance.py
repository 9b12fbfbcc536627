"""Every published figure is found where it says it comes from: the source is opened, and the number read there.

At hand are the released evaluation files of Text2KGBench, and the printed tables as they were copied from the papers
(`expected/*.csv`; STaRK's latencies from the note on its tables). Sources that are not at hand are skipped by name.
"""

import csv
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.baselines import published_places, published_rows, published_systems
from kbbench_hf.benchmarks.genres.topic_corpora import ANSWERED, STRATEGY_NAMES
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore
from kbbench_hf.errors import UsageError
from kbbench_hf.scoring.results_table import results_table


class Cell(NamedTuple):
    """A published figure with everything that says which one it is."""

    row: PublishedRow
    part: str
    metric: str
    figure: PublishedScore


def cells() -> Iterator[Cell]:
    for place in published_places():
        for row in published_rows(*place):
            parts = {"": row.figures} | {key: each for keys in row.slices.values() for key, each in keys.items()}
            yield from (Cell(row, part, metric, f) for part, figures in parts.items() for metric, f in figures.items())


def folder(cell: Cell) -> str:
    file = benchmark(cell.row.task_key.benchmark).showing.published
    assert file is not None
    return file.parent.name


@cache
def table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as source:
        return list(csv.DictReader(source))


def only(texts: list[str], cell: Cell) -> Decimal:
    assert len(set(texts)) == 1, (cell, texts)
    return Decimal(texts[0])


# STaRK


def stark_table(shared: Path, cell: Cell) -> Decimal:
    place = cell.row.task_key
    split = {"test": "test", "test_0_1": "test-0.1", "human": "human_generated_eval"}[place.split]
    column = {"hit_at_1": "hit@1", "hit_at_5": "hit@5", "recall_at_20": "recall@20", "mrr": "mrr"}[cell.metric]
    where = (split, cell.figure.key, place.benchmark.removeprefix("stark-"))
    rows = table(shared / "expected/stark_tables.csv")
    return only([row[column] for row in rows if (row["split"], row["model"], row["dataset"]) == where], cell) / 100


def stark_latency(shared: Path, cell: Cell) -> Decimal:
    text = (shared / "reference/stark_tables.md").read_text(encoding="utf-8").partition("## Table 8")[2]
    lines = [[each.strip() for each in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    head = lines[0]
    found = {line[0].lower(): dict(zip(head, line, strict=True)) for line in lines[2:5]}
    return Decimal(found[cell.row.task_key.benchmark.removeprefix("stark-")][cell.figure.key])


def agents(shared: Path, cell: Cell) -> Decimal:
    if cell.row.task_key.split == "human":
        return only([value for where, value in rows_of_2026(shared) if where == cell_key(cell)], cell) / 100
    where = (cell.figure.key, cell.row.task_key.benchmark.removeprefix("stark-"), cell.metric, "second_hand")
    rows = table(shared / "expected/agents_published.csv")
    columns = ("method", "dataset", "metric", "status")
    return only([row["value_percent"] for row in rows if tuple(map(row.get, columns)) == where], cell) / 100


SYSTEMS_OF_2026 = {
    "ARK (GPT-4.1, training-free)": "ARK",
    "ARK distilled 8B (Qwen3-8B)": "ARK distilled",
    "GRASP (fine-tuned)": "GRASP",
    "Think-on-Graph": "Think-on-Graph (GPT-4o)",
}
SPLITS_OF_2026 = {"test": "test", "synthesized": "test", "human": "human", "human-generated": "human"}
NO_PLACE = {
    "mean of 3 KBs": "a mean over datasets",
    "recall gain": "no score",
    "MAG, ablation sample": "a random tenth of the test questions that is not published",
    "Amazon (other listing": "the split is not known",
    "Prime (other listing": "the split is not known",
}
"""What datasets of STaRK begin with whose rows are left out -> why."""


def cell_key(cell: Cell) -> tuple[str, ...]:
    return cell.row.task_key.benchmark, cell.row.task_key.split, cell.row.system, cell.metric


def rows_of_2026(shared: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the rows of STaRK that have a place here, and their values."""
    for row in table(shared / "expected/published_2026.csv"):
        if row["benchmark"] == "STaRK" and not row["dataset"].startswith(tuple(NO_PLACE)):
            name, split, *_ = row["dataset"].split()
            where = f"stark-{name.lower()}", SPLITS_OF_2026[split], SYSTEMS_OF_2026.get(row["system"], row["system"])
            yield (*where, row["metric"]), row["value"]


# SKA-Bench


def ska_table(shared: Path, cell: Cell) -> Decimal:
    *model, subset, setting = [*cell.figure.key.split(", "), "-"][: 3 if cell.row.system != "data" else 2]
    metric = {"answer_f1": "macro_f1", "std_over_hardness": "std_ddof0"}.get(cell.metric, cell.metric)
    metric = "percent" if metric.startswith("share_of_noise") else metric
    where = ("T" + cell.figure.source.name[-1], subset, setting, *(model or ["-"]), metric)
    rows = table(shared / "expected/ska_expected.csv")
    columns = ("table", "subset", "setting", "model", "metric")
    found = only([row["value"] for row in rows if tuple(map(row.get, columns)) == where], cell)
    return found / (100 if metric in ("macro_f1", "rejection_rate", "percent", "std_ddof0") else 1)


# GenRES

GENRES = {
    "completeness": "CS",
    "topical_similarity": "TS",
    "uniqueness": "US",
    "factualness": "FS",
    "granularity": "GS",
    "triples_per_document": "#tri",
    "tokens_per_triple": "#tok",
    "precision": "P",
    "recall": "R",
    "f1": "F1",
}


def genres_table(shared: Path, cell: Cell) -> Decimal:
    relabelled = f"poster (row relabelled; printed label: {cell.figure.key})"
    printed = {"main": ("poster", relabelled), "table-1": ("poster Table 1 (hard match)",)}[cell.figure.source.name]
    found = [
        row["value"]
        for row in table(shared / "expected/genres_expected.csv")
        if row["dataset"].startswith(f"{cell.row.task_key.config}_rand")
        and (row["model"], row["metric"]) == (ANSWERED[cell.row.system], GENRES[cell.metric])
        and row["source"] in printed
    ]
    return only(found, cell) / (1 if "#" in GENRES[cell.metric] else 100)


# Text2KGBench

TEXT2KG = {"precision": "P", "recall": "R", "f1": "F1", "ontology_conformance": "OC", "subject_hallucination": "SH",
           "relation_hallucination": "RH", "object_hallucination": "OH"}  # fmt: skip
RELEASED = {"P": "precision", "R": "recall", "F1": "f1", "OC": "onto_conf", "SH": "sub_halluc", "RH": "rel_halluc",
            "OH": "obj_halluc"}  # fmt: skip


def text2kg_paper(shared: Path, cell: Cell) -> Decimal:
    place, (model, _, variant) = cell.row.task_key, cell.figure.key.partition(", ")
    dataset = place.benchmark.removeprefix("text2kg-").replace("-", "_")
    number = cell.figure.source.name[-1]
    where = (dataset, model, variant or "all", "GLOBAL", "paper_table_2")
    if number == "3":
        where = (dataset, "Vicuna-13B", "all", cell.figure.key, "paper_table_3")
    columns = ("dataset", "model", "variant", "ontology", "source")
    rows = table(shared / "expected/text2kg_expected.csv")
    return only([row[TEXT2KG[cell.metric]] for row in rows if tuple(map(row.get, columns)) == where], cell)


@cache
def released(shared: Path, path: str) -> list[dict[str, str]]:
    file = shared / path.replace("data/", "data/text2kgbench/", 1)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def text2kg_file(shared: Path, cell: Cell) -> Decimal:
    lines, field = released(shared, cell.figure.source.where), f"avg_{RELEASED[TEXT2KG[cell.metric]]}"
    of_all = [line for line in lines if line["type"] in ("all_test_cases", "global")]
    if cell.figure.key == "mean of the ontologies":  # of two digits each, so that the mean may be half of one off
        mean = Decimal(str(fmean(float(line[field]) for line in of_all)))
        return round(Decimal(repr(cell.figure.value)), 2) if abs(mean - Decimal(cell.figure.value)) <= 0.005 else mean
    return only([line[field] for line in of_all if cell.figure.key in (line.get("onto"), line.get("id"))], cell)


FINDERS: dict[tuple[str, str], Callable[[Path, Cell], Decimal]] = {
    ("stark", "table-6"): stark_table,
    ("stark", "table-7"): stark_table,
    ("stark", "table-7-prime"): stark_table,
    ("stark", "table-8"): stark_latency,
    **{("stark", name): agents for name in ("avatar", "mor", "sage", "grasp")},
    **{("ska_bench", f"table-{n}"): ska_table for n in range(1, 8)},
    ("genres", "main"): genres_table,
    ("genres", "table-1"): genres_table,
    ("text2kgbench", "table-2"): text2kg_paper,
    ("text2kgbench", "table-3"): text2kg_paper,
    **{
        ("text2kgbench", f"{run}{answers}"): text2kg_file
        for run in ("alpaca-tekgen", "vicuna-tekgen", "vicuna-unseen", "vicuna-webnlg")
        for answers in ("", "-answers")
    },
}


def by_source() -> dict[tuple[str, str], list[Cell]]:
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells():
        found.setdefault((folder(cell), cell.figure.source.name), []).append(cell)
    return found


BY_SOURCE = by_source()


@pytest.mark.parametrize("source", BY_SOURCE, ids="-".join)
def test_every_figure_is_found_in_its_source_under_its_key(shared: Path, source: tuple[str, str]) -> None:
    if source not in FINDERS:
        pytest.skip(f"not at hand: {BY_SOURCE[source][0].figure.source}, {len(BY_SOURCE[source])} figures")
    found = [(cell, FINDERS[source](shared, cell)) for cell in BY_SOURCE[source]]
    mismatches = [(cell, value) for cell, value in found if value != Decimal(cell.figure.printed)]
    assert mismatches == []


def test_a_wrong_figure_would_be_noticed(shared: Path) -> None:
    cell = BY_SOURCE["stark", "table-6"][0]
    assert stark_table(shared, cell) == Decimal(cell.figure.printed)
    other = next(each for each in BY_SOURCE["stark", "table-6"] if each.figure.value != cell.figure.value)
    assert stark_table(shared, other) != Decimal(cell.figure.printed)


def test_nothing_that_was_copied_from_the_tables_is_missing(shared: Path) -> None:
    n_of = {source: len(found) for source, found in BY_SOURCE.items()}
    expected = shared / "expected"
    assert sum(n_of["stark", name] for name in ("table-6", "table-7", "table-7-prime")) == 4 * len(
        table(expected / "stark_tables.csv")
    )
    assert n_of["stark", "table-8"] == 3 * 6
    ska = [row for row in table(expected / "ska_expected.csv") if (row["table"], row["setting"]) != ("T7", "mixed")]
    assert sum(n for (name, _), n in n_of.items() if name == "ska_bench") == len(ska)  # mixed is Table 3's 4k again
    poster = [row for row in table(expected / "genres_expected.csv") if row["source"].startswith("poster")]
    again = [
        row for row in poster if "Table 1" in row["source"] and row["model"] == "groundtruth"
    ]  # as in the main table
    assert n_of["genres", "main"] + n_of["genres", "table-1"] == len(poster) - len(again)
    paper = [row for row in table(expected / "text2kg_expected.csv") if row["source"].startswith("paper")]
    assert n_of["text2kgbench", "table-2"] + n_of["text2kgbench", "table-3"] == 7 * len(paper)


def test_what_is_printed_twice_is_the_same_and_stands_once(shared: Path) -> None:
    ska = table(shared / "expected/ska_expected.csv")
    of_3 = {
        (row["subset"], row["model"]): row["value"] for row in ska if (row["table"], row["setting"]) == ("T3", "4k")
    }
    mixed = {(row["subset"], row["model"]): row["value"] for row in ska if row["setting"] == "mixed"}
    assert len(mixed) == 8 and mixed.items() <= of_3.items()


def test_verified_figures_of_agents_are_there_and_averages_over_datasets_are_not(shared: Path) -> None:
    for row in table(shared / "expected/agents_published.csv"):
        rows = (
            published_rows(f"stark-{row['dataset']}", "queries", "test", "reference")
            if row["dataset"] != "average of three"
            else []
        )
        found = [each.figures[row["metric"]] for each in rows if each.system == row["method"]]
        if row["status"] == "abstract":
            assert row["dataset"] == "average of three" and found == []
            continue
        (figure,) = found
        assert figure.kind == "secondary"
        assert abs(100 * figure.value - float(row["value_percent"])) <= 0.05


def test_rows_of_2026_equal_the_table_and_are_first_hand_only_if_read_in_the_text_of_their_authors(
    shared: Path,
) -> None:
    here = {cell_key(cell): cell.figure for cell in cells() if cell.row.task_key.benchmark.startswith("stark-")}
    expected = dict(rows_of_2026(shared))
    assert len(expected) == 29
    for where, value in expected.items():
        assert Decimal(here[where].printed) == Decimal(value) / 100, where
    first_hand = {where[2] for where in expected if not here[where].second_hand}
    assert first_hand == {"ARK", "ARK distilled", "BM25"}
    assert "read in the text" in here["stark-mag", "test", "ARK", "hit_at_1"].source.note
    others = {row["benchmark"] for row in table(shared / "expected/published_2026.csv")} - {"STaRK"}
    assert not others & {benchmark(cell.row.task_key.benchmark).title for cell in cells()}


def test_a_second_hand_score_is_in_no_table_plot_or_leaderboard(monkeypatch: pytest.MonkeyPatch) -> None:
    second_hand = [cell for cell in cells() if cell.figure.second_hand]
    assert len(second_hand) > 80
    places = {cell.row.task_key for cell in second_hand}
    for place in places:
        rows = published_systems(place)
        assert rows and not [row for row in rows for figure in row.figures.values() if figure.second_hand]
        assert all(row.figures for row in rows)
    tables = results_table(["published:*"], sorted({place.benchmark for place in places}))
    shown = {(block.task_key.benchmark, each.name) for block in tables for each in block.systems}
    only_second_hand = {(cell.row.task_key.benchmark, cell.row.system) for cell in second_hand}
    only_second_hand -= {
        (cell.row.task_key.benchmark, cell.row.system) for cell in cells() if not cell.figure.second_hand
    }
    assert len(only_second_hand) > 20 and not shown & only_second_hand
    with pytest.raises(UsageError, match=r"only second-hand scores.*kbbench list stark-prime --published"):
        results_table(["published:GRASP"], ["stark-prime"])


def test_recomputed_figures_are_the_means_of_single_sentences_over_ontologies(shared: Path) -> None:
    sentences: dict[tuple[str, str, str], dict[str, list[dict[str, str]]]] = {}
    for row in table(shared / "expected/text2kg_expected_sentences.csv"):
        run = (row["dataset"], row["model"], row["variant"])
        sentences.setdefault(run, {}).setdefault(row["ontology"], []).append(row)
    n_cases = {
        (row["dataset"], row["model"], row["variant"], row["ontology"]): int(row["n_cases"])
        for row in table(shared / "expected/text2kg_expected.csv")
        if row["n_cases"]
    }
    n_found = 0
    for cell in cells():
        if cell.figure.kind != "recomputed":
            continue
        place = cell.row.task_key
        dataset = place.benchmark.removeprefix("text2kg-").replace("-", "_")
        run = (dataset, cell.row.system, "unseen" if place.split == "unseen" else "all")
        means = {
            name: sum(float(row[TEXT2KG[cell.metric]]) for row in rows) / n_cases[*run, name]  # no answer counts as 0
            for name, rows in sentences[run].items()
        }
        twice = [means["1_university"]] if dataset == "dbpedia_webnlg" else []  # the release counts it twice
        assert cell.figure.value == pytest.approx(fmean([*means.values(), *twice]), abs=1e-12)
        n_found += 1
    assert n_found == 7 * 4


def test_what_the_stored_files_do_not_give_is_said(shared: Path) -> None:
    unlike = ("poster", "concat", "retrained", "old rule")  # not the stored files, or not by the published definition
    rows = [
        row for row in table(shared / "expected/genres_expected.csv") if not any(w in row["source"] for w in unlike)
    ]
    silent = []
    for cell in cells():
        if folder(cell) == "genres" and not cell.figure.note:
            scale, half = (1 if "#" in GENRES[cell.metric] else 100), 0.5 * 10**-cell.figure.digits
            where = (cell.row.task_key.config, ANSWERED[cell.row.system], GENRES[cell.metric])
            stored = [
                float(row["value"]) / scale
                for row in rows
                if (row["dataset"].partition("_rand")[0], row["model"], row["metric"]) == where
            ]
            if stored and all(abs(value - cell.figure.value) > 1.01 * half for value in stored):
                silent.append((cell, stored))
    assert silent == []


def verdicts(shared: Path, row: PublishedRow) -> dict[str, dict[str, float]]:
    """Return text -> the share of its triples that the stored judge found supported, as the release keeps it."""
    name = "factualness_details" if row.system == "Ground truth" else f"rand_800_{ANSWERED[row.system]}_1"
    file = shared / f"data/genres/stored_verdicts/factualness/{row.task_key.config}_{name}.json"
    found: dict[str, dict[str, float]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_notes_on_stored_files_give_the_number_that_these_hold(shared: Path) -> None:
    rows = table(shared / "expected/genres_expected.csv")
    n_found, wrong = 0, []
    for cell in cells():
        _, said, number = cell.figure.note.partition("the stored files give ")
        number = number.partition(";")[0]
        if not said:
            continue
        scale = 1 if "#" in GENRES[cell.metric] else 100
        stored = [
            float(row["value"]) / scale
            for row in rows
            if row["dataset"].startswith(f"{cell.row.task_key.config}_rand")
            and (row["model"], row["metric"]) == (ANSWERED[cell.row.system], GENRES[cell.metric])
            and "poster" not in row["source"]
        ]
        if cell.row.system in STRATEGY_NAMES and "#" in GENRES[cell.metric]:
            continue  # scored from the stored answers in the test of the release
        if cell.metric == "factualness" and not stored:
            stored = [fmean(each["score"] for each in verdicts(shared, cell.row).values())]
        digits = len(number.partition(".")[2])
        if number not in {f"{each:.{digits}f}" for each in stored}:
            wrong.append((cell, stored))
        n_found += 1
    assert (n_found, wrong) == (43, [])


def test_every_figure_has_a_kind_and_what_graphraft_quotes_of_others_is_secondary() -> None:
    assert {cell.figure.kind for cell in cells()} == {"printed", "released", "recomputed", "secondary"}
    others = {cell.row.system for cell in BY_SOURCE["stark", "graphraft-others"]}
    assert others == {"AvaTaR", "HybGRAG", "KAR", "MoR", "mFAR"}
    assert {cell.figure.kind for cell in BY_SOURCE["stark", "graphraft-others"]} == {"secondary"}
