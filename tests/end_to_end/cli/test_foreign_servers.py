"""Runs on model servers that others wrote: `transformers serve`, llama-cpp-python's, LiteLLM's proxy."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.runners import chat_requests as ask_chat
from tests.servers import foreign
from tests.servers.foreign import KEY, NAME, Foreign

pytestmark = pytest.mark.full

KINDS = list(foreign.VARIABLES)
ANSWER = '{"triples": [{"subject": "Petrel", "relation": "captain", "object": "Ines Calder"}]}'
"""Right for the first sentence of mini-text2kg."""
WINDOW = 8_192
"""Bytes of a prompt: a table of mini-ska does not fit, all else does."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if why := foreign.missing(request.param):
        pytest.skip(why)
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with foreign.serving(kind, tmp_path_factory.mktemp(kind), ANSWER, WINDOW) as running:
        yield running


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN_KEY", KEY)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again as often as ever, but soon."""
    monkeypatch.setattr(ask_chat, "wait_before_retry", lambda attempt, retry_after, rng: 0.05)


def on(server: Foreign, benchmark: str, *options: object, model: str = NAME) -> list[str]:
    asked = ["run", benchmark, "--base-url", server.url, "--model", model, "--api-key-env", "FOREIGN_KEY"]
    return [*asked, "--max-tokens", "64", "--concurrency", "4", *map(str, options)]


def journal(folder: str = "here") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder, "journal.jsonl").read_bytes().splitlines()]


def test_free_text_is_answered_scored_and_not_asked_again(kbbench, server):
    first = kbbench(*on(server, "mini-text2kg", "--limit", 6, "--out", "here"))
    assert first.code == 0
    assert "6 responses: 0 errors, 0 unparsable, 0 truncated" in first.out
    rows = [json.loads(line) for line in Path("here/predictions.jsonl").read_bytes().splitlines()]
    assert {row["response"] for row in rows} == {ANSWER}
    assert all(row["prompt_tokens"] > 1_000 for row in journal() if row["id"] and not row["error"])
    recorded = Path("here/journal.jsonl").read_bytes()
    again = kbbench(*on(server, "mini-text2kg", "--limit", 6, "--out", "here"))
    assert (again.code, Path("here/journal.jsonl").read_bytes()) == (0, recorded)
    assert KEY.encode() not in b"".join(file.read_bytes() for file in Path("here").rglob("*") if file.is_file())


def test_structured_answers_are_asked_for_as_the_server_takes_them(kbbench, server):
    done = kbbench(*on(server, "mini-text2kg", "--limit", 3, "--structured", "--out", "here"))
    assert done.code == 0
    assert "3 responses: 0 errors, 0 unparsable" in done.out


def test_prompts_that_do_not_fit_fail_by_name_and_every_config_is_printed(kbbench, server, kind, impatient):
    options = ("--testbed", "noise", "--subset", "kg,table", "--limit", 3, "--out", "here")
    done = kbbench(*on(server, "mini-ska", *options))
    assert "noise_kg_1k: 3 responses: 0 errors" in done.out
    failed = re.search(r"noise_table_4k: 0 of 3 responses: 3 errors \((.+?)\)", done.out)
    assert failed, done.out
    reasons = {reason.rpartition(" ")[0] for reason in failed[1].split(", ")}
    crashed = reasons <= {"http_500", "connection_broken"}  # transformers' server knows no overflow: it breaks
    assert crashed or reasons == {"context_length"}
    assert all(done.out.count(f"noise_{config}") >= 2 for config in ("kg_1k", "kg_4k", "table_1k", "table_4k"))
    assert done.code == (1 if crashed else 0)


def test_a_wrong_model_name_stops_the_run_and_is_named(kbbench, server, kind, impatient):
    if kind == "llama.cpp":
        pytest.skip("llama-cpp-python answers with the model that it has, whatever name is asked for")
    done = kbbench(*on(server, "mini-text2kg", "--limit", 6, "--out", "here", model="another"))
    assert done.code in (1, 2)
    assert "'another'" in done.err
    assert sum(row["attempts"] for row in journal()) <= 12


def test_another_server_of_the_same_name_is_refused_before_it_is_asked(kbbench, server, kind, tmp_path):
    same = ("mini-text2kg", "--limit", 6, "--out", "here")
    assert kbbench(*on(server, *same, "--max-requests", 4)).code == 1
    recorded = Path("here/journal.jsonl").read_bytes()
    with foreign.serving(kind, tmp_path / "other", '{"triples": []}', WINDOW) as other:
        done = kbbench(*on(other, *same))
        assert done.code == 2
        assert f"base_url is '{server.url}/v1', not '{other.url}/v1'" in done.err
        assert Path("here/journal.jsonl").read_bytes() == recorded
        allowed = kbbench(*on(other, *same, "--allow-other-server"))
    assert allowed.code == 0
    assert "Several servers answered, as was allowed" in " ".join(allowed.out.split())


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been_killed(kbbench, server):
    whole = kbbench(*on(server, "mini-text2kg", "--out", "whole"))
    assert whole.code == 0
    command = [sys.executable, "-m", "kbbench_hf.cli", *on(server, "mini-text2kg", "--out", "killed")]
    random.seed(0)
    kills = 0
    while kills < 3:
        held = len(journal("killed")) if Path("killed/journal.jsonl").exists() else 0
        process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            file = Path("killed/journal.jsonl")
            if file.exists() and file.read_bytes().count(b"\n") > held + random.randrange(4, 12):
                break
            time.sleep(0.002)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills
    done = kbbench(*on(server, "mini-text2kg", "--out", "killed"))
    assert done.code == 0
    assert Path("killed/predictions.jsonl").read_bytes() == Path("whole/predictions.jsonl").read_bytes()
    keys = [row["key"] for row in journal("killed") if row["id"] is not None]
    assert len(keys) == len({*keys}) == 48


def test_another_judge_of_the_same_name_is_refused_before_it_judges(kbbench, server, kind, tmp_path):
    hasty = next(file for file in shipped_answers("mini-genres") if file.stem == "hasty")
    shutil.copy(hasty, "hasty.jsonl")
    judge = ["annotate", "hasty.jsonl", "--benchmark", "mini-genres", "--fact-judge", NAME, "--concurrency", "4"]
    judge += ["--api-key-env", "FOREIGN_KEY", "--base-url"]
    begun = kbbench(*judge, server.url, "--max-requests", 5)
    assert begun.code == 1
    recorded = judged()
    with foreign.serving(kind, tmp_path / "other", "false", WINDOW) as other:
        done = kbbench(*judge, other.url)
    assert done.code == 2
    assert other.url in done.err
    assert judged() == recorded


def judged() -> dict[str, bytes]:
    """Return all that judges left."""
    return {str(file): file.read_bytes() for file in Path("hasty.annotations").rglob("*.jsonl")}
