import asyncio
import contextlib
import json
import select
from collections.abc import Mapping
from typing import Any

import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.llm.constrained_decoding import violation
from kbbench_hf.llm.endpoint import NO_KEY, Endpoint, key_from_environment
from kbbench_hf.llm.failures import Failure, RefusalKind, RequestRefused
from kbbench_hf.llm.supported_parameters import Dialect
from kbbench_hf.protocols import Completion
from tests.servers.scripted import MALFORMED, MODEL, ScriptedServer, answer_to

MESSAGES = [{"role": "user", "content": "prompt"}]
RIGHT = answer_to("prompt")


def ask(server: ScriptedServer, key: str = NO_KEY, timeout_s: float = 5.0, **options: Any) -> Completion:
    async def one() -> Completion:
        async with Endpoint(server.url, MODEL, key, timeout_s) as endpoint:
            return await endpoint.complete(MESSAGES, None, temperature=0.0)

    return asyncio.run(one())


def recognize(server: ScriptedServer, model: str = MODEL) -> Endpoint:
    async def one() -> Endpoint:
        async with Endpoint(server.url, model) as endpoint:
            await endpoint.recognize()
            return endpoint

    return asyncio.run(one())


def test_an_answer_comes_with_its_tokens_latency_and_finish_reason() -> None:
    with ScriptedServer(latency_s=0.05) as server:
        completion = ask(server)
    assert completion[:4] == (RIGHT, "stop", 100, 10)
    assert 0.05 <= completion.latency_s < 5
    assert completion.error is None


def test_a_reply_is_cut_here_at_a_stop_string_that_the_server_does_not_take() -> None:
    async def one() -> Completion:
        async with Endpoint(server.url, MODEL) as endpoint:
            endpoint.dialect = Dialect(left_out=("stop",))
            return await endpoint.complete(MESSAGES, None, stop=["\n\n", "END"])

    with ScriptedServer(answer=lambda payload: "Lyon END and\n\nmore") as server:
        assert asyncio.run(one())[:2] == ("Lyon ", "stop")
        assert "stop" not in server.payloads[0]


ANSWERS = {
    "content empty": ("", "stop"),  # the model's own answer; it is counted as empty
    "content parts": (RIGHT, "stop"),
    "length": (RIGHT[:-4], "length"),
    "no usage": (RIGHT, "stop"),
    "two choices": (RIGHT, "stop"),
    "spaces round it": (f"\n  {RIGHT} \n", "stop"),
    "usage is text": (RIGHT, "stop"),
    "lone surrogate": (RIGHT + "\ud800", "stop"),
}
FAILURES = {
    "choices empty": ("no_choices", True),
    "choices null": ("no_choices", True),
    "choice is text": ("no_choices", True),
    "message is text": ("no_message", True),
    "content null": ("no_content", True),
    "content missing": ("no_content", True),
    "error in 200": ("error_in_body", True),
    "html": ("not_json", True),
    "truncated json": ("not_json", True),
    "deep json": ("not_json", True),
    "empty body": ("empty_body", True),
    "invalid utf-8": ("not_utf8", True),
    "a list": ("not_an_object", True),
    "content filter": ("content_filter", False),
    "refusal": ("refusal", False),
    "reasoning only": ("reasoning_only", False),
}


def test_every_malformed_reply_has_its_verdict() -> None:
    assert ANSWERS.keys() | FAILURES.keys() == MALFORMED.keys()


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_odd_reply_is_an_answer(kind: str) -> None:
    with ScriptedServer(always=kind) as server:
        completion = ask(server)
    assert (completion.text, completion.finish_reason) == ANSWERS[kind]


@pytest.mark.parametrize("kind", ["no usage", "usage is text"])
def test_absent_or_absurd_token_counts_are_unknown_not_zero(kind: str) -> None:
    with ScriptedServer(always=kind) as server:
        assert ask(server)[2:4] == (None, None)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_reply_without_an_answer_is_a_failure_with_a_reason(kind: str) -> None:
    with ScriptedServer(always=kind) as server, pytest.raises(Failure) as caught:
        ask(server)
    assert (caught.value.reason, caught.value.transient) == FAILURES[kind]


