"""Statistics of GenRES's datasets, and of the triples that the release's parser lost.

`kbbench report NAME --dataset` shows them; `repair_report` is a section of the card that `kbbench build` writes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kbbench_hf.benchmarks.charts import Statistics
from kbbench_hf.benchmarks.genres.parsers import parse_lenient
from kbbench_hf.files.datasets import PREDICTIONS, DatasetFolder, Row

Key = tuple[str, str, str]
"""Config, split and system of stored answers."""


class LostTriples(NamedTuple):
    """What the release's parser lost of one system's answers, and the lenient parser finds."""

    n_answers: int
    n_empty: int
    """Answers without a triple as released."""
    n_readable: int
    """Those of them that hold one."""
    triples: Counter[str]
    """Kind of repair -> triples that needed it; the kinds are in `parsers.LenientTriples`."""

    @property
    def kinds(self) -> str:
        """The kinds of repair with their numbers, the most frequent first."""
        return ", ".join(f"{kind} {n:,}" for kind, n in self.triples.most_common())

    def __str__(self) -> str:
        """Return the counts in a sentence."""
        empty = f"{self.n_empty:,} of {self.n_answers:,} empty, of which {self.n_readable:,} can be read"
        return f"{empty}; triples lost: {self.triples.total():,}" + (f" ({self.kinds})" if self.kinds else "")


def lost(answers: Sequence[Row]) -> LostTriples | None:
    """Return what the release's parser lost of one system's answers; None where none has its text (`response`).

    >>> str(lost([{"triples": [], "response": "[a, in, b]"}, {"triples": [], "response": "I cannot."}]))
    '2 of 2 empty, of which 1 can be read; triples lost: 1 (unquoted 1)'
    """
    parsed = [(row["triples"], parse_lenient(row["response"])) for row in answers if "response" in row]
    if not parsed:
        return None
    repairs: Counter[str] = sum((mended.repairs for _, mended in parsed), Counter())
    empty = [mended for triples, mended in parsed if not triples]
    return LostTriples(len(parsed), len(empty), sum(bool(mended.triples) for mended in empty), repairs)


def repair_report(answers: Mapping[Key, Sequence[Row]]) -> str:
    """Return what was lost of all systems' answers as a section of the card; empty where no text is at hand."""
    rows = [(config, system, found) for (config, _, system), each in answers.items() if (found := lost(each))]
    if not rows:
        return ""
    lines = [
        f"| {config} | {system} | {each.n_empty:,} | {each.n_readable:,} | {each.triples.total():,} | {each.kinds} |"
        for config, system, each in rows
        if each.kinds
    ]
    return "\n".join(
        [
            "",
            "## What the release's reader lost",
            "",
            "`triples` of the systems' answers in `predictions/` are as released. Their texts (`response`) hold more, "
            "which `--parser lenient` reads: triples in other quotes or none (`quotes`, `unquoted`; `comma`: with "
            "commas in the tail), with escaped underscores (`escape`), in numbered lines (`numbered`), or sound and "
            "lost with the list around them (`list`). Systems that lost nothing are left out.",
            "",
            "| config | system | empty as released | of these readable | triples lost | by repair |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


def statistics(folder: DatasetFolder) -> Statistics:
    """Return the statistics of a built dataset: documents, gold, topic corpora, and what was lost of the answers."""
    documents, gold, corpora = [], [], []
    words: list[int] = []
    for config in folder.configs():
        if config.endswith("_corpus"):
            corpora.append((config, f"{folder.table(config, 'full').num_rows:,} texts"))
            continue
        rows = folder.rows(config, "test")
        lengths = [len(row["text"].split()) for row in rows]
        stated = sum(len(row["triples_stated"]) for row in rows)
        relations = {triple["rel"] for row in rows for triple in row["triples"]}
        words += lengths
        documents.append((config, f"{len(rows):,}, of {np.mean(lengths):.0f} words on average"))
        gold.append((config, f"{stated:,} stated triples, {len(relations)} relations"))
    tables = {
        "Documents": documents,
        "Gold": gold,
        "Corpora of topic models": corpora,
        "Lost by the release's reader": [
            (f"{config}, {system}", str(found))
            for (config, _, system), rows in _answers(folder)
            if (found := lost(rows)) and found.triples
        ],
    }
    return Statistics(tables, {"words per document": words}, unit="documents")


def _answers(folder: DatasetFolder) -> Iterable[tuple[Key, list[Row]]]:
    for file in sorted((folder.path / PREDICTIONS).glob("*/*/*.jsonl")):
        lines = file.read_text(encoding="utf-8").splitlines()
        yield (file.parts[-3], file.parts[-2], file.stem), [json.loads(line) for line in lines]
