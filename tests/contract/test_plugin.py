"""Another package's benchmark: built and installed into a scratch environment, it appears wherever our own do."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.base import Facts
from kbbench_hf.retrieval.retrievers import RETRIEVERS
from kbbench_hf.runners.run_options import OWN_KINDS
from tests.contract.modules import EVALUATE
from tests.servers.scripted import ScriptedServer

ROOT = Path(__file__).parents[2]
Kbbench = Callable[..., "subprocess.CompletedProcess[str]"]
BROKEN = """[kbbench.benchmarks]
mini-broken = broken_package_that_is_not_there:VALUE
mini-stark = kbbench_capitals:CAPITALS
mini-number = math:pi
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the template was installed as a wheel, beside one whose entry points are broken."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "--wheel-dir", str(wheels), str(ROOT / "examples" / "plugin")], check=True)
    subprocess.run([*pip, "install", *offline, "--target", str(site), *map(str, wheels.glob("*.whl"))], check=True)
    broken = site / "broken-0.1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (broken / "entry_points.txt").write_text(BROKEN)
    return site


COMMANDS = """
import contextlib, io, json, sys
from kbbench_hf.cli import main
for line in sys.stdin:
    sys.argv = ["kbbench", *json.loads(line)]
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
    out, err = (each.buffer.getvalue().decode() for each in streams)
    print(json.dumps({"returncode": code, "stdout": out, "stderr": err}), flush=True)
"""
"""A process that runs one command after the other: imports take most of the time of each."""


@pytest.fixture
def kbbench(site: Path, tmp_path: Path) -> Iterator[Kbbench]:
    """Run commands in a process of its own, where the packages of `site` are installed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-c", COMMANDS],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        commands, results = process.stdin, process.stdout

        def run(*arguments: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
            commands.write(json.dumps(arguments) + "\n")
            commands.flush()
            done = subprocess.CompletedProcess(arguments, **json.loads(results.readline()))
            assert done.returncode == expect, done.stderr + done.stdout
            return done

        yield run


def test_it_is_listed_with_what_it_is_and_a_broken_one_is_named_and_breaks_nothing(kbbench: Kbbench) -> None:
    done = kbbench("list")
    assert "mini-capitals" in done.stdout and "stark-prime" in done.stdout
    assert "'mini-broken' could not be imported" in done.stderr and "mini-number" in done.stderr
    assert json.loads(kbbench("list", "mini-capitals", "--json").stdout)["metrics"] == {
        "exact": "Exact",
        "similarity": "Alike",
    }
    assert "broken_package_that_is_not_there" in kbbench("list", "mini-broken", expect=2).stderr


def test_our_own_benchmark_wins_over_one_of_the_same_name(kbbench: Kbbench) -> None:
    assert json.loads(kbbench("list", "mini-stark", "--json").stdout)["answer"] == "ids"


def test_it_is_built_scored_compared_validated_and_submitted(kbbench: Kbbench, site: Path, tmp_path: Path) -> None:
    assert "questions: test 12" in kbbench("build", "mini-capitals").stdout
    answers = site / "kbbench_capitals" / "mini" / "predictions" / "largest-city.jsonl"
    scores = json.loads(kbbench("score", str(answers), "--benchmark", "mini-capitals", "--json").stdout)["scores"]
    assert scores["exact"]["value"] == pytest.approx(4 / 12)  # Vienna, Berlin, Cairo, Tokyo
    mine = tmp_path / "mine.jsonl"
    rows = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    mine.write_text("".join(json.dumps({**row, "answers": ["Bern"]}) + "\n" for row in rows))
    compared = kbbench("compare", str(answers), str(mine), "--benchmark", "mini-capitals", "--json")
    assert json.loads(compared.stdout)["tests"]["exact"]["difference"] == pytest.approx(3 / 12)
    assert "12 of 12 examples have predictions" in kbbench("validate", str(mine), "--benchmark", "mini-capitals").stdout
    assert "Stored" in kbbench("submit", str(mine), "--benchmark", "mini-capitals", "--name", "Bern").stdout
    assert "mini-capitals/questions/test/reference: largest-city" in kbbench("leaderboard", "seed").stdout
    assert "15 of 15 identical" in kbbench("leaderboard", "rescore", "--all").stdout


def test_a_served_model_runs_on_it_and_the_run_is_reported(kbbench: Kbbench, tmp_path: Path) -> None:
    with ScriptedServer(answer=lambda payload: "Bern.") as server:
        arguments = ["--model", "scripted-model", "--base-url", server.url, "--out", "run"]
        assert "Exact" in kbbench("run", "mini-capitals", *arguments).stdout
    assert json.loads((tmp_path / "run" / "result.json").read_text())["scores"]["exact"]["value"] == 1 / 12
    kbbench("report", "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Capitals, a template" in page and "The capital of Australia?" in page


MODELS_AND_METRICS = """
import numpy as np
from kbbench_hf import Metric

class First:
    def search(self, queries, top_k):
        return [list(range(top_k)) for _ in queries]

class Bern:
    def generate(self, prompts, max_tokens):
        return ["Bern."] * len(prompts)

def length(examples, answers, mode):
    return [float("nan") if answer is None else len(answer[0]) for answer in answers]