def test_what_a_refusal_and_a_reasoning_said_is_kept() -> None:
    for kind, text in (("refusal", "I cannot help with that."), ("reasoning only", "Let me think")):
        with ScriptedServer(always=kind) as server, pytest.raises(Failure) as caught:
            ask(server)
        assert caught.value.text == text


@pytest.mark.parametrize("status", ["400", "401", "402", "403", "404", "405", "301"])
def test_a_status_that_no_retry_can_mend_refuses_the_run(status: str) -> None:
    with ScriptedServer(always=status) as server, pytest.raises(RequestRefused) as caught:
        ask(server)
    assert caught.value.reason == f"http_{status}"
    assert f"scripted {status}" in caught.value.detail
    assert caught.value.refusal is not None and caught.value.refusal.kind not in (RefusalKind.PROMPT, RefusalKind.LATER)


@pytest.mark.parametrize("status", ["408", "500", "502", "503", "504"])
def test_a_server_error_is_transient(status: str) -> None:
    with ScriptedServer(always=status) as server, pytest.raises(Failure) as caught:
        ask(server)
    assert caught.value.transient and caught.value.reason == f"http_{status}"


def test_retry_after_is_waited_for_as_the_server_says() -> None:
    with ScriptedServer(always="429 retry-after", retry_after_s=7) as server, pytest.raises(Failure) as caught:
        ask(server)
    assert (caught.value.reason, caught.value.retry_after) == ("rate_limited", 7)


def test_a_slow_server_a_reset_and_no_server_have_their_own_reasons() -> None:
    with ScriptedServer(always="hang") as server:
        with pytest.raises(Failure) as caught:
            ask(server, timeout_s=0.1)
        assert caught.value.reason == "timeout"
        server.always = "reset"
        with pytest.raises(Failure) as caught:
            ask(server)
        assert caught.value.reason == "connection_broken"
    with pytest.raises(Failure) as caught:
        ask(server)
    assert caught.value.reason == "no_connection"
    assert caught.value.overload


