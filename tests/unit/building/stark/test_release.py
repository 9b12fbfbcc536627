"""STaRK's builds: the released questions under the Hub's ids, knowledge bases from archives of the released form."""

import csv
import json
import pickle
import shutil
from dataclasses import replace

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.building.stark import archives
from kbbench_hf.building.stark.release import AMAZON, MAG, PRIME, QuestionFacts, build
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder


@pytest.fixture(scope="module")
def built(shared, tmp_path_factory):
    """The three question sets, built from the real files."""
    place = tmp_path_factory.mktemp("stark")
    for release in (AMAZON, MAG, PRIME):
        source = shared / "data" / "stark" / release.name
        benchmark(release.dataset).data.build(source, place / release.name, ["queries"])
    return {release.name: DatasetFolder(place / release.name) for release in (AMAZON, MAG, PRIME)}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("amazon", (5910, 1548, 1642, 81)), ("mag", (7993, 2665, 2665, 84)), ("prime", (6162, 2241, 2801, 109))],
)
def test_splits_have_the_published_sizes(built, name, sizes):
    splits = ("train", "validation", "test", "human")
    assert tuple(len(built[name].rows("queries", split)) for split in splits) == sizes


@pytest.mark.parametrize("name", ["amazon", "mag", "prime"])
def test_questions_carry_the_ids_of_the_hub_in_its_order(built, shared, name):
    folder = shared / "data" / "stark" / name / "hf_from_mor"
    with (folder / "stark_qa.csv").open(encoding="utf-8", newline="") as source:
        hub = {int(row["id"]): (row["query"], json.loads(row["answer_ids"])) for row in csv.DictReader(source)}
    for split, file in (("train", "train"), ("validation", "val"), ("test", "test")):
        rows = built[name].rows("queries", split)
        assert [row["id"] for row in rows] == [int(i) for i in (folder / f"split/{file}.index").read_text().split()]
        assert all((row["query"], row["answer_ids"]) == hub[row["id"]] for row in rows)


def test_no_amazon_id_is_an_answer_by_design(built, shared):
    with (shared / "data/stark/amazon/stark_qa/stark_qa.csv").open(encoding="utf-8", newline="") as source:
        leaking = {row["query"]: int(row["id"]) for row in csv.DictReader(source)}
    rows = [row for split in ("train", "validation", "test") for row in built["amazon"].rows("queries", split)]
    assert all(leaking[row["query"]] in row["answer_ids"] for row in rows)
    assert max(row["id"] for row in rows) == 9_099
    assert sum(row["id"] in row["answer_ids"] for row in rows) < 20  # by chance


def test_answers_are_typed_and_known_defects_flagged(built):
    assert str(built["mag"].table("queries", "human").schema.field("answer_ids").type) == "list<element: int64>"
    flags = {row["id"]: row["flags"] for row in built["mag"].rows("queries", "human") if row["flags"]}
    assert flags == {30: ["unanswerable"], 72: ["unanswerable"], 50: ["answers_not_candidates"]}
    flags = {row["id"]: row["flags"] for row in built["prime"].rows("queries", "human") if row["flags"]}
    removed = ["wrong_answer", "removed_upstream"]
    assert flags == {27: ["wrong_answer"], 47: removed, 48: removed, 62: removed, 78: removed}
    duplicates = [row for split in ("train", "validation", "test") for row in built["prime"].rows("queries", split)]
    assert sum(row["flags"] == ["duplicate_answers"] for row in duplicates) == 36


def test_a_build_has_the_same_bytes_every_time(built, shared, tmp_path):
    benchmark("stark-mag").data.build(shared / "data" / "stark" / "mag", tmp_path / "again", ["queries"])
    assert DatasetFolder(tmp_path / "again").revision == built["mag"].revision


def test_the_layout_of_the_hub_is_read_too_and_has_test_0_1(shared, tmp_path):
    shutil.copytree(shared / "data/stark/prime", tmp_path / "qa/prime", copy_function=shutil.copyfile)
    test = (tmp_path / "qa/prime/split/test.index").read_text().split()
    (tmp_path / "qa/prime/split").chmod(0o755)
    (tmp_path / "qa/prime/split/test-0.1.index").write_text("\n".join(test[:280]))
    benchmark("kbbench/stark-prime").data.build(tmp_path, tmp_path / "out", ["queries"])
    assert [str(row["id"]) for row in DatasetFolder(tmp_path / "out").rows("queries", "test_0_1")] == test[:280]


def test_without_its_list_test_0_1_is_absent_with_a_message(shared, tmp_path, caplog):
    benchmark("stark-prime").data.build(shared / "data/stark/prime", tmp_path / "out", ["queries"])
    assert "test_0_1" not in DatasetFolder(tmp_path / "out").configs()["queries"]
    assert "No split test_0_1" in caplog.text


# A small release: seven questions over the six nodes of the small archive.
QUESTIONS = QuestionFacts(n_nodes=6, candidates=range(6), counts={"questions": (4,)})


