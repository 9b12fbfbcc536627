"""`kbbench annotate` on the small benchmark, with a served judge and without one."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import KBBenchError, UsageError
from tests.servers.scripted import MODEL, ScriptedServer


@pytest.fixture
def answers(in_tmp: Path) -> Path:
    hasty = next(file for file in shipped_answers("mini-genres") if file.stem == "hasty")
    shutil.copy(hasty, in_tmp / "hasty.jsonl")
    return Path("hasty.jsonl")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(kbbench, list(arguments), standalone_mode=False)


def annotate(answers: Path, *options: str) -> Result:
    return run("annotate", str(answers), "--benchmark", "mini-genres", *options)


def test_a_served_judge_gives_scores_that_need_no_model(answers: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"supported": true}') as server:
        done = annotate(answers, "--fact-judge", MODEL, "--base-url", server.url, "--json")
        assert done.exception is None
        assert json.loads(done.output)["factualness"] == {"ok": 34}  # 35 triples, one of them twice
    scored = run("score", str(answers), "--benchmark", "mini-genres", "--mode", "fixed", "--json")
    result = json.loads(scored.output)
    assert result["scores"]["factualness"]["value"] == pytest.approx(22 / 24)  # silent twice
    assert result["scores"]["granularity"]["n_scored"] == 0
    assert json.loads(result["versions"]["annotations:factualness"])["judge"].startswith(f"chat:{MODEL}@")


def test_a_judge_that_fails_tells_so_and_goes_on_when_asked_again(answers: Path) -> None:
    options = ("--fact-judge", MODEL, "--base-url")
    with ScriptedServer(answer=lambda payload: "true") as server:
        server.always = "500"
        server_down = annotate(answers, *options, server.url, "--max-requests", "3", "--json")
        assert isinstance(server_down.exception, KBBenchError)
        server.always = None
        again = annotate(answers, *options, server.url, "--json")
        assert again.exception is None and json.loads(again.output)["factualness"] == {"ok": 34}


def test_topics_are_annotated_for_both_modes(answers: Path) -> None:
    pytest.importorskip("gensim")
    assert annotate(answers, "--topics", "--json").exception is None
    found = sorted(file.name for file in Path("hasty.annotations").glob("*.parquet"))
    assert found == ["topics-fixed.parquet", "topics-reference.parquet"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Nothing to annotate"),
        (("--fact-judge", "gpt-4"), "expected nli:MODEL"),
        (("--topics", "--corpus", "nowhere.txt"), "does not exist"),
        (("--calibrate", "GenRES"), "needs --embedder, and --thresholds"),
    ],
)
def test_what_is_missing_is_said(answers: Path, options: tuple[str, ...], message: str) -> None:
    found = annotate(answers, *options)
    assert isinstance(found.exception, UsageError) and message in str(found.exception)
    assert not Path("hasty.annotations").exists()


def test_other_benchmarks_need_no_annotations(answers: Path) -> None:
    found = run("annotate", str(answers), "--benchmark", "mini-text2kg", "--topics")
    assert "is scored without annotations" in str(found.exception)
