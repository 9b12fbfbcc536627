"""`kbbench annotate` on the small benchmark, with a served judge and without one."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.shards import IncompleteError
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.table import board
from kbbench_hf.runners.refusal_scope import CANARY
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score
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


def test_a_pipe_has_no_place_for_annotations(in_tmp: Path) -> None:
    with pytest.raises(UsageError, match=r"standard input is a pipe, .* Write it to a file first"):
        raise run("annotate", "-", "--benchmark", "mini-genres").exception or AssertionError
    assert not list(in_tmp.glob("*.annotations"))


def test_the_board_is_told_of_a_model_that_judged_itself(answers: Path, in_tmp: Path) -> None:
    folder = in_tmp / "run"
    folder.mkdir()
    (folder / "run.json").write_text(
        json.dumps({"settings": {**load_examples("mini-genres").settings(), "model": "m"}})
    )
    shutil.copy(answers, folder / "predictions.jsonl")
    with ScriptedServer(answer=lambda payload: '{"supported": true}') as server:
        done = run("annotate", str(folder), "--fact-judge", "Org/M", "--base-url", server.url)
    assert done.exception is None
    assert run("submit", str(folder), "--name", "a system", "--store", "store").exception is None
    (row,) = (row for row in board(Index(Store(Path("store"))), score(folder).task_key) if row.badge != "published")
    assert "m judged its own predictions" in str(row.warnings)


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


@pytest.mark.parametrize("judge", ["surface", MODEL])
def test_a_judge_in_shards_makes_the_annotations_of_one_process_and_sends_nothing_twice(
    answers: Path, judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbbench_hf.runners.judge._JUDGE_BATCH", 5)
    monkeypatch.setattr("kbbench_hf.files.shards.LATE_S", (0.0,))

    def answer(payload: dict[str, object]) -> str:
        text = json.dumps(payload)
        parts = '{"sub_triples": []}' if len(text) % 2 else '{"sub_triples": [["a", "b", "c"], ["d", "e", "f"]]}'
        return json.dumps({"supported": len(text) % 3 == 0}) if "supports a statement" in text else parts

    with ScriptedServer(answer=answer) as server:
        options = ["--fact-judge", judge, "--split-judge", judge]
        options += ["--base-url", server.url] if judge == MODEL else []

        def n_sent() -> int:
            return sum(n for prompt, n in server.attempts.items() if prompt != CANARY.messages[-1]["content"])

        assert annotate(answers, *options, "--out", "whole").exception is None
        n = n_sent()
        for shard in ("1/3", "3/3", "1/3"):
            ended = annotate(answers, *options, "--shard", shard)
            assert ended.exception is None and "has ended. " in ended.output
        early = annotate(answers, *options, "--collect")
        assert isinstance(early.exception, IncompleteError) and "(shards 2 of 3 have not ended)" in str(early.exception)
        assert not [*Path("hasty.annotations").glob("*.parquet")]
        last = annotate(answers, *options, "--shard", "2/3")
        assert last.exception is None and "factualness: {'ok': 34}" in last.output and n_sent() == 2 * n
    (folder,) = Path().glob("hasty*annotations")
    for kind in ("factualness", "granularity"):
        assert (folder / f"{kind}.parquet").read_bytes() == Path(f"whole/{kind}.parquet").read_bytes()


def test_shards_are_of_judges(answers: Path) -> None:
    for options, words in (
        ("--stored-cosines", "expected one. Name it"),
        ("--calibrate", "--calibrate is not divided"),
    ):
        done = annotate(answers, options, str(answers), "--shard", "1/2")
        assert isinstance(done.exception, UsageError) and words in str(done.exception)


def test_a_judge_that_fails_tells_so_and_goes_on_when_asked_again(answers: Path) -> None:
    options = ("--fact-judge", MODEL, "--base-url")
    with ScriptedServer(answer=lambda payload: "true") as server:
        server.always = "500"
        server_down = annotate(answers, *options, server.url, "--max-requests", "3", "--json")
        assert isinstance(server_down.exception, KBBenchError)
        server.always = None
        again = annotate(answers, *options, server.url, "--json")
        assert again.exception is None and json.loads(again.output)["factualness"] == {"ok": 34}


def test_a_run_annotates_its_answers_and_keeps_what_was_said_of_them(in_tmp: Path) -> None:
    pytest.importorskip("gensim")

    def answer(payload: dict[str, object]) -> str:
        asked = json.dumps(payload)
        if "supports a statement" in asked:
            return json.dumps({"supported": len(asked) % 2 == 0})
        return (
            '{"sub_triples": []}' if "one fact or several" in asked else '[["Ada", "met", "Bo"], ["Bo", "met", "Cy"]]'
        )

    with ScriptedServer(answer=answer) as server:
        named = ("run", "mini-genres", "--model", MODEL, "--base-url", server.url, "--out", "mine", "--json")
        done = run(*named, "--annotate", f"llm:{MODEL}", "--judge-base-url", server.url)
        asked = len(server.requests)
        again = run(*named)
    assert done.exception is None and again.exception is None and len(server.requests) == asked
    found = json.loads(done.stdout)["scores"]
    assert 0 < found["factualness"]["value"] < 1 and found["factualness"]["n_scored"] == 24
    stations = [again.stdout, run("score", "mine", "--json").stdout, Path("mine/result.json").read_text()]
    assert [json.loads(each)["scores"] for each in stations] == [found] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--annotate", "a,b"), "names no annotators"),
        (("--annotate", "nli:a,hf:b"), "names no annotators"),
        (("--judge-base-url", "http://127.0.0.1:9"), "needs --annotate JUDGE,EMBEDDER"),
    ],
)
def test_a_run_refuses_annotators_that_it_cannot_use_before_it_asks(
    in_tmp: Path, options: tuple[str, ...], message: str
) -> None:
    found = run("run", "mini-genres", "--model", MODEL, "--base-url", "http://127.0.0.1:9", "--out", "mine", *options)
    assert isinstance(found.exception, UsageError) and message in str(found.exception)
    assert not Path("mine").exists()


def test_annotating_a_run_scores_it_again(in_tmp: Path) -> None:
    pytest.importorskip("gensim")
    with ScriptedServer(answer=lambda payload: '[["Ada", "met", "Bo"]]') as server:
        assert run("run", "mini-genres", "--model", MODEL, "--base-url", server.url, "--out", "mine").exception is None
    assert run("annotate", "mine", "--topics").exception is None
    assert json.loads(Path("mine/result.json").read_text())["scores"]["topical_similarity"]["n_scored"] == 24


def test_topics_are_annotated_for_both_modes(answers: Path) -> None:
    pytest.importorskip("gensim")
    assert annotate(answers, "--topics", "--json").exception is None
    found = sorted(file.name for file in Path("hasty.annotations").glob("*.parquet"))
    assert found == ["topics-fixed.parquet", "topics-reference.parquet"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fact-judge", "gpt-4"), "expected surface, nli:MODEL"),
        (("--topics", "--corpus", "nowhere.txt"), "does not exist"),
        (("--calibrate", "GenRES"), "needs --fact-judge, --split-judge, or --embedder"),
    ],
)
def test_what_is_missing_is_said(answers: Path, options: tuple[str, ...], message: str) -> None:
    found = annotate(answers, *options)
    assert isinstance(found.exception, UsageError) and message in str(found.exception)
    assert not Path("hasty.annotations").exists()


def test_a_fact_judge_judges_triples_of_any_benchmark_that_has_texts(in_tmp: Path) -> None:
    pattern = next(file for file in shipped_answers("mini-text2kg") if file.stem == "pattern")
    shutil.copy(pattern, "pattern.jsonl")
    on = ("pattern.jsonl", "--benchmark", "mini-text2kg")
    assert "factualness" not in json.loads(run("score", *on, "--json").stdout)["scores"]
    assert run("annotate", *on, "--fact-judge", "surface").exception is None
    found = json.loads(run("score", *on, "--json").stdout)
    assert 0.5 < found["scores"]["factualness"]["value"] <= 1
    assert "judge_agreement" in {each["code"] for each in found["warnings"]}
    assert "uses no embedder" in str(run("annotate", *on, "--embedder", "org/model").exception)
    assert "Name a judge" in str(run("annotate", *on, "--topics").exception)


def test_other_benchmarks_need_no_annotations(in_tmp: Path) -> None:
    first = next(iter(shipped_answers("mini-ska")))
    found = run("annotate", str(first), "--benchmark", "mini-ska", "--topics")
    assert "is scored without annotations" in str(found.exception)
