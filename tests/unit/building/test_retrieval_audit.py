"""What the audit of a knowledge base's questions finds, on a kitchen of nine nodes; worked by hand."""

import json
from typing import Any

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.audits import Finding, beside_models
from kbbench_hf.building.retrieval_audit import audit, best_by_text, executed, ranks_by_words, review_items
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
    tables = {
        "queries": {"test": pa.Table.from_pylist(rows)},
        "nodes": {"full": NODES},
        "edges": {"full": EDGES},
        "schema": {"full": schema_table(NODES, EDGES, ["spice", "dish"], ["has"])},
    }
    write_dataset(tmp_path / "kitchen", tables, "# kitchen\n")
    found = {each.name: each for each in audit(DatasetFolder(tmp_path / "kitchen"))}
    assert found["executor_differs"].value == pytest.approx(10 / 50)
    assert found["executor_differs"].is_over
    assert found["type_alone"].value == pytest.approx((40 * 3 / 4 + 10) / 50)
    assert found["degree_alone"].value == 1.0  # paella has two edges, and is always right
    shown = review_items(DatasetFolder(tmp_path / "kitchen"), "test", 3)
    assert len({each.id for each in shown}) == 1
    assert ["path", PATH] in shown[0].needed


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
