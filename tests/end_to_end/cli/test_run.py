"""`kbbench run` and `report`: on a scripted server and on the small benchmarks; interrupted, resumed, refused."""

import html
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf import compare, score
from kbbench_hf.errors import UsageError
from kbbench_hf.scoring.eval_task import load_examples
from tests.servers.scripted import MALFORMED, MODEL, Reply, ScriptedServer

ANSWER = '{"triples": [{"subject": "Petrel", "relation": "captain", "object": "Ines Calder"}]}'
PRICES = f"""\
as_of: 2026-11-01
currency: EUR
models:
  {MODEL}: {{input_per_million: 10, output_per_million: 20}}
"""


@pytest.fixture(scope="module")
def server():
    with ScriptedServer(answer=lambda payload: ANSWER) as running:
        yield running


def on(server: ScriptedServer, *options: object) -> list[object]:
    return ["run", "mini-text2kg", "--base-url", server.url, "--model", MODEL, *options]


def test_a_served_model_is_asked_scored_and_shown_with_its_tokens_and_cost(kbbench, server):
    Path("prices.yaml").write_text(PRICES)
    done = kbbench(*on(server, "--prices", "prices.yaml", "--limit", 10))
    assert done.code == 0
    assert "10 responses: 0 errors, 0 unparsable, 0 truncated" in done.out
    # 10 questions and a canary before and after: 12 requests of 100 tokens in and 10 out, 12 * (1000 + 200) / 1e6 EUR
    assert (
        "12 requests, 1,200 prompt tokens, 120 completion tokens, 0.0144 EUR (prices of 2026-11-01); latency p50 "
        in done.out
    )
    folder = Path(done.out.splitlines()[-1].removeprefix("View the report: kbbench report "))
    assert {file.name for file in folder.iterdir()} >= {"run.json", "predictions.jsonl", "scores.jsonl", "result.json"}


def test_the_only_model_of_a_server_needs_no_name(kbbench, server):
    named = kbbench(*on(server, "--limit", 3))
    done = kbbench("run", "mini-text2kg", "--base-url", server.url, "--limit", 3)
    assert (done.code, done.out) == (0, named.out)  # the same folder, which is finished
    assert f"{server.url} serves the model {MODEL}." in done.err
    with ScriptedServer(pages={"/v1/models": {"data": [{"id": "a/b"}, {"id": "c"}]}}) as other:
        refused = kbbench("run", "mini-text2kg", "--base-url", other.url)
        assert (refused.code, len(other.requests)) == (2, 0)
    assert "serves 2 models: a/b, c. Expected one of them. Add --model a/b." in refused.err
    assert "Missing option '--model'" in kbbench("run", "mini-stark", "--base-url", server.url).err


def test_doctor_describes_a_server_and_proposes_options_that_a_run_takes(kbbench, server):
    done = kbbench("doctor", "--base-url", server.url)
    assert done.code == 0
    assert f"model      {MODEL}" in done.out
    *_, proposed = done.out.splitlines()
    assert proposed.startswith(f"kbbench run NAME --base-url {server.url} --concurrency ")
    ran = kbbench(*proposed.replace("NAME", "mini-text2kg").split()[1:], "--limit", 2)
    assert ran.code == 0
    assert "--model is for a server; expected --base-url URL" in kbbench("doctor", "--model", "m").err
    assert "does not answer" in kbbench("doctor", "--base-url", "http://127.0.0.1:9").err


def test_json_is_alone_on_standard_output_and_progress_on_standard_error(kbbench, server):
    done = kbbench(*on(server, "--limit", 3, "--json"))
    result = json.loads(done.out)
    assert result["summary"]["n_answered"] == 3
    assert Path(result["run"], "result.json").is_file()
    assert "3/3" in done.err
    ranked = kbbench("run", "mini-stark", "--model", "bm25", "--limit", 3, "--json")
    assert json.loads(ranked.out)["counters"]["n_examples"] == 3
    assert "3/3" in ranked.err


def test_the_same_run_again_asks_nothing(kbbench, server):
    first = kbbench(*on(server, "--limit", 4, "--out", "here"))
    asked = len(server.requests)
    again = kbbench(*on(server, "--limit", 4, "--out", "here"))
    assert len(server.requests) == asked
    assert [line for line in again.out.splitlines() if "latency" not in line] == [
        line for line in first.out.splitlines() if "latency" not in line
    ]