@pytest.fixture
def small(tmp_path):
    """The root of a small release in the Hub's layout, and what is known of it."""
    pytest.importorskip("torch")
    from tests.unit.building.stark import stark_archive

    root = tmp_path / "release"
    (root / "qa/prime/stark_qa").mkdir(parents=True)
    (root / "qa/prime/split").mkdir()
    (root / "skb/prime").mkdir(parents=True)
    rows = ['0,"Which drug,\nif any?",[1]', '1,Which gene?,"[2, 3]"', "2,Which?,[0]", "3,What?,[5]"]
    (root / "qa/prime/stark_qa/stark_qa.csv").write_text("id,query,answer_ids\n" + "\n".join(rows))
    human = 'id,query,answer_ids,answer_ids_source\n0,Who?,"[4, 4]",[4]'
    (root / "qa/prime/stark_qa/stark_qa_human_generated_eval.csv").write_text(human)
    for split, ids in (("train", "1\n0"), ("val", "2"), ("test", "3")):
        (root / f"qa/prime/split/{split}.index").write_text(ids)
    stark_archive.write(root / "skb/prime/processed.zip", stark_archive.parts(stark_archive.SMALL))
    return root, replace(PRIME, questions=QUESTIONS, archive=stark_archive.SMALL)


def test_a_whole_release_becomes_four_configs(small, tmp_path):
    root, release = small
    build(release, root, tmp_path / "out")
    folder = DatasetFolder(tmp_path / "out")
    assert folder.configs() == {
        "queries": ["train", "validation", "test", "human"],
        "nodes": ["full"],
        "edges": ["full"],
        "schema": ["full"],
    }
    assert folder.rows("queries", "train")[1]["query"] == "Which drug,\nif any?"
    node = folder.rows("nodes", "full")[4]
    assert (node["id"], node["name"], node["text"]) == (4, "node 4", "")
    details = json.loads(node["details"])
    assert list(details) == ["id", "type", "name", "source", "details"] and details["type"] == node["type"]
    assert '"score": NaN' in node["details"]
    assert sorted(row["type"] for row in folder.rows("nodes", "full")).count("gene/protein") == 3
    assert [row["name"] for row in folder.rows("schema", "full") if row["kind"] == "relation"] == [
        "ppi",
        "target",
        "side effect",
    ]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("configs", "needed"), [(None, [True, True]), (["queries"], [True, False]), (["schema", "nodes"], [False, True])]
)
def test_what_a_config_needs_is_downloaded(small, tmp_path, monkeypatch, configs, needed):
    root, release = small
    asked = []

    def download(name, *, questions, archive):
        asked.append([name, questions, archive])
        return root

    monkeypatch.setattr("kbbench_hf.building.stark.release.download", download)
    build(release, None, tmp_path / "out", configs)
    assert asked == [["prime", *needed]]
    assert DatasetFolder(tmp_path / "out").configs().keys() == {*(configs or ["queries", "nodes", "edges", "schema"])}


def test_nodes_are_in_the_order_of_their_numbers_whatever_the_order_of_the_records(small, tmp_path):
    from tests.unit.building.stark import stark_archive

    root, release = small
    members = stark_archive.parts(stark_archive.SMALL)
    records = pickle.loads(members["node_info.pkl"])
    records[4]["source"] = "Möller"
    members["node_info.pkl"] = pickle.dumps(dict(reversed(records.items())))
    stark_archive.write(root / "skb/prime/processed.zip", members)
    build(release, root, tmp_path / "out", ["nodes"])
    rows = DatasetFolder(tmp_path / "out").rows("nodes", "full")
    assert [(row["id"], row["type"], row["name"]) for row in rows] == [
        (number, record["type"], record["name"]) for number, record in records.items()
    ]
    assert '"source": "Möller"' in rows[4]["details"]


def test_edges_keep_their_order_direction_and_relation(small, tmp_path):
    import torch

    root, release = small
    build(release, root, tmp_path / "out", ["edges"])
    import io

    from tests.unit.building.stark import stark_archive

    members = stark_archive.parts(stark_archive.SMALL)
    ends = torch.load(io.BytesIO(members["edge_index.pt"]), weights_only=True)
    kinds = torch.load(io.BytesIO(members["edge_types.pt"]), weights_only=True)
    rows = DatasetFolder(tmp_path / "out").rows("edges", "full")
    assert [(row["head"], row["tail"]) for row in rows] == list(map(tuple, ends.T.tolist()))
    assert [row["relation"] for row in rows] == [stark_archive.SMALL.relations[kind] for kind in kinds.tolist()]


