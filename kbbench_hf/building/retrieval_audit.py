"""Shortcut audit and review sample of a knowledge base's questions.

The audit measures Hit@1 by text, degree or type alone. Every shortcut is given the type of the answers, so it reaches
more than a blind retriever could. The executor is no shortcut: it must find exactly the stored answers. `kbbench audit`
and `kbbench review` call it by the benchmark's import strings; question synthesis ranks by words with it. Samples are
the same every time: reviews of people refer to them.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import log
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.audits import ClosedBook, Finding
from kbbench_hf.benchmarks.reviews import ReviewItem
from kbbench_hf.building.synthesis.requirements import meets
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.generative_re import STOP_WORDS
from kbbench_hf.text.words import list_words

_K1, _B = 1.2, 0.75
"""Parameters of BM25 (Lucene's defaults)."""
_CHUNK = 20_000
"""Nodes whose texts are in memory together."""


class NodeWords:
    """BM25 over names and texts of nodes, for the words of given questions: how well words alone match a question.

    A word counts once for a node, however often the node has it.
    """

    def __init__(self, kb: KnowledgeBase, nodes: NDArray[np.int64], wanted: set[str]) -> None:
        """Index the names and texts of `nodes`, row numbers, by the words in `wanted`."""
        self._postings: dict[str, list[int]] = defaultdict(list)
        lengths = np.zeros(len(nodes))
        for start in range(0, len(nodes), _CHUNK):
            chunk = nodes[start : start + _CHUNK]
            names_and_texts = zip(kb.names(chunk), kb.texts(chunk), strict=True)
            for place, (name, text) in enumerate(names_and_texts, start=start):
                words = list_words(f"{name} {text}")
                lengths[place] = len(words)
                for word in wanted.intersection(words):
                    self._postings[word].append(place)
        mean = max(1.0, float(lengths.mean())) if len(nodes) else 1.0
        self._norm = (_K1 + 1) / (1 + _K1 * (1 - _B + _B * lengths / mean))

    def scores(self, question: set[str]) -> NDArray[np.float64]:
        """Return the score of each node, shape (n_nodes,), in the order of `nodes`; 0 for one without any word."""
        scores = np.zeros(len(self._norm))
        for word in sorted(question & self._postings.keys()):
            places = self._postings[word]
            idf = log(1 + (len(scores) - len(places) + 0.5) / (len(places) + 0.5))
            scores[places] += idf * self._norm[places]
        return scores


def ranks_by_words(kb: KnowledgeBase, questions: Sequence[set[str]], answers: Sequence[Sequence[int]]) -> list[int]:
    """Return the rank of each question's best answer among all nodes, 1 the first; of ties the earlier row leads.

    `questions` are sets of words, `answers` row numbers, at least one for each question.
    """
    nodes = np.arange(len(kb))
    index = NodeWords(kb, nodes, {word for question in questions for word in question})
    ranks = []
    for question, right in zip(questions, answers, strict=True):
        scores = index.scores(question)
        rows = np.array(sorted(right))
        best = rows[np.argmax(scores[rows])]
        ranks.append(1 + int((scores > scores[best]).sum() + (scores[:best] == scores[best]).sum()))
    return ranks


SAMPLE = 500
"""Questions of a split that are tried, the same ones every time."""
TEXT_LIMIT, DEGREE_LIMIT, TYPE_LIMIT, OVERLAP_LIMIT = 0.6, 0.25, 0.25, 0.5
"""Values of the shortcuts above which a finding is marked."""
MOST_SHOWN = 10
"""Answers, and near misses, that a reviewer sees."""
_LONGEST = 600
"""Characters of a node's text that a reviewer sees."""
Kinds = tuple[str, ...]
"""The types of a question's answers, sorted."""


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
        findings += _findings(kb, split, [row for row in rows if row["answer_ids"]])
    return findings


_TITLES = {
    "text_alone": "the node of the answers' type whose text has most of the question's words (BM25), no relation "
    "followed",
    "degree_alone": "the node of the answers' type with most edges",
    "type_alone": "any node of the answers' type",
    "lexical_overlap": "share of the question's words in an answer's text, less that in another node's of its type",
}


def _findings(kb: KnowledgeBase, split: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield a finding for each shortcut, and for the executor where the questions have templates."""
    answers = [frozenset(kb.rows(row["answer_ids"]).tolist()) for row in rows]
    kinds = [tuple(sorted(set(kb.types(sorted(each))))) for each in answers]
    questions = [set(list_words(row["query"])) - STOP_WORDS for row in rows]
    degrees = kb.graph.without_loops.degrees(direction="both")
    of_kinds = {each: np.concatenate([kb.of_type(kind) for kind in each]) for each in kinds}
    most_linked = {each: int(nodes[np.argmax(degrees[nodes])]) for each, nodes in of_kinds.items()}
    by_text = best_by_text(kb, questions, of_kinds, kinds)
    hits: dict[str, Sequence[float]] = {
        "text_alone": [best in right for best, right in zip(by_text, answers, strict=True)],
        "degree_alone": [most_linked[kind] in right for kind, right in zip(kinds, answers, strict=True)],
        "type_alone": [len(right) / len(of_kinds[kind]) for kind, right in zip(kinds, answers, strict=True)],
        "lexical_overlap": _overlaps(kb, rows, questions, answers, of_kinds, kinds),
    }
    limits = (TEXT_LIMIT, DEGREE_LIMIT, TYPE_LIMIT, OVERLAP_LIMIT)
    for (name, values), limit in zip(hits.items(), limits, strict=True):
        value = float(np.mean(values)) if values else float("nan")
        yield Finding(split, name, _TITLES[name], value, limit, len(values))
    if "topic_ids" in (rows[0] if rows else {}):
        wrong = [executed(kb, row) != right for row, right in zip(rows, answers, strict=True)]
        title = "questions whose template, topics and requirements, executed, give other answers than the stored"
        yield Finding(split, "executor_differs", title, float(np.mean(wrong)), 0.0, len(wrong))


def best_by_text(
    kb: KnowledgeBase,
    questions: Sequence[set[str]],
    of_kinds: dict[Kinds, NDArray[np.int64]],
    kinds: Sequence[Kinds],
) -> list[int]:
    """Return for each question the row that BM25 ranks first among the nodes of its answers' types.

    The first of tied nodes wins, also for a question without any word of a node.
    """
    wanted = {word for question in questions for word in question}
    found: list[int] = [-1] * len(questions)
    for kind, nodes in of_kinds.items():
        index = NodeWords(kb, nodes, wanted)
        for n, (question, its_kind) in enumerate(zip(questions, kinds, strict=True)):
            if its_kind == kind:
                found[n] = int(nodes[np.argmax(index.scores(question))])
    return found


def _overlaps(
    kb: KnowledgeBase,
    rows: Sequence[Row],
    questions: Sequence[set[str]],
    answers: Sequence[frozenset[int]],
    of_kinds: dict[Kinds, NDArray[np.int64]],
    kinds: Sequence[Kinds],
) -> list[float]:
    """Return the share of a question's words in its answer's text, less that in a random other node's of its types.

    Questions without words beside their topics, or without other nodes, have no value.
    """
    gaps = []
    for row, question, right, kind in zip(rows, questions, answers, kinds, strict=True):
        gold = row.get("gold_id")
        gold_row = min(right) if gold is None else int(kb.rows([gold])[0])
        topics = {word for name in kb.names(kb.rows(row.get("topic_ids") or [])) for word in list_words(name)}
        others = [node for node in of_kinds[kind].tolist() if node not in right]
        words = question - topics
        if words and others:
            other = Random(row["query"]).choice(others)
            of_gold, of_other = (
                len(words.intersection(list_words(text))) / len(words) for text in kb.texts([gold_row, other])
            )
            gaps.append(of_gold - of_other)
    return gaps


def executed(kb: KnowledgeBase, row: Row) -> frozenset[int]:
    """Return the rows that a question's template, topics and requirements give, read from the row alone.

    Requirements that only a model can judge (`free`) are trusted: they keep the nodes that are stored as answers.
    """
    topics = kb.rows(row["topic_ids"]).tolist()
    found = Metapath.parse(row["template"]).answers(kb.graph, *topics).tolist()
    stored = set(kb.rows(row["answer_ids"]).tolist())

    def is_met(node: int, requirement: dict[str, Any]) -> bool:
        if requirement["kind"] == "free":
            return node in stored
        if requirement["kind"] == "phrase":
            return meets({"text": kb.texts([node])[0]}, requirement)
        field = requirement["field"]
        return meets({field: kb.nodes[field][node].as_py()}, requirement)

    for requirement in json.loads(row["requirements"] or "[]"):
        found = [node for node in found if is_met(node, requirement)]
    return frozenset(found)


def review_items(folder: DatasetFolder, split: str, size: int) -> list[ReviewItem]:
    """Return at most `size` review items of a split: a fixed sample of its questions, balanced over templates.

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
    return [_review_item(kb, row, split) for row in chosen]


def _review_item(kb: KnowledgeBase, row: Row, split: str) -> ReviewItem:
    """Return a question with its answers, its requirements, and nodes that meet its template but not these."""
    answers = kb.rows(row["answer_ids"]).tolist()
    needed, near = [], list[int]()
    if row.get("topic_ids"):
        topics = kb.rows(row["topic_ids"]).tolist()
        path = Metapath.parse(row["template"])
        needed.append(["path", row["template"]])
        needed += [[label, name] for label, name in zip(path.topics, kb.names(topics), strict=True)]
        needed += [["requirement", _in_words(each)] for each in json.loads(row["requirements"] or "[]")]
        near = [node for node in path.answers(kb.graph, *topics).tolist() if node not in answers]
    shown, noise = (
        [[name, text[:_LONGEST]] for name, text in zip(kb.names(nodes), kb.texts(nodes), strict=True)]
        for nodes in (answers[:MOST_SHOWN], near[:MOST_SHOWN])
    )
    facts = {"split": split, "answers": str(len(answers)), "hops": str(row.get("hops") or "unknown")}
    return ReviewItem(str(row["id"]), row["query"], [[name] for name, _ in shown], needed + shown, noise, facts=facts)


def _in_words(requirement: dict[str, object]) -> str:
    """Return a requirement as text: `year <= 1900`, or a phrase alone."""
    parts = (requirement.get("field"), requirement.get("op"), requirement["value"])
    return " ".join(str(part) for part in parts if part is not None)