def test_another_run_in_the_same_folder_is_refused_with_what_differs(kbbench, server):
    assert kbbench("run", "mini-stark", "--model", "bm25", "--out", "here", "--limit", 3).code == 0
    before = Path("here/predictions.jsonl").read_bytes()
    done = kbbench("run", "mini-stark", "--model", "graph:bm25", "--out", "here", "--limit", 3)
    assert done.code == 2
    assert "its model is 'bm25', not 'graph(bm25)'" in done.err
    done = kbbench(*on(server, "--out", "here"))
    assert (done.code, "its benchmark is 'mini-stark', not 'mini-text2kg'" in done.err) == (2, True)
    assert Path("here/predictions.jsonl").read_bytes() == before


def test_a_dry_run_shows_prompt_tokens_cost_and_time_and_sends_one_request(kbbench, server):
    Path("prices.yaml").write_text(PRICES)
    asked = len(server.requests)
    done = kbbench(*on(server, "--dry-run", "--prices", "prices.yaml", "--limit", 2))
    assert done.code == 0
    assert done.out.startswith("[system]\n")
    assert "2 prompts, about " in done.out
    assert re.search(r"time \d+\.\d s to \d+\.\d s\nassuming .* for each request, 32 at once or one by one", done.out)
    assert re.search(r"One request was sent to the server at http://.* Its reply is thrown away\.\n$", done.out)
    assert len(server.requests) == asked + 1
    found = json.loads(kbbench(*on(server, "--dry-run", "--json", "--limit", 2, "--repeat", 3)).out)
    assert found["n_prompts"] == 6
    assert found["seconds_one_by_one"] == pytest.approx(6 * found["seconds_per_request"])
    assert not Path("kbbench-runs").exists()


def test_a_dry_run_says_why_the_time_is_not_measured(kbbench, server):
    asked = len(server.requests)
    away = kbbench("run", "mini-text2kg", "--model", "m", "--base-url", "http://127.0.0.1:9", "--dry-run")
    assert (away.code, "time about 15.4 s if the assumptions hold; no request was measured" in away.out) == (0, True)
    assert "The time is not measured, no request was answered: http://127.0.0.1:9/v1 does not answer" in away.out
    keyless = kbbench(*on(server, "--dry-run", "--api-key-env", "KBBENCH_NO_SUCH_KEY"))
    assert "not measured, no request was answered: The environment variable KBBENCH_NO_SUCH_KEY" in keyless.out
    local = kbbench("run", "mini-text2kg", "--model", "hf:nobody/nothing", "--dry-run")
    assert local.out.endswith("Nothing was sent.\n")
    assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-cost", 1], "--max-cost needs --prices"),
        (["--api-key-env", "KBBENCH_NO_SUCH_KEY"], "variable KBBENCH_NO_SUCH_KEY is not set"),
        (["--top-k", 5], "--top-k is for retrievers; mini-text2kg evaluates language models"),
        (["--prices", "nothing.yaml"], "'nothing.yaml' does not exist"),
        (["--limit", 0], "0 is not in the range x>=1"),
        (["--out", "here", "--mode", "repared"], "Did you mean 'repaired'?"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_sent_or_written(kbbench, server, options, message):
    asked = len(server.requests)
    done = kbbench(*on(server, *options))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(server.requests) == asked
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "bm25", "--dry-run"], "--dry-run is for language models; mini-stark evaluates retrievers"),
        (
            ["--model", "bm25", "--base-url", "http://127.0.0.1:9"],
            "let a language model there re-rank: --model bm25 --rerank llm:NAME",
        ),
        (
            ["--model", "my-llm", "--base-url", "http://127.0.0.1:9"],
            "can re-rank its results (--model bm25 --rerank llm:my-llm)",
        ),
        (
            ["--model", "bm25", "--rerank", "llm:x", "--max-cost", 1, "--base-url", "http://127.0.0.1:9"],
            "needs --prices",
        ),
        (["--model", "bm25", "--rerank", "llm:x"], "'x' is not a local model"),
        (["--model", "knn"], "mini-stark has no split 'train'"),
        (["--model", "dense:"], "expected which model dense uses"),
        (["--model", "bm25", "--processes", 2], "1 process(es) are running, but --processes is 2"),
    ],
)
def test_a_retrieval_run_that_makes_no_sense_is_refused(kbbench, options, message):
    done = kbbench("run", "mini-stark", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not list(Path().iterdir())


def test_a_price_file_without_a_date_is_bad_data(kbbench, server):
    Path("prices.yaml").write_text(PRICES.replace("as_of", "since"))
    done = kbbench(*on(server, "--prices", "prices.yaml"))
    assert (done.code, "Expected as_of (a date)" in done.err) == (65, True)


def test_a_server_that_is_down_is_named(kbbench):
    done = kbbench("run", "mini-text2kg", "--base-url", "http://127.0.0.1:9", "--model", "x")
    assert done.code == 1
    assert "http://127.0.0.1:9/v1 does not answer" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("status", "remedy"), [("401", "Is the API key right?"), ("404", "serve the model 'gpt'?")])