def test_the_result_opens_as_a_knowledge_base(small, tmp_path):
    from kbbench_hf.knowledge_base.store import KnowledgeBase

    root, release = small
    build(release, root, tmp_path / "out")
    kb = KnowledgeBase.open(tmp_path / "out")
    assert len(kb.nodes) == 6 and tuple(kb.graph.node_types) == release.archive.node_types


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "[0]", "[6]"), "1 answers are not nodes.*6 of validation"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "[0]", "[-1]"), "1 answers are not nodes"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "[0]", "[exit()]"), "row 3"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "[0]", "[true]"), "not a list of integers"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "[0]", "[]"), "question 2 occurs twice or lacks"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "2,Which", "1,Which"), "question 1 occurs twice"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "2,Which", "9,Which"), "not 0 to 3"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "answer_ids", "answers"), "Expected the columns"),
        (lambda root: edit(root, "stark_qa/stark_qa.csv", "3,What?,[5]", ""), "ids have no question .3."),
        (lambda root: edit(root, "split/test.index", "3", "three"), "one question id a line"),
        (lambda root: edit(root, "split/train.index", "1\n0", "1\n1"), "1 occur twice"),
        (lambda root: edit(root, "split/train.index", "1\n0", "1"), "counts are not the release's"),
        (lambda root: (root / "qa/prime/split/val.index").unlink(), "val.index"),
        (lambda root: (root / "qa/prime/stark_qa/stark_qa.csv").unlink(), "holds no qa/prime/stark_qa"),
        (lambda root: (root / "skb/prime/processed.zip").unlink(), "--configs queries"),
    ],
)
def test_a_damaged_release_builds_nothing_and_is_named(small, tmp_path, change, words):
    root, release = small
    change(root)
    with pytest.raises(DataError, match=words):
        build(release, root, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def edit(root, file, old, new):
    path = root / "qa/prime" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"n_nodes": 7}, "nodes 6; expected 7"),
        ({"n_edges": 9}, "edges 8; expected 9"),
        ({"node_types": ("disease", "drug", "gene/protein")}, "node types"),
        ({"relations": ("ppi", "target")}, "relations"),
        ({"nodes_by_type": {"drug": 2}}, "nodes of type 'drug' 1; expected 2"),
        ({"folder": "elsewhere"}, "no member 'elsewhere/node_type_dict.pkl'"),
    ],
)
def test_an_archive_that_counts_differently_is_refused(small, tmp_path, facts, words):
    root, release = small
    with pytest.raises(DataError, match=words):
        build(replace(release, archive=replace(release.archive, **facts)), root, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("node_types.pt", [0, 0, 1, 1, 1, 3], "1 node types are not from 0 to 2: 3"),
        ("edge_types.pt", [0, 0, 0, 0, 0, 0, 0, -1], "1 edge types are not from 0 to 2: -1"),
        ("edge_index.pt", [[0] * 8, [6] * 8], "8 ends of edges are not from 0 to 5: 6"),
        ("edge_index.pt", [[0] * 7, [1] * 7], "shape of the edges"),
    ],
)
def test_numbers_outside_the_knowledge_base_are_listed(small, tmp_path, name, values, words):
    import numpy as np

    from tests.unit.building.stark import stark_archive

    root, release = small
    members = stark_archive.parts(stark_archive.SMALL) | {name: stark_archive.tensor(np.array(values))}
    stark_archive.write(root / "skb/prime/processed.zip", members)
    with pytest.raises(DataError, match=words):
        build(release, root, tmp_path / "out")


def test_records_with_numpy_values_are_read(small, tmp_path):
    import numpy as np

    from tests.unit.building.stark import stark_archive

    root, release = small
    info = {node: {"DisplayName": f"n{node}", "Rank": np.int64(7), "x": np.float64(0.5)} for node in range(6)}
    info[0]["DisplayName"] = "-1"
    for protocol in (2, 4, 5):
        members = stark_archive.parts(stark_archive.SMALL) | {"node_info.pkl": pickle.dumps(info, protocol)}
        stark_archive.write(root / "skb/prime/processed.zip", members)
        build(release, root, tmp_path / "out", ["nodes"])
        rows = DatasetFolder(tmp_path / "out").rows("nodes", "full")
        assert rows[0]["name"] == "" and rows[2]["name"] == "n2"
        assert json.loads(rows[2]["details"]) == {
            "DisplayName": "n2",
            "Rank": 7,
            "x": 0.5,
        }


def test_an_unknown_config_is_an_error_before_anything_is_read(tmp_path):
    with pytest.raises(UsageError, match="Did you mean 'queries'"):
        benchmark("stark-mag").data.build(tmp_path, tmp_path / "out", ["query"])


def test_a_reading_process_that_dies_is_reported_with_the_member_it_was_at(small, tmp_path, monkeypatch):
    root, release = small
    dies = """import os; print('{"reading": "processed/node_info.pkl"}', flush=True); os.kill(os.getpid(), 9)"""
    monkeypatch.setattr(archives, "_START", dies)
    with pytest.raises(DataError, match=r"'processed/node_info.pkl' ended the reading process \(SIGKILL\)"):
        build(release, root, tmp_path / "out")
    assert not (tmp_path / "out").exists()
