"""5,000 prompts against a server that spoils 30 % of its replies, and the same against one that does not.

python -m tests.endurance.faults [--prompts 5000] [--rate 0.3] [--latency 0.2] [--concurrency 64]
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import generate
from tests.servers.scripted import MODEL, ScriptedServer, answer_to


class Outcome(NamedTuple):
    """What came of the prompts."""

    seconds: float
    requests: int
    answered: int
    failed: int
    cut_off: int
    mispaired: int
    """Answers, whole or cut off, that are not the beginning of the right answer to their own prompt."""
    kinds: int


def ask(n: int, rate: float, latency_s: float, concurrency: int, timeout_s: float = 2.0) -> Outcome:
    prompts = {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(n)}
    with ScriptedServer(latency_s=latency_s, fault_rate=rate) as server, tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run = generate(
            prompts,
            Endpoint(server.url, MODEL, timeout_s=max(timeout_s, 2 * latency_s)),
            Path(folder),
            concurrency=concurrency,
            canary=False,
            show=False,
        )
        seconds = time.perf_counter() - started
        mispaired = sum(
            not record["response"]
            or not answer_to(prompts[record["id"]].messages[0]["content"]).startswith(record["response"])
            for record in run.records()
            if record["error"] is None
        )
        summary = run.summary
        return Outcome(
            seconds,
            sum(server.attempts.values()),
            summary.n_answered,
            summary.n_failed,
            summary.n_cut_off,
            mispaired,
            len(server.injected),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--concurrency", type=int, default=64)
    options = parser.parse_args()
    clean = ask(options.prompts, 0.0, options.latency, options.concurrency)
    faulty = ask(options.prompts, options.rate, options.latency, options.concurrency)
    print("clean ", clean)
    print("faulty", faulty)
    print(f"faulty / clean: {faulty.seconds / clean.seconds:.2f} (target: at most 3)")


if __name__ == "__main__":
    main()