def test_a_refusal_ends_the_run_with_a_remedy_and_without_the_key(kbbench, monkeypatch, status, remedy):
    monkeypatch.setenv("SOME_KEY", "sk-planted-secret")
    with ScriptedServer(always=status) as refusing:
        done = kbbench("run", "mini-text2kg", "--base-url", refusing.url, "--model", "gpt", "--api-key-env", "SOME_KEY")
        assert len(refusing.requests) <= 32
    assert done.code == 2
    assert f"HTTP {status}" in done.err
    assert remedy in done.err
    files = [file.read_text(encoding="utf-8") for file in Path().rglob("*") if file.is_file()]
    assert all("sk-planted-secret" not in text for text in [done.out, done.err, *files])


TOO_LARGE = Reply(400, b'{"error": {"message": "max_tokens is too large for this", "param": "max_tokens"}}')


def test_failed_requests_are_scored_as_missing_and_the_exit_code_says_so(kbbench):
    with ScriptedServer(answer=lambda payload: ANSWER) as failing:
        # the third chat request, after the canary and one prompt; what is asked again after it is answered
        failing.reply = lambda payload: TOO_LARGE if len(failing.times) == 3 else None
        done = kbbench(*on(failing, "--limit", 3, "--concurrency", 1))
    assert done.code == 1
    assert "2 of 3 responses: 1 error (parameter_refused 1)" in done.out
    assert "1 of 3 examples has no prediction" in done.out or "1 of 3 examples have no prediction" in done.out
    assert "1 of 3 requests failed and are scored as missing. Run the same command again" in done.err


def test_json_output_is_one_document_also_where_requests_failed(kbbench):
    with ScriptedServer(answer=lambda payload: ANSWER) as failing:
        failing.reply = lambda payload: TOO_LARGE if len(failing.times) == 3 else None
        done = kbbench(*on(failing, "--limit", 3, "--concurrency", 1, "--json"))
    assert (done.code, json.loads(done.out)["scores"]["f1"]["n_missing"]) == (1, 1)


@pytest.mark.parametrize("kind", ["content_filter", "refusal"])
def test_a_run_without_a_single_response_fails_and_is_not_sent_again(kbbench, kind):
    with ScriptedServer(always=kind.replace("_", " ")) as refusing:
        done = kbbench(*on(refusing, "--limit", 3, "--out", "here"))
        sent = len(refusing.requests)
        again = kbbench(*on(refusing, "--limit", 3, "--out", "here"))
        assert len(refusing.requests) == sent
    for each in (done, again):
        assert each.code == 1
        assert "0 of 3 responses: 3 errors" in each.out
        assert f"All 3 requests failed ({kind}) and are scored as missing. Expected at least one response." in each.err
    assert "refused 3 of 3 prompts" in done.out


def test_refusals_of_some_prompts_are_an_outcome_and_no_failure(kbbench):
    with ScriptedServer(answer=lambda payload: ANSWER) as server:
        filtered = json.dumps(MALFORMED["content filter"]("")).encode()
        server.reply = lambda payload: Reply(200, filtered) if len(server.times) in (3, 4) else None
        done = kbbench(*on(server, "--limit", 3, "--concurrency", 1))
    assert (done.code, "1 of 3 responses: 2 errors (content_filter 2)" in done.out) == (0, True)


def test_a_server_that_takes_no_prompt_is_said_to_refuse_what_it_names(kbbench):
    with ScriptedServer(reply=lambda payload: TOO_LARGE) as failing:
        done = kbbench(*on(failing, "--limit", 3))
    assert done.code == 2
    assert "refused the parameter 'max_tokens' with HTTP 400" in done.err