LENGTH = Metric("Characters", ["mini-capitals"], length, unbounded=True)
"""


def test_models_and_metrics_of_other_packages_are_named_by_entry_points_or_by_addresses(
    kbbench: Kbbench, site: Path, tmp_path: Path
) -> None:
    (site / "guesses.py").write_text(MODELS_AND_METRICS)
    information = site / "guesses-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: guesses\nVersion: 0.1\n")
    points = "[kbbench.models]\nbern = guesses:Bern\nbm25 = guesses:First\n[kbbench.metrics]\n"
    points += "broken = nowhere:METRIC\nanswer_length = guesses:LENGTH\n"
    (information / "entry_points.txt").write_text(points)
    try:
        printed = json.loads(kbbench("run", "mini-capitals", "--model", "bern", "--out", "named", "--json").stdout)
        assert printed["scores"]["answer_length"]["value"] == len("Bern")
        assert printed["scores"]["exact"]["value"] == 1 / 12
        assert json.loads((tmp_path / "named" / "run.json").read_text())["settings"]["model"] == "bern"
        (tmp_path / "mine.py").write_text(MODELS_AND_METRICS)
        run = kbbench("run", "mini-stark", "--model", "mine:First", "--top-k", "5", "--out", "address")
        assert "mine:First" in (tmp_path / "address" / "run.json").read_text() and "Hit@1" in run.stdout
        ours = kbbench("run", "mini-stark", "--model", "bm25", "--out", "ours").stderr
        first = json.loads((tmp_path / "ours" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()[0])
        assert first["ids"] != list(range(len(first["ids"]))), "our own bm25 ran, not the entry point of its name"
        assert "The metric 'broken' is left out" in ours
        refused = kbbench("run", "mini-stark", "--model", "mine:Second", "--out", "none", expect=2).stderr
        assert "'mine:Second' could not be imported from mine:Second: AttributeError" in refused
    finally:
        shutil.rmtree(information)


def test_one_without_a_dataset_whose_load_returns_the_rows_is_scored_compared_and_loaded(
    site: Path, tmp_path: Path
) -> None:
    source = (site / "kbbench_capitals" / "__init__.py").read_text(encoding="utf-8")
    source = source.replace("Examples(folder.rows(config, split))", "Examples(list(csv.DictReader(QUESTIONS.open())))")
    source = source.replace(', build=build, shipped=HERE / "mini"', "")
    package = tmp_path / "site" / "kbbench_rows"
    shutil.copytree(site / "kbbench_capitals", package)
    (package / "__init__.py").write_text(f'{source}\nQUESTIONS = HERE / "questions.csv"\n', encoding="utf-8")
    information = tmp_path / "site" / "kbbench_rows-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: kbbench-rows\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text("[kbbench.benchmarks]\nmini-capitals = kbbench_rows:CAPITALS\n")
    code = """
import kbbench_hf
vienna, bern = [{"id": "at", "answers": ["Vienna"]}], [{"id": "at", "answers": ["Bern"]}]
print(kbbench_hf.score(vienna, "mini-capitals").scores["exact"].value * 12)
print(round(kbbench_hf.compare(vienna, bern, "mini-capitals").tests["exact"].difference * 12))
print(kbbench_hf.load("mini-capitals").num_rows)
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path / 'site'}", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.stdout == "1.0\n1\n12\n", done.stderr


def test_it_has_a_tab_on_the_board_and_its_rows_there(site: Path, tmp_path: Path) -> None:
    code = f"""
from dataclasses import replace
from pathlib import Path
from kbbench_hf.app.boards import Boards
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import System
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.submissions import preview, store_preview
store = Store(Path({str(tmp_path)!r}) / "store")
file = Path({str(site)!r}) / "kbbench_capitals/mini/predictions/largest-city.jsonl"
store_preview(store, preview(file, "mini-capitals"), System("largest city"), "me")
boards = Boards(Index(store))
(place,) = boards.families()["Capitals"]
print(place, boards.board(place).rows[0].system)
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "mini-capitals/questions/test/reference largest city\n", done.stderr


def test_its_evaluate_module_is_built_beside_ours(kbbench: Kbbench, site: Path, tmp_path: Path) -> None:
    assert "capital_similarity" in kbbench("build", "metrics").stdout
    code = f"{EVALUATE}print(evaluate.load('kbbench/capital_similarity').compute("
    code += "predictions=['paris'], references=['Paris']))"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "{'similarity': 1.0}\n", done.stderr


def test_its_shipped_dataset_is_what_its_source_builds(site: Path, tmp_path: Path) -> None:
    code = f"""
from dataclasses import replace
from pathlib import Path
from kbbench_capitals import HERE, build
from kbbench_hf.files.datasets import DatasetFolder
build(None, Path({str(tmp_path)!r}) / "again")
assert DatasetFolder(HERE / "mini").revision == DatasetFolder(Path({str(tmp_path)!r}) / "again").revision
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_facts_take_the_license_under_its_former_name() -> None:
    with pytest.warns(DeprecationWarning, match="license"):
        facts = Facts("mini-x", "X", licence="mit")
    assert facts.license == facts.licence == "mit"
    assert replace(facts, license="cc0-1.0").license == "cc0-1.0"


def test_no_entry_point_takes_the_place_of_a_retriever_of_ours() -> None:
    assert {*RETRIEVERS} <= OWN_KINDS
