"""Text2KGBench's builder: the real release, and a small one with each fault in turn."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import benchmark, benchmark_names, shipped_runs
from kbbench_hf.building.text2kgbench import release as text2kgbench_files
from kbbench_hf.building.text2kgbench.columns import SENTENCES, distinct, repair
from kbbench_hf.building.text2kgbench.release import build_dbpedia_webnlg, build_wikidata_tekgen, fold
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.files import download
from kbbench_hf.files.datasets import DatasetFolder, copy_dataset
from kbbench_hf.leaderboard.seeding import model_seeds
from kbbench_hf.scoring.score import score
from kbbench_hf.text.folding import unscramble
from tests.golden.text2kg_runs import Run, responses


@pytest.fixture(scope="session")
def release(shared: Path) -> Path:
    return shared / "data" / "text2kgbench"


def copy_release(release: Path, place: Path, half: str = "wikidata_tekgen") -> Path:
    """Copy one half's files that a build needs, so that a test can damage one."""
    needed = (each for each in text2kgbench_files.pinned_files(half) if text2kgbench_files.ANSWERS not in each.path)
    for file in needed:
        target = place / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(release / file.path)
    return place


def damage(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.unlink()
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_build_has_the_same_content(wikidata: DatasetFolder, webnlg: DatasetFolder) -> None:
    assert wikidata.revision == "477a6e737fb868c8524bd14caf5b4a41b2ad501c"
    assert webnlg.revision == "87b06472c55ba50aa525cdd6a24a03877e27a207"


def test_the_released_sizes_are_all_there(wikidata: DatasetFolder, webnlg: DatasetFolder) -> None:
    # Text2KGBench at 50a3d25: 5,335 + 3,993 + 4,062 = 13,390 sentences and 174 unseen; 2,846 + 2,014 = 4,860.
    sizes = {name: wikidata.table("sentences", name).num_rows for name in ("train", "validation", "test", "unseen")}
    assert sizes == {"train": 5335, "validation": 3993, "test": 4062, "unseen": 174}
    assert {name: webnlg.table("sentences", name).num_rows for name in ("train", "test")} == {
        "train": 2846,
        "test": 2014,
    }
    assert wikidata.table("ontologies", "full").num_rows == 10
    assert webnlg.table("ontologies", "full").num_rows == 19
    assert sum(row["selected"] for row in wikidata.rows("sentences", "test")) == 939


def test_rows_are_the_released_rows_verbatim(wikidata: DatasetFolder, release: Path) -> None:
    built = {row["id"]: row for row in wikidata.rows("sentences", "test")}
    for file in (release / "wikidata_tekgen/ground_truth").glob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            released = json.loads(line)
            row = built.pop(released["id"])
            assert row["sentence"] == released["sent"]
            triples = [{part: each[part] for part in ("sub", "rel", "obj")} for each in row["triples"]]
            assert triples == released["triples"]
    assert not built


def test_the_models_answers_come_with_the_dataset(built: Path, release: Path) -> None:
    counts = {}
    for name in ("text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"):
        for path, facts in DatasetFolder(built / "kbbench" / name).manifest["answers"].items():
            counts[f"{name}/{path}".removesuffix(".jsonl").replace("/predictions/sentences", "")] = facts["rows"]
    assert counts == {
        "text2kg-wikidata-tekgen/test/Alpaca-LoRA-13B": 4062,
        "text2kg-wikidata-tekgen/test/Vicuna-13B": 4062 - 137,
        "text2kg-wikidata-tekgen/unseen/Alpaca-LoRA-13B": 174,
        "text2kg-wikidata-tekgen/unseen/Vicuna-13B": 174,
        "text2kg-dbpedia-webnlg/test/Alpaca-LoRA-13B": 2014,
        "text2kg-dbpedia-webnlg/test/Vicuna-13B": 2014,
    }
    run = Run("wikidata_tekgen", "Alpaca-LoRA-13B", "test")  # has 550 ids twice: the last answer counts
    released = {row["id"]: row for _, rows in responses(release, run) for row in rows}
    file = built / "kbbench/text2kg-wikidata-tekgen/predictions/sentences/test/Alpaca-LoRA-13B.jsonl"
    written = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {row["id"]: row for row in written} == released


def test_a_release_without_answers_builds_the_same_data(release: Path, webnlg: DatasetFolder, tmp_path: Path) -> None:
    source = copy_release(release, tmp_path / "source", "dbpedia_webnlg")
    build_dbpedia_webnlg(source / "dbpedia_webnlg", tmp_path / "out")  # a single half is taken too
    folder = DatasetFolder(tmp_path / "out")
    assert folder.revision == webnlg.revision and "answers" not in folder.manifest


def test_every_split_has_the_same_columns(built: Path) -> None:
    for name in ("text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"):
        folder = DatasetFolder(built / "kbbench" / name)
        for config in ("sentences", "sentences_folded"):
            for split in folder.configs()[config]:
                assert folder.table(config, split).schema.equals(SENTENCES)


def test_train_rows_keep_their_wikidata_ids_and_315_objects_have_none(wikidata: DatasetFolder) -> None:
    triples = [each for row in wikidata.rows("sentences", "train") for each in row["triples"]]
    assert len(triples) == 5335
    assert sum(each["obj_id"] is None for each in triples) == 315
    assert triples[0]["rel_id"] == "P57"


def test_all_142_empty_gold_lists_are_restored_with_their_reason(wikidata: DatasetFolder) -> None:
    rows = [row for row in wikidata.rows("sentences", "test") if not row["triples"]]
    assert Counter(row["ontology_id"] for row in rows) == {
        "8_politics": 54,
        "5_military": 46,
        "9_nature": 40,
        "3_sport": 2,
    }
    for row in rows:
        (triple,) = row["triples_repaired"]
        assert triple["rel_id"].startswith("P")
        assert triple["rel"] == triple["rel"].strip()
        assert [each["kind"] for each in row["repairs"]].count("empty_gold_restored") == 1


def test_repaired_gold_differs_from_released_gold_only_where_a_repair_says_so(
    wikidata: DatasetFolder, webnlg: DatasetFolder
) -> None:
    changes = {"empty_gold_restored", "duplicate_triples_removed", "relation_label_stripped"}
    for folder in (wikidata, webnlg):
        for split in folder.configs()["sentences"]:
            for row in folder.rows("sentences", split):
                changed = row["triples"] != row["triples_repaired"]
                assert changed == bool(changes & {each["kind"] for each in row["repairs"]}), row["id"]


def test_flags_count_as_the_release_was_measured(wikidata: DatasetFolder, webnlg: DatasetFolder) -> None:
    def flags(folder: DatasetFolder, split: str) -> Counter[str]:
        return Counter(each["kind"] for row in folder.rows("sentences", split) for each in row["repairs"])

    test = flags(wikidata, "test")
    assert (test["mojibake"], test["repeated_sentence"], test["demonstration_leaks"]) == (387, 155, 320)
    assert test["restored_not_stated"] == 37
    assert (flags(wikidata, "train")["mojibake"], flags(wikidata, "validation")["mojibake"]) == (512, 385)
    facts = Counter(
        row["ontology_id"]
        for row in webnlg.rows("sentences", "test")
        if any(each["kind"] == "fact_in_train" for each in row["repairs"])
    )
    assert facts.total() == 390
    assert (facts["16_city"], facts["2_musicalwork"], facts["6_politician"]) == (146, 71, 47)


def test_what_only_the_owl_file_has_is_flagged(wikidata: DatasetFolder) -> None:
    ontologies = {row["ontology_id"]: row for row in wikidata.rows("ontologies", "full")}
    computer = Counter(each["source"] for each in ontologies["6_computer"]["relations"])
    assert computer == {"json": 4, "ttl": 8}
    music = [each["label"] for each in ontologies["2_music"]["relations"] if each["source"] == "ttl"]
    assert music == ["occupation"]
    assert any(each["subclass_of"] for each in ontologies["2_music"]["concepts"])
    assert "award " in [each["label"] for each in ontologies["2_music"]["concepts"]]


def test_folded_train_has_each_sentence_once_and_loses_no_triple(wikidata: DatasetFolder) -> None:
    released, folded = wikidata.rows("sentences", "train"), wikidata.rows("sentences_folded", "train")

    def facts(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
        return {
            (row["ontology_id"], row["sentence"], each["sub"], each["rel"], each["obj"])
            for row in rows
            for each in row["triples"]
        }

    assert len({(row["ontology_id"], row["sentence"]) for row in folded}) == len(folded) == 5098
    assert facts(folded) == facts(released)


def test_similar_ids_of_every_config_lead_to_its_train_rows(wikidata: DatasetFolder, webnlg: DatasetFolder) -> None:
    for folder in (wikidata, webnlg):
        for config in ("sentences", "sentences_folded"):
            known = {row["id"] for row in folder.rows(config, "train")}
            for row in folder.rows(config, "test"):
                assert row["similar_ids"]
                assert known.issuperset(row["similar_ids"])


def files_of(folder: Path) -> dict[Path, bytes]:
    return {each.relative_to(folder): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_the_first_revision_is_rebuilt_byte_for_byte(release: Path, webnlg: DatasetFolder, tmp_path: Path) -> None:
    data = benchmark("text2kg-dbpedia-webnlg").data
    assert data.build is not None and data.revisions == (1, 2)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/data").symlink_to(release)  # the root of the repository is taken too
    data.build(tmp_path / "root", tmp_path / "first", None, revision=1)
    first = DatasetFolder(tmp_path / "first")
    assert first.revision == "a8e29c26debb19131adcef435adc0a2ff5c3c50a"  # as before there were two
    absent = [
        sum(not (each["subject_mentioned"] and each["object_mentioned"]) for row in rows for each in row["mentions"])
        for rows in (first.rows("sentences", "test"), webnlg.rows("sentences", "test"))
    ]
    assert absent == [65, 31]


_LOAD = """
from datasets import load_dataset
name = "kbbench/text2kg-wikidata-tekgen"
test = load_dataset(name, split="test")
assert test.num_rows == 4062 and test.column_names[:4] == ["id", "ontology_id", "split", "sentence"]
assert test[0]["triples"][0]["rel"] == "director" and test[0]["selected"] is True
whole = load_dataset(name)
assert {split: rows.num_rows for split, rows in whole.items()} == {
    "train": 5335, "validation": 3993, "test": 4062, "unseen": 174}
assert load_dataset(name, "ontologies", split="full").num_rows == 10
assert load_dataset(name, "sentences_folded", split="train[:10%]").num_rows == 510
assert load_dataset(name, split="test[100:110]")[0]["id"] == test[100]["id"]
stream = load_dataset(name, "prompts", split="unseen", streaming=True)
assert next(iter(stream))["template"] == "h2"
assert load_dataset("kbbench/text2kg-dbpedia-webnlg", split="train").num_rows == 2846
print("all good")
"""


def test_load_dataset_reads_configs_streams_and_slices_from_the_working_directory(built: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD],
        cwd=built,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "all good\n", done.stderr


def test_the_card_states_configs_licence_conflict_and_defects(built: Path) -> None:
    for name, licence in (("text2kg-wikidata-tekgen", "cc-by-sa-4.0"), ("text2kg-dbpedia-webnlg", "cc-by-nc-sa-4.0")):
        text = (built / "kbbench" / name / "README.md").read_text(encoding="utf-8")
        assert f"license: {licence}" in text
        assert "config_name: sentences_folded" in text
        assert "contradicts itself" in text
        assert "@inproceedings{mihindukulasooriya2023text2kgbench" in text


def test_the_numbers_in_the_cards_are_those_of_the_data(wikidata: DatasetFolder, webnlg: DatasetFolder) -> None:
    for folder in (wikidata, webnlg):
        text = (folder.path / "README.md").read_text(encoding="utf-8")
        counts = Counter(
            (split, each["kind"])
            for split in folder.configs()["sentences"]
            for row in folder.rows("sentences", split)
            for each in row["repairs"]
        )
        for (split, kind), number in counts.items():
            (line,) = [line for line in text.splitlines() if line.startswith(f"| `{kind}`")]
            assert f"{split} {number:,}" in line, (split, kind, number)


def test_a_file_with_a_row_less_is_refused_and_nothing_is_written(release: Path, tmp_path: Path) -> None:
    source = copy_release(release, tmp_path / "source")
    file = source / "wikidata_tekgen/validation/ont_10_culture_validation.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.unlink()
    file.write_text("".join(lines[1:]), encoding="utf-8")
    with pytest.raises(DataError, match=r"ont_10_culture_validation.jsonl: SHA-256 .*; at commit 50a3d25 it is"):
        build_wikidata_tekgen(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("train/ont_2_music_train.jsonl", '{"id"', '{id"'),
        ("ground_truth/ont_9_nature_ground_truth.jsonl", '"rel"', '"relation"'),
        ("ontologies/1_movie_ontology.json", '"title"', '"name"'),
        ("ontologies/owl/ont_1_movie.ttl", "rdfs:label", "rdfs;label{"),
        ("baselines/test_train_sent_similarity/ont_3_sport_test_train_similarity.json", "{", "["),
    ],
)
def test_a_damaged_file_is_named_and_refused_before_anything_is_read(
    release: Path, tmp_path: Path, file: str, old: str, new: str
) -> None:
    source = copy_release(release, tmp_path / "source")
    damage(source / "wikidata_tekgen" / file, old, new)
    with pytest.raises(DataError, match=rf"{file}: SHA-256 .*; at commit 50a3d25 it is .*Fetch the release again"):
        build_wikidata_tekgen(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_further_answers_in_a_checkout_are_read_and_named_where_malformed(release: Path, tmp_path: Path) -> None:
    source = copy_release(release, tmp_path / "source", "dbpedia_webnlg")
    file = source / "dbpedia_webnlg/baselines/Ours/llm_responses/ont_1.jsonl"
    file.parent.mkdir(parents=True)
    for line in ('{"id": "ont_1_university_test_1"', '{"triples": []}', "[]"):
        file.write_text(f"{line}\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"Ours/llm_responses/ont_1.jsonl: .*one JSON object with an id a line"):
            build_dbpedia_webnlg(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_checkout_with_windows_line_ends_builds_the_same(release: Path, built: Path, tmp_path: Path) -> None:
    source = copy_release(release, tmp_path / "source", "dbpedia_webnlg")
    for file in source.rglob("*.*"):
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content if b"\r\n" in content else content.replace(b"\n", b"\r\n"))
    build_dbpedia_webnlg(source, tmp_path / "out")
    reference = DatasetFolder(built / "kbbench/text2kg-dbpedia-webnlg")
    assert DatasetFolder(tmp_path / "out").revision == reference.revision


def test_a_missing_file_is_named(release: Path, tmp_path: Path) -> None:
    source = copy_release(release, tmp_path / "source", "dbpedia_webnlg")
    (source / "dbpedia_webnlg/train/ont_19_film_train.jsonl").unlink()
    with pytest.raises(DataError, match=r"ont_19_film_train.jsonl.*Fetch it again"):
        build_dbpedia_webnlg(source, tmp_path / "out")


def test_a_folder_without_the_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no wikidata_tekgen/ontologies\. .*--source"):
        build_wikidata_tekgen(tmp_path, tmp_path / "out")


def test_an_unknown_config_is_refused_with_the_closest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'sentences_folded'"):
        build_wikidata_tekgen(None, tmp_path / "out", ["sentence_folded"])


def test_a_checkout_without_the_earlier_gold_fetches_it(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = release / "wikidata_tekgen" / text2kgbench_files.ORIGINAL_GOLD
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path / "cache"))
    shutil.copytree(original, tmp_path / "cache/text2kgbench-50a3d25/wikidata_tekgen" / original.name)  # once fetched
    own, fetched = (
        text2kgbench_files._read_original_gold(place, "8_politics")
        for place in (release / "wikidata_tekgen", tmp_path / "wikidata_tekgen")
    )
    assert own == fetched and len(own) == 214


def test_a_checkout_without_the_earlier_gold_and_without_a_network_is_told_what_is_missing(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = copy_release(release, tmp_path / "source")
    shutil.rmtree(source / "wikidata_tekgen" / text2kgbench_files.ORIGINAL_GOLD)
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(text2kgbench_files, "_file_url", lambda path: f"http://127.0.0.1:9/{path}")
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with pytest.raises(KBBenchError, match=r"142 empty gold lists.*could not be downloaded.*388d15c into the release"):
        build_wikidata_tekgen(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_build_from_the_download_is_the_build_from_the_folder(
    release: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(text2kgbench_files, "_file_url", lambda path: (release / path).as_uri())
    build_dbpedia_webnlg(None, tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(built / "kbbench/text2kg-dbpedia-webnlg")


def test_a_download_that_cannot_reach_its_server_writes_no_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(text2kgbench_files, "_file_url", lambda path: f"http://127.0.0.1:9/{path}")
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with pytest.raises(KBBenchError, match=r"127\.0\.0\.1:9/.*--source"):
        build_dbpedia_webnlg(None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_dataset_is_built_or_shipped() -> None:
    for name in benchmark_names():
        data = benchmark(f"kbbench/{name}").data
        assert callable(data.build) != bool(data.shipped), name
    with pytest.raises(UsageError, match="Did you mean 'text2kg-dbpedia-webnlg'"):
        benchmark("text2kg-dbpedia-webnl")


def _row(sentence: str, *triples: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    empty = {"sub_id": None, "rel_id": None, "obj_id": None}
    listed = [dict(zip(("sub", "rel", "obj"), each, strict=True)) | empty for each in triples]
    return {
        "id": "a",
        "ontology_id": "1_x",
        "sentence": sentence,
        "triples": listed,
        "repairs": [],
        "similar_ids": [],
    } | more


def test_an_empty_list_with_no_earlier_gold_stays_empty() -> None:
    row = _row("s")
    repair(row, None, ["r"])
    assert (row["triples_repaired"], row["repairs"]) == ([], [])


def test_earlier_gold_fills_only_an_empty_list() -> None:
    (original,) = _row("s", ("a", "member of ", "b"))["triples"]
    full, empty = _row("s", ("x", "r", "y")), _row("s")
    repair(full, original, ["r", "member of "])
    repair(empty, original, ["r", "member of "])
    assert full["triples_repaired"] == full["triples"]
    assert [each["rel"] for each in empty["triples_repaired"]] == ["member of"]
    assert [each["kind"] for each in empty["repairs"]] == ["empty_gold_restored"]


def test_duplicates_relations_outside_the_ontology_and_lost_dates_are_flagged() -> None:
    row = _row("s", ("a", "r", "00 May 1997"), ("a", "r", "00 May 1997"), ("a", "q", "b"))
    repair(row, None, ["r"])
    assert len(row["triples_repaired"]) == 2
    assert {each["kind"]: each["detail"] for each in row["repairs"]} == {
        "duplicate_triples_removed": "1 of 3",
        "relation_not_in_json": "q",
        "unparsed_date": "00 May 1997, 00 May 1997",
    }


def test_text_that_was_never_scrambled_stays_as_it_is() -> None:
    for text in ("plain", "München", "naïve café", "東京", "Bur\u00c4 x"):
        assert unscramble(text) == text
    for text in ("München", "Gorō", "“quoted”", "東京"):
        assert unscramble(text.encode().decode("latin-1")) == text


def test_distinct_keeps_the_first_and_the_order() -> None:
    triples = _row("s", ("a", "r", "b"), ("c", "r", "d"), ("a", "r", "b"))["triples"]
    assert [each["sub"] for each in distinct(triples)] == ["a", "c"]


def test_folding_leads_similar_ids_to_the_row_that_was_kept() -> None:
    train = [
        _row("one", ("a", "r", "b"), id="t1", triples_repaired=[]),
        _row("two", ("a", "r", "c"), id="t2", triples_repaired=[]),
        _row("one", ("a", "q", "d"), id="t3", triples_repaired=[]),
    ]
    test = [_row("x", id="x1", similar_ids=["t3", "t2", "t1"])]
    folded = fold({"train": train, "test": test})
    assert [row["id"] for row in folded["train"]] == ["t1", "t2"]
    assert [each["rel"] for each in folded["train"][0]["triples"]] == ["r", "q"]
    assert folded["train"][0]["repairs"] == [{"kind": "folded", "detail": "t3"}]
    assert folded["test"][0]["similar_ids"] == ["t1", "t2"]
    assert train[0]["repairs"] == []  # the input is left alone


def test_the_turtle_reader_agrees_with_rdflib(release: Path) -> None:
    rdflib = pytest.importorskip("rdflib")
    from kbbench_hf.building.text2kgbench.release import _read_turtle

    for file in sorted(release.glob("*/ontologies/owl/*.ttl")):
        graph = rdflib.Graph()
        graph.parse(data=file.read_text(encoding="utf-8").replace("−", "-"), format="turtle")
        short = {str(name): name.split("#")[-1] for name in graph.all_nodes()}
        theirs = Counter(
            (short[str(sub)], str(pred).split("#")[-1], short[str(obj)]) for sub, pred, obj in graph if "#" in str(sub)
        )
        ours = Counter(
            (sub, "type" if pred == "a" else pred.split(":")[-1], obj.removeprefix("owl:"))
            for sub, facts in _read_turtle(file).items()
            if not sub.startswith("http")
            for pred, objects in facts.items()
            for obj in objects
        )
        assert ours == theirs, file.name


def test_no_text_of_the_release_is_in_the_package(release: Path) -> None:
    package = Path(__file__).resolve().parents[4] / "kbbench_hf"
    digests = {hashlib.sha256(each.read_bytes()).hexdigest() for each in package.rglob("*") if each.is_file()}
    assert digests.isdisjoint(hashlib.sha256(each.read_bytes()).hexdigest() for each in release.rglob("*.json*"))


DATASETS = {"wikidata": "text2kg-wikidata-tekgen", "webnlg": "text2kg-dbpedia-webnlg"}


@pytest.mark.parametrize("name", DATASETS)
def test_the_documented_scores_of_a_small_model_are_those_of_its_predictions(
    name: str, request: pytest.FixtureRequest, in_tmp: Path
) -> None:
    copy_dataset(request.getfixturevalue(name), Path("kbbench", dataset := DATASETS[name]))
    (folder,) = shipped_runs(dataset)
    result = score("published:SmolLM2-135M-Instruct", dataset)
    recorded = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert recorded["settings"]["dataset_revision"] == result.dataset_revision
    values = " | ".join(f"{result.scores[metric].value:.4f}" for metric in ("f1", "ontology_conformance"))
    unparsable = f"{result.counters['n_parse_failures']} of {len(result.ids):,}"
    page = Path(__file__).parents[4] / "docs/guides/served_model.md"
    assert f"| `{dataset}` | {folder.name} | {values} | {unparsable} |" in page.read_text(encoding="utf-8")
    assert [each.system.name for each in model_seeds() if each.task_key.benchmark == dataset] == [folder.name]
