"""Builder of the STaRK datasets from the release (Hugging Face snap-stanford/stark, commit 88269e2).

Here the questions are parsed (CSV and index files, one table per split), in `archives` the knowledge bases;
`facts.toml` has their expected sizes. The benchmark names `build_amazon` and its like by import string. The datasets
are the same bytes in every build: columns, ids, flags and the order of rows stay.
"""

import csv
import hashlib
import json
import logging
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from kbbench_hf.benchmarks.stark.benchmark import METAPATHS
from kbbench_hf.building.stark.archives import Archive, read_archive
from kbbench_hf.errors import DataError, KBBenchError, first_of, unknown_name
from kbbench_hf.files import file_sha256
from kbbench_hf.files.datasets import Row, write_dataset
from kbbench_hf.knowledge_base.metapaths import Hop, Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.generative_re import STOP_WORDS
from kbbench_hf.text.words import list_words

_CARDS = Path(__file__).with_name("cards")
_FACTS = tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))
CONFIGS = ("queries", "nodes", "edges", "schema")
"""The configs of each dataset."""
_NO_QUESTIONS = (
    ". Expected the files of huggingface.co/datasets/snap-stanford/stark, or the folder of one dataset. Give that with "
    "--source, or leave --source out to download."
)
_NO_ARCHIVE = (
    ", the knowledge base. Expected the files of huggingface.co/datasets/snap-stanford/stark. For the questions alone: "
    "--configs queries."
)


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


@dataclass(frozen=True)
class QuestionFacts:
    """What is known of a release's questions: what to expect, and what is wrong."""

    n_nodes: int
    """Answers are node ids below this."""
    candidates: range
    """Node ids that retrievers rank; answers outside them are flagged."""
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
    synthesized = {row["id"]: row for row in _read_rows(folder / SYNTHESIZED)}
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
    splits[HUMAN] = list(_read_rows(folder / HUMAN_WRITTEN))
    for split, rows in splits.items():
        for row in rows:
            row["flags"] = list(_flags(row, known, human=split == HUMAN))
    _check_answers(folder, splits, known.n_nodes)
    _check_counts(folder, splits, known.counts)
    return {split: pa.Table.from_pylist(rows, QUESTIONS) for split, rows in splits.items()}


def _read_rows(file: Path) -> Iterator[Row]:
    """Yield the questions of a CSV file, in its order.

    Raises:
        DataError: the file is no CSV, or a row is malformed, repeats an id or lacks answers.
    """
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
    """Return the question ids of a split, in the order of its file.

    Raises:
        DataError: the file has something else, an id of no question, or one twice.
    """
    try:
        ids = [int(line) for line in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: {error}. Expected one question id a line. Fetch the file again.") from error
    strangers = [each for each in ids if each not in synthesized]
    if strangers or len(set(ids)) < len(ids):
        raise DataError(
            f"{file}: {len(strangers)} ids have no question ({first_of(strangers)}), {len(ids) - len(set(ids))} occur "
            f"twice; expected ids of {SYNTHESIZED}, each once. Take both files from one copy of the release."
        )
    return ids


def _flags(row: Row, known: QuestionFacts, *, human: bool) -> Iterator[str]:
    """Yield what is known to be wrong with a question."""
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
            f"{folder}: {len(lost)} answers are not nodes of the knowledge base: {first_of(lost)}. Expected node ids "
            f"from 0 to {n_nodes - 1:,}. Take questions and knowledge base from one release."
        )


