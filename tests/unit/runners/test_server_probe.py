"""What a server is found to be: by its pages, and by a few short requests; each server here is a scripted one."""

import json
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners import server_probe
from kbbench_hf.runners.server_probe import ServerReport, probe_server, served_model
from tests.servers.scripted import MODEL, Reply, ScriptedServer


def chat(text: str | None, n_prompt: int = 30, n_tokens: int = 8, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": n_prompt, "completion_tokens": n_tokens, "total_tokens": n_prompt + n_tokens}
    return {"object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}


def refuse(status: int, **error: object) -> Reply:
    return Reply(status, json.dumps({"error": error}).encode())


def vllm(payload: dict[str, Any]) -> Reply | None:
    if "tools" in payload:
        message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        return refuse(400, message=message, type="BadRequestError", param=None, code=400)
    return None


def openai(payload: dict[str, Any]) -> Reply | None:
    if "max_tokens" in payload:
        message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        return refuse(400, message=message, type="invalid_request_error", param="max_tokens", code="unsupported")
    if "temperature" in payload:
        message = "Unsupported value: 'temperature' does not support 0 with this model."
        return refuse(400, message=message, type="invalid_request_error", param="temperature", code="unsupported_value")
    if "logprobs" in payload:
        message = "You are not allowed to request logprobs from this model"
        return refuse(403, message=message, type="invalid_request_error", param=None, code=None)
    return None


def helpful(payload: dict[str, Any]) -> dict[str, Any]:
    """Answer as a server that follows schemas, shows tools to the model and returns log probabilities."""
    if "tools" in payload:
        call = {"id": "1", "type": "function", "function": {"name": "get_time", "arguments": '{"city": "Oslo"}'}}
        return chat(None, 90, tool_calls=[call])
    if "response_format" in payload:
        return chat('{"verdict": "yes"}')
    reply = chat("Noon.")
    if payload.get("logprobs"):
        reply["choices"][0]["logprobs"] = {"content": [{"token": "Noon", "logprob": -0.1}]}
    return reply


def careless(payload: dict[str, Any]) -> dict[str, Any]:
    """Answer as a server that ignores what it does not know, with the wrong chat template."""
    return chat("Noon.<|im_end|>\n<|im_start|>user\nAnd in Rome?")


def thinking(payload: dict[str, Any]) -> dict[str, Any]:
    """Answer as a reasoning model that needs more tokens than a probe gives."""
    reply = chat(None, n_prompt=90 if "tools" in payload else 30, reasoning_content="The user wants")
    reply["choices"][0]["finish_reason"] = "length"
    return reply


SERVERS: dict[str, tuple[ScriptedServer, dict[str, object]]] = {
    "vllm": (
        ScriptedServer(
            flavour="vllm",
            pages={
                "/v1/models": {
                    "data": [
                        {"id": "other", "owned_by": "vllm", "max_model_len": 512},
                        {"id": MODEL, "owned_by": "vllm", "max_model_len": 4096},
                    ]
                }
            },
            reply=vllm,
            answer=helpful,
        ),
        {"context": "4,096 tokens", "slots": "does not tell", "tools": "not supported", "schema": "followed"},
    ),
    "tgi": (
        ScriptedServer(
            pages={"/info": {"model_id": MODEL, "version": "3", "max_total_tokens": 2048}, "/v1/models": {}},
            answer=helpful,
        ),
        {"server": "tgi 3", "context": "2,048", "schema": "followed (value)", "log probs": "yes"},
    ),
    "ollama": (
        ScriptedServer(
            pages={
                "/api/version": {"version": "0.9"},
                "/api/tags": {"models": [{"name": MODEL, "digest": "d"}]},
                "/api/ps": {"models": [{"name": MODEL, "context_length": 8192}]},
            },
            answer=careless,
        ),
        {
            "context": "8,192",
            "template": "'<|im_end|>' as text",
            "tools": "not shown to the model",
            "schema": "does not follow it",
            "log probs": "none",
        },
    ),
    "llama.cpp": (
        ScriptedServer(
            pages={"/props": {"default_generation_settings": {"n_ctx": 512}, "total_slots": 4}}, answer=helpful
        ),
        {"server": "llama.cpp", "context": "512 tokens", "slots": "4", "tools": "called", "template": "no mark"},
    ),
    "thinking": (
        ScriptedServer(answer=thinking),
        {"schema": "accepted; the model still thought", "tools": "not called in the test", "template": "no mark"},
    ),
    "openai": (
        ScriptedServer(reply=openai, answer=helpful),
        {"context": "does not tell", "log probs": "(http_403: You are not", "schema": "followed", "tools": "called"},
    ),
}


def probe(server: ScriptedServer, model: str = MODEL) -> ServerReport:
    return probe_server(Endpoint(server.url, model))


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_is_described_by_its_pages_and_its_replies(kind: str) -> None:
    server, expected = SERVERS[kind]
    with server:
        report = probe(server)
    lines = dict(report.lines())
    assert {name: words for name, words in expected.items() if str(words) not in lines[name]} == {}
    assert lines["model"] == MODEL
    assert "1 request in" in lines["speed"] and "4 requests in" in lines["speed"]
    assert ("--structured" in report.options()) is lines["schema"].startswith("followed")
    assert sum(server.attempts.values()) <= 12


@pytest.mark.parametrize(
    ("n_at_once", "slots", "expected", "minutes"),
    [(1, None, 2, 43), (4, None, 32, 171), (4, 4, 4, 22), (1, 1, 1, 22), (2, None, 2, 22), (1, 64, 32, 683)],
)
def test_the_concurrency_and_the_timeout_fit_what_the_server_does_at_one_time(
    n_at_once: int, slots: int | None, expected: int, minutes: int
) -> None:
    for n_tokens in (16, 0):  # a server that counts no tokens is taken to send 16 in each reply
        speeds = (server_probe.Speed(1, 1, 10.0, n_tokens), server_probe.Speed(4, 4, 40 / n_at_once, 4 * n_tokens))
        report = ServerReport({"kind": "vllm"}, "m", slots=slots, speeds=speeds)
        assert (report.concurrency, report.timeout_s) == (expected, 60 * minutes)


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        ((1, 1, 2.04, 16), "1 request in 2.0 s, 8 tokens/s"),
        ((4, 4, 0.5, 1000), "4 requests in 0.5 s, 2,000 tokens/s"),
        ((4, 3, 2.0, 0), "4 requests in 2.0 s (3 replies in time)"),
    ],
)
def test_a_speed_is_said_with_what_came_in_time(speed: tuple[Any, ...], words: str) -> None:
    assert str(server_probe.Speed(*speed)) == words


