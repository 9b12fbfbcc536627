"""What reviewers of a knowledge base's questions are shown: the question, its answers, its path, and near misses."""

import json
from random import Random

from kbbench_hf.benchmarks.reviews import ReviewItem
from kbbench_hf.errors import unknown_name
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase

MOST_SHOWN = 10
"""Answers, and near misses, that are shown."""
_LONGEST = 600
"""Characters of a node's text."""


def items(folder: DatasetFolder, split: str, size: int) -> list[ReviewItem]:
    """Return what people are shown of a split: a fixed sample of its questions, as many of each template as can be.

    Raises:
        UsageError: the dataset has no such split.
    """
    splits = folder.configs()["queries"]
    if split not in splits:
        raise unknown_name("split", split, splits)
    kb = KnowledgeBase.open(folder.path)
    by_template: dict[str, list[Row]] = {}
    for row in folder.rows("queries", split):
        by_template.setdefault(row.get("template") or "", []).append(row)
    rng, chosen = Random(0), list[Row]()
    queues = [rng.sample(rows, len(rows)) for rows in by_template.values()]
    while len(chosen) < size and any(queues):
        chosen += [rows.pop() for rows in queues if rows][: size - len(chosen)]
    return [_item(kb, row, split) for row in chosen]


def _item(kb: KnowledgeBase, row: Row, split: str) -> ReviewItem:
    answers = kb.rows(row["answer_ids"]).tolist()
    needed, near = [], list[int]()
    if row.get("topic_ids"):
        topics = kb.rows(row["topic_ids"]).tolist()
        path = Metapath.parse(row["template"])
        needed.append(["path", row["template"]])
        needed += [[label, name] for label, name in zip(path.topics, kb.names(topics), strict=True)]
        needed += [["requirement", _said(each)] for each in json.loads(row["requirements"] or "[]")]
        near = [node for node in path.answers(kb.graph, *topics).tolist() if node not in answers]
    shown = answers[:MOST_SHOWN]
    needed += [[name, text[:_LONGEST]] for name, text in zip(kb.names(shown), kb.texts(shown), strict=True)]
    near = near[:MOST_SHOWN]
    noise = [[name, text[:_LONGEST]] for name, text in zip(kb.names(near), kb.texts(near), strict=True)]
    facts = {"split": split, "answers": str(len(answers)), "hops": str(row.get("hops") or "unknown")}
    return ReviewItem(str(row["id"]), row["query"], [[name] for name in kb.names(shown)], needed, noise, facts=facts)


def _said(requirement: dict[str, object]) -> str:
    parts = (requirement.get("field"), requirement.get("op"), requirement["value"])
    return " ".join(str(part) for part in parts if part is not None)
