"""What the audit of a knowledge base's questions finds, on a kitchen of nine nodes; worked by hand."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.audits import Finding, beside_models
from kbbench_hf.building.retrieval_audit import (
    NodeWords,
    audit,
    best_by_text,
    executed,
    ranks_by_words,
    review_items,
)
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import schema_table

PATH = "spice -[^has]-> dish"
NAMES = ["saffron", "pepper", "paella", "stew", "soup", "rice"]
NODES = pa.table(
    {
        "id": list(range(10, 16)),
        "type": ["spice", "spice", "dish", "dish", "dish", "dish"],
        "name": NAMES,
        "text": ["", "", "golden, from Valencia", "brown and long cooked", "clear, from Kyoto", "white"],
        "minutes": [None, None, 40, 120, 30, 20],
    }
)
EDGES = pa.table(
    {"head": [12, 13, 14, 12, 13], "relation": ["has"] * 5, "tail": [10, 10, 10, 11, 11]},
)


def question(answers: list[int], requirements: list[dict[str, Any]], words: str = "Which?") -> dict[str, Any]:
    return {
        "id": 0,
        "query": words,
        "answer_ids": answers,
        "template": PATH,
        "topic_ids": [10],
        "requirements": json.dumps(requirements),
        "gold_id": answers[0],
    }


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ([], [12, 13, 14]),
        ([{"kind": "attribute", "field": "minutes", "op": "<=", "value": 40, "source": "minutes"}], [12, 14]),
        ([{"kind": "attribute", "field": "minutes", "op": ">=", "value": 41, "source": "minutes"}], [13]),
        ([{"kind": "attribute", "field": "name", "op": "=", "value": "soup", "source": "name"}], [14]),
        ([{"kind": "phrase", "value": "long cooked", "source": "text"}], [13]),
        ([{"kind": "phrase", "value": "ong cook", "source": "text"}], []),
    ],
)
def test_a_question_is_executed_from_its_row_alone(requirements: list[dict[str, Any]], expected: list[int]) -> None:
    kb = KnowledgeBase.from_arrow(NODES, EDGES)
    found = executed(kb, question([12], requirements))
    assert sorted(kb.ids(sorted(found))) == expected


def test_what_only_a_model_can_judge_is_taken_at_its_word() -> None:
    kb = KnowledgeBase.from_arrow(NODES, EDGES)
    found = executed(kb, question([12, 15], [{"kind": "free", "value": "is festive", "source": "golden"}]))
    assert kb.ids(sorted(found)) == [12]  # rice has no saffron, whatever was said of it


def test_the_text_that_has_most_of_the_words_wins() -> None:
    kb = KnowledgeBase.from_arrow(NODES, EDGES)
    of_dishes = {("dish",): kb.of_type("dish")}
    assert best_by_text(kb, [{"kyoto", "clear"}, {"white"}, set()], of_dishes, [("dish",)] * 3) == [4, 5, 2]


def test_an_answer_too_many_is_found_and_a_right_one_passes(tmp_path: Any) -> None:
    rows = [question([12, 13, 14], [], f"What has saffron {n}?") for n in range(40)]
    rows += [question([12, 13, 14, 15], [], f"What has pepper {n}?") for n in range(10)]
    folder = kitchen(tmp_path / "kitchen", rows)
    found = {each.name: each for each in audit(folder)}
    assert found["executor_differs"].value == pytest.approx(10 / 50)
    assert found["executor_differs"].is_over
    assert found["type_alone"].value == pytest.approx((40 * 3 / 4 + 10) / 50)
    assert found["degree_alone"].value == 1.0  # paella has two edges, and is always right
    shown = review_items(folder, "test", 3)
    assert len({each.id for each in shown}) == 1
    assert ["path", PATH] in shown[0].needed


def kitchen(folder: Any, rows: list[dict[str, Any]]) -> DatasetFolder:
    schema = schema_table(NODES, EDGES, ["spice", "dish"], ["has"])
    tables = {"nodes": {"full": NODES}, "edges": {"full": EDGES}, "schema": {"full": schema}}
    return write_dataset(folder, {"queries": {"test": pa.Table.from_pylist(rows)}, **tables}, "# kitchen\n")


def test_words_of_the_answers_text_are_what_it_has_more_than_another_nodes(tmp_path: Any) -> None:
    # Of golden, meal, Valencia and the number, paella's text has two, and rice's none; saffron is the topic.
    rows = [question([12, 13, 14], [], f"Which golden meal from Valencia has saffron {n}?") for n in range(30)]
    # Of white, clear, meal and the number, stew's text has none, and rice's one; clear soup is among the answers.
    rows += [question([13, 12, 14], [], f"Which white, clear meal has saffron {n}?") for n in range(10)]
    found = {each.name: each.value for each in audit(kitchen(tmp_path / "kitchen", rows))}
    assert found["lexical_overlap"] == pytest.approx((30 * 2 / 4 - 10 * 1 / 4) / 40)
    assert found["text_alone"] == pytest.approx(30 / 40)  # of one word each, rice has the shorter text


def test_a_reviewer_sees_answers_what_they_must_meet_and_what_meets_the_path_alone(tmp_path: Any) -> None:
    least = {"kind": "attribute", "field": "minutes", "op": "<=", "value": 40, "source": "minutes"}
    phrase = {"kind": "phrase", "value": "clear", "source": "text"}
    row = question([14], [least, phrase], "Which is clear?") | {"hops": "1"}
    (item,) = review_items(kitchen(tmp_path / "kitchen", [row]), "test", 5)
    assert (item.id, item.question, item.gold) == ("0", "Which is clear?", [["soup"]])
    assert item.needed == [
        ["path", PATH],
        ["spice", "saffron"],
        ["requirement", "minutes <= 40"],
        ["requirement", "clear"],
        ["soup", "clear, from Kyoto"],
    ]
    assert item.noise == [["paella", "golden, from Valencia"], ["stew", "brown and long cooked"]]
    assert item.facts == {"split": "test", "answers": "1", "hops": "1"}
    with pytest.raises(UsageError, match="Did you mean 'test'"):
        review_items(DatasetFolder(tmp_path / "kitchen"), "tset", 5)


def test_a_sample_for_review_takes_from_each_template_in_turn(tmp_path: Any) -> None:
    rows = [question([12], []) | {"id": n, "template": PATH if n < 9 else ""} for n in range(12)]
    folder = kitchen(tmp_path / "kitchen", [row | {"topic_ids": row["topic_ids"] * (row["id"] < 9)} for row in rows])
    ids = [int(each.id) for each in review_items(folder, "test", 5)]
    assert [each < 9 for each in ids] == [True, False, True, False, True] and len({*ids}) == 5
    assert len(review_items(folder, "test", 99)) == 12


def test_scores_of_words_are_bm25(tmp_path: Any) -> None:
    bm25s = pytest.importorskip("bm25s")
    texts = ["one two three", "two", "three four five six seven", "one six"]
    kb = KnowledgeBase.from_arrow(
        pa.table({"id": range(4), "type": ["a"] * 4, "name": [""] * 4, "text": texts}),
        pa.table({"head": [0], "relation": ["r"], "tail": [1]}),
    )
    peer = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    peer.index([text.split() for text in texts], show_progress=False)
    for words in (["two"], ["three", "six"], ["one", "four", "absent"]):
        known = [word for word in words if word != "absent"]
        found = NodeWords(kb, np.arange(4), {*words}).scores({*words})
        assert found == pytest.approx((1.2 + 1) * peer.get_scores(known), rel=1e-5)  # Lucene leaves out the factor
    assert NodeWords(kb, np.array([3, 1]), {"two"}).scores({"two"}).tolist()[0] == 0  # in the order of the nodes given


def test_a_dataset_without_templates_is_audited_too() -> None:
    found = audit(find_dataset("mini-stark"))
    assert [each.name for each in found] == ["text_alone", "degree_alone", "type_alone", "lexical_overlap"]
    with pytest.raises(UsageError, match="closed-book"):
        audit(find_dataset("mini-stark"), {"1": ["a"]})


def test_a_guess_above_three_fifths_of_the_best_model_is_above_its_limit() -> None:
    findings = [Finding("test", "text_alone", "", 0.5, 0.6, 50), Finding("train", "text_alone", "", 0.9, 0.6, 50)]
    found = {each.name: each for each in beside_models(findings, "test", {"a": (0.2, 50), "b": (0.8, 50)})[2:]}
    assert {name: each.value for name, each in found.items()} == {
        "run_a": 0.2,
        "run_b": 0.8,
        "text_alone_of_best": 0.5 / 0.8,
    }
    assert [name for name, each in found.items() if each.is_over] == ["text_alone_of_best"]


def test_the_rank_by_words_alone_is_that_of_the_best_answer_and_ties_go_to_the_earlier_node() -> None:
    nodes = pa.table(
        {"id": [0, 1, 2, 3], "type": ["a"] * 4, "name": ["one", "two", "three", "four"], "text": ["x", "x y", "z", "z"]}
    )
    kb = KnowledgeBase.from_arrow(nodes, pa.table({"head": [0], "relation": ["r"], "tail": [1]}))
    # "y" is in one alone; both of "z" tie, so that the later is second; "w" is nowhere: all tie, and row 3 is the last.
    assert ranks_by_words(kb, [{"y"}, {"z"}, {"w"}, {"z"}], [[1], [3], [3], [2, 3]]) == [1, 2, 4, 1]
