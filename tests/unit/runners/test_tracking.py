"""Scores reach a tracker after scoring; a tracker that fails or is absent never loses a run."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import kbbench_hf
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from tests.end_to_end.cli.processes import OFFLINE, kbbench_process

WANDB = """
import json

runs = []

def finish(exit_code=None, quiet=None):
    with open("wandb.json", "w") as file:
        json.dump(runs.pop().seen, file)

def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None, config=None, resume=None):
    assert resume in (None, True, False, "allow", "never", "must", "auto") and not set(id) & set("/\\\\#?%:")
    json.dumps(config)
    runs.append(Run(project, name, config))
    return runs[-1]

class Run:
    url = None

    def __init__(self, project, name, config):
        self.seen = {"project": project, "name": name, "config": config}

    def log(self, data, step=None, commit=None):
        FAIL
        self.seen["data"] = data
"""
"""A module with the signatures of wandb 0.22, as its reference documents them."""
TWICE_TO_TRACKIO = """
import json
from kbbench_hf.cli import main

for _ in range(2):
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code
    print("and then", flush=True)

from trackio.sqlite_storage import SQLiteStorage

(run,) = SQLiteStorage.get_runs("kbbench-mini-stark")
print(json.dumps([run, SQLiteStorage.get_logs("kbbench-mini-stark", run)]))
"""


@pytest.fixture
def wandb(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = in_tmp / "packages" / "wandb.py"
    file.parent.mkdir()
    file.write_text(WANDB.replace("FAIL", "pass"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(file.parent))
    yield file
    sys.modules.pop("wandb", None)


@pytest.mark.usefixtures("wandb")
def test_wandb_gets_scores_with_intervals_settings_and_the_runs_folder(in_tmp: Path) -> None:
    result = kbbench_hf.run("mini-stark", "bm25", out=in_tmp / "run", limit=30, log_to="wandb", show=False)
    sent = read_json(in_tmp / "wandb.json")
    score = result.scores["mrr"]
    assert [sent["data"][name] for name in ("mrr", "mrr_low", "mrr_high", "mrr_n")] == [score.value, *score.ci95, 30]
    run = read_json(in_tmp / "run/run.json")["settings"]
    config = sent["config"]
    assert run.items() <= config.items() and config["folder"] == (in_tmp / "run").as_uri()
    assert sent["name"] == f"queries-bm25-{config['run_id']}" and "Partial run" in config["warnings"][0]


def test_a_tracker_that_fails_loses_nothing(in_tmp: Path, wandb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wandb.write_text(WANDB.replace("FAIL", "raise ConnectionError('no network')"), encoding="utf-8")
    result = kbbench_hf.run("mini-stark", "bm25", out=in_tmp / "run", limit=30, log_to="wandb", show=False)
    said = " ".join(capsys.readouterr().err.split())
    assert "not logged to wandb: ConnectionError: no network" in said and "Repeat the command" in said
    stored = read_json(in_tmp / "run/result.json")
    assert stored["scores"]["mrr"]["value"] == result.scores["mrr"].value


def test_an_absent_tracker_is_refused_before_the_run(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (in_tmp / "wandb").mkdir()  # where wandb writes; not the package
    monkeypatch.syspath_prepend(str(in_tmp))
    for name, words in (("wandb", "pip install wandb"), ("wandbb", "Did you mean 'wandb'")):
        with pytest.raises(UsageError, match=words):
            kbbench_hf.run("mini-stark", "bm25", log_to=name, show=False)  # type: ignore[arg-type]
    assert not (in_tmp / "kbbench-runs").exists()


@pytest.mark.skipif(find_spec("trackio") is None, reason="needs the extra tracking")
def test_trackio_writes_to_a_local_folder_and_standard_output_stays_the_result(in_tmp: Path) -> None:
    env = {**os.environ, **OFFLINE, "TRACKIO_DIR": str(in_tmp / "tracked")}
    arguments = ["run", "mini-stark", "--model", "bm25", "--limit", "30", "--log-to", "trackio", "--json"]
    command = [sys.executable, "-c", TWICE_TO_TRACKIO, *arguments]
    twice = subprocess.run(command, cwd=in_tmp, env=env, capture_output=True, text=True)
    assert twice.returncode == 0, twice.stderr
    assert twice.stderr.count("Logged to trackio, project kbbench-mini-stark") == 2
    first, second, read = map(json.loads, twice.stdout.split("and then"))
    score = second["scores"]["mrr"]
    assert first["scores"]["mrr"] == score
    run, logs = read
    assert run.startswith("queries-bm25-")
    assert [(each["mrr"], each["mrr_low"], each["mrr_high"]) for each in logs] == [(score["value"], *score["ci95"])] * 2
    env["TRACKIO_DIR"] = str(in_tmp / "kbbench-runs" / "a file")
    Path(env["TRACKIO_DIR"]).touch()
    done = kbbench_process(arguments, in_tmp, env=env)
    assert done.code == 0 and "not logged to trackio" in " ".join(done.err.split())
