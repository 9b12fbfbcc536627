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
    """Return prompt -> reply for a benchmark, or `benchmark/config`: eight forms take turns, three of them right."""
    examples, asking = load_examples(name).examples, benchmark(name.partition("/")[0]).asking
    write = asking.prompts[prompt or next(iter(asking.prompts))]
    replies = {}
    for number, row in enumerate(examples.rows):
        if "triples" in row:
            triples = [(each["sub"], each["rel"].replace(" ", "_"), each["obj"]) for each in row["triples"]]
            right = _as_json(triples)
            in_part = _as_json([*triples[:1], ("Atlantis", "sank_in", triples[0][2]), ("Up", "captain", "Atlantis")])
        elif str(row["testbed"]).startswith("rejection"):
            right, in_part = (json.dumps({"answer": each}) for each in ("yes" if row["answerable"] else "no", "no"))
        else:
            right, in_part = (json.dumps({"answer": each}) for each in (row["answers"], [*row["answers"], "Atlantis"]))
        forms = [
            right,
            "I cannot tell from this text.",
            f"<think>Is it a film? film(a, b)</think>\n{right}",
            in_part,
            right[: len(right) // 2],
            f"Here it is:\n```json\n{right}\n```\n",
            "",
            in_part,
        ]
        replies[key_of(write(row, examples, PromptOptions()).messages)] = forms[number % len(forms)]
    return replies


def _as_json(triples: Sequence[tuple[str, str, str]]) -> str:
    fields = [dict(zip(("subject", "relation", "object"), each, strict=True)) for each in triples]
    return json.dumps({"triples": fields})
