"""The folder of a run: what is run is written first, and nothing else is ever run there."""

import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.errors import UsageError
from kbbench_hf.runners.run_folder import RUN, add_to_run, default_folder, open_run

NOISE = TaskKey("mini-ska", "noise_kg_1k", "test", "reference")
SETTINGS = {"benchmark": "mini-stark", "model": "bm25", "top_k": 100, "sampling": {"temperature": 0.0, "top_p": None}}


def test_a_run_is_written_down_with_its_settings_time_and_versions(tmp_path):
    open_run(tmp_path / "run", SETTINGS, {"processes": 2})
    run = json.loads((tmp_path / "run" / RUN).read_text(encoding="utf-8"))
    assert run["settings"] == SETTINGS
    assert run["processes"] == 2
    assert run["started"].endswith("+00:00")
    assert {"python", "numpy", "kbbench-hf"} <= run["versions"].keys()


def test_the_same_run_is_opened_again_with_other_processes_and_stays_as_it_was_written(tmp_path):
    open_run(tmp_path, SETTINGS, {"processes": 4})
    before = (tmp_path / RUN).read_bytes()
    open_run(tmp_path, dict(reversed(SETTINGS.items())), {"processes": 1})
    assert (tmp_path / RUN).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "graph:bm25"}, "its model is 'bm25', not 'graph:bm25'"),
        ({"model": "x", "benchmark": "mini-ska", "top_k": 1}, "its benchmark is 'mini-stark', not 'mini-ska'"),
        ({"rerank": "x"}, "its rerank is None, not 'x'"),
        ({"sampling": {"temperature": 0.5, "top_p": None}}, "its sampling is {'temperature': 0.0"),
    ],
)
def test_another_run_is_refused_with_what_differs_most_important_first(tmp_path, change, message):
    open_run(tmp_path, SETTINGS, {})
    before = (tmp_path / RUN).read_bytes()
    with pytest.raises(UsageError) as refused:
        open_run(tmp_path, {**SETTINGS, **change}, {})
    assert message in str(refused.value)
    assert "Name another folder with --out" in str(refused.value)
    assert (tmp_path / RUN).read_bytes() == before


def test_facts_known_at_the_end_are_added_and_replaced(tmp_path):
    open_run(tmp_path, SETTINGS, {})
    add_to_run(tmp_path, latency={"p50": 1.0})
    add_to_run(tmp_path, latency={"p50": 2.0}, model="m")
    run = json.loads((tmp_path / RUN).read_text(encoding="utf-8"))
    assert (run["latency"], run["model"], run["settings"]) == ({"p50": 2.0}, "m", SETTINGS)


def test_a_folder_is_named_after_the_run_and_differs_with_any_setting():
    first = default_folder(NOISE, "org/model:7b", SETTINGS)
    assert first.parts[:2] == ("kbbench-runs", "mini-ska")
    assert first.name.startswith("noise_kg_1k-test-org-model-7b-")
    assert default_folder(NOISE, "org/model:7b", {**SETTINGS, "top_k": 99}) != first
    assert default_folder(NOISE, "org/model:7b", dict(reversed(SETTINGS.items()))) == first


@pytest.mark.parametrize("model", ["../../etc", "a" * 500, "..", "a b\nc", "模型/х"])
def test_no_models_name_leads_out_of_the_folder_of_runs_or_breaks_it(model):
    folder = default_folder(TaskKey("mini-stark", "queries", "test", "reference"), model, {})
    assert folder.resolve().is_relative_to(Path("kbbench-runs").resolve())
    assert len(folder.name) < 100
    assert "\n" not in str(folder)
