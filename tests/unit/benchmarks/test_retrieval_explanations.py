"""What reports show of rankings: which candidates are right, by name, and no more than can be read."""

from pathlib import Path

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.retrieval import Candidates, RetrievalContext
from kbbench_hf.benchmarks.retrieval_statistics import N_SHOWN, explain
from kbbench_hf.files.datasets import write_dataset
from kbbench_hf.scoring.eval_task import load_examples


def test_a_ranking_shows_its_best_candidates_by_name(in_tmp):
    found, examples, *_ = load_examples("mini-stark")
    row = examples.rows[0]
    names = {node["id"]: node["name"] for node in shipped_dataset("mini-stark").rows("nodes", "full")}
    wrong = next(node for node in names if node not in row["answer_ids"])
    shown = found.showing.explain(examples, row, [wrong, row["answer_ids"][0], *list(names)[:50]])
    assert shown.question == [(row["query"], False)]
    assert shown.gold == [f"{names[each]} ({each})" for each in row["answer_ids"]]
    assert shown.answer[0] == (f"1. {names[wrong]} ({wrong})", "wrong")
    assert shown.answer[1][1] == "right"
    assert len(shown.answer) == N_SHOWN


def test_a_ranking_shows_ids_where_only_the_questions_are_at_hand(in_tmp):
    tables = {"queries": {"test": shipped_dataset("mini-stark").table("queries", "test")}}
    folder = write_dataset(Path("kbbench/mini-stark"), tables, "---\nlicense: mit\n---\n")
    row = {"query": "what", "answer_ids": [7]}
    examples = Examples([], RetrievalContext(folder.path, Candidates(range(9)), {}))
    assert explain(examples, row, [7, 8]).answer == [("1. 7", "right"), ("2. 8", "wrong")]