def test_an_interrupted_run_prints_the_command_that_goes_on_and_it_does(in_tmp):
    with ScriptedServer(answer=lambda payload: ANSWER, hold_from=9) as server:
        command = [sys.executable, "-m", "kbbench_hf.cli", *map(str, on(server, "--concurrency", 4, "--json"))]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:
            server.wait_for(10)
            second = subprocess.run(command, capture_output=True, text=True, env=environment)
            running.send_signal(signal.SIGINT)
            server.release()
            _, message = running.communicate(timeout=600)
        assert second.returncode == 75
        assert f"is in use by process {running.pid}" in second.stderr
        assert running.returncode == 130
        words = " ".join(map(str, command[3:]))
        assert message.endswith(f"\nTo resume: python -m kbbench_hf.cli {words}\n")
        assert "Traceback" not in message
        before = len(server.requests)
        resumed = json.loads(subprocess.run(command, capture_output=True, text=True, env=environment).stdout)
    # 48 sentences in all; the canary is asked again at the start and at the end.
    assert resumed["summary"]["n_answered"] == 48
    assert len(server.requests) - before == 48 + 2 - (before - 1)
    assert resumed["counters"]["n_missing"] == 0


def test_a_reranked_run_keeps_the_first_ranking_and_says_how_many_answers_were_read(kbbench):
    with ScriptedServer(answer=lambda payload: "0.5") as judge:
        options = ["--model", "bm25", "--limit", 2, "--out", "first", "--depth", 5]
        done = kbbench("run", "mini-stark", *options, "--rerank", f"llm:{MODEL}", "--base-url", judge.url)
    assert done.code == 0
    assert "10 responses: 0 errors" in done.out
    assert "0 responses without a score" in done.out
    reranked = Path(done.out.splitlines()[-1].removeprefix("View the report: kbbench report "))
    first, second = (
        [json.loads(line)["ids"] for line in (folder / "predictions.jsonl").read_text().splitlines()]
        for folder in (Path("first-base"), reranked)
    )
    assert reranked == Path("first")
    assert first == second  # the same score for all: the first ranking decides


def test_report_writes_a_page_beside_the_run(kbbench):
    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", 3, "--out", "here").code == 0
    assert kbbench("report", "here") == (0, "here/report.html\n", "")
    assert "bm25" in Path("here/report.html").read_text(encoding="utf-8")
    assert kbbench("report", "here", "--out", "page.html").out == "page.html\n"


def test_report_refuses_what_is_no_run(kbbench):
    Path("empty").mkdir()
    for what, message in (("empty", "holds no result.json"), ("mini-stark", "For a dataset, add --dataset.")):
        done = kbbench("report", what)
        assert (done.code, message in done.err) == (2, True)
    done = kbbench("report", "mini-ska", "--dataset")
    assert (done.code, "has no statistics" in done.err) == (2, True)


def test_a_record_of_a_run_that_was_cut_off_is_named_without_a_trace(kbbench):
    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", 3, "--out", "here").code == 0
    for name, command in (
        ("result.json", ["report", "here"]),
        ("run.json", ["run", "mini-stark", "--model", "bm25", "--limit", 3, "--out", "here"]),
    ):
        file = Path("here") / name
        file.write_text(file.read_text()[:20])
        done = kbbench(*command)
        assert done.code == 65
        assert f"here/{name} is not the JSON that was written there" in done.err
        assert "Traceback" not in done.err


def test_report_describes_a_dataset(kbbench):
    done = kbbench("report", "mini-stark", "--dataset")
    assert done.code == 0
    assert Path("mini-stark-lengths.png").read_bytes().startswith(b"\x89PNG")
    rows = dict(line.strip().rsplit("  ", 1) for line in done.out.splitlines() if "  " in line.strip())
    assert {name.strip(): value.strip() for name, value in rows.items()}["nodes"] == "281"


