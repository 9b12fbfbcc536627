"""Dataset of a user's own ontology: rows of sentences with triples, splits, similar ids and build statistics.

`building.build` calls `build_own_extraction`. The dataset has the configs of Text2KGBench, so that its benchmark's
prompts, parsers and scores apply; the same files and options give the same bytes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.text2kgbench.benchmark import read_careful, score, summarise
from kbbench_hf.benchmarks.text2kgbench.material import Material, gold_triples, underscored_gold
from kbbench_hf.benchmarks.text2kgbench.prompts import unit_rows
from kbbench_hf.building.own_extraction.alignment import GRADES, Grade, align
from kbbench_hf.building.own_extraction.inputs import (
    Relations,
    Sentence,
    Triples,
    read_own_ontology,
    read_pairs,
    read_sentences,
    read_triples,
)
from kbbench_hf.building.own_extraction.ontologies import OwnOntology, some
from kbbench_hf.building.own_extraction.splits import (
    MOST,
    connected_groups,
    row_marks,
    select_rows,
    split_by_group,
    split_by_subject,
    swap_entities,
)
from kbbench_hf.building.own_kb import check_own_name
from kbbench_hf.building.text2kgbench.columns import (
    ONTOLOGIES,
    PROMPTS,
    SENTENCES,
    distinct,
    flag_across_rows,
    prompt_row,
    sentence_tables,
    with_mentions,
)
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder, Row, write_dataset
from kbbench_hf.metrics.triples import Ontology, Triple, name_key, score_reference, underscore_spaces
from kbbench_hf.protocols import Embedder
from kbbench_hf.text.folding import fold, unscramble
from kbbench_hf.text.words import WORD

COLUMNS = pa.schema([*SENTENCES, ("grades", pa.list_(pa.string())), ("origin", pa.string())])
"""Columns of `sentences`: those of Text2KGBench, the grade of each triple, and how the row was made."""
ORDER = ("train", "validation", "test", "unseen")
TEMPLATE = "h2"
"""The published template of `prompts`."""
SELECTED_WORDS = range(5, 61)
"""Words of a sentence that is `selected` without a person's choice."""


class Choices(NamedTuple):
    """Options of a build."""

    min_grade: Grade = "relation_cued"
    """The weakest grade of an aligned triple that is kept."""
    split_by: Literal["group", "subject"] = "group"
    seed: int = 0
    """Random seed of the splits and of the unseen sentences."""
    similar_by: Embedder | None = None
    """Finds similar train sentences; token overlap where None."""


