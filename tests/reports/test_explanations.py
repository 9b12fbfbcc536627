"""What reports show of rankings and answer lists: which parts are right, by name, and no more than can be read."""

import shutil
from pathlib import Path

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.ska_bench import MINI as MINI_SKA
from kbbench_hf.benchmarks.stark import MINI as MINI_STARK
from kbbench_hf.benchmarks.text2kgbench import MINI as MINI_TEXT2KG
from kbbench_hf.dataset_folder import DatasetFolder, write_dataset
from kbbench_hf.hub.load import MINI
from kbbench_hf.reports.explanations import N_SHOWN, UNANSWERABLE, explainer
from kbbench_hf.scoring import load_examples

NO_EXAMPLES = Examples([])


def test_a_ranking_shows_its_best_candidates_by_name(in_tmp):
    _, examples, _ = load_examples("mini-stark")
    row = examples.rows[0]
    names = {node["id"]: node["name"] for node in DatasetFolder(MINI / "mini-stark").rows("nodes", "full")}
    wrong = next(node for node in names if node not in row["answer_ids"])
    shown = explainer(MINI_STARK)(examples, row, [wrong, row["answer_ids"][0], *list(names)[:50]])
    assert shown.question == [(row["query"], False)]
    assert shown.gold == [f"{names[each]} ({each})" for each in row["answer_ids"]]
    assert shown.answer[0] == (f"1. {names[wrong]} ({wrong})", "wrong")
    assert shown.answer[1][1] == "right"
    assert len(shown.answer) == N_SHOWN


def test_a_ranking_shows_ids_where_only_the_questions_are_at_hand(in_tmp):
    tables = {"queries": {"test": DatasetFolder(MINI / "mini-stark").table("queries", "test")}}
    write_dataset(Path("kbbench/mini-stark"), tables, "---\nlicense: mit\n---\n")
    row = {"query": "what", "answer_ids": [7]}
    assert explainer(MINI_STARK)(NO_EXAMPLES, row, [7, 8]).answer == [("1. 7", "right"), ("2. 8", "wrong")]
    shutil.rmtree("kbbench")


def test_an_answer_is_right_but_for_case():
    row = {"question": "Where?", "answers": ["Ostra", "Sarn"], "answerable": True}
    shown = explainer(MINI_SKA)(NO_EXAMPLES, row, ["ostra ", "Velm"])
    assert shown.gold == ["Ostra", "Sarn"]
    assert shown.answer == [("ostra ", "right"), ("Velm", "wrong")]


def test_any_answer_to_what_cannot_be_answered_is_made_up():
    row = {"question": "Where?", "answers": ["Ostra"], "answerable": False}
    shown = explainer(MINI_SKA)(NO_EXAMPLES, row, ["Ostra"])
    assert (shown.gold, shown.answer) == ([UNANSWERABLE], [("Ostra", "hallucinated")])


def test_a_benchmark_that_explains_itself_is_asked():
    assert explainer(MINI_TEXT2KG) is MINI_TEXT2KG.explain
