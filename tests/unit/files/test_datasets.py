"""A dataset on disk: the same bytes every time, whole or not there, readable by `datasets`, and checked."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.files.writing import write_text

CARD = "---\nlicense: mit\npretty_name: Small\n---\n# Small\n"
TABLES = {
    "questions": {
        "train": pa.table({"id": [1, 2], "text": ["a", "b"], "answers": [["x"], []]}),
        "test": pa.table({"id": [3], "text": ["ç"], "answers": [["y", "z"]]}),
    },
    "nodes": {"full": pa.table({"id": ["n1"]})},
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_dataset_reads_back_as_it_was_written(tmp_path):
    folder = write_dataset(tmp_path / "small", TABLES, CARD)
    assert folder.configs() == {"questions": ["train", "test"], "nodes": ["full"]}
    assert folder.rows("questions", "test") == [{"id": 3, "text": "ç", "answers": ["y", "z"]}]
    assert folder.table("questions", "train").equals(TABLES["questions"]["train"])
    folder.verify()


def test_writing_twice_gives_the_same_bytes_and_other_data_another_revision(tmp_path):
    first = write_dataset(tmp_path / "a", TABLES, CARD)
    second = write_dataset(tmp_path / "b", TABLES, CARD)
    assert files(first.path) == files(second.path)
    other = write_dataset(tmp_path / "c", {"nodes": {"full": pa.table({"id": ["n2"]})}}, CARD)
    assert first.revision == second.revision != other.revision
    assert len(first.revision) == 40


def test_the_revision_does_not_depend_on_the_words_of_the_card(tmp_path):
    first = write_dataset(tmp_path / "a", TABLES, CARD)
    assert write_dataset(tmp_path / "b", TABLES, CARD + "More words.\n").revision == first.revision


def test_answers_stand_beside_the_data_are_checked_with_it_and_are_no_part_of_its_revision(tmp_path):
    answers = {("questions", "test", "A/B 7b"): [{"id": 3, "answers": ["ü"]}]}
    folder = write_dataset(tmp_path / "with", TABLES, CARD, answers)
    assert folder.revision == write_dataset(tmp_path / "without", TABLES, CARD).revision
    file = folder.path / "predictions/questions/test/A B 7b.jsonl"
    assert file.read_text(encoding="utf-8") == '{"id": 3, "answers": ["ü"]}\n'
    assert folder.configs() == DatasetFolder(tmp_path / "without").configs()
    folder.verify()
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"A B 7b\.jsonl does not match its manifest"):
        folder.verify()


def test_datasets_reads_the_folder_with_its_configs_splits_and_default(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    answers = {("questions", "test", "system"): [{"id": 3}]}  # which `datasets` must not take for data
    folder = write_dataset(tmp_path / "small", TABLES, CARD, answers)
    loaded = datasets.load_dataset(str(folder.path), cache_dir=str(tmp_path / "cache"))
    assert {name: split.num_rows for name, split in loaded.items()} == {"train": 2, "test": 1}
    assert datasets.load_dataset(str(folder.path), "nodes", split="all", cache_dir=str(tmp_path / "cache"))[0] == {
        "id": "n1"
    }
    streamed = datasets.load_dataset(str(folder.path), "questions", split="test", streaming=True)
    assert next(iter(streamed))["text"] == "ç"


def test_load_dataset_returns_the_rows_of_this_build_and_of_this_folder(tmp_path, monkeypatch):
    """`datasets` names its cache after the card, so the card changes with the rows, at equal names and sizes too."""
    import datasets

    def gold(place: Path, answers: list[int]) -> tuple[list[int], int]:
        queries, nodes = pa.table({"answer_ids": [answers]}), pa.table({"id": answers})
        tables = {"queries": {"test": queries}, "nodes": {"full": nodes}}
        write_dataset(place / "kbbench" / "my-kb", tables, CARD)
        monkeypatch.chdir(place)
        loaded = datasets.load_dataset("kbbench/my-kb", split="test", cache_dir=str(tmp_path / "cache"))
        nodes = datasets.load_dataset("kbbench/my-kb", "nodes", split="full", cache_dir=str(tmp_path / "cache"))
        return loaded["answer_ids"][0], nodes["id"][0]

    for place in ("a", "b"):
        (tmp_path / place).mkdir()
    assert gold(tmp_path / "a", [1]) == ([1], 1)
    assert gold(tmp_path / "a", [2]) == ([2], 2)
    assert gold(tmp_path / "b", [3]) == ([3], 3)
    assert gold(tmp_path / "a", [1]) == ([1], 1)


def test_the_card_keeps_its_words_and_gains_sizes_and_features(tmp_path):
    text = (write_dataset(tmp_path / "small", TABLES, CARD).path / "README.md").read_text(encoding="utf-8")
    folder = DatasetFolder(tmp_path / "small")
    assert "# Small\n\n## Size, license and contamination\n\n" in text and text.endswith(f"GUID {folder.canary}\n")
    for expected in ("license: mit", "config_name: questions", "num_examples: 2", "path: data/nodes/full.parquet"):
        assert expected in text


def test_the_card_describes_columns_as_datasets_does(tmp_path):
    from datasets import Features

    columns = {
        "id": pa.array([1]),
        "half": pa.array([1.0], pa.float32()),
        "texts": pa.array([[["a"]]]),
        "large": pa.array([["a"]], pa.large_list(pa.large_string())),
        "record": pa.array([{"a": 1, "b": [True], "c": [{"d": 1.5}]}]),
    }
    for name, table in (
        ("a", pa.table(columns)),
        ("b", pa.table({**columns, "when": pa.array([0], pa.timestamp("s"))})),
    ):
        card = (write_dataset(tmp_path / name, {"q": {"full": table}}, CARD).path / "README.md").read_text("utf-8")
        described = yaml.safe_load(card.split("---")[1])["dataset_info"]["features"]
        assert described == Features.from_arrow_schema(table.schema)._to_yaml_list()


def test_a_failure_leaves_what_was_there_and_nothing_half_done(tmp_path, monkeypatch):
    before = files(write_dataset(tmp_path / "small", TABLES, CARD).path)

    def full(*arguments, **options):
        raise OSError("No space left on device")

    monkeypatch.setattr("kbbench_hf.files.datasets.complete_card", full)
    with pytest.raises(OSError, match="No space left"):
        write_dataset(tmp_path / "small", {"nodes": {"full": pa.table({"id": ["other"]})}}, CARD)
    assert files(tmp_path / "small") == before
    assert [each.name for each in tmp_path.iterdir()] == ["small"]


def test_a_rebuilt_dataset_replaces_the_old_one_whole(tmp_path):
    write_dataset(tmp_path / "small", TABLES, CARD)
    folder = write_dataset(tmp_path / "small", {"nodes": TABLES["nodes"]}, CARD)
    assert folder.configs() == {"nodes": ["full"]}
    assert not (folder.path / "data" / "questions").exists()


def test_an_altered_or_absent_file_is_named(tmp_path):
    folder = write_dataset(tmp_path / "small", TABLES, CARD)
    file = folder.path / "data" / "questions" / "test.parquet"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(DataError, match=r"test\.parquet does not match its manifest.*Build it again"):
        folder.verify()
    file.unlink()
    with pytest.raises(DataError, match=r"test\.parquet .* found no file"):
        folder.verify()


def test_unknown_configs_and_splits_get_the_closest_name(tmp_path):
    folder = write_dataset(tmp_path / "small", TABLES, CARD)
    with pytest.raises(
        UsageError, match=r"config of .*/small 'question'\. Did you mean 'questions'\? Known: nodes, que"
    ):
        folder.rows("question", "test")
    with pytest.raises(UsageError, match=r"split of .*/small, questions, 'tset'\. Did you mean 'test'\?"):
        folder.rows("questions", "tset")


def test_a_folder_that_was_not_built_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"holds no manifest\.json; expected a dataset made by 'kbbench build'"):
        _ = DatasetFolder(tmp_path).revision


def test_a_split_named_all_is_refused_because_datasets_reserves_the_name(tmp_path):
    with pytest.raises(UsageError, match="Name it 'full'"):
        write_dataset(tmp_path / "small", {"nodes": {"all": pa.table({"id": [1]})}}, CARD)
    assert not list(tmp_path.iterdir())


def test_a_split_without_rows_is_there_and_empty(tmp_path):
    folder = write_dataset(tmp_path / "small", {"nodes": {"full": pa.table({"id": pa.array([], pa.int64())})}}, CARD)
    assert folder.rows("nodes", "full") == []
    assert json.loads((folder.path / "manifest.json").read_text())["files"]["data/nodes/full.parquet"]["rows"] == 0


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8")))))
def test_any_rows_come_back_in_their_order(tmp_path_factory, rows):
    table = pa.table(
        {"id": pa.array([n for n, _ in rows], pa.int64()), "text": pa.array([t for _, t in rows], pa.string())}
    )
    folder = write_dataset(tmp_path_factory.mktemp("any") / "d", {"rows": {"full": table}}, CARD)
    assert folder.rows("rows", "full") == [{"id": n, "text": text} for n, text in rows]


def test_a_text_file_is_replaced_whole(tmp_path):
    file = tmp_path / "note.txt"
    write_text(file, "one\n")
    write_text(file, "two\nthree\n")
    assert file.read_bytes() == b"two\nthree\n"
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "half of a pair: \ud800")
    assert file.read_bytes() == b"two\nthree\n"


def test_a_record_that_was_cut_off_or_altered_is_named(tmp_path):
    folder = write_dataset(tmp_path / "small", TABLES, CARD)
    manifest = folder.path / "manifest.json"
    for text in (manifest.read_text()[:50], "", "[1]", "\udc80"):
        manifest.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match=r"manifest\.json .* Make it again"):
            _ = folder.revision