@dataclass
class ExtractionDataset:
    """The ontology, the rows of each split, and the options, counts and notes of the build, for the card.

    `fill` makes the rows, once; `tables` and `write_card` return them as a dataset.
    """

    ontology: OwnOntology
    choices: Choices
    splits: dict[str, list[Row]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    grades: Counter[str] = field(default_factory=Counter)
    """Grade -> triples of the dataset."""
    weaker: Counter[str] = field(default_factory=Counter)
    """Grade -> aligned triples that were left out because of it."""
    selected_by: str = ""
    similar_by: str = ""
    split_by: str = "by groups that share a sentence or a triple"

    def tables(self) -> dict[str, dict[str, pa.Table]]:
        """Return the configs `sentences`, `ontologies` and `prompts`."""
        return {
            "sentences": sentence_tables(self.splits, COLUMNS),
            "ontologies": {"full": pa.Table.from_pylist([self.ontology.row], ONTOLOGIES)},
            "prompts": {
                split: pa.Table.from_pylist([prompt_row(row, TEMPLATE) for row in rows], PROMPTS)
                for split, rows in self.splits.items()
                if split in ("test", "unseen")
            },
        }

    def fill(self, sentences: Sequence[Sentence], triples: Triples | None, pairs: Mapping[str, list[Row]]) -> None:
        """Fill the splits with sentences and their given triples, or else those aligned with them.

        Raises:
            DataError: no sentence has a triple, or some have a split and others have none.
        """
        listed = triples.rows if triples else [each for of in pairs.values() for each in of]
        self.ontology.fit(
            {each["rel"] for each in (*listed, *(one for each in sentences for one in each.triples or ()))}
        )
        given, unaligned = self._rows_with_given_triples(sentences, pairs)
        aligned = self._aligned_rows(unaligned, triples) if triples and unaligned else []
        selected, dropped = select_rows(aligned)
        if dropped:
            named = ", ".join(f"{relation!r} ({n})" for relation, n in dropped.items())
            self.notes.append(f"Relations of too few sentences were dropped: {named}.")
        place = {each.id: position for position, each in enumerate(sentences)}
        rows = sorted([*given, *selected], key=lambda row: place[row["id"]])
        self.counts = {
            "sentences": len(sentences),
            "sentences without a triple": len(sentences) - len(given) - len(aligned),
            "sentences over the limit of their relations": len(aligned) - len(selected),
            "triples": len(triples.rows) if triples else sum(len(row["triples"]) for row in given),
        }
        self._split(rows)
        if "unseen" not in self.splits and "test" in self.splits:
            known = triples.rows if triples else [triple for row in rows for triple in row["triples"]]
            if unseen := swap_entities(self.splits["test"], known, self.choices.seed):
                self.splits["unseen"] = unseen
        self._add_similar_ids_and_flags()
        self._mark_selected(sentences)
        stated = (row for rows in self.splits.values() for row in rows if row["origin"] != "swapped")
        self.grades = Counter(grade for row in stated for grade in row["grades"])

    def _rows_with_given_triples(
        self, sentences: Sequence[Sentence], pairs: Mapping[str, list[Row]]
    ) -> tuple[list[Row], list[Sentence]]:
        """Return the rows of sentences whose triples are given, and the sentences that are to be aligned."""
        rows, unaligned = [], []
        for each in sentences:
            stated = distinct([*(each.triples or ()), *pairs.get(each.id, ())])
            if each.triples is None and each.id not in pairs:
                unaligned.append(each)
            elif stated:
                rows.append(self._new_row(each, stated, ["given"] * len(stated), "given"))
        return rows, unaligned

    def _aligned_rows(self, sentences: Sequence[Sentence], triples: Triples) -> list[Row]:
        """Return the rows of sentences that triples align with, each sentence once."""
        first = {name_key(each.text): each for each in reversed(sentences)}
        once = [each for each in sentences if first[name_key(each.text)] is each]
        if len(once) < len(sentences):
            self.notes.append(f"{len(sentences) - len(once):,} sentences occur twice and are used once.")
        from rich.console import Console
        from rich.progress import track

        texts = track([each.text for each in once], "aligning", console=Console(stderr=True), transient=True)
        alignments_of = align(texts, triples.rows, triples.names, self.ontology.relation_names)
        least = GRADES.index(self.choices.min_grade)
        self.weaker = Counter(one.grade for each in alignments_of for one in each if GRADES.index(one.grade) < least)
        rows = []
        for each, alignments in zip(once, alignments_of, strict=True):
            taken = [one for one in alignments if GRADES.index(one.grade) >= least]
            if taken:
                stated = [triples.rows[one.triple] for one in taken]
                rows.append(self._new_row(each, stated, [one.grade for one in taken], "aligned"))
        return rows

    def _new_row(self, sentence: Sentence, stated: list[Row], grades: Sequence[str], origin: str) -> Row:
        """Return the row of a sentence, before its split, flags and similar ids are known."""
        return {
            "id": sentence.id,
            "ontology_id": self.ontology.row["ontology_id"],
            "split": sentence.split,
            "sentence": sentence.text,
            "triples": stated,
            "repairs": [],
            "selected": False,
            "similar_ids": [],
            "grades": [*grades],
            "origin": origin,
        }

    def _split(self, rows: list[Row]) -> None:
        """Put each row into its split: the given one, or one by the options.

        Raises:
            DataError: there is no row, or a split is unknown or missing.
        """
        if not rows:
            weakest = min(self.weaker, key=GRADES.index, default=None)
            lower = f"lower --min-grade to {weakest}" if weakest else "write the names as the sentences do"
            raise DataError(
                f"None of the {self.counts['sentences']:,} sentences has a triple: expected some that name the subject "
                f"and the object of one, at grade {self.choices.min_grade}. Give the triples of each sentence with "
                f"--pairs, or {lower}."
            )
        names = [row["split"] for row in rows]
        if not any(names):
            if self.choices.split_by == "subject":
                self.split_by = "by subject, as DBpedia-WebNLG"
                names = split_by_subject([{triple["sub"] for triple in row["triples"]} for row in rows])
            else:
                names = split_by_group(rows, self.choices.seed)
                largest = max(map(len, connected_groups([row_marks(row) for row in rows]))) / len(rows)
                if largest > 0.5:
                    self.notes.append(
                        f"{largest:.0%} of the rows hang together by shared sentences and triples, and are in one "
                        "split: the shares could not be kept."
                    )
        elif not all(names) or not {*names} <= {*ORDER}:
            wrong = next(row for row in rows if row["split"] not in ORDER)
            raise DataError(
                f"Sentence {wrong['id']!r} has the split {wrong['split']!r}; expected one of {', '.join(ORDER)} for "
                "each sentence, or for none."
            )
        else:
            self.split_by = "as given"
        for row, name in zip(rows, names, strict=True):
            row["split"] = name
        self.splits = {split: part for split in ORDER if (part := [row for row in rows if row["split"] == split])}

    def _add_similar_ids_and_flags(self) -> None:
        """Fill in the columns that depend on other rows: `similar_ids`, and flags."""
        train = self.splits.get("train", [])
        embedder = self.choices.similar_by or TokenOverlap([row["sentence"] for row in train])
        self.similar_by = re.sub(r"^/.*/(?=[^/]+/[^/]+$)", "", embedder.name)  # no folder of this machine
        for split, rows in self.splits.items():
            for row in rows:
                row["triples_repaired"] = row["triples"]
                if (readable := unscramble(row["sentence"])) != row["sentence"]:
                    row["repairs"].append({"kind": "mojibake", "detail": readable})
            if split != "train":
                add_similar_ids(rows, train, embedder)
        flag_across_rows({"train": [], **self.splits})

    def _mark_selected(self, sentences: Sequence[Sentence]) -> None:
        """Mark the test rows whose triples are the most certain, or those that a person confirmed."""
        chosen = {each.id: each.selected for each in sentences if each.selected is not None}
        self.selected_by = "the table of sentences" if chosen else "grades"
        seen: set[str] = set()
        for row in self.splits.get("test", []):
            sentence = name_key(row["sentence"])
            is_first = sentence not in seen and len(row["sentence"].split()) in SELECTED_WORDS
            if chosen:
                row["selected"] = chosen.get(row["id"], False)
            else:
                row["selected"] = is_first and _is_sure(row, self.ontology)
            seen.add(sentence)


def _is_sure(row: Row, ontology: OwnOntology) -> bool:
    """Return whether a row passes all checks of its triples, and the metrics find its names in the sentence."""
    if not {*row["grades"]} <= {"relation_cued", "given"} or row["repairs"]:
        return False
    (mentioned,) = with_mentions([row])
    if not all(each[f"{end}_form"] == "verbatim" for each in mentioned["mentions"] for end in ("subject", "object")):
        return False
    labels = Ontology(tuple(each["label"] for each in ontology.row["concepts"]), tuple(ontology.relations))
    scored = score_reference(gold_triples(row), [], row["sentence"], labels)
    return scored.subject_hallucination == scored.object_hallucination == 0


COUNT = 5
"""How many similar train sentences a row names."""
_PLACES = 4096
"""Columns of the vectors: words with the same hash share one."""


class TokenOverlap:
    """Bag-of-words embedder with hashed words and inverse document frequencies from `texts`; no model."""

    name = "token overlap"

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = Counter(word for text in texts for word in _words(text))
        self._n = len(texts)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, shape (n, 4096): a word's column is a hash of it."""
        vectors = np.zeros((len(texts), _PLACES), np.float32)
        for row, text in enumerate(texts):
            for word in sorted(_words(text)):
                vectors[row, crc32(word.encode()) % _PLACES] += np.log((2 + self._n) / (1 + self._counts[word]))
        return vectors


def _words(text: str) -> set[str]:
    return {fold(word) for word in WORD.findall(text)}


def add_similar_ids(rows: Sequence[Row], train: Sequence[Row], embedder: Embedder) -> None:
    """Fill in `similar_ids` of rows: the train rows of the highest cosine, best first; ties keep the train order.

    Rows with an equal sentence, or with a gold triple of the row, are left out.
    """
    if not rows or not train:
        return
    shown, test_vectors = (unit_rows(embedder.encode([row["sentence"] for row in part])) for part in (train, rows))
    marks = [row_marks(row) for row in train]
    for row, vector in zip(rows, test_vectors, strict=True):
        own, similar = row_marks(row), []
        for position in np.argsort(-(shown @ vector), kind="stable").tolist():
            if own.isdisjoint(marks[position]) and train[position]["id"] != row["id"]:
                similar.append(train[position]["id"])
                if len(similar) == COUNT:
                    break
        row["similar_ids"] = similar


def build_own_extraction(
    name: str,
    ontology: Path,
    triples: Path | None,
    sentences: Path,
    pairs: Path | None,
    out: Path,
    **chosen: Any,
) -> None:
    """Build the dataset `name` at `out`.

    Args:
        name: the dataset's name.
        ontology: Turtle, RDF/XML, N-Triples, JSON-LD, or JSON as Text2KGBench's release has it.
        triples: columns `subject,relation,object`, csv or Parquet; or RDF. None where all sentences have theirs.
        sentences: one a line, or columns `id,sentence` and, if wanted, `triples`, `split`, `selected`.
        pairs: columns `id,subject,relation,object`: which sentence states which triple. None to align the others.
        out: the dataset folder to write.
        chosen: options by the names of `Choices`.

    Raises:
        DataError: a file is malformed, or no sentence has a triple.
        UsageError: a file is absent, the name is taken or invalid, or neither triples nor pairs are given.
    """
    check_own_name(name, "dataset")
    own_ontology = read_own_ontology(ontology, name)
    relations = Relations(own_ontology)
    listed = read_sentences(sentences, relations)
    stated = read_pairs(pairs, relations, (each.id for each in listed)) if pairs else {}
    if triples is None and not stated and not any(each.triples for each in listed):
        raise UsageError("Sentences need triples: --triples to align them with, --pairs, or a column triples.")
    dataset = ExtractionDataset(own_ontology, Choices(**chosen))
    dataset.fill(listed, read_triples(triples, relations) if triples else None, stated)
    dataset.notes += own_ontology.notes
    if relations.unknown:
        named = some([f"{each!r} ({n:,})" for each, n in relations.unknown.most_common()], str)
        dataset.notes.append(f"Triples of relations that the ontology lacks were left out: {named}.")
    tables = dataset.tables()
    if not tables["prompts"]:
        raise DataError(
            f"No sentence of {sentences} is in a test split: too few have a triple; expected at least one to test. Add "
            "sentences, or a column split with 'test' in it."
        )
    write_dataset(out, tables, write_card(name, dataset))


_ORIGINS = {
    "given": "its triples were given with it",
    "aligned": "triples were aligned with it",
    "swapped": "a sentence of the test split with another subject and object, made here: about no true fact",
}
_GRADES = {
    "given": "given with the sentence",
    "relation_cued": "the sentence names subject and object, and has a word of the relation",
    "both_verbatim": "the sentence has subject and object word for word",
    "mentioned": "the sentence names subject and object in some form",
}


def write_card(name: str, dataset: ExtractionDataset) -> str:
    """Return the card, with front matter, of a dataset."""
    front = {
        "pretty_name": name,
        "task_categories": ["text-generation"],
        "tags": ["knowledge-graph", "ontology", "relation-extraction", "information-extraction"],
    }
    row = dataset.ontology.row
    heading = (
        f"# {name}",
        "",
        f"Given the ontology {row['title']!r} and a sentence, write the sentence's facts as triples that the ontology "
        f"allows: {len(row['concepts'])} concepts, {len(dataset.ontology.relations)} relations. Built with "
        f"`kbbench build {name} --ontology ...`, in the form of Text2KGBench (arXiv:2308.02357).",
    )
    parts = (heading, _contents(dataset), _construction(dataset), _baselines(dataset), _notes(dataset))
    body = "\n".join(line for part in parts for line in (*part, ""))
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}"


