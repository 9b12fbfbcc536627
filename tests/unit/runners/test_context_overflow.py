"""Prompts that are longer than the context: whoever refuses or cuts them, the run says so, and what makes room."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import Generation, generate
from kbbench_hf.runners.run_summary import ContextCheck, Sizes, cut_prompts, read_sizes
from tests.servers.scripted import MODEL, Reply, ScriptedServer, _chat

LLAMA_CPP = {"/props": {"build_info": "b1", "default_generation_settings": {"n_ctx": 1024}}}
OLLAMA = {"/api/version": {"version": "0.9"}, "/api/tags": {"models": [{"name": MODEL, "digest": "d"}]}}


def prompts_of(*lengths: int) -> dict[str, Prompt]:
    return {f"q{i}": Prompt([{"role": "user", "content": "word " * (n // 5)}]) for i, n in enumerate(lengths)}


def tokens_of(payload: dict[str, Any]) -> int:
    return sum(len(message["content"]) for message in payload["messages"]) // 4


def run(server: ScriptedServer, folder: Path, prompts: dict[str, Prompt]) -> Generation:
    with server:
        return generate(prompts, Endpoint(server.url, MODEL), folder, show=False)


def refuse(most: int) -> ScriptedServer:
    def reply(payload: dict[str, Any]) -> Reply | None:
        if (n := tokens_of(payload)) <= most:
            return None
        error = {
            "code": 400,
            "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": n,
            "n_ctx": most,
        }
        return Reply(400, json.dumps({"error": error}).encode())

    return ScriptedServer(reply=reply, pages=LLAMA_CPP)


def cut(most: int) -> ScriptedServer:
    def answer(payload: dict[str, Any]) -> dict[str, Any]:
        body = _chat(f"answer to {tokens_of(payload)} tokens")
        body["usage"]["prompt_tokens"] = min(most, tokens_of(payload))
        return body

    return ScriptedServer(answer=answer, pages=OLLAMA)


def test_prompts_that_a_server_refuses_as_too_long_are_a_warning_with_the_size_that_they_need(tmp_path: Path) -> None:
    done = run(refuse(1024), tmp_path, prompts_of(400, 8000, 12000, 2000))
    (warning,) = done.warnings
    assert (warning.code, warning.n_examples, warning.severity) == ("context_overflow", 2, "warning")
    assert warning.message == (
        "2 of 4 prompts do not fit the model's context of 1,024 tokens and have no answer, the first of them 'q1'."
    )
    # 12,000 characters are 3,000 tokens, and an answer has up to 512
    assert warning.remedy.startswith("Start llama.cpp with --ctx-size 3512 or more for each slot")
    assert done.summary.errors == {"context_length": 2}
    with ScriptedServer(pages=LLAMA_CPP) as server:  # as the remedy says: in a new folder all is asked
        again = generate(prompts_of(400, 8000, 12000, 2000), Endpoint(server.url, MODEL), tmp_path / "new", show=False)
    assert (again.summary.n_answered, list(again.warnings)) == (4, [])


def test_prompts_that_a_server_cuts_without_a_word_are_a_warning(tmp_path: Path) -> None:
    lengths = (800, 2000, 4000, 6000, 20000, 14000, 30000)
    done = run(cut(2048), tmp_path, prompts_of(*lengths))
    (warning,) = done.warnings
    assert (warning.code, warning.n_examples) == ("prompts_cut", 3)
    assert "counted at most 2,048 tokens of prompts with up to 30,000 characters" in warning.message
    assert warning.remedy.startswith("Start Ollama with OLLAMA_CONTEXT_LENGTH=8012 or more")  # 30,000 / 4 + 512
    assert list(run(cut(10**6), tmp_path / "whole", prompts_of(*lengths)).warnings) == []


@pytest.mark.parametrize(
    ("counted", "n_cut"),
    [
        ([(9000, 4096), (30000, 4096), (20000, 4096)], 3),  # all were cut
        ([(1200, 300), (5000, 300), (9000, 300), (7000, 300)], 0),  # the same count for everything: no count at all
        ([(4000, 1000), (4400, 1000), (3900, 1000), (4100, 1024)], 0),
        ([(4000, 1000)] * 5 + [(60000, 2000)], 1),  # whole messages dropped
        ([(4000, 2500)] * 3 + [(4000, 1000)] * 3, 0),  # other text, other tokens
        ([(1000 * n, 250 * n) for n in range(1, 40)], 0),
        ([(0, 500)] * 5, 0),
        ([], 0),
    ],
)
def test_only_counts_that_cannot_be_right_mean_that_prompts_were_cut(
    counted: list[tuple[int, int]], n_cut: int
) -> None:
    assert len(cut_prompts(counted)) == n_cut


@pytest.mark.parametrize(
    ("said", "sizes"),
    [
        ("This model's maximum context length is 4097 tokens. However, your messages resulted in 4294", (4294, 4097)),
        ("maximum context length is 8,192 tokens, however you requested 10,000 tokens", (10000, 8192)),
        ("The decoder prompt (length 9001) is longer than the maximum model length of 8192.", (9001, 8192)),
        ("`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60", (3474, 2048)),
        ("exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens`", (210000, 200000)),
        ("length of prompt_tokens (68957) must be less than max_seq_len (65536).", (68957, 65536)),
        ("Requested tokens (3000) exceed context window of 2048", (3000, 2048)),
        ("the prompt is longer than the context length currently available to the model", (None, None)),
    ],
)
def test_sizes_are_read_from_what_servers_say(said: str, sizes: tuple[int | None, int | None]) -> None:
    assert read_sizes(said) == Sizes(*sizes)


@pytest.mark.parametrize(
    ("detail", "tokens", "needed"),
    [
        # the completion of 512 tokens is counted by the server, or is added
        (
            "context length is 4096 tokens. However, you requested 5000 tokens (4488 in the messages)",
            None,
            "5000 or more",
        ),
        ("prompt is too long: 5000 tokens > 4096 maximum", None, "5512 or more"),
        (None, 5000, "5512 or more"),
        ("it is too long", None, "more tokens"),
    ],
)
def test_the_needed_context_has_room_for_a_completion_once(detail: str | None, tokens: int | None, needed: str) -> None:
    check = ContextCheck({}, most=512)
    record = {"id": 1, "key": "k", "error": "context_length", "detail": detail, "prompt_tokens": tokens}
    assert [*check.watch([record])] == [record]
    (warning,) = check.warnings([{"kind": "vllm"}])
    assert warning.remedy.startswith(f"Start vLLM with --max-model-len {needed},")


def test_a_service_and_a_local_model_get_no_setting_that_they_lack() -> None:
    record = {"id": 1, "key": "k", "error": "prompt_too_long", "detail": None, "prompt_tokens": 9000}
    for servers in ([], [{"kind": "openai"}], [{"dtype": "float32"}]):
        check = ContextCheck({})
        assert [*check.watch([record, None])] == [record, None]
        (warning,) = check.warnings(servers)
        assert warning.remedy.startswith("Take a model with a longer context, or make prompts or answers shorter")
