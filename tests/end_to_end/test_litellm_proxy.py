"""LiteLLM's proxy in front of a scripted server, where the program `litellm` is installed or $KBBENCH_LITELLM names it.

What it does in front of a real server is in `cli/test_foreign_servers.py`.
"""

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import UsageError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import Generation, generate
from tests.servers.scripted import MODEL, Reply, ScriptedServer
from tests.servers.serving import await_answer, free_port

LITELLM = os.environ.get("KBBENCH_LITELLM") or shutil.which("litellm")
KEY = f"sk-{secrets.token_hex(32)}"
"""The proxy's, for as long as it runs."""
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
QUESTIONS = [f"Is it {i}?" for i in range(3)]

pytestmark = pytest.mark.full


@contextmanager
def serving(command: Sequence[str], page: str, folder: Path, **environment: str) -> Iterator[str]:
    """Start a server, wait until its page is there, and give its address."""
    port, log = free_port(), folder / "log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | environment,
            stdout=output,
            stderr=output,
        )
    try:
        await_answer(f"http://127.0.0.1:{port}{page}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def ask(url: str, model: str, folder: Path, questions: Sequence[str] = QUESTIONS, **options: Any) -> Generation:
    prompts = {
        i: Prompt([{"role": "user", "content": text}], max_tokens=40, json_schema=SCHEMA)
        for i, text in enumerate(questions)
    }
    how: dict[str, Any] = {"show": False, "concurrency": 2, "attempts": 2, "canary": False} | options
    return generate(prompts, Endpoint(url, model, KEY, timeout_s=60), folder, **how)


def upstream(payload: dict[str, Any]) -> Reply | None:
    """What the server behind the proxy says: it has one model and a short window."""
    if payload["model"] != MODEL:
        return Reply(404, b'{"error": {"message": "The model does not exist", "type": "NotFoundError", "code": 404}}')
    if len(payload["messages"][-1]["content"]) > 1000:
        words = b"This model's maximum context length is 256 tokens. However, your request has 300 input tokens."
        return Reply(400, b'{"error": {"message": "%s", "type": "BadRequestError", "code": 400}}' % words)
    return None


def answer(payload: dict[str, Any]) -> str:
    return json.dumps({"a": "b"}) if "response_format" in payload else "Yes indeed."


@pytest.mark.skipif(LITELLM is None, reason="no litellm: install it, or set KBBENCH_LITELLM to the program")
def test_litellms_proxy_passes_everything_on_and_every_refusal_keeps_its_meaning(tmp_path: Path) -> None:
    with ScriptedServer(answer=answer, reply=upstream) as server:
        known = {"model": f"hosted_vllm/{MODEL}", "api_base": f"{server.url}/v1", "api_key": "x"}
        gone = {**known, "model": "hosted_vllm/gone"}
        models = [{"model_name": MODEL, "litellm_params": known}, {"model_name": "gone", "litellm_params": gone}]
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps({"model_list": models}))
        command = [str(LITELLM), "--config", str(config)]
        own = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with serving(command, "/health/liveliness", tmp_path, **own) as url:
            free = ask(url, MODEL, tmp_path / "free")
            assert {*free.responses().values()} == {"Yes indeed."}
            held = ask(url, MODEL, tmp_path / "held", structured=True)
            assert held.summary.n_schema_violations == 0 == held.summary.n_failed
            long = ask(url, MODEL, tmp_path / "long", [*QUESTIONS, "why? " * 300])
            assert (long.summary.n_answered, long.summary.errors) == (3, {"context_length": 1})
            for model in ("gone", "never-heard-of"):
                with pytest.raises(UsageError, match=f"Does it serve the model '{model}'"):
                    ask(url, model, tmp_path / model)
