"""Building genres-corpora from the real parts where they are, and from invented files in the exact formats."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.baselines import published_rows
from kbbench_hf.benchmarks.genres import topic_corpora
from kbbench_hf.benchmarks.genres.benchmark import CORPORA, load
from kbbench_hf.benchmarks.genres.statistics import statistics
from kbbench_hf.benchmarks.genres.topic_corpora import STRATEGY_NAMES
from kbbench_hf.building.genres import release as genres
from kbbench_hf.building.genres.release import build_genres_corpora, text_id
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions

TACRED_TOKENS = [["Mara", "Quill", "is", "treasurer", "."], ["It", "rained", "."]]
TACRED_TEXTS = ["".join(f"{token} " for token in tokens) for tokens in TACRED_TOKENS]
NYT_TEXTS = ["Nora Lindt moved to Boston .", "Lindt Optics is in Vienna ."]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of the invented clone."""
    monkeypatch.setattr(
        genres,
        "CONFIGS",
        {
            "cdr": genres._Config("cdr_rand_200", 1, 2),
            "tacred": genres._Config("tacred_rand_800", 2, 1, "TACRED"),
            "nyt10m": genres._Config("nyt10m_rand_500", 2, 2, "NYT10m"),
        },
    )
    monkeypatch.setattr(topic_corpora, "CORPUS_SIZES", {"cdr": 3, "tacred": 38_140, "nyt10m": 2, "docred": 5_051})


@pytest.fixture
def clone(tmp_path: Path, small: None) -> Path:
    """A clone of the release with invented content."""
    root = tmp_path / "GenRES"
    write(root / "datasets/cdr_rand_200.json", {"A drug .|It hurt .": []})
    gold = [["pain", "induced by", "drug"], ["fever", "not induced by", "drug"]]
    write(root / "datasets/processed/cdr_processed.json", {"A drug .|It hurt .": gold})
    for part in ("test", "train", "dev"):
        (root / "datasets/cdr").mkdir(exist_ok=True)
        (root / f"datasets/cdr/{part}_filter.data").write_text(f"1\tText of {part} .\t1:CID:2\n", encoding="utf-8")
    write(root / "datasets/tacred_rand_800.json", {text: [] for text in TACRED_TEXTS})
    write(root / "datasets/processed/tacred_processed.json", {TACRED_TEXTS[0]: [["Mara Quill", "title", "treasurer"]]})
    write(root / "datasets/nyt10m_rand_500.json", {text: [] for text in NYT_TEXTS})
    gold = {text: [["Nora Lindt", "company", "Lindt Optics"]] for text in NYT_TEXTS}
    write(root / "datasets/processed/nyt10m_processed.json", gold)
    return root


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def licensed_tacred(clone: Path, tokens: list[list[str]]) -> None:
    write(clone / "licensed/tacred/test.json", [{"id": str(n), "token": each} for n, each in enumerate(tokens)])


def test_unstated_negatives_stand_in_one_column_only(clone: Path, tmp_path: Path) -> None:
    build_genres_corpora(clone, tmp_path / "out", ["cdr"])
    [row] = DatasetFolder(tmp_path / "out").rows("cdr", "test")
    assert [triple["rel"] for triple in row["triples"]] == ["induced by", "not induced by"]
    assert row["triples_stated"] == [{"sub": "pain", "rel": "induced by", "obj": "drug"}]
    assert row["id"] == text_id("A drug .|It hurt .")


def test_cdrs_topic_corpus_is_test_train_dev_in_this_order(clone: Path, tmp_path: Path) -> None:
    build_genres_corpora(clone, tmp_path / "out", ["cdr"])
    corpus = DatasetFolder(tmp_path / "out").rows("cdr_corpus", "full")
    assert [row["text"] for row in corpus] == ["Text of test .", "Text of train .", "Text of dev ."]


@pytest.mark.parametrize("folder", ["GREScores/topical_process", "topical_corpora"])
def test_a_topic_corpus_is_the_releases_own_file_where_it_is_there(clone: Path, tmp_path: Path, folder: str) -> None:
    write(clone / folder / "cdr_all_text.json", ["one", "two", "two"])
    build_genres_corpora(clone, tmp_path / "out", ["cdr"])
    assert [row["text"] for row in DatasetFolder(tmp_path / "out").rows("cdr_corpus", "full")] == ["one", "two", "two"]
    write(clone / folder / "cdr_all_text.json", ["one"])
    with pytest.raises(DataError, match=r"cdr_all_text\.json holds 1 texts; the release trained .* on 3"):
        build_genres_corpora(clone, tmp_path / "other", ["cdr"])