def test_a_slow_server_is_described_in_time_with_what_it_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_probe, "PROBE_S", 1.0)
    with ScriptedServer(latency_s=0.4) as server:
        started = time.monotonic()
        lines = dict(probe(server).lines())
        assert time.monotonic() - started < 3
    assert lines["speed"].startswith("1 request in 0.4 s")
    assert "no reply in time" in lines["tools"]
    with ScriptedServer(latency_s=30) as server:
        started = time.monotonic()
        report = probe(server)
        assert time.monotonic() - started < 5
    assert "no reply in time" in dict(report.lines())["speed"]
    assert report.options() == ["--concurrency", "4", "--timeout", "1800", "--no-structured"]


@pytest.mark.parametrize(("seconds", "n_tokens"), [(0.1, 16), (2.0, 13), (8.0, 4)])
def test_requests_at_one_time_are_as_long_as_the_time_that_is_left_allows(
    seconds: float, n_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, calls = 100.0, []

    async def measure(endpoint: Endpoint, n: int, n_tokens: int, ends: float) -> server_probe.Speed:
        nonlocal now
        now += seconds
        calls.append((n, n_tokens, ends))
        return server_probe.Speed(n, n, seconds, n_tokens)

    async def check(endpoint: Endpoint, found: dict[str, Any]) -> None:
        pass

    clock = SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter)
    for name, value in (("time", clock), ("_measure", measure), ("_check_tools", check), ("_check_schema", check)):
        monkeypatch.setattr(server_probe, name, value)
    with ScriptedServer() as server:
        assert [speed.n_sent for speed in probe(server).speeds] == [1, 4]
    assert calls == [(1, 16, 109.0), (4, n_tokens, 109.0)]  # 4 requests, half a second before the end


def listed(*names: str) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": name} for name in names]}}


def test_the_only_model_of_a_server_is_found() -> None:
    for pages in (listed("one"), listed("one", "one"), {"/v1/models": {}, "/info": {"model_id": "one"}}):
        with ScriptedServer(pages=pages) as server:
            assert served_model(Endpoint(server.url, "")) == "one"


def test_a_server_that_hangs_is_not_waited_for_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(KBBenchError, match="does not answer"):
        started = time.monotonic()
        try:
            served_model(Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}", "", timeout_s=0.3), attempts=1)
        finally:
            assert time.monotonic() - started < 5


FAULTS: dict[str, tuple[Callable[[Endpoint], object], dict[str, Any], str]] = {
    "several models": (served_model, listed("a", "b"), r"serves 2 models: a, b\. .* Add --model a\."),
    "no models": (served_model, listed(), "lists no models; expected one"),
    "many models": (served_model, listed(*map(str, range(30))), "serves 30 models: 0, 1, .* and 20 more"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_without_one_model_says_what_to_type(fault: str) -> None:
    call, pages, expected = FAULTS[fault]
    with ScriptedServer(pages=pages) as server, pytest.raises(UsageError, match=expected):
        call(Endpoint(server.url, ""))


@pytest.mark.parametrize(
    ("status", "expected"), [("401", "--api-key-env"), ("404", "Does it serve the model"), ("503", "503")]
)
def test_a_server_that_answers_no_request_ends_the_probe_with_its_error(status: str, expected: str) -> None:
    with ScriptedServer(always=status) as server, pytest.raises(KBBenchError, match=expected):
        probe(server)
