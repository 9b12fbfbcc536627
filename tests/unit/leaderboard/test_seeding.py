"""A board that begins with what its owner has: own runs, released answers, and figures alone where none is licensed."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import OURS, TaskKey, shipped_dataset
from kbbench_hf.benchmarks.text2kgbench.benchmark import MINI
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import copy_dataset
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.seeding import (
    Rescored,
    Seed,
    model_seeds,
    released_seeds,
    rescore,
    run_seed,
    shipped_seeds,
    sow,
)
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import Preview, store_preview
from kbbench_hf.leaderboard.table import board
from tests.unit.leaderboard.conftest import PATTERN

PLACE = TaskKey("mini-text2kg", "sentences", "test", "reference")


@pytest.fixture
def built(in_tmp: Path) -> Path:
    """A built dataset that brings the answers of a published system."""
    folder = copy_dataset(shipped_dataset("mini-text2kg"), Path("kbbench/mini-text2kg")).path
    (folder / "predictions/sentences/test").mkdir(parents=True)
    lines = PATTERN.read_text().splitlines(keepends=True)
    (folder / "predictions/sentences/test/Somebody, open.jsonl").write_text("".join(lines[:-1]))
    return folder


def test_released_answers_stand_on_the_board_with_intervals_and_where_they_are_from(built: Path, store: Store) -> None:
    seeds = [each for each in released_seeds() if each.file.stem.startswith("Somebody")]
    ((seed, receipt),) = sow(store, seeds, "kbbench")
    (row,) = board(Index(store), PLACE)
    assert row.id == receipt.id and row.system == "Somebody, open" and row.group == 1
    assert row.scores["f1"].low < row.scores["f1"].value < row.scores["f1"].high
    assert row.coverage == pytest.approx(47 / 48), "answers that a release lacks are missing, not invented"
    assert "Released answers" in row.notes and row.licence == "apache-2.0"
    assert seed.origin == store.record(receipt.id).origin == "released"
    assert rescore(store, receipt.id).outcome == "identical"
    assert [again.existed for _, again in sow(store, seeds, "kbbench")] == [True]


def test_of_a_source_without_a_licence_nothing_but_figures_is_kept(
    built: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlicensed = replace(MINI, facts=replace(MINI.facts, redistributable=False))
    monkeypatch.setattr("tests.unit.leaderboard.test_seeding.UNLICENSED", unlicensed, raising=False)
    monkeypatch.setitem(OURS, "mini-text2kg", "tests.unit.leaderboard.test_seeding:UNLICENSED")
    seeds = [each for each in released_seeds() if each.file.stem.startswith("Somebody")]
    ((seed, receipt),) = sow(store, seeds, "kbbench")
    assert seed.scores_only and not store.has_predictions(receipt.id) and not list(store.predictions(receipt.id))
    files = [each for each in (store.root / "submissions").rglob("*") if each.is_file()]
    kept = b"".join(gzip.decompress(each.read_bytes()) if each.suffix == ".gz" else each.read_bytes() for each in files)
    rows = shipped_dataset("mini-text2kg").rows("sentences", "test")
    said = {triple[key] for row in rows for triple in row["triples"] for key in ("sub", "obj")}
    said |= {row["sentence"] for row in rows}
    assert not [text for text in said if text.encode() in kept and not text.isdigit()], "digests hold any year"
    (row,) = board(Index(store), PLACE)
    assert row.scores["f1"].low < row.scores["f1"].value and row.group == 1
    assert store.check() == []
    assert rescore(store, receipt.id).outcome == "scores only"


def test_our_own_runs_are_the_shipped_answers(in_tmp: Path, store: Store) -> None:
    seeds = [each for each in shipped_seeds() if each.task_key == PLACE]
    assert [(each.system.name, each.origin) for each in seeds] == [("copy", "own"), ("pattern", "own")]
    assert len(list(sow(store, seeds, "kbbench"))) == len(store.visible()) == 2


def test_runs_of_small_models_are_seeded_with_the_warnings_of_their_runs(in_tmp: Path, store: Store) -> None:
    seeds = list(model_seeds())
    of_place = [each.system.name for each in seeds if each.task_key == PLACE]
    assert of_place == ["SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct-structured"]
    stored = [receipt.id for _, receipt in sow(store, seeds, "kbbench")]
    assert [rescore(store, each).outcome for each in stored] == ["identical"] * len(seeds)  # unparsable replies, too
    for row in board(Index(store), PLACE):
        assert "copied_triples" in [each.code for each in row.warnings]


def test_a_run_is_seeded_with_its_latency_and_a_part_of_one_is_refused(tmp_path: Path, store: Store) -> None:
    (tmp_path / "predictions.jsonl").write_text(PATTERN.read_text())
    place = {"benchmark": "mini-text2kg", "config": "sentences", "split": "test"}
    run = {"settings": {**place, "model": "mine", "n_examples": 48}, "latency": {"latency_p95_s": 0.5}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    seed = run_seed(tmp_path)
    assert seed == Seed(PLACE, tmp_path / "predictions.jsonl", System("mine", latency_p95_s=0.5), "own")
    assert len(list(sow(store, [seed], "kbbench"))) == 1
    of_candidates = {"n_prompts": 240, "latency_p95_s": 0.5, "cost": 0.48, "currency": "USD"}
    (tmp_path / "run.json").write_text(
        json.dumps({"settings": run["settings"] | {"rerank": "m"}, "summary": of_candidates})
    )
    assert run_seed(tmp_path).system == System(
        "mine", cost_per_1000_usd=10
    )  # by query; a candidate's latency is no query's
    run["settings"]["n_examples"] = 20
    (tmp_path / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match=r"20 of 48 examples.*without --limit"):
        run_seed(tmp_path)


def test_scoring_again_finds_each_difference_and_other_data(store: Store, read: Preview) -> None:
    submission = store_preview(store, read, System("mine"), "ada").id
    folder = store.root / store.path(submission)
    record, result = (json.loads((folder / name).read_text()) for name in ("record.json", "result.json"))
    lines = gzip.decompress((folder / "scores.jsonl.gz").read_bytes())

    def after(record: dict = record, result: dict = result, lines: bytes = lines) -> Rescored:
        (folder / "record.json").write_text(json.dumps(record))
        (folder / "result.json").write_text(json.dumps(result))
        (folder / "scores.jsonl.gz").write_bytes(gzip.compress(lines))
        return rescore(store, submission)

    here = record["dataset_revision"]
    assert after() == Rescored(submission, "identical")
    assert after(record={**record, "dataset_revision": "f" * 64}) == Rescored(
        submission, "other data", f"stored on ffffffffffff, here is {here[:12]}"
    )
    f1 = result["scores"]["f1"]
    for part, other in (
        ("scores", {**result["scores"], "f1": {**f1, "value": f1["value"] + 1e-12}}),
        ("slices", {}),
        ("predictions_sha256", "0" * 64),
    ):
        assert after(result={**result, part: other}) == Rescored(submission, "different", f"{part} differ")
    counted = {**result["counters"], "n_missing": 1, "n_parse_failures": 9, "n_of_an_earlier_version": 2}
    words = "counters differ: n_missing 1, now 0, n_of_an_earlier_version 2, now None"
    assert after(result={**result, "counters": counted}) == Rescored(submission, "different", words)
    fewer = {name: n for name, n in result["counters"].items() if name != "n_missing"}
    assert after(result={**result, "counters": fewer}).outcome == "identical"
    shifted = lines.replace(b'"f1": 1.0', b'"f1": 0.5', 1)
    assert shifted != lines
    assert after(lines=shifted) == Rescored(submission, "different", "scores of single examples differ")
    unknown = after(record={**record, "split": "validation"})
    assert unknown.outcome == "not possible" and "validation" in unknown.detail and "\n" not in unknown.detail