def test_what_the_releases_reader_lost_of_stored_texts_stands_in_the_card(clone: Path, tmp_path: Path) -> None:
    text = "A drug .|It hurt ."
    write(clone / "processed_results/cdr_rand_200_wizardlm-70b_1.json", {text: []})
    write(clone / "processed_results/cdr_rand_200_gpt-4_1.json", {text: [["pain", "of", "drug"]]})
    write(clone / "results/cdr_rand_200_wizardlm-70b_1.json", {text: "Q\nASSISTANT: [pain, induced by, drug, or not]"})
    build_genres_corpora(clone, tmp_path / "out", ["cdr"])
    folder = DatasetFolder(tmp_path / "out")
    card = (folder.path / "README.md").read_text(encoding="utf-8")
    assert "| cdr | WizardLM-70B | 1 | 1 | 1 | comma 1 |" in card and "| cdr | GPT-4 |" not in card
    assert statistics(folder).tables["Lost by the release's reader"] == [
        ("cdr, WizardLM-70B", "1 of 1 empty, of which 1 can be read; triples lost: 1 (comma 1)")
    ]
    examples, answers = load(folder, "cdr", "test"), folder.path / "predictions/cdr/test/WizardLM-70B.jsonl"
    released = read_predictions([answers], CORPORA, examples).answers
    again = read_predictions([answers], CORPORA, examples, ReadOptions(source="response", parser="lenient")).answers
    assert (released, again) == ([[]], [[["pain", "induced by", "drug, or not"]]])


def test_the_released_texts_hold_what_their_reader_lost(shared: Path, tmp_path: Path) -> None:
    build_genres_corpora(shared / "data/genres", tmp_path / "out", ["wiki20m"])
    found = dict(statistics(DatasetFolder(tmp_path / "out")).tables["Lost by the release's reader"])
    assert found["wiki20m, WizardLM-70B"].startswith("113 of 500 empty, of which 112 can be read; triples lost: 554")


def test_docreds_topic_corpus_can_be_made_of_the_public_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(topic_corpora.CORPUS_SIZES, "docred", 3)
    for part in ("train_annotated", "dev", "test"):
        write(tmp_path / f"topical_corpora/docred/{part}.json", [{"sents": [["In", part, "."], ["Yes"]]}])
    assert topic_corpora.released_corpus(tmp_path, "docred", []) == [
        "In train_annotated . Yes ",
        "In dev . Yes ",
        "In test . Yes ",
    ]