def _contents(dataset: ExtractionDataset) -> Iterable[str]:
    yield from ("## What is in it", "", "| split | sentences | triples | relations |", "|---|---|---|---|")
    counts: dict[str, Counter[str]] = {}
    for split, rows in dataset.splits.items():
        counts[split] = Counter(relation for row in rows for relation in {triple["rel"] for triple in row["triples"]})
        n_triples = sum(len(row["triples"]) for row in rows)
        yield f"| {split} | {len(rows):,} | {n_triples:,} | {len(counts[split])} |"
    yield from ("", f"| sentences with | {' | '.join(counts)} |", f"|---|{'---|' * len(counts)}")
    for relation in dataset.ontology.relations:
        if any(count[relation] for count in counts.values()):
            yield f"| {relation} | {' | '.join(f'{count[relation]:,}' for count in counts.values())} |"
    origins = Counter(row["origin"] for rows in dataset.splits.values() for row in rows)
    listed = "; ".join(f"`{each}` ({n:,}), {_ORIGINS[each]}" for each, n in origins.items())
    yield from ("", f"`origin` of a sentence: {listed}")


def _construction(dataset: ExtractionDataset) -> Iterable[str]:
    counts = "; ".join(f"{n:,} {what}" for what, n in dataset.counts.items())
    yield from ("## How it was made", "", f"{counts}.", "", "| a triple of a sentence | triples |", "|---|---|")
    for grade, words in _GRADES.items():
        if dataset.grades[grade]:
            yield f"| `{grade}`: {words} | {dataset.grades[grade]:,} |"
    if any(dataset.grades[grade] for grade in _GRADES if grade != "given"):
        yield ""
        yield (
            "Alignment is distant supervision, and noisy: a sentence that names both ends of a triple need not "
            f"state it, and a fact that the triples lack is missing from gold. Taken from "
            f"`{dataset.choices.min_grade}` on; at most {MOST} sentences of a relation, those of crowded entities last."
        )
        if dataset.weaker:
            left = ", ".join(f"{n:,} `{grade}`" for grade, n in dataset.weaker.items())
            yield f"Left out as too weak: {left} triples. `--min-grade` takes them in."
    yield ""
    yield (
        f"Split {dataset.split_by}, seed {dataset.choices.seed}. Similar train sentences by {dataset.similar_by}, none "
        "that shows gold."
    )
    n_selected = sum(row["selected"] for rows in dataset.splits.values() for row in rows)
    yield f"{n_selected:,} test sentences are `selected`, by {dataset.selected_by}."


