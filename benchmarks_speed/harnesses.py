"""The same prompts on the same llama.cpp server through this package, lm-evaluation-harness and inspect_ai.

    make models
    python benchmarks_speed/harnesses.py VENVS --install
    python benchmarks_speed/harnesses.py VENVS [--prompts 60] [--rounds 3] [--slots 4] [--markdown TABLE.md]

VENVS is a folder with a virtual environment for each peer. The harnesses take turns, in another order each round. The
server's log has the times at which a slot begins and ends a request: requests per second and occupancy follow from it.
CPU time is that of the whole process tree, and beside it that of a run of one prompt, the cost of the start.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.servers import llama_cpp  # noqa: E402

MODEL = "smollm2"
MAX_TOKENS = 64
PEERS = {"lm_eval": ["lm_eval[api]==0.4.13"], "inspect_ai": ["inspect_ai==0.3.285", "openai"]}
"""Peer, and folder of its virtual environment -> what is installed there."""
SUBJECTS = "rivers bridges lighthouses bakeries gardens trains violins glaciers markets owls".split()
PLACES = "Norway Chile Kenya Japan Portugal Canada".split()

KBBENCH = """\
import json
from pathlib import Path
from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import generate
rows = [json.loads(line) for line in open("prompts.jsonl")]
prompts = {row["id"]: Prompt([{"role": "user", "content": row["prompt"]}], max_tokens=TOKENS) for row in rows}
generate(prompts, Endpoint("URL", "smollm2"), Path("out"), concurrency=SLOTS)
"""
LM_EVAL = """\
task: story
dataset_path: json
dataset_kwargs: {data_files: {test: prompts.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: prompt
doc_to_target: id
generation_kwargs: {until: ["<|im_end|>"], do_sample: false, temperature: 0, max_gen_toks: TOKENS}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
INSPECT = """\
from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import includes
@task
def story():
    fields = FieldSpec(input="prompt", target="id", id="id")
    return Task(dataset=json_dataset("prompts.jsonl", fields), scorer=includes())
"""


class Harness(NamedTuple):
    """What a user writes, the command, and where the replies are afterwards."""

    file: str
    text: str
    command: Callable[[Path, str, int], list[str]]
    replies: Callable[[Path], list[str]]


class Measurement(NamedTuple):
    """One run of one harness."""

    requests_per_s: float
    """From the begin of the first prompt to the end of the last one; both columns leave out requests of its own."""
    occupancy: float
    wall_s: float
    """Of the whole command."""
    cpu_s: float
    lost: int
    doubled: int


def lm_eval_command(venvs: Path, url: str, slots: int) -> list[str]:
    server = f"model={MODEL},base_url={url}/v1/chat/completions,num_concurrent={slots},max_retries=3"
    task = ["--tasks", "story", "--include_path", ".", "--apply_chat_template", "--log_samples", "--output_path", "out"]
    return [str(venvs / "lm_eval/bin/lm_eval"), "--model", "local-chat-completions", "--model_args", server, *task]


def inspect_command(venvs: Path, url: str, slots: int) -> list[str]:
    sampling = ["--temperature", "0", "--max-tokens", str(MAX_TOKENS), "--max-connections", str(slots)]
    log = ["--display", "none", "--log-format", "json", "--log-dir", "out"]
    program = str(venvs / "inspect_ai/bin/inspect")
    return [program, "eval", "story.py", "--model", f"openai-api/local/{MODEL}", *sampling, *log]


def kbbench_replies(folder: Path) -> list[str]:
    records = [json.loads(line) for line in (folder / "out/journal.jsonl").read_text().splitlines()]
    return [record["response"] or "" for record in records if record["id"] is not None]


def lm_eval_replies(folder: Path) -> list[str]:
    (file,) = folder.glob("out/**/samples_*.jsonl")
    return [json.loads(line)["filtered_resps"][0] for line in file.read_text().splitlines()]


def inspect_replies(folder: Path) -> list[str]:
    (file,) = folder.glob("out/*.json")
    return [each["output"]["completion"] for each in json.loads(file.read_text())["samples"]]


HARNESSES = {
    "kbbench": Harness("story.py", KBBENCH, lambda *_: [sys.executable, "story.py"], kbbench_replies),
    "lm_eval": Harness("story.yaml", LM_EVAL, lm_eval_command, lm_eval_replies),
    "inspect_ai": Harness("story.py", INSPECT, inspect_command, inspect_replies),
}


def install(venvs: Path) -> None:
    """Make the virtual environments of the peers; lm-evaluation-harness gets the CPU build of torch."""
    for name, packages in PEERS.items():
        subprocess.run([sys.executable, "-m", "venv", venvs / name], check=True)
        pip = [str(venvs / name / "bin/python"), "-m", "pip", "install", "--quiet"]
        if name == "lm_eval":
            subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", "torch"], check=True)
        subprocess.run([*pip, *packages], check=True)


def seconds(stamp: str) -> float:
    """Return the time of a line of llama.cpp's log, minutes.seconds.milliseconds.microseconds."""
    minutes, whole, milli, micro = map(int, stamp.split("."))
    return 60 * minutes + whole + milli / 1e3 + micro / 1e6


def served(log: str) -> list[tuple[float, float]]:
    """Return when each request of a part of the log began and ended in its slot."""
    begun, done = dict[str, float](), []
    for line in log.splitlines():
        if found := re.match(r"([\d.]+) I slot +(launch_slot_|release): .*?task (\d+)", line):
            if found[2] == "release":
                done.append((begun.pop(found[3]), seconds(found[1])))
            else:
                begun[found[3]] = seconds(found[1])
    return done


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str, server: llama_cpp.LlamaServer, venvs: Path, n: int, slots: int) -> Measurement:
    """Run one harness in a new folder."""
    harness = HARNESSES[name]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none", "PYTHONPATH": ""}
    environment |= {"LOCAL_BASE_URL": f"{server.url}/v1", "LOCAL_API_KEY": "none"}
    if name == "kbbench":
        environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        environment |= {"HF_HOME": place, "HF_DATASETS_OFFLINE": "1"}
        for i in range(n):
            text = f"Write a long story about the {SUBJECTS[i % 10]} of {PLACES[i // 10 % 6]}, number {i}."
            with (folder / "prompts.jsonl").open("a") as file:
                file.write(json.dumps({"id": f"q{i}", "prompt": text}) + "\n")
        filled = harness.text.replace("URL", server.url).replace("SLOTS", str(slots))
        (folder / harness.file).write_text(filled.replace("TOKENS", str(MAX_TOKENS)))
        logged, cpu, started = server.log.stat().st_size, cpu_of_children(), time.perf_counter()
        command = harness.command(venvs, server.url, slots)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
        cpu, wall = cpu_of_children() - cpu, time.perf_counter() - started
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        replies = [each for each in harness.replies(folder) if each.strip()]
    with server.log.open("rb") as file:
        file.seek(logged)
        times = served(file.read().decode("utf-8", "replace"))
    if name == "kbbench":  # it sends a prompt of its own first and last
        times = sorted(times)[1:-1]
    span = max(end for _, end in times) - min(start for start, _ in times)
    occupancy = sum(end - start for start, end in times) / (slots * span)
    return Measurement(len(times) / span, occupancy, wall, cpu, n - len(replies), len(times) - n)


def table(found: Mapping[str, list[Measurement]], startup: Mapping[str, float]) -> str:
    """Return the table in Markdown, best throughput first."""
    lines = [
        "| harness | requests/s | slots busy | command | CPU | CPU for one prompt | lost | doubled | lines |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    speeds = {name: median(each.requests_per_s for each in runs) for name, runs in found.items()}
    for name in sorted(found, key=lambda name: -speeds[name]):
        runs = found[name]
        low, high = min(each.requests_per_s for each in runs), max(each.requests_per_s for each in runs)
        busy = median(each.occupancy for each in runs)
        n_lines = sum(bool(line.strip()) for line in HARNESSES[name].text.splitlines())
        lost, doubled = sum(each.lost for each in runs), sum(each.doubled for each in runs)
        speed = f"{speeds[name]:.3f} ({low:.3f} to {high:.3f})"
        used = f"{median(each.cpu_s for each in runs):.1f} s | {startup[name]:.1f} s"
        wall = median(each.wall_s for each in runs)
        lines.append(f"| {name} | {speed} | {busy:.1%} | {wall:.0f} s | {used} | {lost} | {doubled} | {n_lines} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venvs", type=Path)
    parser.add_argument("--install", action="store_true", help="make the virtual environments, and stop")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=4, help="of the server, and the concurrency of each harness")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    venvs = options.venvs.resolve()
    if options.install:
        install(venvs)
        return
    with (
        tempfile.TemporaryDirectory() as place,
        llama_cpp.serving(MODEL, Path(place), slots=options.slots, context=1024) as server,
    ):
        startup = {name: measure(name, server, venvs, 1, options.slots).cpu_s for name in HARNESSES}
        found: dict[str, list[Measurement]] = {name: [] for name in HARNESSES}
        names = [*HARNESSES]
        for number in range(options.rounds):
            for name in names[number % 3 :] + names[: number % 3]:
                found[name].append(measure(name, server, venvs, options.prompts, options.slots))
                print(f"round {number + 1}, {name}: {found[name][-1]}", flush=True)
    text = table(found, startup)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
