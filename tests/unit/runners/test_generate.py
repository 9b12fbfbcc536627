import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import Prompt, of_text
from kbbench_hf.benchmarks.text2kgbench.benchmark import parse_json
from kbbench_hf.errors import InterruptedRunError, KBBenchError, UsageError
from kbbench_hf.llm.concurrency import TimeoutLimit
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.runners.cost import BudgetSpentError, Price
from kbbench_hf.runners.generate import Generation, generate, slow_warnings
from kbbench_hf.runners.jobs import Sampling, Work
from tests.endurance.faults import ask as ask_with_faults
from tests.endurance.kills import CONCURRENCY, kill_and_resume
from tests.endurance.mutations import ask as ask_mutated
from tests.servers.scripted import MODEL, TRANSIENT, ScriptedServer, answer_to

split = of_text(str.split)


QUICK = {"show": False, "canary": False, "attempts": 2, "concurrency": 8}


def prompts_of(n: int) -> dict[Any, Prompt]:
    return {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(n)}


def right(i: int) -> str:
    return answer_to(f"prompt {i}")


def run(server: ScriptedServer, folder: Path, n: int = 20, **options: Any) -> Generation:
    model = options.pop("model", None) or Endpoint(server.url, MODEL, timeout_s=1.0)
    prompts = options.pop("prompts", None) or prompts_of(n)
    return generate(prompts, model, folder, **QUICK | options)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def test_every_prompt_is_answered_and_paired_by_id(tmp_path: Path) -> None:
    # Later prompts are answered sooner, so that pairing by arrival would be wrong.
    with ScriptedServer() as server:
        done = run(server, tmp_path, 50, parse=split, answer="answers")
    assert done.responses() == {f"q{i}": right(i) for i in range(50)}
    assert lines_of(tmp_path / "predictions.jsonl") == [
        {
            "id": f"q{i}",
            "answers": right(i).split(),
            "read_by": "split",
            "response": right(i),
            "system_fingerprint": "fp_scripted",
        }
        for i in range(50)
    ]
    summary = done.summary
    assert (summary.n_prompts, summary.n_answered, summary.n_failed, summary.n_requests) == (50, 50, 0, 50)
    assert (summary.prompt_tokens, summary.completion_tokens) == (5000, 500)  # 50 * 100, 50 * 10


