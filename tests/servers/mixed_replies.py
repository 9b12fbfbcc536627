"""Replies of a model with many habits to the prompts of a benchmark: right, wrapped, truncated, refused, empty."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.scoring.eval_task import load_examples


def key_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the messages of a request as text."""
    return json.dumps([[each["role"], each["content"]] for each in messages])


def mixed_replies(name: str, prompt: str | None = None) -> dict[str, str]:
    """Return prompt -> reply for the default config of a benchmark; one in seven replies is right and plain."""
    examples, asking = load_examples(name).examples, benchmark(name).asking
    write = asking.prompts[prompt or next(iter(asking.prompts))]
    replies = {}
    for number, row in enumerate(examples.rows):
        if "triples" in row:
            triples = [
                {"subject": each["sub"], "relation": each["rel"].replace(" ", "_"), "object": each["obj"]}
                for each in row["triples"]
            ]
            right = json.dumps({"triples": triples})
        else:
            right = json.dumps({"answer": list(row["answers"])})
        forms = [
            right,
            "I cannot tell from this text.",
            f"<think>Is it a film? film(a, b)</think>\n{right}",
            right[: len(right) // 2],
            f"Here it is:\n```json\n{right}\n```\n",
            "",
            right.replace("a", "e"),
        ]
        replies[key_of(write(row, examples, PromptOptions()).messages)] = forms[number % len(forms)]
    return replies
