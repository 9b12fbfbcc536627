"""The answers of a run are those of one server and model, and its result says who they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.llm.concurrency import run as run_to_the_end
from kbbench_hf.llm.endpoint import Endpoint, server_facts
from kbbench_hf.runners.generate import Generation, generate
from kbbench_hf.runners.model_identity import Identity
from tests.servers.scripted import MODEL, Reply, ScriptedServer, answer_to


def prompts_of(n: int) -> dict[Any, Prompt]:
    return {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(n)}


def run(server: ScriptedServer, folder: Path, n: int, model: str = MODEL, **options: Any) -> Generation:
    how = {"show": False, "attempts": 2, "concurrency": 4, "parse": None} | options
    return generate(prompts_of(n), Endpoint(server.url, model, timeout_s=5.0), folder, **how)


def answering(**members: Any) -> Any:
    def script(payload: dict[str, Any]) -> Reply:
        text = answer_to(payload["messages"][-1]["content"])
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        return Reply(200, json.dumps({"choices": [choice], "model": MODEL, **members}).encode())

    return script


def test_a_local_model_that_collects_a_run_has_the_identity_of_its_shards(tmp_path: Path) -> None:
    class Local:
        name = "local@1"

        def __init__(self, dtype: str) -> None:
            self.identity = {"dtype": dtype}

    record = {"id": "q1", "finish_reason": "stop", "model": None}
    for dtype in ("float32", "float32"):  # a shard writes the file, and the others compare
        shard = Identity(tmp_path, shared=True)
        assert shard.meet(Local(dtype)) == "local@1"
        shard.observe(record)
    collecting = Identity(tmp_path, shared=True, writes=False)
    collecting.observe(record)
    assert collecting.recall(Local("float32")) == "local@1"
    with pytest.raises(UsageError, match="its dtype is 'float32', not 'bfloat16'"):
        collecting.recall(Local("bfloat16"))


def test_another_address_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with ScriptedServer() as first, ScriptedServer() as second:
        run(first, tmp_path, 10)
        with pytest.raises(UsageError, match=rf"base_url is '{first.url}/v1', not '{second.url}/v1'"):
            run(second, tmp_path, 20)
        assert not second.requests
        done = run(second, tmp_path, 20, allow_other_server=True)
        assert len([prompt for prompt, _ in second.requests if prompt.startswith("prompt")]) == 10
    assert [warning.code for warning in done.warnings] == ["several_servers"]


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        ({"kind": "hf-router", "model": "org/m"}, ["provider_not_named"]),
        ({"kind": "hf-router", "model": "org/m:groq"}, []),
        ({"kind": "vllm", "model": "org/m"}, []),
        ({"kind": "vllm", "dialect": {"left_out": ["seed", "stop"]}}, ["parameters_left_out"]),
    ],
)
def test_a_router_without_a_provider_and_parameters_left_out_are_warnings(
    server: dict[str, Any], codes: list[str], tmp_path: Path
) -> None:
    identity = Identity(tmp_path)
    assert [*identity.warnings()] == []
    identity.servers = [server]
    assert [each.code for each in identity.warnings()] == codes


def test_a_server_that_answered_nothing_binds_nobody(tmp_path: Path) -> None:
    with ScriptedServer(always="401") as first, ScriptedServer() as second:
        with pytest.raises(UsageError, match="API key"):
            run(first, tmp_path, 4)
        done = run(second, tmp_path, 4)
    assert [server["base_url"] for server in done.summary.servers] == [f"{second.url}/v1"]


@pytest.mark.parametrize("change", [{"version": "2"}, {"model": "another"}, {"flavour": "tgi"}])
def test_another_version_or_model_at_the_same_address_is_refused(change: dict[str, str], tmp_path: Path) -> None:
    with ScriptedServer(flavour="vllm") as server:
        run(server, tmp_path, 4)
        sent = len(server.requests)
        for name, value in change.items():
            setattr(server, name, value)
        with pytest.raises(UsageError, match="answers of another server or model"):
            run(server, tmp_path, 8, server.model)
        assert len(server.requests) == sent


def test_another_digest_is_refused(tmp_path: Path) -> None:
    tags = {"models": [{"name": f"{MODEL}:latest", "digest": "aaa"}]}
    with ScriptedServer(pages={"/api/version": {"version": "0.5"}, "/api/tags": tags}) as server:
        done = run(server, tmp_path, 4)
        assert {"kind": "ollama", "revision": "aaa", "version": "0.5"}.items() <= done.summary.servers[0].items()
        tags["models"][0]["digest"] = "bbb"
        with pytest.raises(UsageError, match="revision is 'aaa', not 'bbb'"):
            run(server, tmp_path, 8)


@pytest.mark.parametrize("canary", [True, False])
def test_a_reply_of_another_model_is_refused_after_one_probe(canary: bool, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        run(server, tmp_path, 4)
        sent = len(server.requests)
        server.reply = answering(model="a-cheaper-one")
        with pytest.raises(UsageError, match="from the model scripted-model, not from 'a-cheaper-one'"):
            run(server, tmp_path, 8, canary=canary, concurrency=1)
        assert len(server.requests) == sent + 1
        server.reply = None
        assert {record["model"] for record in run(server, tmp_path, 8).records()} == {MODEL}


def test_a_fingerprint_that_changes_midway_is_in_the_rows_and_a_warning(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.reply = lambda payload: (
            answering(system_fingerprint="fp_b", provider="Two")(payload) if len(server.times) > 10 else None
        )
        done = run(server, tmp_path, 20, canary=False, concurrency=1, parse=lambda text, _: text.split())
    assert [warning.code for warning in done.warnings] == ["several_fingerprints"]
    assert done.warnings[0].n_examples == 10
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_bytes().splitlines()]
    assert [row["system_fingerprint"] for row in rows] == 10 * ["fp_scripted"] + 10 * ["fp_b"]
    assert [row.get("provider") for row in rows] == 10 * [None] + 10 * ["Two"]


def test_one_server_refuses_a_second_fingerprint_and_keeps_what_the_first_said(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.reply = lambda payload: answering(system_fingerprint="fp_b")(payload) if len(server.times) > 10 else None
        with pytest.raises(
            KBBenchError, match="Another server answers now: model 'scripted-model', fingerprint 'fp_b'"
        ):
            run(server, tmp_path, 20, canary=False, concurrency=1, one_server=True)
        assert len(server.requests) == 11
        server.reply = None
        done = run(server, tmp_path, 20, canary=False, one_server=True)
    assert {record["system_fingerprint"] for record in done.records()} == {"fp_scripted"}


PAGES = {
    "vllm": ({"/version": {"version": "0.24.0"}}, "vllm", {"version": "0.24.0", "served_model": "org/m"}),
    "sglang": (
        {"/get_model_info": {"model_path": "/w/m"}, "/get_server_info": {"version": "0.5"}},
        "sglang",
        {"version": "0.5", "served_model": "/w/m"},
    ),
    "tgi": (
        {"/info": {"model_id": "org/m", "model_sha": "a" * 40, "version": "3"}},
        "someone",
        {"version": "3", "revision": "a" * 40, "served_model": "org/m"},
    ),
    "llama.cpp": (
        {"/props": {"build_info": "b1-x", "model_path": "/m.gguf", "default_generation_settings": {}}},
        "llamacpp",
        {"version": "b1-x", "served_model": "/m.gguf"},
    ),
    "openai-compatible": ({}, "someone", {}),
}


@pytest.mark.parametrize("kind", PAGES)
def test_a_server_is_told_by_what_it_says_of_itself(kind: str) -> None:
    pages, owner, told = PAGES[kind]
    card = {"id": "m", "owned_by": owner, **({"root": "org/m"} if kind == "vllm" else {})}

    async def page(url: str, ours: bool) -> dict[str, Any]:
        path = url.removeprefix("http://h")
        return {"data": [card, {"id": "other"}]} if path == "/v1/models" else pages.get(path, {})

    assert run_to_the_end(server_facts(page, "http://h/v1", "m:groq")) == {"kind": kind, **told}