def test_comparisons_of_a_run_with_repeats_use_each_examples_mean_and_say_so_everywhere(kbbench):
    seen: set[str] = set()

    def right_once(payload: dict[str, Any]) -> str:
        sentence = payload["messages"][-1]["content"]
        row = next((row for row in rows if sentence.endswith(row["sentence"])), None)
        if row is None or sentence in seen:
            return "[]"
        seen.add(sentence)
        return json.dumps([{"subject": t["sub"], "relation": t["rel"], "object": t["obj"]} for t in row["triples"]])

    rows = load_examples("mini-text2kg", mode="repaired").examples.rows
    with ScriptedServer(answer=right_once) as server:
        assert kbbench(*on(server, "--mode", "repaired", "--repeat", 2, "--out", "twice")).code == 0
        assert kbbench(*on(server, "--mode", "repaired", "--out", "once")).code == 0
    note = "Scores and tests use each example's mean over repeats: {} (2 repeats)."
    remedy = "name its file in the run folder, such as predictions.1.jsonl."
    done = kbbench("compare", "twice", "once", "--json")
    found = json.loads(done.out)
    assert found["tests"]["recall"]["difference"] == found["systems"]["A"]["scores"]["recall"]["value"] == 0.5
    assert found["systems"]["A"]["repeats"]["recall"] == [1.0, 0.0]
    assert "repeats" not in found["systems"]["B"]
    assert [each["severity"] for each in found["warnings"] if note.format("A") in each["message"]] == ["note"]
    text = kbbench("compare", "twice", "once", "--notes").out
    assert "A twice (mean of 2 repeats)\nB once\n" in text
    assert note.format("A") in " ".join(text.split()) and remedy in " ".join(text.split())
    comparison = compare("twice", "once")
    assert comparison.tests["recall"].difference == 0.5
    assert "repeats" in {each.code for each in comparison.warnings}
    with_results = compare(score("twice"), score("once"))  # results are compared as their folders are
    assert with_results.tests == comparison.tests
    table = kbbench("compare", "twice", "once", "--table", "csv", "--metrics", "recall").out
    assert ",0.5" in table and ",0.0" in table
    assert kbbench("report", "twice", "once", "--out", "page.html").code == 0
    page = html.unescape(Path("page.html").read_text(encoding="utf-8"))
    latex = kbbench("compare", "twice", "once", "--table", "latex").out
    assert note.format("scripted-model") in page and note.format("scripted-model") in latex
    # one repeat, by the name of its file, and runs without repeats have no note
    for first, difference in (("twice/predictions.jsonl", 1.0), ("twice/predictions.1.jsonl", 0.0)):
        alone = kbbench("compare", first, "once", "--json", "--mode", "repaired", "--benchmark", "mini-text2kg")
        assert json.loads(alone.out)["tests"]["recall"]["difference"] == difference
        assert "mean over repeats" not in alone.out
    assert json.loads(Path("twice", "result.json").read_text())["scores"]["recall"]["value"] == 1.0


def test_runs_with_different_prompts_are_compared_only_when_requested(kbbench) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["7"]}') as server:
        runs = {"a": "paper", "b": "clean", "c": "clean"}
        for out, prompt in runs.items():
            options = ("--prompt", prompt, "--limit", 5, "--out", out, "--base-url", server.url)
            assert kbbench("run", "mini-ska/noise_table_1k", "--model", MODEL, *options).code == 0
    for command in (("compare", "a", "b"), ("compare", "a", "c", "b"), ("report", "a", "b")):
        refused = " ".join(kbbench(*command).err.split())
        assert "used different prompts: " in refused and ": paper; " in refused and "--across-prompts" in refused
    assert kbbench("compare", "a", "b").code == 2
    with pytest.raises(UsageError) as code:
        compare(score("a"), score("b"))
    assert code.value.code == "prompts"
    found = json.loads(kbbench("compare", "a", "b", "--across-prompts", "--json").out)
    assert [found["systems"][each]["prompt"]["name"] for each in "AB"] == ["paper", "clean"]
    (warning,) = [each for each in found["warnings"] if each["code"] == "different_prompts"]
    assert "(A: paper; B: clean)" in warning["message"]
    (block,) = json.loads(kbbench("compare", "a", "b", "c", "--across-prompts", "--json").out)
    assert sorted(each["prompt"]["name"] for each in block["systems"]) == ["clean", "clean", "paper"]
    assert kbbench("report", "a", "b", "--across-prompts", "--out", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "prompts: " in page and ": paper" in page and "used different prompts" in page
    assert all(each.code != "different_prompts" for each in compare("b", "c").warnings)
