"""What stands in a successful reply is read where the servers put it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.llm.chat_completions import parse_json, read_completion, read_tool_turn
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.llm.failures import Failure
from kbbench_hf.llm.http_bodies import read_stream
from kbbench_hf.protocols import Completion
from tests.servers.scripted import Reply, ScriptedServer


def reply(message: dict[str, Any] | None = None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "yes"} | (message or {}), "finish_reason": finish}], **more}


def read(message: dict[str, Any] | None = None, finish: str = "stop", **more: Any) -> Completion:
    return read_completion(reply(message, finish, **more), 0.1)


def failure(message: dict[str, Any] | None = None, finish: str = "stop", **more: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        read(message, finish, **more)
    return caught.value


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_what_was_thought_is_kept_apart_from_the_answer(field: str) -> None:
    done = read({field: "hm"})
    assert (done.text, done.reasoning) == ("yes", "hm")


def test_a_list_of_parts_gives_its_text_and_its_thought() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    assert (read({"content": parts}).text, read({"content": parts}).reasoning) == ("yes", "hm")
    assert failure({"content": parts[:1]}, "length").reason == "reasoning_only"


@pytest.mark.parametrize(
    "usage",
    [
        {"completion_tokens_details": {"reasoning_tokens": 5}, "prompt_tokens_details": {"cached_tokens": 3}},
        {"reasoning_tokens": 5, "cached_tokens": 3},
        {"reasoning_tokens": 5, "prompt_cache_hit_tokens": 3},
    ],
)
def test_counts_are_read_in_every_dialect(usage: dict[str, Any]) -> None:
    done = read(usage=usage)
    assert (done.reasoning_tokens, done.cached_tokens) == (5, 3)


def test_tokens_that_a_server_leaves_out_of_its_count_were_produced_all_the_same() -> None:
    # xAI: 12 in, 1 out beside 228 of thought, 241 in all
    done = read(usage={"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 241})
    assert (done.completion_tokens, done.produced_tokens) == (1, 229)


@pytest.mark.parametrize("absurd", [10**400, -1, "12", True, 1e300, None, [], {"a": 1}])
def test_an_absurd_count_is_unknown(absurd: object) -> None:
    done = read(usage={"prompt_tokens": absurd, "completion_tokens": absurd, "total_tokens": absurd})
    assert (done.prompt_tokens, done.completion_tokens, done.produced_tokens) == (None, None, None)


def test_a_number_of_ten_thousand_digits_spoils_no_answer() -> None:
    body = json.dumps(reply(usage={"prompt_tokens": 7})).replace("7", "7" * 10_000)
    assert read_completion(parse_json(body.encode()), 0.1).prompt_tokens is None


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_half_a_text_that_the_server_broke_off_is_no_answer(finish: str) -> None:
    assert (failure(None, finish).reason, failure(None, finish).transient) == ("broken_off", True)


@pytest.mark.parametrize(("finish", "means"), [("eos_token", "stop"), ("model_length", "length"), ("STOP", "stop")])
def test_finish_reasons_have_one_name(finish: str, means: str) -> None:
    assert read(None, finish).finish_reason == means


def test_a_call_of_a_tool_is_settled_and_an_empty_one_is_asked_again() -> None:
    call = {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    assert (failure(call, "tool_calls").reason, failure(call, "tool_calls").settled) == ("tool_call", True)
    assert failure({"content": "", "tool_calls": []}, "tool_calls").reason == "no_content"


def test_a_turn_with_tools_has_its_calls_or_the_words_of_a_refusal() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    assert read_tool_turn(reply({"content": None, "tool_calls": [call]}), 0.1).tool_calls == [call]
    assert read_tool_turn(reply({"content": None, "function_call": call}), 0.1).tool_calls == call
    refused = read_tool_turn(reply({"content": None, "refusal": "I cannot."}), 0.1)
    assert (refused.text, refused.tool_calls) == ("I cannot.", None)
    assert read_tool_turn(reply({"refusal": "I cannot."}), 0.1).text == "yes"


@pytest.mark.parametrize(
    "body", [{"error": "down"}, {"choices": [{"message": {"content": "y"}, "error": {"code": 502}}]}]
)
def test_an_error_in_a_reply_with_status_200_is_tried_again(body: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        read_completion(body, 0.1)
    assert (caught.value.reason, caught.value.transient) == ("error_in_body", True)


def test_another_protocol_is_said_to_be_one() -> None:
    with pytest.raises(Failure) as caught:
        read_completion({"message": {"content": [{"type": "text", "text": "yes"}]}, "finish_reason": "COMPLETE"}, 0.1)
    assert (caught.value.reason, caught.value.transient) == ("not_this_protocol", False)


def ask(sent: Reply) -> Completion:
    async def one(url: str) -> Completion:
        async with Endpoint(url, "m", timeout_s=5.0) as endpoint:
            return await endpoint.complete([{"role": "user", "content": "?"}], 16)

    with ScriptedServer(reply=lambda payload: sent) as server:
        return asyncio.run(one(server.url))


def stream(*events: str, end: bool = True) -> Reply:
    lines = [f"data: {event}" for event in (*events, *(["[DONE]"] if end else []))]
    return Reply(200, "\n\n".join([*lines, ""]).encode(), {"Content-Type": "text/event-stream"})


PIECE = '{"choices": [{"delta": {"content": "%s", "reasoning": "%s"}}], "model": "m"}'
LAST = '{"choices": [{"delta": {}, "finish_reason": "stop"}]}'


def test_a_stream_that_nobody_asked_for_is_read() -> None:
    usage = '{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}'
    done = ask(stream(PIECE % ("", "h"), PIECE % ("y", "m"), PIECE % ("es", ""), LAST, usage))
    assert done[:4] == ("yes", "stop", 7, 3)
    assert (done.reasoning, done.model) == ("hm", "m")


def test_only_the_first_choice_of_a_stream_is_read_and_other_events_are_passed_over() -> None:
    second = '{"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}'
    counted = '{"choices": [{"index": 0, "delta": {"content": null, "refusal": null, "n": 7}}]}'
    events = [f"data: {each}\n\n" for each in (PIECE % ("y", ""), "[1]", second, counted, PIECE % ("es", ""), LAST)]
    body = read_stream("".join([": comment\n\n", *events]).encode())
    message = {"content": "yes", "reasoning": "", "n": 7}
    assert body == {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([PIECE % ("y", "")], "broken_off"),
        ([PIECE % ("y", ""), '{"choi'], "broken_off"),
        ([PIECE % ("y", ""), '{"error": {"code": 502, "message": "Upstream error"}}'], "error_in_body"),
    ],
)
def test_a_torn_stream_is_no_answer(events: list[str], reason: str) -> None:
    with pytest.raises(Failure) as caught:
        ask(stream(*events, end=False))
    assert (caught.value.reason, caught.value.transient) == (reason, True)


OUTCOMES = {
    "answer": None,
    "answer_cut": None,
    "tool_call": "tool_call",
    "refusal": "refusal",
    "content_filter": "content_filter",
    "reasoning_only": "reasoning_only",
    "server_fault": "broken_off",
    "not_this_protocol": "not_this_protocol",
}


def test_recorded_replies_of_providers_are_read_as_they_were_meant(shared: Path) -> None:
    wrong = []
    cases = [json.loads(line) for line in (shared / "data" / "provider_answers.jsonl").read_text("utf-8").splitlines()]
    for case in cases:
        expected, error = case["expected"], None
        try:
            done: Completion | None = ask(Reply(case["status"], case["body"].encode(), case["headers"]))
        except Failure as caught:
            done, error = caught.reply, caught.reason
            error = "not_this_protocol" if getattr(caught, "refusal", None) else error
        found = [error == OUTCOMES[expected["outcome"]]]
        if done is not None:
            tokens, identity = expected["tokens"], expected["identity"]
            counts = (done.prompt_tokens, done.completion_tokens, done.total_tokens)
            found += [
                (done.finish_reason if error != "broken_off" else "error") == (expected["finish"] or ""),
                (*counts, done.reasoning_tokens, done.cached_tokens) == tuple(tokens.values()),
                [done.model or "", done.system_fingerprint or "", done.provider or ""]
                == [each or "" for each in identity.values()],
            ]
            if "<think>" not in done.text:
                found += [done.reasoning == expected["reasoning"], error is not None or done.text == expected["text"]]
        if not all(found):
            wrong.append((case["id"], found))
    assert not wrong
    assert len(cases) == 28
