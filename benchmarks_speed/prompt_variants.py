"""Which prompt a small model follows: unparsable replies, copied triples, F1 and tokens, on train sentences.

Each train sentence of a Text2KGBench dataset is the input once; its demonstrations are the other train sentences that
share most of its words. GenRES has no train split: the 20 sentences of `genres_train.jsonl` are in the form of
`mini-genres`, about another invented place. The test splits are not used.

Open extraction words relations freely, so F1 of GenRES is here that of the pairs of subject and object.

Run: python benchmarks_speed/prompt_variants.py URL MODEL [--benchmark mini-text2kg] [--limit 22] [--only "a;b"]
A server without the model's chat template needs --stop "<|im_end|>", the mark with which its turns end.
"""

import argparse
import json
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks import TaskKey, benchmark, find_dataset
from kbbench_hf.benchmarks.base import Example, Examples, Prompt, PromptOptions
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.benchmarks.genres.prompts import open_named_prompt
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.metrics.generative_re import spelling_key
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.llm_run import PromptedTask, run_language_model
from kbbench_hf.scoring.eval_task import EvalTask

ONE = PromptOptions()
NONE = replace(ONE, demonstrations="none")
TEXT2KG = {
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
GENRES = {
    f"{prompt}{', structured' if structured else ''}": (prompt, ONE, structured)
    for prompt in ("open", "open-named", "short")
    for structured in (False, True)
}
_SHORT = """You write down the facts of a text as triples: a thing, a relation, another thing.

Answer with JSON only: {"triples": [{"subject": "...", "relation": "...", "object": "..."}]}"""
_REMINDER = "\nFacts of this text, with names from it only:"
_ARTICLE = re.compile(r"^(the|an?) ", re.I)


def short(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Return the prompt `open-named` without its rules, and with a reminder after each text."""
    prompt = open_named_prompt(example, examples, options)
    messages = [
        {**each, "content": _SHORT if each["role"] == "system" else f"{each['content']}{_REMINDER}"}
        if each["role"] != "assistant"
        else each
        for each in prompt.messages
    ]
    return replace(prompt, messages=messages)


def genres_task(name: str, limit: int) -> EvalTask:
    """Return the train sentences of GenRES as a task, with `short` among its prompts."""
    bench = benchmark(name)
    lines = Path(__file__).with_name("genres_train.jsonl").read_text(encoding="utf-8").splitlines()[:limit]
    rows = []
    for place, line in enumerate(map(json.loads, lines)):
        triples = [dict(zip(("sub", "rel", "obj"), triple, strict=True)) for triple in line["gold"]]
        rows.append({"id": f"train-{place}", "text": line["text"], "triples": triples, "triples_stated": triples})
    bench = replace(bench, asking=replace(bench.asking, prompts={**bench.asking.prompts, "short": short}))
    examples = Examples(rows, CorpusContext("sentences", ()), mode="reference")
    return EvalTask(bench, examples, TaskKey(name, "sentences", "train", "reference"), "train", len(rows))


def pair_f1(task: EvalTask, predictions: Path) -> float:
    """Return the mean F1 of the pairs of subject and object, in any order and whatever their relation."""
    found: dict[str, set[frozenset[str]]] = {}
    for line in predictions.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["id"]] = {_pair(sub, obj) for sub, _, obj in row.get("triples") or []}
    values = []
    for row in task.examples.rows:
        gold = {_pair(each["sub"], each["obj"]) for each in row["triples"]}
        values.append(2 * len(gold & found[row["id"]]) / (len(gold) + len(found[row["id"]])))
    return sum(values) / len(values)


def _pair(*names: str) -> frozenset[str]:
    return frozenset(spelling_key(_ARTICLE.sub("", name)) for name in names)


def text2kg_task(name: str, limit: int) -> EvalTask:
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
    examples = Examples(rows, whole.context, mode="repaired-3")
    return EvalTask(bench, examples, TaskKey(name, "sentences", "train", "repaired-3"), "train", len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--benchmark", default="mini-text2kg")
    parser.add_argument("--limit", type=int, default=22)
    parser.add_argument("--only", help="Names of variants with semicolons between them.")
    parser.add_argument("--stop", help="A text that ends a reply.")
    said = parser.parse_args()
    sampling = Sampling(max_tokens=256, extra={"stop": [said.stop]} if said.stop else {})
    genres = said.benchmark.endswith("genres") or said.benchmark.startswith("genres")
    task = (genres_task if genres else text2kg_task)(said.benchmark, said.limit)
    variants, how = GENRES if genres else TEXT2KG, {"show": False, "canary": False, "concurrency": 1}
    columns = ["prompt", "prompt tokens", "completion tokens", "unparsable", "truncated", "copied triples", "F1"]
    columns += [] if genres else ["OC"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name in said.only.split(";") if said.only else variants:
        prompt, options, structured = variants[name]
        prompted, server = PromptedTask(task, prompt, options), Endpoint(said.url, said.model)
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            _, summary, result, _ = run_language_model(
                prompted, server, said.model, run, sampling=sampling, structured=structured, **how
            )
            f1 = pair_f1(task, run / "predictions.jsonl") if genres else result.scores["f1"].value
        n = summary.n_answered
        copied = [each.message for each in result.warnings if each.code == "copied_triples"]
        share = copied[0].split(" predicted")[0] if copied else "0"
        print(
            f"| {name} | {summary.prompt_tokens / n:.0f} | {summary.completion_tokens / n:.0f} | "
            f"{summary.n_parse_failures} of {n} | {summary.n_cut_off} of {n} | {share} | {f1:.3f} |"
            + ("" if genres else f" {result.scores['ontology_conformance'].value:.3f} |"),
            flush=True,
        )


if __name__ == "__main__":
    main()
