"""Parser of STaRK's questions: released CSV and index files to one table per split."""

import csv
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

SYNTHESIZED = "stark_qa/stark_qa.csv"
HUMAN_WRITTEN = "stark_qa/stark_qa_human_generated_eval.csv"
INDEXES = {
    "train": "split/train.index",
    "validation": "split/val.index",
    "test": "split/test.index",
    "test_0_1": "split/test-0.1.index",
}
"""Split -> the file that lists its question ids. The last is in the Hub's copy of the release only."""

HUMAN = "human"
"""The split of the questions that people wrote."""

QUESTIONS = pa.schema(
    [
        ("id", pa.int64()),
        ("query", pa.string()),
        ("answer_ids", pa.list_(pa.int64())),
        ("answer_ids_source", pa.list_(pa.int64())),
        ("flags", pa.list_(pa.string())),
        ("template", pa.string()),
    ]
)
"""Columns of `queries`. `answer_ids_source`: of human-written questions, the answers their writer had in mind; null
where the release has none. `flags`: what is known to be wrong with a question. `template`: the metapath that it was
made from, where `recovered` finds it; null here, for the release has none."""

_SHOWN = 10


@dataclass(frozen=True)
class QuestionFacts:
    """What is known of a release's questions: what to expect, and what is wrong."""

    n_nodes: int
    """Answers are node ids below this."""
    candidates: range
    counts: Mapping[str, tuple[int, ...]]
    """Count -> the values it has in the known copies of the release."""
    known_wrong: Mapping[tuple[int, ...], tuple[str, ...]] = field(default_factory=dict)
    """Answers of a human-written question -> its flags. Its id is another in each copy of the release."""
    ids_are_answers: bool = False
    """Whether the copy on GitHub uses an answer's node id as the question's id; the Hub's counts from 0."""


def read_questions(folder: Path, known: QuestionFacts) -> dict[str, pa.Table]:
    """Return the tables of `queries` by split, in the order of the release's index files.

    Ids are the Hub's: in Amazon's copy on GitHub the id of a question is a node among its answers, and the Hub counts
    the questions in the order of those ids.

    Raises:
        DataError: a file is malformed, an answer is no node (the first ten are listed), or counts differ.
    """
    synthesized = {row["id"]: row for row in _read(folder / SYNTHESIZED)}
    new_ids = {old: new for new, old in enumerate(sorted(synthesized))}
    if not known.ids_are_answers and any(old != new for old, new in new_ids.items()):
        raise DataError(
            f"{folder / SYNTHESIZED}: question ids are not 0 to {len(new_ids) - 1:,}; expected the release's file. "
            "Fetch it again."
        )
    splits = {}
    for split, name in INDEXES.items():
        file = folder / name
        if split == "test_0_1" and not file.is_file():
            logging.getLogger(__name__).warning(
                "No split test_0_1: its list, %s, is only in the Hub's copy of the release. Without --source it is "
                "downloaded.",
                name,
            )
            continue
        splits[split] = [synthesized[old] | {"id": new_ids[old]} for old in _read_index(file, synthesized)]
    splits[HUMAN] = list(_read(folder / HUMAN_WRITTEN))
    for split, rows in splits.items():
        for row in rows:
            row["flags"] = list(_flags(row, known, human=split == HUMAN))
    _check_answers(folder, splits, known.n_nodes)
    _check_counts(folder, splits, known.counts)
    return {split: pa.Table.from_pylist(rows, QUESTIONS) for split, rows in splits.items()}


