"""STaRK's Tables 2 to 4 and Figure 4 from the data itself: sizes, degrees, words, lengths, diversity."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbbench_hf.dataset_folder import DatasetFolder
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.diversity import shannon_entropy, type_token_ratio

SYNTHESISED = ("train", "validation", "test")


class Statistics(NamedTuple):
    """The tables of a STaRK-like dataset, as (what, figure) rows, and what Figure 4 draws."""

    knowledge_base: list[tuple[str, str]]
    """Table 2; empty where only the questions were built."""
    node_types: list[tuple[str, str]]
    queries: list[tuple[str, str]]
    """Table 3, over all synthesised questions."""
    diversity: list[tuple[str, str]]
    """Table 4."""
    query_words: list[int]
    answers: list[int]


def statistics(folder: DatasetFolder) -> Statistics:
    """Return the statistics of a built dataset.

    The degree is twice the number of edges over the number of nodes, as in the paper. Words are what white space
    separates in the nodes' texts; the paper's token counts are of its own documents and tokenizer.
    """
    configs = folder.configs()
    splits = configs.get("queries", [])
    shared = [split for split in SYNTHESISED if split in splits]
    rows = [row for split in shared or splits for row in folder.rows("queries", split)]
    texts = [row["query"] for row in rows]
    answers = [len(set(row["answer_ids"])) for row in rows]
    parts = {split: folder.table("queries", split).num_rows for split in splits}
    queries = [
        ("queries", f"{len(rows):,}"),
        ("with several answers", f"{sum(n > 1 for n in answers):,}"),
        ("answers per query", f"{np.mean(answers):.3f}" if answers else "-"),
        *((f"split {split}", f"{n:,} ({n / max(1, len(rows)):.2f})") for split, n in parts.items()),
    ]
    diversity = [
        ("Shannon entropy", f"{shannon_entropy(texts):.3f}"),
        ("type-token ratio", f"{type_token_ratio(texts):.4f}"),
    ]
    knowledge_base, node_types = _knowledge_base(folder) if "nodes" in configs and "edges" in configs else ([], [])
    return Statistics(knowledge_base, node_types, queries, diversity, [len(text.split()) for text in texts], answers)


def _knowledge_base(folder: DatasetFolder) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
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


def plot_lengths(found: Statistics, title: str, file: Path) -> None:
    """Draw Figure 4: how long the questions are, and how many answers they have; write a PNG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for column, (values, label) in enumerate(
        [(found.query_words, "words in a query"), (found.answers, "answers of a query")], start=1
    ):
        axes = figure.add_subplot(1, 2, column)
        axes.hist(values, bins=_bins(values), color="#0b5394")
        axes.set_xlabel(label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("queries")
        axes.spines[["top", "right"]].set_visible(False)
        if column == 1:
            axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(file, dpi=150)


def _bins(values: Sequence[int]) -> Any:
    most = max(values, default=1)
    width = max(1, -(-most // 50))
    return np.arange(0, most + 2 * width, width) - 0.5
