"""10,000 answers, each mutated in a way of its own: nothing is raised, and every example stays in the predictions.

python -m tests.endurance.mutations [--answers 10000]
"""

import argparse
import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.base import ParseFunction, Prompt, of_text
from kbbench_hf.benchmarks.text2kgbench.benchmark import parse_balanced, parse_json
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import generate
from tests.servers.scripted import MODEL, ScriptedServer

SEEDS = [
    "capital(France, Paris)\nriver(Paris, Seine)",
    '```json\n{"triples": [{"subject": "a", "relation": "b", "object": "c"}]}\n```',
    '{"triples": [["a", "b", "c"], ["d", "e", "f"]]}',
    "The sentence holds no triples.",
]
PIECES = [*'(),"\\\n\x00\ud800𝔘{]\u2028\x85', "null", "1e999", "NaN", "[" * 2000]


class Outcome(NamedTuple):
    """What became of the answers."""

    answers: int
    in_predictions: int
    parse_failures: int
    altered: int
    """Predictions whose raw response is not what the model wrote."""


def mutate(text: str, rng: random.Random) -> str:
    """Return the text after one to five insertions, deletions, repetitions or shuffles."""
    letters = list(text)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(letters) + 1)
        change = rng.randrange(8)
        if change < 3:
            letters[place:place] = rng.choice(PIECES)
        elif change < 5:
            del letters[place : place + rng.randrange(1, 8)]
        elif change < 7:
            letters[place:place] = letters[: rng.randrange(20)]
        else:
            rng.shuffle(letters)
    return "".join(letters)


def answer(payload: Mapping[str, Any]) -> str:
    rng = random.Random(payload["messages"][-1]["content"])
    return mutate(rng.choice(SEEDS), rng)


def ask(n: int, parse: ParseFunction) -> Outcome:
    prompts = {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(n)}
    with ScriptedServer(answer=answer) as server, tempfile.TemporaryDirectory() as folder:
        model = Endpoint(server.url, MODEL)
        options: dict[str, Any] = {"parse": parse, "answer": "triples", "concurrency": 64, "show": False}
        summary = generate(prompts, model, Path(folder), **options).summary
        lines = [json.loads(line) for line in (Path(folder) / "predictions.jsonl").read_bytes().splitlines()]
    unparsed = sum("triples" not in line for line in lines)
    if [line["id"] for line in lines] != list(prompts) or unparsed != summary.n_parse_failures:
        raise RuntimeError(f"{unparsed} lines without triples, {summary.n_parse_failures} parse failures counted")
    altered = sum(line["response"] != answer({"messages": prompts[line["id"]].messages}) for line in lines)
    return Outcome(summary.n_answered, len(lines), unparsed, altered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=10_000)
    n = parser.parse_args().answers
    for parse in (parse_balanced, parse_json):
        print(parse.__name__, ask(n, of_text(parse)))


if __name__ == "__main__":
    main()