def test_a_server_without_tls_asked_with_tls_is_no_connection() -> None:
    async def one(url: str) -> None:
        async with Endpoint(url, MODEL, timeout_s=0.5) as endpoint:
            await endpoint.complete(MESSAGES, None)

    with ScriptedServer() as server, pytest.raises(Failure) as caught:
        asyncio.run(one(server.url.replace("http:", "https:")))
    assert caught.value.reason in ("no_connection", "timeout")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://api.example.com/openai/v1", "https://api.example.com/openai/v1"),
        ("https://example.com/v1beta/openai", "https://example.com/v1beta/openai"),
        ("https://example.com/prefix", "https://example.com/prefix/v1"),
        ("http://localhost:8000/v1/chat/completions", "http://localhost:8000/v1"),
    ],
)
def test_the_address_may_end_in_v1_or_not(given: str, used: str) -> None:
    assert Endpoint(given, "m").base_url == used


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8000",
        "ftp://host",
        "",
        "http://",
        "http://me:secret@host/v1",
        "http://h/v1?key=secret",
        "http://h:99999",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused_without_repeating_the_secret(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint(address, "m")
    assert "secret" not in str(caught.value)


def test_the_server_is_recognised() -> None:
    with ScriptedServer(flavour="vllm", version="0.11") as server:
        assert recognize(server).server == {"kind": "vllm", "version": "0.11"}
    with ScriptedServer(flavour="tgi", version="3.3") as server:
        endpoint = recognize(server)
    assert endpoint.server["kind"] == "tgi" and endpoint.server["revision"] == "a" * 40
    with ScriptedServer() as server:
        assert recognize(server).server == {"kind": "openai-compatible"}


def test_the_name_changes_with_the_server_and_its_version_and_not_with_its_address() -> None:
    names = []
    for version in ("1", "1", "2"):
        with ScriptedServer(flavour="vllm", version=version) as server:
            names.append(recognize(server).name)
    assert names[0] == names[1] != names[2]


def test_the_hub_token_is_never_sent_and_the_key_only_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    monkeypatch.setenv("MY_KEY", " sk-mine \n")
    with ScriptedServer() as server:
        ask(server)
        ask(server, key_from_environment("MY_KEY"))
    sent = [headers["authorization"] for _, headers in server.requests]
    assert sent == [f"Bearer {NO_KEY}", "Bearer sk-mine"]
    assert "planted" not in repr(server.requests)


def test_the_account_to_bill_is_sent_and_an_endpoint_that_scales_to_zero_is_waited_for() -> None:
    async def headers(url: str, **options: Any) -> Mapping[str, str]:
        async with Endpoint(url, MODEL, timeout_s=7.4, **options) as endpoint:
            assert endpoint._session is not None
            return endpoint._session.headers

    billed = asyncio.run(headers("http://localhost:1", bill_to="my-team"))
    assert billed["X-HF-Bill-To"] == "my-team" and "X-Scale-Up-Timeout" not in billed
    scaled = asyncio.run(headers("https://a.b.endpoints.huggingface.cloud"))
    assert scaled["X-Scale-Up-Timeout"] == "7" and "X-HF-Bill-To" not in scaled


def test_a_parameter_that_is_refused_under_both_names_has_no_other_form() -> None:
    dialect = Dialect().learn("max_tokens", "use max_completion_tokens instead of max_tokens", {})
    assert dialect == Dialect(limit="max_completion_tokens")
    assert dialect.learn("max_completion_tokens", "unknown field max_completion_tokens", {}) == Dialect()
    assert dialect.learn("max_completion_tokens", "max_completion_tokens and max_tokens are refused", {}) is None
    assert Dialect().learn("max_tokens", "max_tokens is refused", {}) is None


def test_a_key_that_is_asked_for_and_not_there_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(UsageError, match="export MY_KEY="):
        key_from_environment("MY_KEY")
    assert key_from_environment(None) == NO_KEY


@pytest.mark.parametrize("key", ["sk-planted", 'sk/pl"anted\\'])
def test_a_key_that_the_server_repeats_is_taken_out(key: str) -> None:
    with ScriptedServer(answer=lambda payload: f"your key is {key}") as server:
        assert ask(server, key).text == "your key is [redacted]"
    assert key not in repr(Endpoint("http://h", "m", key))


SCHEMA = {
    "type": "object",
    "required": ["triples"],
    "additionalProperties": False,
    "properties": {
        "triples": {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "string"}}}
    },
}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"triples": [["a", "r", "b"]]}', None),
        ('{"triples": []}', "triples: 0 items"),
        ('{"triples": [["a", 1]]}', "triples[0][1]: expected string, found int"),
        ("{}", "answer: no 'triples'"),
        ('{"triples": [["a"]], "why": 1}', "answer: unexpected 'why'"),
        ("[]", "answer: expected object, found list"),
        ("sure! {}", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_whether_a_schema_was_honoured(text: str, problem: str | None) -> None:
    assert violation(text, SCHEMA) == problem


def test_true_is_no_integer() -> None:
    assert violation("true", {"type": "integer"}) == "answer: expected integer, found bool"
    assert violation("1", {"type": ["integer", "null"]}) is None
    assert violation("2", {"enum": [1, 3]}) == "answer: 2 is not one of [1, 3]"


@pytest.mark.parametrize("n_strays", [0, 1, 4])
def test_an_answer_that_nobody_asked_for_is_read_as_none_and_ends_the_reuse_of_connections(
    n_strays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "poll", raising=False)  # Windows has none
    connections = []

    def reply(text: str) -> bytes:
        body = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        number = len(connections)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
                writer.write(reply("asked for"))
                await asyncio.sleep(0.02)
                if number <= n_strays:
                    writer.write(reply("not asked for"))
        writer.close()

    async def ask() -> list[str]:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found = []
        async with server, Endpoint(f"http://127.0.0.1:{port}", MODEL) as endpoint:
            for _ in range(4):
                found.append((await endpoint.complete([{"role": "user", "content": "q"}], 8)).text)
                await asyncio.sleep(0.1)
        return found

    assert asyncio.run(ask()) == 4 * ["asked for"]
    assert len(connections) == (4 if n_strays else 1)
