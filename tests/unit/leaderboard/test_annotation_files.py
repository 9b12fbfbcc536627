"""Strangers' annotations are read within bounds, and stored as we write them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.annotations import METADATA_KEY, read_annotation
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.leaderboard.annotation_files import checked_annotations
from kbbench_hf.leaderboard.seeding import rescore
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview

HASTY = next(file for file in shipped_answers("mini-genres") if file.stem == "hasty")


def write(file: Path, identity: object, **columns: pa.Array) -> Path:
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(identity)})
    pq.write_table(table, file)
    return file


def verdicts(file: Path, judge: str = "me", **others: pa.Array) -> Path:
    """Write that all triples of the small system are supported."""
    rows = [json.loads(line) for line in HASTY.read_text().splitlines()]
    pairs = [(row["id"], json.dumps(triple, ensure_ascii=False)) for row in rows for triple in row["triples"]]
    n = len(pairs)
    columns = {
        "id": pa.array([name for name, _ in pairs]),
        "triple": pa.array([triple for _, triple in pairs]),
        "occurrence": pa.array([0] * n, pa.int32()),
        "value": pa.array([1.0] * n),
        "status": pa.array(["ok"] * n),
        "raw": pa.array([""] * n),
    }
    return write(file, {"kind": "factualness", "judge": judge}, **(columns | others))


def test_a_submission_keeps_the_annotations_that_it_was_scored_with(tmp_path: Path) -> None:
    store, system = Store(tmp_path / "store"), System("hasty")
    file = verdicts(tmp_path / "any-name.parquet")
    read = preview(HASTY, "mini-genres", annotations=[file])
    receipt = store_preview(store, read, system, "ada")
    assert read.result.scores["factualness"].value > 0.9
    assert rescore(store, receipt.id).outcome == "identical" and not store.check()
    assert store_preview(store, preview(HASTY, "mini-genres", annotations=[file]), system, "ada").existed
    other = preview(HASTY, "mini-genres", annotations=[verdicts(tmp_path / "b.parquet", "somebody else")])
    assert store_preview(store, other, system, "ada").id != receipt.id
    assert store_preview(store, preview(HASTY, "mini-genres"), system, "ada").id != receipt.id


def test_annotations_that_cover_half_of_the_answers_are_warned_of(tmp_path: Path) -> None:
    whole = pq.read_table(verdicts(tmp_path / "a.parquet"))
    pq.write_table(whole.slice(0, whole.num_rows // 2), tmp_path / "half.parquet")
    (warning,) = [
        each
        for each in preview(HASTY, "mini-genres", annotations=[tmp_path / "half.parquet"]).result.warnings
        if each.code == "annotations_partial"
    ]
    assert "FS" in warning.message and warning.n_examples > 5 and warning.severity == "warning"


def test_what_is_no_annotation_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_bytes(b"PAR1 no more")
    good = verdicts(tmp_path / "good.parquet")
    embedded = {"kind": "embeddings", "embedder": "e", "uniqueness_threshold": 0.5, "completeness_threshold": 0.5}
    element, ragged = pa.array(["a", "b"]), pa.array([[1.0], [1.0, 2.0]])
    infinite = pa.FixedSizeListArray.from_arrays(pa.array([1.0, float("inf")]), 1)
    plain = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0]), 1)
    cases = {
        "cannot be read": [tmp_path / "text.parquet"],
        "one of each kind": [good, good],
        "no column 'triple'": [write(tmp_path / "1.parquet", {"kind": "granularity"}, id=element)],
        "expected one of": [write(tmp_path / "2.parquet", {"kind": "opinions"}, id=element)],
        "expected vector": [write(tmp_path / "3.parquet", embedded, element=element, vector=ragged)],
        "holds double; expected vector": [
            write(tmp_path / "0.parquet", embedded, element=element, vector=pa.array([1.0, 2.0]))
        ],
        "not a finite number": [write(tmp_path / "4.parquet", embedded, element=element, vector=infinite)],
        "no uniqueness_threshold": [
            write(
                tmp_path / "5.parquet",
                {"kind": "embeddings", "completeness_threshold": 0.5},
                element=element,
                vector=plain,
            )
        ],
        "expected a cosine": [
            write(tmp_path / "6.parquet", {**embedded, "uniqueness_threshold": 7}, element=element, vector=plain)
        ],
        "expected number": [verdicts(tmp_path / "7.parquet", value=pa.array(["1"] * pq.read_table(good).num_rows))],
        "20,036 characters": [verdicts(tmp_path / "8.parquet", judge="j" * 20_000)],
    }
    for words, files in cases.items():
        with pytest.raises(DataError, match=words):
            checked_annotations(files, tmp_path / "out")
    with pytest.raises(UsageError, match="scored without annotations"):
        preview(
            next(iter(shipped_answers("mini-ska"))),
            "mini-ska",
            annotations=[good],
        )


def test_columns_that_contradict_each_other_are_refused_in_words(tmp_path: Path) -> None:
    shares = pa.FixedSizeListArray.from_arrays(pa.array([0.2, 0.3, 0.5]), 3)
    identity = {"kind": "topics-reference", "seeds": [0, 1, 2, 3, 4, 5, 6]}
    text = pa.array(["a"])
    file = write(tmp_path / "t.parquet", identity, id=text, triples_sha256=text, source=shares, triples=shares)
    with pytest.raises(DataError, match="do not fit together"):
        preview(HASTY, "mini-genres", annotations=[file])


def test_a_text_repeated_a_million_times_is_refused_before_it_is_unfolded(tmp_path: Path) -> None:
    n, text = 900_000, "x" * 500_000
    one = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([text]))
    none = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([""]))
    columns = {"id": none, "triple": one, "value": pa.array([1.0] * n), "status": none, "raw": none}
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: b'{"kind": "granularity"}'})
    pq.write_table(table, tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 1_000_000
    with pytest.raises(DataError, match="bytes of text"):
        checked_annotations([tmp_path / "bomb.parquet"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_much_is_refused_by_what_the_file_says_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = verdicts(tmp_path / "a.parquet")
    monkeypatch.setattr("kbbench_hf.leaderboard.annotation_files.MAX_ROWS", 3)
    with pytest.raises(DataError, match="unpacks to more"):
        checked_annotations([file], tmp_path / "out")


def test_what_is_stored_is_written_by_us(tmp_path: Path) -> None:
    n = pq.read_table(verdicts(tmp_path / "a.parquet")).num_rows
    file = verdicts(tmp_path / "b.parquet", secret=pa.array(["my address"] * n))
    checked_annotations([file], tmp_path / "out")
    (stored,) = (tmp_path / "out").iterdir()
    found = read_annotation(tmp_path / "out", "factualness")
    assert stored.name == "factualness.parquet" and b"my address" not in stored.read_bytes()
    assert found is not None and found.identity["judge"] == "me" and found.table.num_rows == n