def _check_counts(folder: Path, splits: Mapping[str, Sequence[Row]], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse questions whose counts are none of the known copies' of the release; all wrong ones are listed."""
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


@dataclass(frozen=True)
class StarkRelease:
    """One of the three datasets: its name in the release, and what is known of its files."""

    dataset: str
    name: str
    questions: QuestionFacts
    archive: Archive
    lists_templates: bool = True
    """Whether the paper lists all templates; of Amazon it says that relations are combined."""


def _load_release(name: str) -> StarkRelease:
    """Return a release with its facts of `facts.toml`."""
    facts: dict[str, Any] = {key: tuple(each) if type(each) is list else each for key, each in _FACTS[name].items()}
    facts["candidates"] = range(*facts["candidates"])
    facts["known_wrong"] = {(int(answer),): why for answer, why in facts.get("known_wrong", {}).items()}

    def of(kind: Any) -> dict[str, Any]:
        return {each.name: facts[each.name] for each in fields(kind) if each.name in facts}

    questions, archive = QuestionFacts(**of(QuestionFacts)), Archive(**of(Archive))
    return StarkRelease(facts["dataset"], name, questions, archive, facts.get("lists_templates", True))


AMAZON, MAG, PRIME = map(_load_release, ("amazon", "mag", "prime"))


def build(release: StarkRelease, source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build one of the three datasets at `out` from the release at `source`, or from its download where None.

    `source` is the release's root (`qa/amazon`, `skb/amazon/processed.zip`) or the folder of one dataset.

    Raises:
        DataError: a file is absent or malformed, counts are not the release's, or an answer is no node.
        UsageError: a config that does not exist.
    """
    for config in configs or ():
        if config not in CONFIGS:
            raise unknown_name(f"config of {release.dataset}", config, CONFIGS)
    chosen = [config for config in CONFIGS if configs is None or config in configs]
    needs_archive = any(config != "queries" for config in chosen)
    if source is None:
        source = download(release.name, questions="queries" in chosen, archive=needs_archive)
    tables: dict[str, dict[str, pa.Table]] = {}
    if "queries" in chosen:
        folder = _find_folder(source, "qa", release.name, SYNTHESIZED, _NO_QUESTIONS)
        tables["queries"] = read_questions(folder, release.questions)
    with ExitStack() as open_archive:
        if needs_archive:
            file = _find_folder(source, "skb", release.name, "processed.zip", _NO_ARCHIVE) / "processed.zip"
            found = open_archive.enter_context(read_archive(file, release.archive, out.resolve().parent))
            tables |= {config: {"full": found[config]} for config in chosen if config in found}
            if "queries" in tables and release.lists_templates:
                templates = METAPATHS[release.name].values()
                tables["queries"] = with_templates(tables["queries"], [*templates], found["nodes"], found["edges"])
        write_dataset(out, tables, (_CARDS / f"{release.dataset}.md").read_text(encoding="utf-8"))


def build_archive(release: StarkRelease, archive: Path, out: Path) -> None:
    """Build at `out` the knowledge base in an archive of the release's form and any size up to it, without questions.

    Such are what the authors' code writes from a part of the raw data, or from data of one's own.

    Raises:
        DataError: the archive is malformed.
    """
    with read_archive(archive, replace(release.archive, part=True), out.resolve().parent) as found:
        form = f"A knowledge base in the form of {release.dataset}'s, without questions."
        card = f"---\npretty_name: {json.dumps(out.name)}\n---\n\n# {out.name}\n\n{form}\n"
        write_dataset(out, {config: {"full": table} for config, table in found.items()}, card)


_RELEASES = (AMAZON, MAG, PRIME)
build_amazon, build_mag, build_prime = (partial(build, release) for release in _RELEASES)
build_amazon_archive, build_mag_archive, build_prime_archive = (partial(build_archive, each) for each in _RELEASES)


def _find_folder(source: Path, kind: str, name: str, file: str, advice: str) -> Path:
    """Return the folder that holds a file of one dataset, in the release or alone."""
    for place in (source / kind / name, source / name, source):
        if (place / file).is_file():
            return place
    raise DataError(f"{source} holds no {kind}/{name}/{file}{advice}")


REPOSITORY = "snap-stanford/stark"
REVISION = "88269e23e90587f99476c5dd74e235a0877e69be"
"""The commit of 2024-10-20, the last."""

KNOWN_SHA256 = {
    "qa/prime/stark_qa/stark_qa.csv": "a27e5d63da6044e562e33bc94e37f41e076f2cb4142d6adc370a0981c5ee6f16",
    "qa/prime/split/train.index": "b828de166d641cc7d2f64001ad868058641de9529e5af36fea2f0a7494349e9c",
    "qa/prime/split/val.index": "df7fce5fde2a96bf14a1e9af3b3818dc448ef094bafb3501183ebb2873fb0c17",
    "qa/prime/split/test.index": "424d99e7d0ec209ad37361da14b63970d6c3bff27369f597cf3aec6cc28dbb76",
    "skb/prime/processed.zip": "f6f265f60b761784fb7c2f052359f9cd3bf9ea20c4a307865f62ce173b294dfc",
    "skb/mag/processed.zip": "7bfac742c1fb77694b3fab76be5088f9c3a636f47366188b70d3f378cfbd3053",
}
"""Checksums known from elsewhere. Those of the other files are the ones that the pinned commit states."""


def download(name: str, *, questions: bool, archive: bool) -> Path:
    """Return a folder with the release's files of one dataset, downloaded into the Hub's cache where absent.

    Raises:
        DataError: a file's bytes are not those of the pinned commit.
        KBBenchError: the Hub cannot be reached and the files are not in its cache.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    paths = [f"qa/{name}/{file}" for file in (SYNTHESIZED, HUMAN_WRITTEN, *INDEXES.values())] if questions else []
    paths += [f"skb/{name}/processed.zip"] if archive else []
    try:
        folder = Path(
            snapshot_download(REPOSITORY, repo_type="dataset", revision=REVISION, allow_patterns=paths, max_workers=4)
        )
        expected = KNOWN_SHA256 if constants.HF_HUB_OFFLINE else _stated_checksums(paths) | KNOWN_SHA256
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise KBBenchError(
            f"{REPOSITORY} could not be downloaded from the Hub: {error}. Run the same command again to continue, or "
            "give a folder that holds the release with --source."
        ) from error
    for path in paths:
        if path in expected:  # offline, what the commit states cannot be asked; it was when the file was fetched
            _check_checksum(folder / path, expected[path])
    return folder


def _stated_checksums(paths: list[str]) -> dict[str, str]:
    """Return what the pinned commit says of each file: its SHA-256, or of a small file Git's own hash."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    listed = HfApi().get_paths_info(REPOSITORY, paths, repo_type="dataset", revision=REVISION)
    stated = {each.path: each.lfs.sha256 if each.lfs else each.blob_id for each in listed if isinstance(each, RepoFile)}
    absent = [path for path in paths if path not in stated]
    if absent:
        raise DataError(f"{REPOSITORY} at {REVISION[:7]} has no {absent[0]}; expected it. Is this a mirror of the Hub?")
    return stated


def _check_checksum(file: Path, expected: str) -> None:
    """Refuse a file whose SHA-256, or Git hash where `expected` has 40 digits, is another."""
    if len(expected) == 40:  # a Git blob's SHA-1, over a header and the bytes
        content = file.read_bytes()
        found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    else:
        found = file_sha256(file)
    if found != expected:
        raise DataError(
            f"{file}: checksum {found}; expected {expected}, that of {REPOSITORY} at {REVISION[:7]}. It was damaged on "
            "its way. Remove the file and run the same command again."
        )


CHANCE = 0.01
"""Highest probability that random nodes would fit some template with the names of the question."""
MOST_TRIED = 500
"""Sets of topics of one question; a question with more gets no template."""
_CHUNK = 20_000
"""Nodes whose names are in memory together."""

Named = Mapping[str, Sequence[int]]
"""Type -> rows of the nodes of it that a question names."""


def with_templates(
    queries: Mapping[str, pa.Table], templates: Sequence[str], nodes: pa.Table, edges: pa.Table
) -> dict[str, pa.Table]:
    """Return the splits of `queries` with `template` filled in where it is found; people's questions have none."""
    nodes = pa.table({name: nodes[name] for name in ("id", "type", "name")} | {"text": pa.repeat("", len(nodes))})
    kb = KnowledgeBase.from_arrow(nodes, edges.select(["head", "relation", "tail"]))
    made = {split: table for split, table in queries.items() if split != HUMAN}
    asked = {
        row["id"]: (row["query"], row["answer_ids"])
        for table in made.values()
        for row in table.select(["id", "query", "answer_ids"]).to_pylist()
    }
    with Console(stderr=True).status("Looking for the templates of the questions"):
        found = dict(zip(asked, recovered_templates(kb, templates, [*asked.values()]), strict=True))
    place = QUESTIONS.get_field_index("template")

    def filled(table: pa.Table) -> pa.Table:
        column = pa.array([found[each] for each in table["id"].to_pylist()], pa.string())
        return table.set_column(place, QUESTIONS.field(place), column)

    return {split: filled(table) if split in made else table for split, table in queries.items()}


def recovered_templates(
    kb: KnowledgeBase, templates: Sequence[str], questions: Sequence[tuple[str, Sequence[int]]]
) -> list[str | None]:
    """Return the one of `templates` that each question, with the ids of its answers, was made from; None where open.

    `templates` must be all that there were. One whose walks another one has too, from further topics, is never
    returned: the question may name these in other words.
    """
    every = [Metapath.parse(each) for each in templates]
    whole = {path.text for path in every if not any(_is_part(path, other) for other in every)}
    paths = [path for path in every if path.is_within(kb.graph)]
    listed = [_walks(path) for path in paths]
    others = [path for path in _single_hops(kb) if _walks(path) not in listed]
    found: list[str | None] = []
    for named, (_, ids) in zip(named_nodes(kb, [text for text, _ in questions]), questions, strict=True):
        answers = kb.rows(ids)
        fits, chance = _fitting_templates(kb, paths, named, answers)
        is_one = len(fits) == 1 and fits <= whole and chance < CHANCE
        found.append(fits.pop() if is_one and not _fitting_templates(kb, others, named, answers)[0] else None)
    return found


def named_nodes(kb: KnowledgeBase, texts: Sequence[str]) -> list[Named]:
    """Return for each text the nodes that it names in full, by type; names within longer ones do not count."""
    words_of = [list_words(text) for text in texts]
    starts: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for number, words in enumerate(words_of):
        for place in range(len(words)):
            for begins in {tuple(words[place : place + length]) for length in (1, 2)}:
                starts.setdefault(begins, []).append((number, place))
    spans: list[dict[tuple[int, int], list[int]]] = [{} for _ in texts]
    for first in range(0, len(kb), _CHUNK):
        rows = range(first, min(first + _CHUNK, len(kb)))
        for row, name in zip(rows, kb.names(rows), strict=True):
            words = list_words(name)
            if words and words[0] not in STOP_WORDS and len("".join(words)) > 1:
                for number, place in starts.get(tuple(words[:2]), ()):
                    if words_of[number][place : place + len(words)] == words:
                        spans[number].setdefault((place, place + len(words)), []).append(row)
    return [_outermost(kb, each) for each in spans]


def _outermost(kb: KnowledgeBase, spans: Mapping[tuple[int, int], Sequence[int]]) -> Named:
    """Return the nodes named by spans of words that are inside no other span, by type."""
    named: dict[str, list[int]] = {}
    for (start, stop), rows in spans.items():
        if not any(a <= start and stop <= b and (a, b) != (start, stop) for a, b in spans):
            for row, kind in zip(rows, kb.types(rows), strict=True):
                named.setdefault(kind, []).append(row)
    return named


def _fitting_templates(
    kb: KnowledgeBase, paths: Sequence[Metapath], named: Named, answers: NDArray[np.int64]
) -> tuple[set[str], float]:
    """Return the templates that lead from named nodes to all answers, and how likely chance would find one of them.

    With more than `MOST_TRIED` sets of topics it is no template, and certainty.
    """
    kinds = set(kb.types(answers))
    fits: set[str] = set()
    chances = [1.0]
    tried = 0
    for path in paths:
        if {path.answer_type} != kinds:
            continue
        for topics in _topics(path, named):
            tried += 1
            if tried > MOST_TRIED:
                return set(), 1.0
            reached = path.answers(kb.graph, *topics)
            if np.isin(answers, reached).all():
                fits.add(path.text)
                chances.append((len(reached) / len(kb.of_type(path.answer_type))) ** len(set(answers.tolist())))
    return fits, min(chances) * max(tried, 1)


def _topics(path: Metapath, named: Named) -> Iterator[tuple[int, ...]]:
    """Yield the ways to name the topics of a template by different nodes."""
    starts = {walk.topic: walk.start_type for walk in path.walks if walk.topic is not None}
    choices = [named.get(starts[topic], ()) for topic in path.topics]
    return (each for each in product(*choices) if len(set(each)) == len(each))


def _single_hops(kb: KnowledgeBase) -> Iterator[Metapath]:
    """Yield every relation between two types, in both directions where these differ."""
    for head, relation, tail, _ in kb.tuples():
        yield Metapath.parse(f"{head} -[{relation}]-> {tail}")
        if not kb.graph.symmetric:
            yield Metapath.parse(f"{tail} -[^{relation}]-> {head}")


def _walks(path: Metapath) -> list[tuple[str, tuple[Hop, ...]]]:
    return [(walk.start_type, walk.hops) for walk in path.walks]


def _is_part(path: Metapath, other: Metapath) -> bool:
    """Return whether another template has all walks of this one, and further topics."""
    walks, others = _walks(path), _walks(other)
    return len(other.topics) > len(path.topics) and all(walks.count(walk) <= others.count(walk) for walk in walks)
