"""Modules of the package that execute at least one frame for one query, one prompt and one upload.

- `query`: `run mini-stark --model bm25`, a whole command.
- `prompt`: `run mini-text2kg --base-url URL --model NAME --repeat 2` against `tests.servers.scripted`, a whole command.
- `upload`: a file sent to a board, checked, scored and stored for a user who is logged in; not the start of the board.

The first number counts frames after the import: no module body, and nothing that a module body calls. The second also
counts what a module body calls, such as class bodies: modules that the case imports, needed or not. Each case has its
own process, because caches of one case would hide modules from another. Uploads are checked in a thread, as on systems
without fork, so that the profiler sees them.

Run: python -m benchmarks_speed.executed_modules [--list] [--only query,prompt,upload]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CASES = ("query", "prompt", "upload")
PLACE = "mini-text2kg/sentences/test/reference"


class Profiler(threading.local):
    """Collects the files of executed code, in every thread that starts after `install`."""

    def __init__(self) -> None:
        self.depth = 0
        """How many module bodies the thread is in."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the file of a call; called by the interpreter."""
        if frame.f_code.co_name == "<module>":
            self.depth += (event == "call") - (event == "return")
        elif event == "call" and counting:
            (while_importing if self.depth else files).add(frame.f_code.co_filename)


files: set[str] = set()
"""Files with a frame after their import."""
while_importing: set[str] = set()
"""Files with a frame, other than the module body, while something was imported."""
counting: list[bool] = []
"""Empty while nothing is counted."""


@contextmanager
def counted() -> Iterator[None]:
    """Count what is executed in the block."""
    counting.append(True)
    try:
        yield
    finally:
        counting.clear()


def modules(found: set[str]) -> list[str]:
    """Return the names of the package's modules among files."""
    package = ROOT / "kbbench_hf"
    paths = sorted(Path(each) for each in found if each.endswith(".py") and Path(each).is_relative_to(package))
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]


def command(arguments: str) -> None:
    """Run a command line in this process."""
    from kbbench_hf.cli.outcome import exit_code

    with counted():
        code = exit_code(arguments.split())
    if code:
        raise SystemExit(f"kbbench {arguments} ended with {code}.")


def query() -> None:
    """Rank with BM25."""
    command("run mini-stark --model bm25 --out run")


def prompt() -> None:
    """Answer prompts by a served model."""
    from tests.servers.scripted import MODEL, ScriptedServer

    def reply(payload: Mapping[str, Any]) -> str:
        number = sha256(json.dumps(payload["messages"]).encode()).hexdigest()[:4]
        return f"director(Film {number}, Person {number})"

    with ScriptedServer(answer=reply) as server:
        command(f"run mini-text2kg --model {MODEL} --base-url {server.url}/v1 --out run --repeat 2")


def upload() -> None:
    """Submit a file to a board over HTTP."""
    from kbbench_hf.leaderboard import checking

    checking.CAN_FORK = False
    import gradio as gr

    from kbbench_hf.app.leaderboard import serve
    from kbbench_hf.leaderboard.store import Store
    from tests.servers.board import Visitor
    from tests.servers.serving import free_port

    started, port = threading.Event(), free_port()
    gr.Blocks.block_thread = lambda app: started.set()
    threading.Thread(target=serve, args=(Store(Path("store")),), kwargs={"server_port": port}, daemon=True).start()
    if not started.wait(120):
        raise SystemExit("The board did not start.")
    visitor = Visitor(SimpleNamespace(url=f"http://127.0.0.1:{port}", on_stop=[]))  # type: ignore[arg-type]
    visitor.log_in()
    while _is_busy():  # threads of the start still make the first page
        time.sleep(0.5)
    predictions = ROOT / "kbbench_hf/benchmarks/text2kgbench/mini/predictions/pattern.jsonl"
    with counted():
        receipt = visitor.submit(PLACE, visitor.upload("a.jsonl", predictions.read_bytes()), "pattern")
    if not receipt.startswith("**Stored**"):
        raise SystemExit(receipt)


def _is_busy() -> bool:
    """Whether a thread other than this one executes code of the package."""
    for thread, frame in sys._current_frames().items():
        while frame is not None and thread != threading.get_ident():
            if f"{ROOT}/kbbench_hf/" in frame.f_code.co_filename:
                return True
            frame = frame.f_back
    return False


def measure(case: str) -> tuple[list[str], list[str]]:
    """Return the modules of a case after their import, and those with frames of imports only, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "GRADIO_ANALYTICS_ENABLED": "False"}
        environment |= {"GRADIO_TEMP_DIR": f"{folder}/uploads", "KBBENCH_DATASETS": f"{folder}/data"}
        arguments = [sys.executable, "-W", "ignore", "-m", "benchmarks_speed.executed_modules", "--case", case]
        if case == "upload":
            from tests.servers.hub import local_hub

            with local_hub() as hub:
                done = _execute(arguments, folder, environment | hub.environment(folder))
        else:
            done = _execute(arguments, folder, environment)
        if done.returncode:
            raise SystemExit(f"{case} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        executed, imported = json.loads(done.stdout.splitlines()[-1])
        return executed, imported


def _execute(arguments: list[str], folder: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def main() -> None:
    """Print how many modules each case executes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print their names too")
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        profiler = Profiler()
        threading.setprofile(profiler)
        sys.setprofile(profiler)
        {"query": query, "prompt": prompt, "upload": upload}[options.case]()
        sys.setprofile(None)
        print(json.dumps([modules(files), modules(while_importing - files)]), flush=True)
        os._exit(0)  # the board's threads do not end
    print(f"{'case':<8}{'after import':>14}{'with imports':>14}")
    for case in options.only.split(","):
        executed, imported = measure(case)
        print(f"{case:<8}{len(executed):>14}{len(executed) + len(imported):>14}", flush=True)
        if options.list:
            print("".join(f"  {each}\n" for each in executed), end="")
            print("".join(f"  {each} (import only)\n" for each in imported), end="")


if __name__ == "__main__":
    main()
