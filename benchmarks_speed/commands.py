"""CPU seconds and wall seconds of each command of the command line, here and in another checkout, run in turns.

A command is one process. Wall time counts on a quiet machine only; the sum of user and system time is steadier. `serve`
is timed from its start to its first answer. `compare (480)` compares two runs of 480 queries, made here.

Run: python benchmarks_speed/commands.py [--against CHECKOUT] [--rounds 5] [--only list,compare,...]
"""

import argparse
import json
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
COMMANDS = {
    "--help": "--help",
    "list": "list",
    "build": "build four --nodes nodes.csv --edges edges.csv --queries queries.csv",
    "run": "run four --model bm25 --out run-bm25",
    "run (finished)": "run mini-stark --model bm25 --out finished",
    "compare": "compare pattern.jsonl copy.jsonl --benchmark mini-text2kg",
    "compare (480)": "compare first.jsonl second.jsonl --benchmark many",
    "score": "score pattern.jsonl --benchmark mini-text2kg",
    "report": "report pattern.jsonl --benchmark mini-text2kg --out report.html",
    "demo": "demo",
    "serve": "serve --port 0",
}
"""Name -> arguments; what a command writes is removed before it runs."""
WRITTEN = {"build": "kbbench/four", "run": "run-bm25", "report": "report.html", "demo": "kbbench-demo"}


def prepare(folder: Path) -> None:
    """Write the inputs of the commands: a knowledge base of four nodes, one of 480 queries, and predictions."""
    (folder / "nodes.csv").write_text(
        "id,type,name,text\n1,person,Ada,wrote notes on the engine\n2,person,Charles,designed the engine\n"
        "3,machine,Engine,computes tables\n4,place,London,a city\n"
    )
    (folder / "edges.csv").write_text("head,relation,tail\n1,wrote_on,3\n2,designed,3\n2,lived_in,4\n")
    (folder / "queries.csv").write_text("id,query,answer_ids\nq1,who designed the engine,2\nq2,a city,4\n")
    words, rng = "red green blue large small old new wooden iron round".split(), random.Random(0)
    texts = [" ".join(rng.choices(words, k=6)) for _ in range(500)]
    nodes = [f"{i},thing,thing {i},{text}" for i, text in enumerate(texts)]
    (folder / "many.csv").write_text("\n".join(["id,type,name,text", *nodes]) + "\n")
    queries = [f"q{i},{texts[i]},{i}" for i in range(480)]
    (folder / "many_queries.csv").write_text("\n".join(["id,query,answer_ids", *queries]) + "\n")
    for name, chance in (("first", 0.7), ("second", 0.6)):
        lines = []
        for i in range(480):
            ids = rng.sample(range(500), 20)
            if rng.random() < chance:
                ids = [i, *(each for each in ids if each != i)]
            lines.append(json.dumps({"id": f"q{i}", "ids": ids}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    for name in ("pattern", "copy"):
        shutil.copy(HERE / f"kbbench_hf/benchmarks/text2kgbench/mini/predictions/{name}.jsonl", folder)
    for arguments in (
        COMMANDS["build"],
        "build many --nodes many.csv --queries many_queries.csv",
        COMMANDS["run (finished)"],
    ):
        execute(HERE, arguments, folder)


def execute(checkout: Path, arguments: str, folder: Path) -> tuple[float, float]:
    """Return the CPU and wall seconds of one command of a checkout."""
    command = [sys.executable, "-m", "kbbench_hf.cli", *arguments.split()]
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}  # as installed
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if arguments.startswith("serve"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command[-1] = str(port)
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server:
            wall = first_answer(f"http://127.0.0.1:{port}/", start)
            server.kill()
    else:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def first_answer(url: str, start: float) -> float:
    """Return after how many seconds a server sends its first page."""
    while time.perf_counter() - start < 120:
        try:
            with urllib.request.urlopen(url, timeout=60) as page:
                page.read()
            return time.perf_counter() - start
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{url} does not answer.")


def main() -> None:
    """Print the median of each command in each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, before a change for example")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(COMMANDS))
    options = parser.parse_args()
    checkouts = {"here": HERE} | ({"there": options.against.resolve()} if options.against else {})
    print(f"{'command':<16}" + "".join(f"{name + ' cpu':>12}{name + ' wall':>12}" for name in checkouts))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for command in options.only.split(","):
            spent: dict[str, list[tuple[float, float]]] = {each: [] for each in checkouts}
            for counted in [False, *[True] * options.rounds]:  # the first round compiles
                for each, checkout in checkouts.items():
                    written = folder / WRITTEN.get(command, "-")
                    if written.is_dir():
                        shutil.rmtree(written)
                    written.unlink(missing_ok=True)
                    seconds = execute(checkout, COMMANDS[command], folder)
                    spent[each] += [seconds] if counted else []
            medians = [statistics.median(column) for each in checkouts for column in zip(*spent[each], strict=True)]
            print(f"{command:<16}" + "".join(f"{median:>12.2f}" for median in medians), flush=True)


if __name__ == "__main__":
    main()
