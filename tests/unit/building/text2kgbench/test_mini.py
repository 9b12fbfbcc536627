"""mini-text2kg: whole, consistent, ours, and worth comparing two systems on."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import shipped_answers, shipped_dataset
from kbbench_hf.building.text2kgbench.columns import ONTOLOGIES, PROMPTS, SENTENCES
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder, copy_dataset
from kbbench_hf.metrics.triples import triple_key

SCRIPTS = Path(__file__).resolve().parents[4] / "dataset_scripts" / "mini-text2kg"


@pytest.fixture(scope="module")
def folder() -> DatasetFolder:
    return shipped_dataset("mini-text2kg")


def test_it_has_the_configs_and_columns_of_its_elders(folder: DatasetFolder) -> None:
    assert folder.configs() == {
        "sentences": ["train", "test"],
        "sentences_folded": ["train", "test"],
        "ontologies": ["full"],
        "prompts": ["test"],
    }
    for config, schema in (("sentences", SENTENCES), ("sentences_folded", SENTENCES), ("prompts", PROMPTS)):
        assert folder.table(config, "test").schema.equals(schema)
    assert folder.table("ontologies", "full").schema.equals(ONTOLOGIES)
    folder.verify()


def test_gold_is_written_in_the_sentence_and_keeps_to_the_ontology(folder: DatasetFolder) -> None:
    (ontology,) = folder.rows("ontologies", "full")
    known = {each["label"]: each["pid"] for each in ontology["relations"]}
    concepts = {each["qid"] for each in ontology["concepts"]}
    assert all(each["domain"] in concepts and each["range"] in concepts | {""} for each in ontology["relations"])
    rows = folder.rows("sentences", "train") + folder.rows("sentences", "test")
    assert len({row["id"] for row in rows}) == len(rows) == 22 + 48
    for row in rows:
        assert row["triples"] == row["triples_repaired"] != []
        for each in row["triples"]:
            assert each["sub"] in row["sentence"]
            assert each["obj"] in row["sentence"]
            assert known[each["rel"]] == each["rel_id"]
    assert {each["rel"] for row in folder.rows("sentences", "test") for each in row["triples"]} == set(known)


def test_no_test_sentence_or_fact_is_in_train(folder: DatasetFolder) -> None:
    kinds = {each["kind"] for row in folder.rows("sentences", "test") for each in row["repairs"]}
    assert kinds == set()
    train = {row["id"] for row in folder.rows("sentences", "train")}
    for row in folder.rows("sentences", "test"):
        assert len(row["similar_ids"]) == 5
        assert train.issuperset(row["similar_ids"])


def test_the_script_makes_what_is_shipped(
    folder: DatasetFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    spec = importlib.util.spec_from_file_location("mini_build", SCRIPTS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.build(tmp_path / "made")
    made = DatasetFolder(tmp_path / "made")
    # Tables, not bytes: Parquet names the version of pyarrow that wrote it.
    for config, splits in folder.configs().items():
        for split in splits:
            assert made.table(config, split).equals(folder.table(config, split))
    for file in shipped_answers("mini-text2kg"):
        assert (tmp_path / "made/predictions" / file.name).read_bytes() == file.read_bytes()


def test_the_two_systems_answer_every_sentence_and_err_differently(folder: DatasetFolder) -> None:
    rows = folder.rows("sentences", "test")
    right: dict[str, list[int]] = {}
    for file in shipped_answers("mini-text2kg"):
        answers = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert [each["id"] for each in answers] == [row["id"] for row in rows]
        right[file.stem] = [
            len(
                {triple_key((each["sub"], each["rel"], each["obj"])) for each in row["triples"]}
                & {triple_key(tuple(each)) for each in answer["triples"]}
            )
            for row, answer in zip(rows, answers, strict=True)
        ]
    wins = sum(a > b for a, b in zip(right["pattern"], right["copy"], strict=True))
    losses = sum(a < b for a, b in zip(right["pattern"], right["copy"], strict=True))
    # A sign test on 15 to 2 has p = 0.002: the demo has something to find, and it is not one-sided.
    assert wins >= 12
    assert losses >= 2


def test_a_build_is_a_copy_that_load_dataset_reads(folder: DatasetFolder, tmp_path: Path) -> None:
    out = tmp_path / "kbbench/mini-text2kg"
    for _ in range(2):  # the second replaces the first
        copy_dataset(folder, out)
    assert DatasetFolder(out).revision == folder.revision
    assert sorted(each.name for each in out.parent.iterdir()) == ["mini-text2kg"]
    code = 'from datasets import load_dataset; print(load_dataset("kbbench/mini-text2kg", split="test").num_rows)'
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "48\n", done.stderr


def test_what_is_not_shipped_is_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'mini-text2kg'"):
        shipped_dataset("mini-text2k")
