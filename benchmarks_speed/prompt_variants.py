"""Which prompt a small model follows: unparsable replies, copied triples, F1 and tokens, on train sentences.

Each train sentence of a Text2KGBench dataset is the input once; its demonstrations are the other train sentences that
share most of its words. The test split is not used.

Run: python benchmarks_speed/prompt_variants.py URL MODEL [--benchmark mini-text2kg] [--limit 22] [--only "a;b"]
"""

import argparse
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks import Place, benchmark, find_dataset
from kbbench_hf.benchmarks.base import Examples, PromptOptions
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.llm_run import PromptedTask, run_language_model
from kbbench_hf.scoring.eval_task import EvalTask

MODE = "repaired-3"
ONE = PromptOptions()
NONE = replace(ONE, demonstrations="none")
VARIANTS = {
    "current": ("current", ONE, False),
    "current, 3 shots": ("current", replace(ONE, shots=3), False),
    "current, none": ("current", NONE, False),
    "current, none, structured": ("current", NONE, True),
    "current, structured": ("current", ONE, True),
    "short": ("short", ONE, False),
    "short, 3 shots": ("short", replace(ONE, shots=3), False),
    "short, structured": ("short", ONE, True),
}
"""Name -> its prompt, the options, and whether the server enforces the JSON schema."""


def train_task(name: str, limit: int) -> EvalTask:
    """Return a sample of train sentences as a task, each with the five others that share most of its words."""
    bench = benchmark(name)
    whole = bench.data.load(find_dataset(name), "sentences", "train")
    words = {row["id"]: set(re.findall(r"\w+", row["sentence"].lower())) for row in whole.rows}
    rows = [dict(row) for row in random.Random(41).sample(list(whole.rows), min(limit, len(whole.rows)))]

    def overlap(row: Any, other: Any) -> float:
        one, another = words[row["id"]], words[other["id"]]
        return len(one & another) / len(one | another)

    for row in rows:
        others = [each for each in whole.rows if each["ontology_id"] == row["ontology_id"]]
        others = [each for each in others if each["sentence"] != row["sentence"]]
        row["similar_ids"] = [each["id"] for each in sorted(others, key=lambda each: -overlap(row, each))[:5]]
    examples = Examples(rows, whole.context, mode=MODE)
    return EvalTask(bench, examples, Place(name, "sentences", "train", MODE), "train", len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--benchmark", default="mini-text2kg")
    parser.add_argument("--limit", type=int, default=22)
    parser.add_argument("--only", default=";".join(VARIANTS), help="Names with semicolons between them.")
    said = parser.parse_args()
    task, how = train_task(said.benchmark, said.limit), {"show": False, "canary": False, "concurrency": 1}
    print("| prompt | prompt tokens | completion tokens | unparsable | truncated | copied triples | F1 | OC |")
    print("|---|---|---|---|---|---|---|---|")
    for name in said.only.split(";"):
        prompt, options, structured = VARIANTS[name]
        prompted, server = PromptedTask(task, prompt, options), Endpoint(said.url, said.model)
        with tempfile.TemporaryDirectory() as folder:
            _, summary, result = run_language_model(
                prompted, server, said.model, Path(folder) / "run", sampling=Sampling(max_tokens=256),
                structured=structured, **how,
            )  # fmt: skip
        n = summary.n_answered
        copied = [each.message for each in result.warnings if each.code == "copied_triples"]
        share = copied[0].split(" predicted")[0] if copied else "0"
        print(
            f"| {name} | {summary.prompt_tokens / n:.0f} | {summary.completion_tokens / n:.0f} | "
            f"{summary.n_parse_failures} of {n} | {summary.n_cut_off} of {n} | {share} | "
            f"{result.scores['f1'].value:.3f} | {result.scores['ontology_conformance'].value:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
