"""What can be had from a knowledge base's questions without understanding them: by text, degree or type alone.

The type of a question's answers is given away to every one of these: what they reach is more than a blind retriever
could. The executor is no shortcut but the other end: it must find exactly the stored answers.
"""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.audits import ClosedBook, Finding
from kbbench_hf.building.lexical_match import NodeWords, words
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.topics import STOP_WORDS
from kbbench_hf.text.words import list_words

SAMPLE = 500
"""Questions of a part that are tried, the same ones every time."""
TEXT_LIMIT, DEGREE_LIMIT, TYPE_LIMIT, OVERLAP_LIMIT = 0.6, 0.25, 0.25, 0.5


def audit(folder: DatasetFolder, closed_book: ClosedBook | None = None) -> list[Finding]:
    """Return what each shortcut reaches on the questions of a built dataset, each split a part, as Hit@1.

    Raises:
        UsageError: answers of a closed book are given; there is no check of them here.
    """
    if closed_book is not None:
        raise UsageError(
            "--closed-book is for questions with answers in words; these are answered by nodes. Leave it out."
        )
    kb = KnowledgeBase.open(folder.path)
    findings: list[Finding] = []
    for split in folder.configs()["queries"]:
        rows = folder.rows("queries", split)
        rows = Random(0).sample(rows, SAMPLE) if len(rows) > SAMPLE else rows
        findings += _of_split(kb, split, [row for row in rows if row["answer_ids"]])
    return findings


def _of_split(kb: KnowledgeBase, split: str, rows: Sequence[Row]) -> Iterator[Finding]:
    answers = [frozenset(kb.rows(row["answer_ids"]).tolist()) for row in rows]
    kinds = [sorted(set(kb.types(sorted(each)))) for each in answers]
    questions = [words(row["query"]) - STOP_WORDS for row in rows]
    degrees = kb.graph.without_loops.degrees(direction="both")
    of_kinds = {tuple(each): np.concatenate([kb.of_type(kind) for kind in each]) for each in kinds}
    most_linked = {each: int(nodes[np.argmax(degrees[nodes])]) for each, nodes in of_kinds.items()}
    tried = (
        (
            "text_alone",
            "the node of the answers' type whose text has most of the question's words (BM25), no relation followed",
            [best in right for best, right in zip(best_by_text(kb, questions, of_kinds, kinds), answers, strict=True)],
            TEXT_LIMIT,
        ),
        (
            "degree_alone",
            "the node of the answers' type with most edges",
            [most_linked[tuple(kind)] in right for kind, right in zip(kinds, answers, strict=True)],
            DEGREE_LIMIT,
        ),
        (
            "type_alone",
            "any node of the answers' type",
            [len(right) / len(of_kinds[tuple(kind)]) for kind, right in zip(kinds, answers, strict=True)],
            TYPE_LIMIT,
        ),
        (
            "lexical_overlap",
            "share of the question's words in an answer's text, less that in another node's of its type",
            _overlaps(kb, rows, questions, answers, of_kinds, kinds),
            OVERLAP_LIMIT,
        ),
    )
    for name, title, values, limit in tried:
        value = float(np.mean(values)) if values else float("nan")
        yield Finding(split, name, title, value, limit, len(values))
    if "topic_ids" in (rows[0] if rows else {}):
        wrong = [executed(kb, row) != right for row, right in zip(rows, answers, strict=True)]
        title = "questions whose template, topics and requirements, executed, give other answers than the stored"
        yield Finding(split, "executor_differs", title, float(np.mean(wrong)), 0.0, len(wrong))


def best_by_text(
    kb: KnowledgeBase,
    questions: Sequence[set[str]],
    of_kinds: dict[tuple[str, ...], NDArray[np.int64]],
    kinds: Sequence[Sequence[str]],
) -> list[int]:
    """Return for each question the row that BM25 ranks first among the nodes of its answers' types.

    Of nodes that tie, the first in order is taken, so that a question none of whose words occurs is answered by that
    one.
    """
    wanted = {word for question in questions for word in question}
    found: list[int] = [-1] * len(questions)
    for kind, nodes in of_kinds.items():
        index = NodeWords(kb, nodes, wanted)
        for n, (question, its_kind) in enumerate(zip(questions, kinds, strict=True)):
            if tuple(its_kind) == kind:
                found[n] = int(nodes[np.argmax(index.scores(question))])
    return found


def _overlaps(
    kb: KnowledgeBase,
    rows: Sequence[Row],
    questions: Sequence[set[str]],
    answers: Sequence[frozenset[int]],
    of_kinds: dict[tuple[str, ...], NDArray[np.int64]],
    kinds: Sequence[Sequence[str]],
) -> list[float]:
    gaps = []
    for row, question, right, kind in zip(rows, questions, answers, kinds, strict=True):
        gold = row.get("gold_id")
        gold_row = min(right) if gold is None else int(kb.rows([gold])[0])
        topics = {word for name in kb.names(kb.rows(row.get("topic_ids") or [])) for word in words(name)}
        others = [int(node) for node in of_kinds[tuple(kind)] if int(node) not in right]
        asked = question - topics
        if asked and others:
            other = Random(row["query"]).choice(others)
            of_gold, of_other = (len(asked & words(text)) / len(asked) for text in kb.texts([gold_row, other]))
            gaps.append(of_gold - of_other)
    return gaps


def executed(kb: KnowledgeBase, row: Row) -> frozenset[int]:
    """Return the rows that a question's template, topics and requirements give, read from the row alone.

    Requirements that only a model can judge (`free`) are taken at their word: of the nodes that the rest gives, those
    that are stored as answers.
    """
    topics = kb.rows(row["topic_ids"]).tolist()
    found = Metapath.parse(row["template"]).answers(kb.graph, *topics).tolist()
    stored = set(kb.rows(row["answer_ids"]).tolist())
    for requirement in json.loads(row["requirements"] or "[]"):
        if requirement["kind"] == "free":
            found = [node for node in found if node in stored]
        else:
            found = [node for node in found if meets(kb, node, requirement)]
    return frozenset(found)


def meets(kb: KnowledgeBase, node: int, requirement: dict[str, Any]) -> bool:
    """Return whether a node meets a requirement on an attribute or on its text."""
    value = requirement["value"]
    if requirement["kind"] == "phrase":
        said, phrase = (f" {' '.join(list_words(text))} " for text in (kb.texts([node])[0], value))
        return phrase in said
    own = kb.nodes[requirement["field"]][node].as_py()
    if own is None:
        return False
    match requirement["op"]:
        case "=":
            return bool(own == value)
        case "<=":
            return bool(own <= value)
        case _:
            return bool(own >= value)
