"""What a run does next when a server refuses: go on, wait, ask whose refusal it was, say it otherwise, or stop."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.llm.failures import Refusal, RefusalKind, RequestRefused
from kbbench_hf.llm.supported_parameters import Dialect
from kbbench_hf.protocols import Completion
from kbbench_hf.runners.generate import Generation, generate
from kbbench_hf.runners.jobs import Job, Sampling
from kbbench_hf.runners.refusal_scope import Arbiter
from tests.servers.scripted import MODEL, Reply, ScriptedServer

QUICK: dict[str, Any] = {"show": False, "attempts": 2, "concurrency": 8}
FILTERED = Reply(400, b'{"error": {"message": "content management policy", "code": "content_filter"}}')
UNKNOWN = Reply(400, b'{"error": {"message": "We do not like number 7 at all"}}')


def prompts_of(n: int, **more: Any) -> dict[Any, Prompt]:
    return {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16, **more) for i in range(n)}


def run(server: ScriptedServer, folder: Path, n: int = 20, **options: Any) -> Generation:
    prompts = options.pop("prompts", None) or prompts_of(n)
    return generate(prompts, Endpoint(server.url, MODEL, timeout_s=5.0), folder, **QUICK | options)


def only(which: Callable[[int], bool], reply: Reply) -> Callable[[dict[str, Any]], Reply | None]:
    """Return a script that gives the reply to the prompts whose number is meant, and answers all others."""

    def script(payload: dict[str, Any]) -> Reply | None:
        word, _, number = payload["messages"][-1]["content"].partition(" ")
        return reply if word == "prompt" and which(int(number)) else None

    return script


def test_a_refused_prompt_is_settled_and_the_others_are_answered(tmp_path: Path) -> None:
    with ScriptedServer(reply=only(lambda i: i == 3, FILTERED)) as server:
        summary = run(server, tmp_path).summary
        assert (summary.n_answered, summary.errors, summary.n_open) == (19, {"content_filter": 1}, 0)
        assert server.attempts["prompt 3"] == 1
        sent = len(server.requests)
        run(server, tmp_path)
        assert len(server.requests) == sent


def test_however_many_refused_prompts_stop_no_run(tmp_path: Path) -> None:
    with ScriptedServer(reply=only(lambda i: i < 100, FILTERED)) as server:
        summary = run(server, tmp_path, 110).summary
    assert (summary.n_answered, summary.n_failed) == (10, 100)


def test_where_the_words_say_nothing_an_answered_prompt_is_sent_again_and_settles_it(tmp_path: Path) -> None:
    with ScriptedServer(reply=only(lambda i: i in (7, 12), UNKNOWN)) as server:
        done = run(server, tmp_path, canary=False, concurrency=2)
        again = [prompt for prompt, n in server.attempts.items() if n > 1]
        assert len(again) == 1  # both refusals have one wording
        assert max(server.attempts.values()) == 2
        assert done.summary.errors == {"prompt_refused": 2}
        assert done.summary.n_requests == 21 == len(server.requests)
        run(server, tmp_path, canary=False)
        assert len(server.requests) == 21


@pytest.mark.parametrize(("n_refused", "concurrency"), [(1, 1), (1, 4), (3, 8)])
def test_first_prompts_that_are_refused_wait_for_the_first_answer_and_stop_no_run(
    n_refused: int, concurrency: int, tmp_path: Path
) -> None:
    with ScriptedServer(reply=only(lambda i: i < n_refused, UNKNOWN)) as server:
        summary = run(server, tmp_path, canary=False, concurrency=concurrency).summary
    assert (summary.n_answered, summary.errors) == (20 - n_refused, {"prompt_refused": n_refused})


@pytest.mark.parametrize("concurrency", [1, 4])
def test_prompts_that_are_refused_and_none_answered_stop_the_run(concurrency: int, tmp_path: Path) -> None:
    with ScriptedServer(reply=lambda payload: UNKNOWN, latency_s=0.01) as server:
        with pytest.raises(UsageError, match="We do not like number 7"):
            run(server, tmp_path, 40, canary=False, concurrency=concurrency)
        assert len(server.requests) <= 2 * concurrency + 1


@pytest.mark.parametrize(
    ("faults", "outcome", "n_sent"),
    [
        (["429"], {"prompt_refused": 1}, 3),
        (["refusal"], {"prompt_refused": 1}, 2),
        (["content filter"], UsageError, 2),
        (["400"], UsageError, 2),
    ],
)
def test_an_answered_prompt_that_is_sent_again_settles_a_refusal_and_its_own_fault_does_not(
    faults: list[str], outcome: Any, n_sent: int, tmp_path: Path
) -> None:
    with ScriptedServer(reply=only(lambda i: i == 7, UNKNOWN), faults={"prompt 6": ["no usage", *faults]}) as server:
        if isinstance(outcome, dict):
            assert run(server, tmp_path, 8, canary=False, concurrency=1).summary.errors == outcome
        else:
            with pytest.raises(outcome):
                run(server, tmp_path, 8, canary=False, concurrency=1)
        assert server.attempts["prompt 6"] == n_sent


def test_a_server_that_refuses_everything_from_some_moment_on_stops_the_run(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.reply = lambda payload: UNKNOWN if len(server.times) > 10 else None
        with pytest.raises(UsageError, match="Does the server take these parameters"):
            run(server, tmp_path, 200, canary=False)
        assert len(server.requests) <= 10 + 2 * 8 + 1


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_a_server_that_answers_nothing_is_soon_left_alone(concurrency: int, tmp_path: Path) -> None:
    with ScriptedServer(always="400", latency_s=0.01) as server:
        with pytest.raises(UsageError, match="HTTP 400: scripted 400"):
            run(server, tmp_path, 200, canary=False, concurrency=concurrency)
        assert len(server.requests) <= 2 * concurrency + 1


def test_a_server_that_only_breaks_is_left_at_the_first_request(tmp_path: Path) -> None:
    with ScriptedServer(always="500") as server:
        with pytest.raises(KBBenchError, match=r"failed 2 times at the first request.*http_500.*'scripted-model'"):
            run(server, tmp_path, 50, canary=True, attempts=2)
        assert len(server.requests) == 2


def test_a_server_whose_list_of_models_is_broken_is_asked_all_the_same(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.facts = lambda path: (500 if path == "/v1/models" else 404, {})  # `transformers serve`, no Hub cache
        assert run(server, tmp_path, 3, attempts=4).summary.n_answered == 3


STOPS = {
    "quota": (
        Reply(429, b'{"error": {"message": "x", "code": "insufficient_quota"}}'),
        KBBenchError,
        "credit or quota",
    ),
    "key": (Reply(401, b"{}"), UsageError, "API key"),
    "model": (Reply(400, b'{"error": {"message": "Model Not Exist"}}'), UsageError, "serve the model 'scripted-model'"),
    "parameter": (Reply(422, b'{"detail": [{"loc": ["body", "my_own"], "msg": "no"}]}'), UsageError, "'my_own'"),
    "a day": (Reply(429, b'{"error": "Please retry after 86400 seconds"}'), KBBenchError, "24 hours"),
    "protocol": (Reply(200, b'{"message": {"content": "hello"}, "finish_reason": "COMPLETE"}'), UsageError, "base URL"),
}


@pytest.mark.parametrize("kind", STOPS)
@pytest.mark.parametrize("canary", [True, False])
def test_what_no_request_can_mend_stops_the_run_and_is_named(kind: str, canary: bool, tmp_path: Path) -> None:
    reply, error, words = STOPS[kind]
    with ScriptedServer(reply=lambda payload: reply) as server:
        with pytest.raises(error, match=words):
            run(server, tmp_path, 100, canary=canary, sampling=Sampling(extra={"my_own": 1}))
        assert len(server.requests) <= (1 if canary else 8)


def refusing(*names: str) -> Callable[[dict[str, Any]], Reply | None]:
    """Return a script of a server that does not take these parameters."""

    def script(payload: dict[str, Any]) -> Reply | None:
        for name in names:
            if name in payload:
                hint = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                words = f"Unsupported parameter: '{name}' is not supported with this model.{hint}"
                return Reply(400, json.dumps({"error": {"message": words, "param": name}}).encode())
        return None

    return script


def test_parameters_that_a_server_does_not_take_are_said_otherwise_and_it_is_told(tmp_path: Path) -> None:
    prompts = prompts_of(20, stop=["Y"])
    with ScriptedServer(reply=refusing("max_tokens", "temperature", "stop"), answer=lambda _: "X Y Z") as server:
        done = run(server, tmp_path, prompts=prompts)
        assert set(done.responses().values()) == {"X "}  # cut here, since the server would not
        assert all(payload["max_completion_tokens"] in (16, 32) for payload in server.payloads[-20:])
        assert done.summary.servers[-1]["dialect"] == {
            "limit": "max_completion_tokens",
            "left_out": ["stop", "temperature"],
        }
        assert [warning.code for warning in done.warnings] == ["equal_replies", "parameters_left_out"]
        refused = len(server.requests) - 22
        assert refused <= 3 + 8
        run(server, tmp_path, prompts=prompts_of(25, stop=["Y"]))
        assert len(server.requests) == 22 + refused + 7  # what was learnt holds: 5 prompts and 2 canaries


def test_what_was_learnt_in_one_folder_is_said_in_the_next(tmp_path: Path) -> None:
    with ScriptedServer(reply=refusing("temperature")) as server:
        model = Endpoint(server.url, MODEL)
        for folder in (tmp_path / "first", tmp_path / "second"):
            done = generate(prompts_of(3), model, folder, **QUICK)
            assert done.summary.servers[-1]["dialect"] == {"left_out": ["temperature"]}
            assert [warning.code for warning in done.warnings] == ["parameters_left_out"]


def test_a_structured_answer_is_asked_for_as_the_server_takes_it(tmp_path: Path) -> None:
    def script(payload: dict[str, Any]) -> Reply | None:
        if payload.get("response_format", {}).get("type") == "json_schema":
            words = 'response_format type must be one of "text" or "json_object", but got: json_schema'
            return Reply(500, json.dumps({"error": {"code": 500, "message": words, "type": "server_error"}}).encode())
        return None

    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    with ScriptedServer(reply=script, answer=lambda _: '{"a": "b"}') as server:
        done = run(server, tmp_path, prompts=prompts_of(20, json_schema=schema), structured=True)
        assert done.summary.n_answered == 20
        assert done.summary.n_schema_violations == 0
        asked = [each["response_format"] for each in server.payloads if "response_format" in each]
        assert asked[-1] == {"type": "json_object", "schema": schema}
        assert done.summary.servers[-1]["dialect"]["schema"] == "json_object"


def test_what_was_refused_before_others_were_answered_otherwise_is_asked_again() -> None:
    model = Endpoint("http://127.0.0.1:9/v1", MODEL)
    before, model.dialect = model.dialect, Dialect(schema="json_object", refused_schemas=("json_schema",))
    [(name, prompt)] = prompts_of(1).items()
    job = Job("key", name, 0, prompt, {}, {"type": "object"})

    async def nothing(_: Job) -> Completion:
        raise AssertionError("a prompt was sent to find out whose refusal it was")

    arbiter = Arbiter(model, nothing, lambda _: None)
    arbiter.answered(job)
    found = Refusal(RefusalKind.PARAMETER, parameter="response_format")
    late = RequestRefused("http_400", "no json_schema", refusal=found, sent={"response_format": {}}, dialect=before)
    assert asyncio.run(arbiter.judge(job, late)) is None
    assert model.dialect.schema == "json_object"  # and nothing else is learnt from it


def test_a_template_without_a_system_role_gets_the_system_message_in_the_question(tmp_path: Path) -> None:
    def script(payload: dict[str, Any]) -> Reply | None:
        if payload["messages"][0]["role"] == "system":
            return Reply(400, b'{"error": {"message": "System role not supported"}}')
        return None

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    with ScriptedServer(reply=script) as server:
        run(server, tmp_path, prompts={"q": Prompt(messages, max_tokens=8)})
        assert server.payloads[-2]["messages"] == [{"role": "user", "content": "Be brief.\n\nWhy?"}]


def test_a_parameter_that_was_taken_before_is_one_prompts_own(tmp_path: Path) -> None:
    reply = Reply(400, b'{"error": {"message": "max_tokens is too large for this", "param": "max_tokens"}}')
    with ScriptedServer(reply=only(lambda i: i == 5, reply)) as server:
        summary = run(server, tmp_path).summary
    assert (summary.n_answered, summary.errors, summary.n_open) == (19, {"parameter_refused": 1}, 1)


def test_a_model_that_loads_is_waited_for_however_often_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbbench_hf.runners.chat_requests._LOADING_PAUSE_S", 0.01)
    loading = Reply(503, b'{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}')
    with ScriptedServer() as server:
        server.reply = lambda payload: loading if len(server.times) < 30 else None
        assert run(server, tmp_path, 3, canary=False).summary.n_answered == 3


def test_the_time_that_a_sentence_names_is_waited(tmp_path: Path) -> None:
    slow = Reply(429, b'{"error": {"message": "Rate limit reached. Please try again in 1.2s."}}')
    with ScriptedServer() as server:
        server.reply = lambda payload: slow if len(server.times) == 1 else None
        run(server, tmp_path, 1, canary=False)
        assert server.times[1] - server.times[0] >= 1.2


def test_a_run_that_cannot_go_on_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    empty = Reply(402, b'{"error": {"message": "Insufficient Balance"}}')
    with ScriptedServer(latency_s=0.01) as server:
        server.reply = lambda payload: empty if len(server.times) > 12 else None
        done = run(server, tmp_path, 40, partial=True, parse=None, canary=False)
    assert isinstance(done.stopped, KBBenchError) and "Insufficient Balance" in str(done.stopped)
    assert done.summary.n_answered >= 4
    assert done.summary.n_answered + done.summary.errors["not_asked"] == 40
    (warning,) = done.warnings
    assert (warning.code, warning.n_examples) == ("stopped", done.summary.errors["not_asked"])


def test_a_number_of_four_hundred_digits_breaks_no_resume(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
    odd = Reply(200, json.dumps(body | {"usage": {"prompt_tokens": 10**400, "completion_tokens": 10**400}}).encode())
    with ScriptedServer(reply=lambda payload: odd) as server:
        assert run(server, tmp_path, 3).summary.n_answered == 3
        assert run(server, tmp_path, 4).summary.n_answered == 4


def test_two_thousand_prompts_with_two_in_a_hundred_refused_end_and_are_not_sent_again(tmp_path: Path) -> None:
    kinds = [
        FILTERED,
        UNKNOWN,
        Reply(429, b'{"error": {"message": "Request too large for model on tokens per min"}}'),
        Reply(200, b'{"error": {"code": 400, "message": "exceeds the available context size"}}'),
    ]

    def script(payload: dict[str, Any]) -> Reply | None:
        word, _, number = payload["messages"][-1]["content"].partition(" ")
        return kinds[int(number) // 50 % 4] if word == "prompt" and int(number) % 50 == 49 else None

    with ScriptedServer(reply=script) as server:
        summary = run(server, tmp_path, 2000, concurrency=32).summary
        sent = len(server.requests)
        assert (summary.n_answered, summary.n_failed, summary.n_open) == (1960, 40, 0)
        assert sent <= 2000 + 2 + 2  # two canaries, and a second question or two
        run(server, tmp_path, 2000)
        assert len(server.requests) == sent
