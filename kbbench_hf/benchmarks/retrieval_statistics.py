"""Statistics of a knowledge base with questions (sizes, degrees, words, diversity), and explanations of rankings.

`benchmarks.retrieval` names both for `kbbench report`; imported only then, as it opens the knowledge base.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from kbbench_hf.benchmarks.answers import Id
from kbbench_hf.benchmarks.base import Example, Examples, Explanation, Mark
from kbbench_hf.benchmarks.charts import Statistics
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.knowledge_base.store import KnowledgeBase, is_dataset
from kbbench_hf.metrics.generative_re import shannon_entropy, type_token_ratio

N_SHOWN = 20
"""Candidates of a ranking in a report."""


def statistics(folder: DatasetFolder) -> Statistics:
    """Return the statistics of a built dataset.

    The degree is twice the number of edges over the number of nodes, as in the paper. Words are what white space
    separates in the nodes' texts; the paper's token counts are of its own documents and tokenizer.
    """
    configs = folder.configs()
    splits = configs.get("queries", [])
    shared = [split for split in ("train", "validation", "test") if split in splits]
    rows = [row for split in shared or splits for row in folder.rows("queries", split)]
    texts = [row["query"] for row in rows]
    answers = _n_answers(rows)
    headings = ("queries", "with several answers", "answers per query")
    queries = list(zip(headings, _query_counts(rows), strict=True))
    by_split = []
    for split in splits:
        n, *others = _query_counts(own := folder.rows("queries", split))
        by_split.append((split, n, f"{len(own) / max(1, len(rows)):.2f}", *others))
    entropy, ratio = f"{shannon_entropy(texts):.3f}", f"{type_token_ratio(texts):.4f}"
    knowledge_base, node_types = _knowledge_base(folder) if "nodes" in configs and "edges" in configs else ([], [])
    tables: dict[str, Sequence[tuple[str, ...]]] = {
        "Knowledge base": knowledge_base,
        "Nodes by type": node_types,
        "Queries": queries,
        "Queries by split": by_split,
        "Diversity": [("Shannon entropy", entropy), ("type-token ratio", ratio)],
    }
    lengths = {"words per query": [len(text.split()) for text in texts], "answers per query": answers}
    columns = {"Queries by split": ["queries", "share", "with several answers", "answers per query"]}
    counted = [(row, words) for row in rows if (words := _composition(row)) is not None]
    made, composition = [row for row, _ in counted], [words for _, words in counted]
    if composition:
        tables["Relational to textual"] = _ratio_rows(made, composition)
        columns["Relational to textual"] = ["queries", "without textual words", "mean ratio"]
        lengths["relational words per query"] = [relational for relational, _ in composition]
        lengths["textual words per query"] = [textual for _, textual in composition]
    return Statistics(tables, lengths, columns, "queries")


def _n_answers(rows: Sequence[Row]) -> list[int]:
    return [len(set(row["answer_ids"])) for row in rows]


def _query_counts(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return how many queries there are, how many with several answers, and the mean number of answers."""
    answers = _n_answers(rows)
    mean = f"{np.mean(answers):.3f}" if answers else "-"
    return f"{len(rows):,}", f"{sum(n > 1 for n in answers):,}", mean


def _composition(row: Row) -> tuple[int, int] | None:
    """Return how many words of a synthesized question are about relations, and how many about attributes and texts.

    None for other questions: the column `provenance` of a user's own questions may hold anything.
    """
    try:
        words = json.loads(row.get("provenance") or "").get("words", {})
        return int(words.get("relational", 0)), int(words.get("textual", 0))
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None


def _ratio_rows(made: Sequence[Row], composition: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return the mean ratio of relational to textual words by hops, over the questions that have textual ones.

    Differs from upstream: the paper's ratio is of parts of its questions that were not released; here it is of the
    clauses about relations, topics with them, and of those about requirements.
    """
    by_hops: dict[str, list[tuple[int, int]]] = {"all": list(composition)}
    for row, each in zip(made, composition, strict=True):
        by_hops.setdefault(f"hops: {row.get('hops') or 'unknown'}", []).append(each)
    table: list[tuple[str, ...]] = []
    for name in ["all", *sorted(by_hops.keys() - {"all"})]:
        ratios = [relational / textual for relational, textual in by_hops[name] if textual]
        mean = f"{np.mean(ratios):.2f}" if ratios else "-"
        table.append((name, f"{len(by_hops[name]):,}", f"{len(by_hops[name]) - len(ratios):,}", mean))
    return table


def _knowledge_base(folder: DatasetFolder) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the rows of the table of sizes, and those of the nodes of each type."""
    kb = KnowledgeBase.open(folder.path)
    graph = kb.graph
    counts = np.bincount(graph.type_ids, minlength=len(graph.node_types))
    n_edges = len(kb.edges)
    words = sum(len(text.split()) for text in kb.nodes["text"].to_pylist() if text)
    table = [
        ("node types", f"{len(graph.node_types):,}"),
        ("relations", f"{len(graph.relations):,}"),
        ("nodes", f"{len(kb):,}"),
        ("edges", f"{n_edges:,}"),
        ("average degree", f"{2 * n_edges / max(1, len(kb)):.1f}"),
        ("words of text", f"{words:,}"),
    ]
    return table, [(name, f"{int(n):,}") for name, n in zip(graph.node_types, counts, strict=True)]


def explain(examples: Examples, example: Example, answer: Sequence[Id]) -> Explanation:
    """Return a question, its gold, and the best candidates, by name where the knowledge base is built."""
    named = _names(examples.context.folder)
    gold, best = set(example["answer_ids"]), answer[:N_SHOWN]
    places: list[tuple[str, Mark]] = [
        (f"{place}. {name}", "right" if each in gold else "wrong")
        for place, (each, name) in enumerate(zip(best, named(best), strict=True), start=1)
    ]
    return Explanation([(example["query"], False)], named(example["answer_ids"]), places)


@cache
def _names(folder: Path) -> Callable[[Sequence[Id]], list[str]]:
    """Return a function from ids to "name (id)", or to the ids alone where the knowledge base is not local."""
    kb = KnowledgeBase.open(folder) if is_dataset(folder) else None

    def named(ids: Sequence[Id]) -> list[str]:
        if kb is None:
            return [str(each) for each in ids]
        return [f"{name} ({each})" for name, each in zip(kb.names(kb.rows(ids)), ids, strict=True)]

    return named