def test_a_licensed_corpus_comes_from_the_users_whole_copy_alone(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(topic_corpora.CORPUS_SIZES, "tacred", 3)
    write(clone / "GREScores/topical_process/tacred_all_text.json", ["a", "b", "c"])
    licensed_tacred(clone, TACRED_TOKENS)
    files = [clone / "licensed/tacred/test.json"]
    assert topic_corpora.released_corpus(clone, "tacred", files) == []  # its test part alone
    files.insert(0, clone / "licensed/tacred/dev.json")
    write(files[0], [{"id": "x", "token": ["Dev", "."]}])
    assert topic_corpora.released_corpus(clone, "tacred", files) == [*TACRED_TEXTS, "Dev . "]
    write(files[0], [{"id": "x", "tokens": ["Dev", "."]}])
    with pytest.raises(DataError, match=r"tacred's topic corpus in .*licensed/tacred are malformed"):
        topic_corpora.released_corpus(clone, "tacred", files)


def test_licensed_texts_are_written_only_from_the_users_copy(clone: Path, tmp_path: Path) -> None:
    licensed_tacred(clone, [*reversed(TACRED_TOKENS), ["Another", "one"]])
    (clone / "licensed/nyt10m").mkdir(parents=True)
    lines = "".join(json.dumps({"text": text, "relation": "NA", "h": {}, "t": {}}) + "\n" for text in NYT_TEXTS)
    (clone / "licensed/nyt10m/nyt10m_test.txt").write_text(lines, encoding="utf-8")
    build_genres_corpora(clone, tmp_path / "out")
    folder = DatasetFolder(tmp_path / "out")
    assert [row["text"] for row in folder.rows("tacred", "test")] == TACRED_TEXTS  # in the sample's order
    assert [len(row["triples"]) for row in folder.rows("tacred", "test")] == [1, 0]
    assert [row["text"] for row in folder.rows("nyt10m", "test")] == NYT_TEXTS
    assert [row["text"] for row in folder.rows("nyt10m_corpus", "full")] == NYT_TEXTS
    assert "tacred_corpus" not in folder.configs()
    assert "The corpora of the topic models of tacred were not in the source" in (folder.path / "README.md").read_text(
        encoding="utf-8"
    )


def test_without_a_licensed_copy_only_the_free_configs_are_built(clone: Path, tmp_path: Path) -> None:
    build_genres_corpora(clone, tmp_path / "out")
    assert set(DatasetFolder(tmp_path / "out").configs()) == {"cdr", "cdr_corpus"}
    with pytest.raises(DataError, match="Put your own copy there"):
        build_genres_corpora(clone, tmp_path / "other", ["tacred"])
    assert not (tmp_path / "other").exists()


def test_a_licensed_copy_that_lacks_a_text_is_refused(clone: Path, tmp_path: Path) -> None:
    licensed_tacred(clone, TACRED_TOKENS[:1])
    with pytest.raises(DataError, match=f"lacks 1 of 2 texts; the first has the id {text_id(TACRED_TEXTS[1])}"):
        build_genres_corpora(clone, tmp_path / "out", ["tacred"])
    assert not (tmp_path / "out").exists()


def test_another_version_of_the_release_is_refused(clone: Path, tmp_path: Path) -> None:
    write(clone / "datasets/processed/cdr_processed.json", {"A drug .|It hurt .": []})
    with pytest.raises(DataError, match="holds 1 documents with 0 gold triples; the release has 1 with 2"):
        build_genres_corpora(clone, tmp_path / "out", ["cdr"])


@pytest.mark.parametrize("content", ["{", '{"a": '])
def test_a_torn_file_is_named(clone: Path, tmp_path: Path, content: str) -> None:
    (clone / "datasets/cdr_rand_200.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"cdr_rand_200\.json is not JSON"):
        build_genres_corpora(clone, tmp_path / "out", ["cdr"])


def test_no_source_an_empty_source_and_an_unknown_config_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"git clone https://github\.com/pat-jj/GenRES"):
        build_genres_corpora(None, tmp_path / "out")
    with pytest.raises(UsageError, match="expected a clone of GenRES"):
        build_genres_corpora(tmp_path, tmp_path / "out")
    (tmp_path / "inputs").mkdir()
    with pytest.raises(UsageError, match="Did you mean 'wiki80'"):
        build_genres_corpora(tmp_path, tmp_path / "out", ["wiki8"])
    with pytest.raises(DataError, match="does not exist"):
        build_genres_corpora(tmp_path, tmp_path / "out", ["wiki80"])


def test_the_release_builds_to_the_notes_counts_and_the_same_bytes(shared: Path, tmp_path: Path) -> None:
    for out in "ab":
        build_genres_corpora(shared / "data/genres", tmp_path / out)
    a, b = (DatasetFolder(tmp_path / out) for out in "ab")
    assert a.manifest == b.manifest
    rows = {config: a.rows(config, "test") for config in ("cdr", "docred", "wiki20m", "wiki80")}
    assert {config: len(each) for config, each in rows.items()} == {
        "cdr": 200,
        "docred": 200,
        "wiki20m": 500,
        "wiki80": 800,
    }
    assert sum(len(row["triples_stated"]) for row in rows["cdr"]) == 435  # of 2,077
    assert a.table("cdr_corpus", "full").num_rows == 1500
    assert a.table("wiki20m_corpus", "full").num_rows == 14_257
    relations = {config: {t["rel"] for row in each for t in row["triples"]} for config, each in rows.items()}
    assert {config: len(each) for config, each in relations.items()} == {
        "cdr": 2,
        "docred": 92,
        "wiki20m": 79,
        "wiki80": 80,
    }


def test_the_systems_answers_come_with_the_dataset(shared: Path, tmp_path: Path) -> None:
    build_genres_corpora(shared / "data/genres", tmp_path / "out", ["cdr", "wiki20m"])
    folder = DatasetFolder(tmp_path / "out")
    named: dict[str, set[str]] = {"cdr": set(), "wiki20m": set()}
    for name in folder.manifest["answers"]:
        named[name.split("/")[1]].add(Path(name).stem)
    for config, systems in named.items():
        assert systems == {row.system for row in published_rows("genres-corpora", config, "test", "reference")}
    assert len(named["cdr"]) == len(named["wiki20m"]) + 3  # three strategies of one model beside the main table
    place = TaskKey("genres-corpora", "cdr", "test", "reference")
    examples = CORPORA.data.load(folder, "cdr", "test")
    n_found = 0
    for row in published_rows(*place):
        if row.system in STRATEGY_NAMES:
            answers = folder.path / f"predictions/cdr/test/{row.system}.jsonl"
            read = read_predictions([answers], CORPORA, examples)
            scores = CORPORA.scoring.summarise(CORPORA.scoring.score(examples, read.answers, place.mode), place.mode)
            for metric, said in row.notes.items():  # the poster prints .588 for one; the answers give .547
                number = said.partition("the stored files give ")[2].partition(";")[0]
                assert scores[metric].value == pytest.approx(float(number), abs=1.1e-3)
                n_found += 1
    assert n_found == 10


def test_datasets_reads_the_folder(clone: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    build_genres_corpora(clone, tmp_path / "genres-corpora", ["cdr"])
    loaded = load_dataset(str(tmp_path / "genres-corpora"), "cdr", split="test", cache_dir=str(tmp_path / "cache"))
    assert loaded[0]["triples_stated"] == [{"sub": "pain", "rel": "induced by", "obj": "drug"}]
