"""Capitals: name the capital of a country. A complete benchmark in one module, as a template for your own."""

import csv
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pyarrow as pa

from kbbench_hf import (
    ANSWERS,
    Asking,
    Benchmark,
    Data,
    DatasetFolder,
    Example,
    Examples,
    Explanation,
    Facts,
    ParseError,
    Prompt,
    PromptOptions,
    Scores,
    Scoring,
    Showing,
    of_text,
    write_dataset,
)

HERE = Path(__file__).parent


def similarity(answer: str, gold: str) -> float:
    """Return the similarity of two names, from 0 to 1: the share of characters in common, without regard to case.

    >>> similarity("paris", "Paris"), round(similarity("Praha", "Prague"), 2)
    (1.0, 0.55)
    """
    return SequenceMatcher(None, answer.strip().casefold(), gold.casefold()).ratio()


def build(source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build the dataset from `questions.csv`, or from a file of this form in the folder `source`."""
    with ((source or HERE) / "questions.csv").open(encoding="utf-8", newline="") as lines:
        table = pa.Table.from_pylist(list(csv.DictReader(lines)))
    write_dataset(out, {"questions": {"test": table}}, (HERE / "card.md").read_text(encoding="utf-8"))


def load(folder: DatasetFolder, config: str, split: str) -> Examples:
    """Return the questions of a split."""
    return Examples(folder.rows(config, split))


def score(examples: Examples, answers: Sequence[Sequence[str] | None], mode: str) -> Scores:
    """Return, for each question, whether the first answer is the capital, and the similarity of the two.

    A missing answer scores 0 in both.
    """
    firsts = [answer[0] if answer else "" for answer in answers]
    alike = np.array([similarity(first, row["capital"]) for first, row in zip(firsts, examples.rows, strict=True)])
    continents = [row["continent"] for row in examples.rows]
    return Scores({"exact": (alike == 1.0).astype(np.float64), "similarity": alike}, {"continent": continents})


def prompt(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Return the prompt for a question."""
    question = f"What is the capital of {example['country']}? Answer with its name only."
    return Prompt([{"role": "user", "content": question}], max_tokens=16)


def parse(response: str) -> list[str]:
    """Return the first line of a response.

    Raises:
        ParseError: the response is empty.
    """
    if not response.strip():
        raise ParseError("an empty response")
    return [response.strip().splitlines()[0].rstrip(".")]


def explain(examples: Examples, example: Example, answer: Sequence[str]) -> Explanation:
    """Return a question, its capital, and whether each answer is right."""
    parts = [(each, "right" if similarity(each, example["capital"]) == 1.0 else "wrong") for each in answer]
    return Explanation([(f"The capital of {example['country']}?", False)], [example["capital"]], parts)


CAPITALS = Benchmark(
    Facts("mini-capitals", "Capitals, a template", family="Capitals", license="cc0-1.0"),
    Data(("questions",), ("test",), "test", load, build=build, shipped=HERE / "mini"),
    Scoring(ANSWERS, {"exact": "Exact", "similarity": "Alike"}, ("reference",), score),
    Asking({"plain": prompt}, {"first-line": of_text(parse)}),
    Showing(explain, evaluate_module=HERE / "evaluate" / "capital_similarity"),
)
