"""What one request of a generation run costs: this package, the bare AsyncInferenceClient loop, lm-eval.

    python benchmarks_speed/generation.py [--lm-eval PATH/TO/lm_eval] [--rounds 3] [--n 2000]

Every run is a process of its own against the scripted server, which is another. Cost is marginal processor time: that
of n prompts minus that of 20, over n - 20. The package's run has everything in it: prompts, journal, parsing, bar.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CONCURRENCY = 64


class Cost(NamedTuple):
    """What one process took."""

    cpu_s: float
    first_request_s: float
    span_s: float
    peak_mb: float


def prompt(i: int) -> str:
    return f"Extract the triples of sentence number {i}.\nExample Output: capital(France, Paris)\nTest Output: "


def ask_with_kbbench(url: str, n: int) -> None:
    from kbbench_hf.benchmarks.base import Prompt
    from kbbench_hf.llm.endpoint import Endpoint
    from kbbench_hf.runners.generate import generate

    prompts = {f"q{i}": Prompt([{"role": "user", "content": prompt(i)}], max_tokens=16) for i in range(n)}
    with tempfile.TemporaryDirectory() as folder:
        run = generate(
            prompts,
            Endpoint(url, "scripted-model"),
            Path(folder),
            concurrency=CONCURRENCY,
            parse=str.split,
            answer="answers",
        )
    assert run.summary.n_answered == n
    assert not {"torch", "evaluate", "transformers"} & sys.modules.keys()


def ask_with_bare_client(url: str, n: int) -> None:
    import asyncio

    from huggingface_hub import AsyncInferenceClient

    async def ask() -> int:
        client = AsyncInferenceClient(base_url=url, api_key="EMPTY")
        places = asyncio.Semaphore(CONCURRENCY)

        async def one(i: int) -> str | None:
            async with places:
                messages = [{"role": "user", "content": prompt(i)}]
                reply = await client.chat_completion(messages, model="scripted-model", max_tokens=16, temperature=0)
                return reply.choices[0].message.content

        return len(await asyncio.gather(*(one(i) for i in range(n))))

    assert asyncio.run(ask()) == n


def lm_eval_command(program: str, url: str, n: int, folder: Path) -> list[str]:
    rows = "".join(json.dumps({"prompt": prompt(i), "gold": "x"}) + "\n" for i in range(n))
    (folder / "data.jsonl").write_text(rows)
    (folder / "speed.yaml").write_text(
        "task: speed\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
        f"    test: {folder / 'data.jsonl'}\ntest_split: test\noutput_type: generate_until\n"
        'doc_to_text: "{{prompt}}"\ndoc_to_target: "{{gold}}"\nmetric_list:\n  - metric: exact_match\n'
        'generation_kwargs:\n  until: ["</s>"]\n  max_gen_toks: 16\n  temperature: 0\n'
    )
    arguments = f"model=scripted-model,base_url={url}/v1/chat/completions,num_concurrent={CONCURRENCY},max_retries=3"
    return [
        *(program, "--model", "local-chat-completions", "--model_args", arguments + ",tokenized_requests=False"),
        *("--tasks", "speed", "--include_path", str(folder), "--apply_chat_template"),
        *("--output_path", str(folder / "out"), "--log_samples"),
    ]


def measure(peer: str, n: int, latency_s: float, lm_eval: str | None) -> Cost:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.scripted", "--latency", str(latency_s)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as folder:
            if peer == "lm-eval":
                assert lm_eval is not None
                command = lm_eval_command(lm_eval, url, n, Path(folder))
            else:
                command = [sys.executable, __file__, "--child", peer, "--url", url, "--n", str(n)]
            environment = {
                "HF_HUB_OFFLINE": "0",
                "HF_DATASETS_OFFLINE": "1",
                "OPENAI_API_KEY": "EMPTY",
                "HF_HOME": folder,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT),
            }
            started = time.time()
            child = subprocess.Popen(
                command,
                env=os.environ | environment,
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=(log := (Path(folder) / "log").open("w+")),
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                log.seek(0)
                raise RuntimeError(f"{peer} failed: {log.read()[-2000:]}")
            with urllib.request.urlopen(f"{url}/stats") as reply:
                stats: dict[str, Any] = json.load(reply)
        return Cost(
            usage.ru_utime + usage.ru_stime,
            stats["first_s"] - started,
            stats["last_s"] - stats["first_s"],
            usage.ru_maxrss / 1024,
        )
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval", help="the lm_eval program of another environment")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--child")
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.child:
        {"kbbench": ask_with_kbbench, "AsyncInferenceClient": ask_with_bare_client}[options.child](
            options.url, options.n
        )
        return
    peers = ["kbbench", "AsyncInferenceClient", *(["lm-eval"] if options.lm_eval else [])]
    marginal: dict[str, float] = {}
    print(f"{'peer':22}{'ms CPU/request':>16}{'first request s':>17}{'peak MB':>9}{'req/s at 20 ms':>16}")
    few: dict[str, list[Cost]] = {peer: [] for peer in peers}
    many: dict[str, list[Cost]] = {peer: [] for peer in peers}
    slow: dict[str, list[Cost]] = {peer: [] for peer in peers}
    for _ in range(options.rounds):
        for peer in peers:
            few[peer].append(measure(peer, 20, 0.0, options.lm_eval))
            many[peer].append(measure(peer, options.n, 0.0, options.lm_eval))
            slow[peer].append(measure(peer, options.n, 0.02, options.lm_eval))
    for peer in peers:
        cpu_s = min(cost.cpu_s for cost in many[peer]) - min(cost.cpu_s for cost in few[peer])
        marginal[peer] = cpu_s / (options.n - 20) * 1000
        rate = options.n / min(cost.span_s for cost in slow[peer])
        first = min(cost.first_request_s for cost in few[peer])
        print(f"{peer:22}{marginal[peer]:16.3f}{first:17.2f}{max(c.peak_mb for c in many[peer]):9.0f}{rate:16,.0f}")
    ours = marginal.pop("kbbench")
    for peer, cost in marginal.items():
        print(f"kbbench / {peer}: {ours / cost:.2f} (target: at most {1.3 if peer != 'lm-eval' else 1.0})")


if __name__ == "__main__":
    main()
