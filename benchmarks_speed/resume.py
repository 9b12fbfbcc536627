"""How long a finished run of 200,000 completions takes to be read, checked and written out again, and in what memory.

python benchmarks_speed/resume.py [--completions 200000]
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.files.journal import Journal
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.jobs import Sampling, Work
from tests.servers.scripted import MODEL, ScriptedServer


class Prompts(Mapping[str, Prompt]):
    """Prompts of 450 characters, rendered on demand."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[str]:
        return (f"q{i}" for i in range(self.n))

    def __getitem__(self, key: str) -> Prompt:
        return Prompt([{"role": "user", "content": "Extract the triples. " * 21 + key}], max_tokens=256)


def write(folder: Path, n: int) -> None:
    """Journal an answer of 330 characters to each prompt."""
    with Journal(folder) as journal:
        for job in Work(Prompts(n), Sampling()).jobs(f'{MODEL}@{{"kind": "openai-compatible"}}'):
            journal.append(
                job.record(
                    response="capital(France, Paris)\n" * 15,
                    finish_reason="stop",
                    prompt_tokens=110,
                    completion_tokens=90,
                    latency_s=0.2,
                    attempts=1,
                    at=0.0,
                )
            )


def resume(url: str, folder: Path, n: int) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    run = generate(
        Prompts(n), Endpoint(url, MODEL), folder, parse=lambda text, _: text.split(), answer="answers", show=False
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert run.summary.n_answered == n
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n:,} completions: {cpu:.1f} s CPU, {wall:.1f} s wall, peak {peak:.0f} MB (targets: 10 s, 500 MB)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--completions", type=int, default=200_000)
    n = parser.parse_args().completions
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, ScriptedServer() as server:
        for work in (
            processes.Process(target=write, args=(Path(folder), n)),
            processes.Process(target=resume, args=(server.url, Path(folder), n)),
        ):
            work.start()
            work.join()
        print(f"{len(server.requests)} requests were sent (target: 0)")


if __name__ == "__main__":
    main()
