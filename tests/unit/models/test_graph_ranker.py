import ast
import csv
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.answer_type import AnswerTypes, asked_for
from kbbench_hf.models.bm25 import BM25
from kbbench_hf.models.graph_ranker import GraphRanker, _NameIndex
from kbbench_hf.models.renderings import render
from kbbench_hf.models.retrievers import retriever
from kbbench_hf.models.workplace import Workplace
from tests.unit.models.small_kb import NODES, small_kb

NAMES = [name for _, _, name, _ in NODES]


@pytest.fixture(scope="module")
def ranker() -> GraphRanker:
    kb = small_kb()
    return GraphRanker(kb, BM25(render(kb, "text")))


def _found(ranker: GraphRanker, question: str, k: int = 1) -> list[str]:
    return [NAMES[row] for row in ranker.search([question], k).ids[0]]


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("Which workshops smelt Galena?", ["workshops", "smelt", "galena"]),
        ("Could you please give me a list of raw ores that are stored in the mill?", ["raw", "ores"]),
        ("I am looking for information about metals involved in trade.", ["metals"]),
        ("What is there?", []),
    ],
)
def test_the_phrase_asked_for_is_what_follows_the_asking(question: str, phrase: list[str]) -> None:
    assert asked_for(question) == phrase


@pytest.mark.parametrize(
    ("question", "node_type"),
    [
        ("Which metals can be won from Galena?", "metal"),
        ("Name an ore that is smelted in the Hollow Forge.", "raw_ore"),
        ("Which workshop smelts Galena?", "workshop"),
        ("Find bricks that are baked.", "workshop"),  # no type is named: the words of the workshops' texts tell
    ],
)
def test_the_type_asked_for_is_read_from_the_wording(question: str, node_type: str) -> None:
    types = AnswerTypes(small_kb())
    assert types.names[int(types.log_probabilities(question).argmax())] == node_type


def test_probabilities_of_types_sum_to_one() -> None:
    assert np.exp(AnswerTypes(small_kb()).log_probabilities("Which metal?")).sum() == pytest.approx(1)


def test_a_node_joined_to_the_named_one_is_found_without_any_text(ranker: GraphRanker) -> None:
    assert _found(ranker, "Which metals does Magnetite give?") == ["Iron"]
    assert set(_found(ranker, "Which metals does Galena give?", 2)) == {"Lead", "Silver"}


def test_the_relation_that_is_spoken_of_decides_between_neighbours(ranker: GraphRanker) -> None:
    assert _found(ranker, "Which workshop smelts Galena?") == ["Salt Kiln"]
    assert _found(ranker, "Which workshop stores Galena?") == ["Hollow Forge"]


def test_two_edges_lead_to_nodes_that_one_does_not(ranker: GraphRanker) -> None:
    assert _found(ranker, "Which metals come out of the Hollow Forge?")[0] in {"Iron", "Lead", "Silver"}
    assert _found(ranker, "Which workshops are behind Iron?") == ["Hollow Forge"]


def test_of_nodes_without_text_the_well_connected_come_first(ranker: GraphRanker) -> None:
    # Galena has 4 edges, Magnetite 2, Bauxite 1
    assert _found(ranker, "Name some ores.", 3) == ["Galena", "Magnetite", "Bauxite"]


def test_text_decides_where_there_is_text(ranker: GraphRanker) -> None:
    assert _found(ranker, "Which workshop bakes bricks and cools bars in brine?") == ["Salt Kiln"]


def test_a_name_is_found_when_most_of_its_information_is_spelled_out() -> None:
    index = _NameIndex(["Salt Kiln", "Salt Mine", "the", ""])
    assert index.find("the salt kilns of the north")[0].tolist() == [0]
    assert index.find("salt")[0].tolist() == []
    assert index.find("")[0].tolist() == []


def test_a_knowledge_base_without_edges_is_ranked_by_text() -> None:
    kb = small_kb()
    lonely = KnowledgeBase.from_arrow(kb.nodes, kb.edges.slice(0, 0))
    found = GraphRanker(lonely, BM25(render(lonely, "text"))).search(["Which workshop grinds ochre?"], 1)
    assert found.ids.tolist() == [[2]]


def test_words_in_another_alphabet_and_empty_questions_are_answered(ranker: GraphRanker) -> None:
    assert ranker.search(["", "鉄 железо", "???"], 9).ids.shape == (3, 9)


def test_relations_beat_text_on_the_slice_of_prime(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/stark/prime/ibd_subgraph"
    kb = KnowledgeBase.from_tables(folder / "nodes.csv", folder / "edges.csv")
    with (folder / "stark_qa_covered.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    test = set((folder.parent / "split/test.index").read_text().split())
    place = Workplace(kb, tmp_path)
    figures = {}
    for name in ("bm25", "graph:bm25"):
        ranking = retriever(name, place).search([row["query"] for row in rows], len(kb)).ids
        places = [
            np.isin(line, kb.rows(ast.literal_eval(row["answer_ids"]))) for line, row in zip(ranking, rows, strict=True)
        ]
        reciprocal = np.array([1 / (1 + line.argmax()) for line in places])
        of_test = np.array([row["id"] in test for row in rows])
        figures[name] = (reciprocal.mean(), reciprocal[of_test].mean())
    assert figures["bm25"] == pytest.approx((0.3086, 0.2931), abs=1e-4)
    assert figures["graph:bm25"][0] > 0.45
    assert figures["graph:bm25"][1] > 0.43
