"""Model servers that others wrote, where they are installed: each a process of its own, with a model of one answer.

`transformers serve` and llama-cpp-python's server hold the model; LiteLLM's proxy stands in front of one of them. An
environment variable names the executable of each, else it is looked for beside this Python and on the PATH; see
`foreign-servers.txt`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers.bigram import save, save_gguf
from tests.servers.serving import await_answer, free_port

NAME = "tiny"
"""What every server calls its model."""
KEY = "sk-foreign-0123456789"
"""The key that LiteLLM's proxy wants."""
VARIABLES = {
    "transformers": ("KBBENCH_TRANSFORMERS", "transformers"),
    "llama.cpp": ("KBBENCH_LLAMA_CPP_PYTHON", None),
    "litellm": ("KBBENCH_LITELLM", "litellm"),
}
"""Server -> the variable that names its executable, and the name of that on the PATH (llama.cpp: a Python)."""


class Foreign(NamedTuple):
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def executable(kind: str) -> str | None:
    """Return the program of a server; None where it is not installed."""
    variable, name = VARIABLES[kind]
    if named := os.environ.get(variable):
        return named
    beside = Path(sys.executable).parent
    return shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}") if name else None


def missing(kind: str) -> str | None:
    """Return why a server cannot be started; None where it can."""
    needed = [kind, _behind()] if kind == "litellm" else [kind]
    absent = [VARIABLES[each][0] for each in needed if executable(each) is None]
    return (
        f"{kind} is not installed: set {' and '.join(absent)} (tests/servers/foreign-servers.txt)" if absent else None
    )


def _behind() -> str:
    """Return which server LiteLLM's proxy stands in front of."""
    return "llama.cpp" if executable("llama.cpp") else "transformers"


@contextmanager
def serving(kind: str, folder: Path, answer: str, window: int = 4096, *, port: int | None = None) -> Iterator[Foreign]:
    """Run a server whose model gives this one answer to every prompt that fits its window, in bytes."""
    port = port or free_port()
    if kind == "litellm":
        with serving(_behind(), folder, answer, window) as behind:
            yield from _running(_proxy(folder, behind.url, port), folder, port, "/health/liveliness")
        return
    folder.mkdir(parents=True, exist_ok=True)
    place = ["--host", "127.0.0.1", "--port", str(port)]
    program = str(executable(kind))
    if kind == "transformers":
        save(folder / NAME, answer, window)
        yield from _running([program, "serve", "--device", "cpu", *place], folder, port, "/health")
    else:
        file = save_gguf(folder / "tiny.gguf", answer, window)
        command = [program, "-m", "llama_cpp.server", "--model", str(file), "--model_alias", NAME]
        yield from _running([*command, "--n_ctx", str(window), *place], folder, port, "/v1/models")


def _proxy(folder: Path, url: str, port: int) -> list[str]:
    inner = {"model": f"openai/{NAME}", "api_base": f"{url}/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": NAME, "litellm_params": inner}],
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": KEY},
    }
    file = folder / "proxy.yaml"
    file.write_text(json.dumps(config))
    program = str(executable("litellm"))
    return [program, "--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]


def _running(command: Sequence[str], folder: Path, port: int, page: str) -> Iterator[Foreign]:
    log = folder / f"{port}.log"
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(folder / "hub"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    environment = _without_proxies(os.environ) | offline | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
    server = Foreign(f"http://127.0.0.1:{port}", process, log)
    try:
        await_answer(server.url + page, process, log)
        yield server
    finally:
        server.kill()


def _without_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.lower().endswith("_proxy")}
