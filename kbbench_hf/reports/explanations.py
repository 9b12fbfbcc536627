"""What a report shows of an example whose benchmark does not say it itself: which candidates or answers are right."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from kbbench_hf.benchmarks.base import Benchmark, Examples, Explanation
from kbbench_hf.hub.load import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase

Explain = Callable[[Examples, Mapping[str, Any], Any], Explanation]
Parts = list[tuple[str, Literal["right", "wrong", "hallucinated"]]]

N_SHOWN = 20
"""Candidates of a ranking."""
UNANSWERABLE = "none: the answer is not in what was given"


def explainer(benchmark: Benchmark) -> Explain | None:
    """Return the `explain` of a benchmark, its own or that of its kind of answers; None where there is none."""
    if benchmark.explain is not None:
        return benchmark.explain
    if benchmark.answer == "ids":
        return _of_rankings(benchmark.dataset)
    return _of_answers if benchmark.answer == "answers" else None


def _of_rankings(dataset: str) -> Explain:
    """Show the best candidates, by name where the knowledge base is built."""
    folder = find_dataset(dataset)
    kb = KnowledgeBase.open(folder.path) if "nodes" in folder.configs() else None

    def named(ids: Sequence[Any]) -> list[str]:
        if kb is None:
            return [str(each) for each in ids]
        return [f"{name} ({each})" for name, each in zip(kb.names(kb.rows(ids)), ids, strict=True)]

    def explain(examples: Examples, row: Mapping[str, Any], answer: Sequence[Any]) -> Explanation:
        gold, best = set(row["answer_ids"]), answer[:N_SHOWN]
        places: Parts = [
            (f"{place}. {name}", "right" if each in gold else "wrong")
            for place, (each, name) in enumerate(zip(best, named(best), strict=True), start=1)
        ]
        return Explanation([(row["query"], False)], named(row["answer_ids"]), places)

    return explain


def _of_answers(examples: Examples, row: Mapping[str, Any], answer: Sequence[str]) -> Explanation:
    """Show the answers, right where they are a gold one but for case; all made up where there is no answer."""
    if not row.get("answerable", True):
        return Explanation([(row["question"], False)], [UNANSWERABLE], [(each, "hallucinated") for each in answer])
    gold = {each.strip().casefold() for each in row["answers"]}
    parts: Parts = [(each, "right" if each.strip().casefold() in gold else "wrong") for each in answer]
    return Explanation([(row["question"], False)], list(row["answers"]), parts)