def _baselines(dataset: ExtractionDataset) -> Iterable[str]:
    """Yield the card's section on the scores of gold and of copied train triples, which need no model.

    Raises:
        DataError: the gold of a row, written as a model's answer, is not parsed back; the message has both.
    """
    ontology, splits = dataset.ontology.row, dataset.splits
    relations = [underscore_spaces(each["label"]) for each in ontology["relations"]]
    for row in (row for rows in splits.values() for row in rows):
        if (answer := _gold_as_answer({**row, "relations": relations})) != underscored_gold(row):
            raise DataError(
                f"The triples of {row['id']!r}, written as an answer, are read as {answer}, not as "
                f"{underscored_gold(row)}: no model could score on it. Write their names without line ends and quotes."
            )
    rows = [{**row, "relations": relations} for row in splits.get("test") or next(iter(splits.values()))]
    examples = Examples(rows, Material(DatasetFolder(Path()), {ontology["ontology_id"]: ontology}))
    train = {row["id"]: row for row in splits.get("train", ())}
    copies = [underscored_gold(train[row["similar_ids"][0]]) if row["similar_ids"] else [] for row in rows]
    gold, copied = _scores(examples, [_gold_as_answer(row) for row in rows]), _scores(examples, copies)
    yield from ("## What needs no model", "", "On the test split, mode `reference`:", "")
    yield f"- Gold, written as an answer: F1 {gold['f1']:.3f}, conformance {gold['ontology_conformance']:.3f}."
    yield (
        f"- Of gold the metrics of hallucination miss {gold['subject_hallucination']:.3f} of the subjects and "
        f"{gold['object_hallucination']:.3f} of the objects: no system can be held to less."
    )
    yield f"- The triples of the most similar train sentence: F1 {copied['f1']:.3f}."


def _gold_as_answer(row: Row) -> list[Triple]:
    """Return a row's gold, written as the prompts ask for it and parsed as answers are."""
    parts = [dict(zip(("subject", "relation", "object"), triple, strict=True)) for triple in underscored_gold(row)]
    return read_careful(json.dumps({"triples": parts}, ensure_ascii=False), row).answer


def _scores(examples: Examples, answers: Sequence[Sequence[Triple]]) -> Mapping[str, float]:
    """Return metric -> mean score of answers, in mode `reference`."""
    estimates = summarise(score(examples, answers, "reference"), "reference")
    return {metric: estimate.value for metric, estimate in estimates.items()}


def _notes(dataset: ExtractionDataset) -> Iterable[str]:
    flags = Counter(
        (split, kind)
        for split, rows in dataset.splits.items()
        for row in rows
        for kind in {each["kind"] for each in row["repairs"]}
    )
    flagged = [f"`{kind}`: {n:,} rows of {split}." for (split, kind), n in sorted(flags.items())]
    if notes := [*dataset.notes, *flagged]:
        yield from ("## To be known", "", *(f"- {each}" for each in notes))