def _read(file: Path) -> Iterator[Row]:
    try:
        with file.open(encoding="utf-8", newline="") as source:
            rows = list(csv.DictReader(source, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file}: {error}. Expected a CSV file of the release. Fetch it again.") from error
    seen = set()
    for number, row in enumerate(rows, start=1):
        try:
            question = {
                "id": int(row["id"]),
                "query": row["query"],
                "answer_ids": node_ids(row["answer_ids"]),
                "answer_ids_source": node_ids(row["answer_ids_source"]) if row.get("answer_ids_source") else None,
            }
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{file}, row {number}: {error}. Expected the columns id, query and answer_ids, the last a list of "
                "node ids such as [3, 14]. Fetch the file again."
            ) from error
        if question["id"] in seen or not question["query"] or not question["answer_ids"]:
            raise DataError(
                f"{file}, row {number}: question {question['id']} occurs twice or lacks its text or its answers; "
                "expected each once and whole. Fetch the file again."
            )
        seen.add(question["id"])
        yield question


def node_ids(text: str) -> list[int]:
    """Return a list of node ids from its text; nothing in the text is run.

    >>> node_ids("[3, 14]")
    [3, 14]

    Raises:
        ValueError: it is no list of integers.
    """
    ids = json.loads(text)
    if not isinstance(ids, list) or any(type(each) is not int for each in ids):
        raise ValueError(f"{text[:40]!r} is not a list of integers")
    return ids


def _read_index(file: Path, synthesized: Collection[int]) -> list[int]:
    try:
        ids = [int(line) for line in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: {error}. Expected one question id a line. Fetch the file again.") from error
    strangers = [each for each in ids if each not in synthesized]
    if strangers or len(set(ids)) < len(ids):
        raise DataError(
            f"{file}: {len(strangers)} ids have no question ({_some(strangers)}), {len(ids) - len(set(ids))} occur "
            f"twice; expected ids of {SYNTHESIZED}, each once. Take both files from one copy of the release."
        )
    return ids


def _flags(row: Row, known: QuestionFacts, *, human: bool) -> Iterator[str]:
    answers = row["answer_ids"]
    if human:
        yield from known.known_wrong.get(tuple(answers), ())
    outside = sum(each not in known.candidates for each in answers)
    if outside:
        yield "unanswerable" if outside == len(answers) else "answers_not_candidates"
    if len(set(answers)) < len(answers):
        yield "duplicate_answers"


def _check_answers(folder: Path, splits: Mapping[str, Sequence[Row]], n_nodes: int) -> None:
    lost = [
        f"{answer} of {split} question {row['id']}"
        for split, rows in splits.items()
        for row in rows
        for answer in row["answer_ids"]
        if not 0 <= answer < n_nodes
    ]
    if lost:
        raise DataError(
            f"{folder}: {len(lost)} answers are not nodes of the knowledge base: {_some(lost)}. Expected node ids "
            f"from 0 to {n_nodes - 1:,}. Take questions and knowledge base from one release."
        )


def _check_counts(folder: Path, splits: Mapping[str, Sequence[Row]], expected: Mapping[str, tuple[int, ...]]) -> None:
    written = [row for split in ("train", "validation", "test") for row in splits[split]]
    counts = {split: len(rows) for split, rows in splits.items()}
    counts["questions"] = len({row["id"] for row in written})
    counts["multi-answer"] = sum(len(set(row["answer_ids"])) > 1 for row in written)
    counts["human multi-answer"] = sum(len(set(row["answer_ids"])) > 1 for row in splits["human"])
    counts["duplicate answers"] = sum("duplicate_answers" in row["flags"] for row in written)
    counts["distinct answers"] = len({answer for row in written for answer in row["answer_ids"]})
    wrong = [
        f"{name} {counts[name]:,} (expected {' or '.join(f'{each:,}' for each in sorted(values))})"
        for name, values in expected.items()
        if name in counts and counts[name] not in values
    ]
    if wrong:
        raise DataError(
            f"{folder}: the counts are not the release's: {', '.join(wrong)}. Expected its files, unchanged. Fetch "
            "them again, or leave --source out to download them."
        )


def _some(values: Iterable[object]) -> str:
    listed = list(values)
    return ", ".join(map(str, listed[:_SHOWN])) + (" ..." if len(listed) > _SHOWN else "")
