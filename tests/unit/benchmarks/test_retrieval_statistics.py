"""STaRK's Tables 2 to 4 and Figure 4, counted by hand on four nodes and three questions, and on the real questions."""

import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.charts import Statistics
from kbbench_hf.benchmarks.retrieval_statistics import statistics
from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.reports.plots import plot_lengths

NODES = "id,type,name,text\n1,dish,Soup,hot and salty\n2,dish,Jelly,\n3,cook,Ann,born in Ely\n4,cook,Ben,\n"
EDGES = "head,relation,tail\n3,cooks,1\n3,cooks,2\n4,likes,1\n"
QUERIES = 'id,query,answer_ids,split\n1,what is hot,"[1]",test\n2,what is good,"[1, 2]",test\n3,who,"[3, 3]",train\n'


@pytest.fixture
def folder(tmp_path: Path) -> DatasetFolder:
    for name, text in (("n", NODES), ("e", EDGES), ("q", QUERIES)):
        (tmp_path / f"{name}.csv").write_text(text)
    files = [tmp_path / f"{name}.csv" for name in "neq"]
    build_own_knowledge_base("my-kb", *files, tmp_path / "kb")
    return DatasetFolder(tmp_path / "kb")


def test_sizes_degrees_and_words_are_counted(folder):
    found = statistics(folder)
    assert dict(found.tables["Knowledge base"]) == {
        "node types": "2",
        "relations": "2",
        "nodes": "4",
        "edges": "3",
        "average degree": "1.5",  # 2 * 3 / 4
        "words of text": "6",  # hot and salty, born in Ely
    }
    assert sorted(found.tables["Nodes by type"]) == [("cook", "2"), ("dish", "2")]


def test_questions_answers_splits_and_diversity_are_counted(folder):
    found = statistics(folder)
    assert sorted(found.lengths["words per query"]) == [1, 3, 3]
    assert sorted(found.lengths["answers per query"]) == [1, 1, 2]  # an answer that stands twice is one
    queries = dict(found.tables["Queries"])
    assert queries["queries"] == "3"
    assert queries["with several answers"] == "1"
    assert queries["answers per query"] == "1.333"  # 4 / 3
    by_split = {name: figures for name, *figures in found.tables["Queries by split"]}
    assert by_split["test"][:2] == ["2", "0.67"] and sum(int(each[0]) for each in by_split.values()) == 3
    # what is hot what is good who: 7 words; what 2, is 2, hot, good, who 1 each:
    # 2 * 2/7 * log2(7/2) + 3 * 1/7 * log2(7) = 2.236; without stop words hot and good: all differ
    assert dict(found.tables["Diversity"]) == {"Shannon entropy": "2.236", "type-token ratio": "1.0000"}


def test_a_dataset_of_questions_alone_has_no_table_of_its_knowledge_base(folder, tmp_path):
    import pyarrow as pa

    from kbbench_hf.files.datasets import write_dataset

    table = pa.table({"id": [1], "query": ["what"], "answer_ids": pa.array([[1]], pa.list_(pa.int64()))})
    only = write_dataset(tmp_path / "questions", {"queries": {"test": table}}, "---\nlicense: mit\n---\n")
    found = statistics(only)
    assert (found.tables["Knowledge base"], found.tables["Nodes by type"], found.lengths["answers per query"]) == (
        [],
        [],
        [1],
    )


def test_words_of_synthesized_questions_are_relational_or_textual(tmp_path):
    import pyarrow as pa

    from kbbench_hf.files.datasets import write_dataset

    words = [{"relational": 6, "textual": 2}, {"relational": 4, "textual": 4}, {"relational": 3}]
    provenance = [json.dumps({"words": each}) for each in words] + ["", "Wikipedia", "[1]"]  # not synthesized
    columns = {"id": [*range(6)], "query": ["what"] * 6, "answer_ids": pa.array([[1]] * 6, pa.list_(pa.int64()))}
    table = pa.table({**columns, "provenance": provenance, "hops": ["2", "1", None, "1", "1", "1"]})
    only = write_dataset(tmp_path / "questions", {"queries": {"test": table}}, "---\nlicense: mit\n---\n")
    found = statistics(only)
    assert found.tables["Relational to textual"] == [
        ("all", "3", "1", "2.00"),  # (6 / 2 + 4 / 4) / 2
        ("hops: 1", "1", "0", "1.00"),
        ("hops: 2", "1", "0", "3.00"),
        ("hops: unknown", "1", "1", "-"),
    ]
    assert found.columns["Relational to textual"] == ["queries", "without textual words", "mean ratio"]
    assert found.lengths["relational words per query"] == [6, 4, 3]
    assert found.lengths["textual words per query"] == [2, 4, 0]


def test_figure_4_is_drawn_also_for_long_tails_and_for_nothing(folder, tmp_path):
    found = statistics(folder).lengths
    for name, each in (
        ("short", found),
        ("long", {**found, "answers per query": [1] * 500 + [20_000]}),
        ("none", {what: [] for what in found}),
    ):
        plot_lengths(Statistics({}, each), "My own", tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