def test_a_finished_run_asks_nothing_again_and_writes_the_same_bytes(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        run(server, tmp_path, parse=split)
        first = (tmp_path / "predictions.jsonl").read_bytes()
        again = run(server, tmp_path, parse=split)
        assert len(server.requests) == 20
    assert (tmp_path / "predictions.jsonl").read_bytes() == first
    assert again.summary.n_answered == again.summary.n_requests == 20


def test_a_larger_limit_asks_only_what_is_new(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        run(server, tmp_path, 5)
        run(server, tmp_path, 8)
        assert [prompt for prompt, _ in server.requests].count("prompt 3") == 1
        assert len(server.requests) == 8


def test_other_parameters_are_asked_anew(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        run(server, tmp_path, 2)
        run(server, tmp_path, 2, sampling=Sampling(temperature=0.5))
        assert len(server.requests) == 4


def test_repeats_are_files_of_their_own_with_seeds_of_their_own(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        done = run(server, tmp_path, 3, repeats=2, sampling=Sampling(0.7, seed=5), parse=split)
        assert sorted(payload["seed"] for payload in server.payloads) == [5, 5, 5, 6, 6, 6]
    assert [line["id"] for line in lines_of(tmp_path / "predictions.1.jsonl")] == ["q0", "q1", "q2"]
    assert [(record["id"], record["repeat"]) for record in done.records()] == [
        (f"q{i}", r) for r in (0, 1) for i in range(3)
    ]


def test_the_key_of_a_completion_is_the_same_everywhere() -> None:
    work = Work({"q": Prompt([{"role": "user", "content": "é"}])}, Sampling())
    # sha256 of ["m", [{"content": "\u00e9", "role": "user"}], {"max_tokens": 512, "temperature": 0.0}, null, "q", 0]
    assert next(work.jobs("m")).key == "3bb98f1b55bf328b14a47d5925fbc8d07abfb62c5bf52ba7629316a086d3272c"


MALFORMED_OUTCOMES = {
    # kind: (error or None, parse failure, cut off, empty, requests for one prompt)
    "choices empty": ("no_choices", False, False, False, 2),
    "choices null": ("no_choices", False, False, False, 2),
    "content null": ("no_content", False, False, False, 2),
    "content missing": ("no_content", False, False, False, 2),
    "content empty": (None, True, False, True, 1),
    "content parts": (None, False, False, False, 1),
    "error in 200": ("error_in_body", False, False, False, 2),
    "html": ("not_json", False, False, False, 2),
    "truncated json": ("not_json", False, False, False, 2),
    "empty body": ("empty_body", False, False, False, 2),
    "length": (None, False, True, False, 1),
    "content filter": ("content_filter", False, False, False, 1),
    "refusal": ("refusal", False, False, False, 1),
    "reasoning only": ("reasoning_only", False, False, False, 1),
    "no usage": (None, False, False, False, 1),
    "two choices": (None, False, False, False, 1),
    "invalid utf-8": ("not_utf8", False, False, False, 2),
    "spaces round it": (None, False, False, False, 1),
    "500": ("http_500", False, False, False, 2),
    "429": ("rate_limited", False, False, False, 2),
}


def words(text: str, _: object) -> ParsedReply[list[str]]:
    if not text.strip():
        raise ParseError("nothing in it")
    return ParsedReply(text.split(), "words")


@pytest.mark.parametrize("kind", MALFORMED_OUTCOMES)
def test_a_malformed_reply_ends_as_an_answer_or_as_an_error_and_stays_in_the_count(kind: str, tmp_path: Path) -> None:
    error, parse_failure, cut_off, empty, requests = MALFORMED_OUTCOMES[kind]
    spoilt = [3, 11, 17]
    with ScriptedServer(faults={f"prompt {i}": [kind] * 2 for i in spoilt}) as server:
        summary = run(server, tmp_path, parse=words, answer="answers").summary
        assert [server.attempts[f"prompt {i}"] for i in spoilt] == [requests] * 3
    assert summary.n_prompts == 20 == summary.n_answered + summary.n_failed
    assert summary.errors == ({error: 3} if error else {})
    assert (summary.n_parse_failures, summary.n_cut_off, summary.n_empty) == (3 * parse_failure, 3 * cut_off, 3 * empty)
    lines = lines_of(tmp_path / "predictions.jsonl")
    assert [line["id"] for line in lines] == [f"q{i}" for i in range(20)]
    for i, line in enumerate(lines):
        if i not in spoilt:
            assert line["response"] == right(i)
        elif error:
            assert (line["id"], line["error"], "answers" in line) == (f"q{i}", error, False)


def test_a_failed_prompt_is_asked_again_by_the_next_start_and_a_good_one_is_not(tmp_path: Path) -> None:
    with ScriptedServer(faults={"prompt 3": ["html"] * 2}) as server:
        assert run(server, tmp_path).summary.errors == {"not_json": 1}
        done = run(server, tmp_path)
        assert server.attempts["prompt 3"] == 3 and server.attempts["prompt 4"] == 1
    assert done.summary.n_failed == 0
    assert done.responses()["q3"] == right(3)


@pytest.mark.parametrize("kind", ["refusal", "content filter", "reasoning only"])
def test_what_the_model_would_not_answer_is_an_outcome_and_not_paid_for_again(kind: str, tmp_path: Path) -> None:
    with ScriptedServer(always=kind) as server:
        first = run(server, tmp_path, 60).summary
        again = run(server, tmp_path, 60).summary
        assert len(server.requests) == 60
    assert first.n_failed == again.n_failed == 60
    assert first.errors == again.errors == {kind.replace(" ", "_"): 60}


def test_a_server_that_only_talks_nonsense_still_gives_every_prompt_its_row(tmp_path: Path) -> None:
    with ScriptedServer(always="choices empty") as server:
        summary = run(server, tmp_path, 60, attempts=1, parse=split).summary
    assert (summary.n_prompts, summary.n_failed, summary.errors) == (60, 60, {"no_choices": 60})
    assert len(lines_of(tmp_path / "predictions.jsonl")) == 60


def test_transient_faults_end_as_right_answers(tmp_path: Path) -> None:
    kinds = [kind for kind in TRANSIENT if kind != "length"]
    faults = {f"prompt {i}": [kind] for i, kind in enumerate(kinds)}
    with ScriptedServer(faults=faults, retry_after_s=0.2, hang_s=3) as server:
        done = run(server, tmp_path, model=Endpoint(server.url, MODEL, timeout_s=0.5))
        assert sum(server.injected.values()) == len(kinds)
    assert done.responses() == {f"q{i}": right(i) for i in range(20)}
    assert done.summary.n_requests == 20 + len(kinds)


def test_thirty_percent_faults_leave_every_prompt_with_its_own_answer() -> None:
    outcome = ask_with_faults(300, 0.3, 0.01, 64, timeout_s=1.0)
    assert outcome.kinds == 10
    assert (outcome.answered, outcome.failed, outcome.mispaired) == (300, 0, 0)


def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    with ScriptedServer(faults={"prompt 0": ["429 retry-after"]}, retry_after_s=0.8) as server:
        started = time.monotonic()
        run(server, tmp_path, 1)
    assert time.monotonic() - started >= 0.8


def test_a_server_with_room_for_few_is_soon_asked_for_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_backoff_s: float
) -> None:
    monkeypatch.setattr("kbbench_hf.llm.concurrency.FIRST_BACKOFF_S", first_backoff_s)
    with ScriptedServer(latency_s=0.05, max_active=4) as server:
        done = run(server, tmp_path, 120, concurrency=16, attempts=8)
        assert done.summary.n_answered == 120
        assert server.injected["429"] < 120


@pytest.mark.parametrize("status", ["400", "401", "403", "404"])
@pytest.mark.parametrize("canary", [True, False])
def test_a_refusal_stops_the_run_at_once(status: str, canary: bool, tmp_path: Path) -> None:
    with ScriptedServer(always=status, latency_s=0.02) as server:
        with pytest.raises(UsageError, match=f"HTTP {status}: scripted {status}"):
            run(server, tmp_path, 500, canary=canary)
        assert len(server.requests) <= (1 if canary else QUICK["concurrency"])
    assert not (tmp_path / "predictions.jsonl").exists()


def test_a_key_that_is_revoked_in_the_middle_keeps_what_was_answered(tmp_path: Path) -> None:
    with ScriptedServer(latency_s=0.01, faults={"prompt 50": ["401"]}) as server:
        with pytest.raises(UsageError, match="API key"):
            run(server, tmp_path, 500)
        assert len(server.requests) <= 51 + 2 * 8
        server.faults.clear()
        run(server, tmp_path, 500)
        assert max(server.attempts.values()) <= 2 and sum(server.attempts.values()) <= 500 + 8


def test_a_server_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(KBBenchError, match="Is the server running at this address"):
        generate(prompts_of(1), Endpoint("http://127.0.0.1:9", MODEL), tmp_path, **QUICK)


def test_a_server_that_dies_stops_the_run_instead_of_failing_every_prompt(tmp_path: Path) -> None:
    with ScriptedServer(always="500") as server:
        with pytest.raises(KBBenchError, match="The last 20 examples all failed"):
            run(server, tmp_path, 500, attempts=1)
        assert len(server.requests) < 50


def test_the_requests_of_the_budget_are_never_exceeded_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with ScriptedServer(latency_s=0.005) as server:
        with pytest.raises(BudgetSpentError, match="All 13 requests"):
            run(server, tmp_path, 40, max_requests=13)
        assert len(server.requests) == 13
        run(server, tmp_path, 40, max_requests=40)
        assert len(server.requests) == 40  # those under way were waited for, so nothing was paid twice


def test_a_budget_that_the_last_canary_would_pass_ends_no_finished_run(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        assert run(server, tmp_path, 10, canary=True, max_requests=11).summary.n_answered == 10
        assert len(server.requests) == 11


def test_a_prompt_that_cannot_be_rendered_is_its_own_error(tmp_path: Path) -> None:
    class Broken(dict[Any, Prompt]):
        def __getitem__(self, example: Any) -> Prompt:
            if example == list(self)[3]:
                raise UsageError("no such demonstration")
            return super().__getitem__(example)

    with ScriptedServer() as server, pytest.raises(UsageError, match="no such demonstration"):
        run(server, tmp_path, prompts=Broken(prompts_of(5)))


def test_the_money_of_the_budget_is_passed_by_no_more_than_what_is_under_way(tmp_path: Path) -> None:
    price = Price(MODEL, 10.0, 10.0, "USD", "2026-11-01")  # 110 tokens: 0.0011 a request
    with ScriptedServer(latency_s=0.005) as server:
        with pytest.raises(BudgetSpentError, match=r"USD of --max-cost 0\.011"):
            run(server, tmp_path, 40, price=price, max_cost=0.011)
        assert 10 <= len(server.requests) <= 10 + 8
        with pytest.raises(BudgetSpentError):
            run(server, tmp_path, 40, price=price, max_cost=0.011)
        done = run(server, tmp_path, 40, price=price, max_cost=1.0)
    assert done.summary.cost == pytest.approx(40 * 0.0011)
    assert done.summary.prices_as_of == "2026-11-01"


def test_another_answer_to_the_canary_shows_that_the_model_changed(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        assert run(server, tmp_path, 2, canary=True).warnings == []
        server.answer = lambda payload: "from another model"
        changed = run(server, tmp_path, 3, canary=True)
    assert [warning.code for warning in changed.warnings] == ["canary_changed"]
    assert len(changed.summary.canaries) == 4


def test_an_ignored_schema_is_counted(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["score"]}
    prompts = {i: Prompt([{"role": "user", "content": f"prompt {i}"}], json_schema=schema) for i in range(4)}
    answers = {"prompt 0": '{"score": 1}'}
    with ScriptedServer(answer=lambda payload: answers.get(payload["messages"][-1]["content"], "high")) as server:
        done = run(server, tmp_path, prompts=prompts, structured=True)
        assert all("response_format" in payload for payload in server.payloads)
    assert done.summary.n_schema_violations == 3
    assert [record["schema_violation"] for record in done.records()] == [None, "not JSON", "not JSON", "not JSON"]


def test_prompts_may_be_rendered_on_demand(tmp_path: Path) -> None:
    class Rendered(Mapping[int, Prompt]):
        def __len__(self) -> int:
            return 10

        def __iter__(self) -> Iterator[int]:
            return iter(range(10))

        def __getitem__(self, key: int) -> Prompt:
            return Prompt([{"role": "user", "content": f"prompt {key}"}])

    with ScriptedServer() as server:
        assert run(server, tmp_path, prompts=Rendered()).responses() == {i: right(i) for i in range(10)}


def test_each_answer_of_a_local_model_has_the_seconds_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("kbbench_hf.runners.jobs.time.perf_counter", lambda: clock[0])

    class Local:
        name, batch_size = "local", 2

        def generate(self, prompts: list[Any], max_tokens: int) -> list[str]:
            clock[0] += 0.5 * len(prompts)
            return [prompt[-1]["content"] for prompt in prompts]

    done = run(ScriptedServer(), tmp_path, model=Local(), n=3)
    assert [(record["response"], record["latency_s"]) for record in done.records()] == [
        ("prompt 0", 1.0), ("prompt 1", 1.0), ("prompt 2", 0.5)
    ]  # fmt: skip


def test_it_runs_where_an_event_loop_is_running_already(tmp_path: Path) -> None:
    import asyncio

    async def notebook_cell() -> Generation:
        with ScriptedServer() as server:
            return run(server, tmp_path)

    assert asyncio.run(notebook_cell()).summary.n_answered == 20


@pytest.mark.full
def test_kills_lose_nothing_and_record_nothing_twice() -> None:
    outcome = kill_and_resume(kills=6, n=120)
    assert outcome.kills == 6
    assert (outcome.lost, outcome.recorded_twice, outcome.same_bytes) == (0, 0, True)
    assert outcome.resent <= outcome.kills * CONCURRENCY


RUN = """
import os, sys
from pathlib import Path
from kbbench_hf.benchmarks.base import Prompt, of_text
from kbbench_hf.errors import KBBenchError
from kbbench_hf.llm.endpoint import Endpoint, key_from_environment
from kbbench_hf.runners import chat_requests as ask_chat
from kbbench_hf.runners.generate import generate
from kbbench_hf.errors import InterruptedRunError
ask_chat.DRAIN_S = float(os.environ.get("KBBENCH_TEST_DRAIN_S", ask_chat.DRAIN_S))
stop = ask_chat.RequestSender._stop
def stop_and_tell(asker, *how):
    stop(asker, *how)
    print("stopping", flush=True)
ask_chat.RequestSender._stop = stop_and_tell
url, folder, n = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
prompts = {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(n)}
model = Endpoint(url, "scripted-model", key_from_environment("KBBENCH_TEST_KEY"))
try:
    generate(prompts, model, folder, concurrency=8, canary=False, parse=of_text(str.split))
except (InterruptedRunError, KBBenchError) as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
print(sorted({"torch", "evaluate", "transformers", "datasets"} & sys.modules.keys()))
"""


def start(server: ScriptedServer, folder: Path, n: int, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", RUN, server.url, str(folder), str(n)],
        env=os.environ | {"KBBENCH_TEST_KEY": "EMPTY"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_waits_for_what_is_under_way_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    with ScriptedServer(hold_from=40) as server:
        child = start(server, tmp_path, 400)
        server.wait_for(41)
        child.send_signal(signal.SIGINT)
        assert child.stdout is not None and child.stdout.readline() == "stopping\n"
        server.release()
        _, errors = child.communicate(timeout=600)
        assert child.returncode == InterruptedRunError.exit_code == 130
        assert "start the same run again" in errors and "Traceback" not in errors
        assert not (tmp_path / "predictions.jsonl").exists()
        run(server, tmp_path, 400)
        assert max(server.attempts.values()) == 1
        assert len(server.requests) == 400


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    with ScriptedServer(hold_from=0) as server:
        child = start(server, tmp_path, 40, KBBENCH_TEST_DRAIN_S="1000000")  # the first would wait so long
        server.wait_for(8)
        child.send_signal(signal.SIGINT)
        assert child.stdout is not None and child.stdout.readline() == "stopping\n"
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=600)
        assert child.returncode == 130


def test_an_endpoint_needs_neither_torch_nor_evaluate(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        child = start(server, tmp_path, 20)
        output, errors = child.communicate(timeout=600)
        assert child.returncode == 0, errors
        assert output == "[]\n"


def test_planted_secrets_appear_nowhere(tmp_path: Path) -> None:
    secrets = {f"PLANTED_{i}": f"planted-secret-{random.Random(i).randbytes(8).hex()}" for i in range(16)}
    secrets |= {name: f"planted-secret-{name}" for name in ("HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY")}
    key = "planted-secret-the-key-in-use"
    scripts = {
        "answers": ScriptedServer(answer=lambda payload: f"your key is {key}"),
        "refusals": ScriptedServer(always="401"),  # the server's message repeats the header
        "failures": ScriptedServer(always="refusal"),
        "faults": ScriptedServer(fault_rate=1.0, kinds=["500", "html", "reset"]),
    }
    for name, script in scripts.items():
        folder = tmp_path / name
        with script as server:
            child = start(server, folder, 15, KBBENCH_TEST_KEY=key, **secrets)
            output, errors = child.communicate(timeout=600)
            assert {headers["authorization"] for _, headers in server.requests} == {f"Bearer {key}"}
            assert all("planted" not in json.dumps(payload) for payload in server.payloads)
        written = [file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file()]
        assert len(written) >= 2
        for text in (output, errors, *written):
            assert "planted-secret" not in text


def test_mutated_answers_raise_nothing_and_every_example_is_in_the_predictions() -> None:
    outcome = ask_mutated(1000, of_text(parse_json))  # the endurance run asks 10,000
    assert outcome.answers == outcome.in_predictions == 1000
    assert outcome.altered == 0
    assert 0 < outcome.parse_failures < 1000


@pytest.mark.parametrize(
    ("held", "n_timeouts", "n", "said"),
    [
        (None, 0, 100, None),
        (None, 7, 100, None),  # a few requests were slow, not the server
        (3, 0, 20, None),  # over before the caller's limit could have been reached
        (3, 0, 100, "it got at most 3 at once. No answer is missing for it."),
        (3, 7, 100, "at most 3 at once; 7 requests timed out and were sent again. No answer is missing for it."),
    ],
)
def test_a_server_that_was_too_slow_for_the_concurrency_is_a_note(
    held: int | None, n_timeouts: int, n: int, said: str | None, tmp_path: Path
) -> None:
    with ScriptedServer() as server:
        summary = replace(run(server, tmp_path, 1).summary, n_prompts=n)
    limit = TimeoutLimit(32, 6.0)
    limit.held, limit.n_timeouts = held, n_timeouts
    found = slow_warnings(summary, limit)
    assert [(each.code, each.severity) for each in found] == [("slow_server", "note")] * (said is not None)
    assert all(said and said in each.message and "--concurrency 3 " in each.remedy for each in found)
