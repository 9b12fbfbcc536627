"""What a report shows of a ranked question: the best candidates by name, and which of them are answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from kbbench_hf.benchmarks.base import Examples, Explanation
from kbbench_hf.hub.load import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase

Explain = Callable[[Examples, Mapping[str, Any], Any], Explanation]

N_SHOWN = 20


def ranking_explainer(dataset: str) -> Explain:
    """Return the `explain` of a retrieval benchmark; nodes have names where the knowledge base is built."""
    folder = find_dataset(dataset)
    kb = KnowledgeBase.open(folder.path) if "nodes" in folder.configs() else None

    def named(ids: Sequence[Any]) -> list[str]:
        if kb is None:
            return [str(each) for each in ids]
        return [f"{name} ({each})" for name, each in zip(kb.names(kb.rows(ids)), ids, strict=True)]

    def explain(examples: Examples, row: Mapping[str, Any], answer: Sequence[Any]) -> Explanation:
        gold, best = set(row["answer_ids"]), answer[:N_SHOWN]
        places: list[tuple[str, Literal["right", "wrong", "hallucinated"]]] = [
            (f"{place}. {name}", "right" if each in gold else "wrong")
            for place, (each, name) in enumerate(zip(best, named(best), strict=True), start=1)
        ]
        return Explanation([(row["query"], False)], named(row["answer_ids"]), places)

    return explain
