"""A user's own ontology, triples and sentences -> the same dataset as the released ones."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.building.own_extraction.checks import measure
from kbbench_hf.building.own_extraction.dataset import Built, Choices, make
from kbbench_hf.building.own_extraction.inputs import (
    Relations,
    read_own_ontology,
    read_pairs,
    read_sentences,
    read_triples,
)
from kbbench_hf.building.own_extraction.selection import MOST
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import write_dataset


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
        triples: columns `subject,relation,object`, csv or Parquet; or RDF. None where all sentences come with theirs.
        sentences: one a line, or columns `id,sentence` and, if wanted, `triples`, `split`, `selected`.
        pairs: columns `id,subject,relation,object`: which sentence states which triple. None to align the others.
        out: the dataset folder to write.
        chosen: what is taken and how it is split, by the names of `Choices`.

    Raises:
        DataError: a file is malformed, or no sentence has a triple.
        UsageError: a file is absent, the name is taken or no name, or neither triples nor pairs are given.
    """
    if name in benchmark_names() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise UsageError(
            f"{name!r} cannot name your own dataset; expected letters, digits, '-', '_' and '.', and none of "
            f"{', '.join(benchmark_names())}. Choose another name."
        )
    choices = Choices(**chosen)
    read = read_own_ontology(ontology, name)
    relations = Relations(read)
    listed = read_sentences(sentences, relations)
    stated = read_pairs(pairs, relations, (each.id for each in listed)) if pairs else {}
    if triples is None and not stated and not any(each.triples for each in listed):
        raise UsageError("Sentences need triples: --triples to align them with, --pairs, or a column triples.")
    table = read_triples(triples, relations) if triples else None
    built = make(read, listed, table, stated, choices)
    built.account.notes += read.notes
    if relations.unknown:
        named = ", ".join(f"{each!r} ({n:,})" for each, n in relations.unknown.most_common(5))
        more = f" and {len(relations.unknown) - 5} more" if len(relations.unknown) > 5 else ""
        built.account.notes.append(f"Triples of relations that the ontology lacks were left out: {named}{more}.")
    tables = built.tables()
    if not tables["prompts"]:
        raise DataError(
            f"No sentence of {sentences} is in a test split: too few have a triple; expected at least one to test. Add "
            "sentences, or a column split with 'test' in it."
        )
    write_dataset(out, tables, write_card(name, built, choices))


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


def write_card(name: str, built: Built, choices: Choices) -> str:
    """Return the card, with front matter, of a dataset."""
    front = {
        "pretty_name": name,
        "task_categories": ["text-generation"],
        "tags": ["knowledge-graph", "ontology", "relation-extraction", "information-extraction"],
    }
    parts = (_heading(name, built), _contents(built), _construction(built, choices), _figures(built), _notes(built))
    body = "\n".join(line for part in parts for line in (*part, ""))
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}"


def _heading(name: str, built: Built) -> Iterable[str]:
    row = built.ontology.row
    yield f"# {name}"
    yield ""
    yield (
        f"Given the ontology {row['title']!r} and a sentence, write the sentence's facts as triples that the ontology "
        f"allows: {len(row['concepts'])} concepts, {len(built.ontology.relations)} relations. Built with "
        f"`kbbench build {name} --ontology ...`, in the form of Text2KGBench (arXiv:2308.02357)."
    )


def _contents(built: Built) -> Iterable[str]:
    yield "## What is in it"
    yield ""
    yield "| split | sentences | triples | relations |"
    yield "|---|---|---|---|"
    for split, rows in built.splits.items():
        relations = {triple["rel"] for row in rows for triple in row["triples"]}
        yield f"| {split} | {len(rows):,} | {sum(len(row['triples']) for row in rows):,} | {len(relations)} |"
    yield ""
    counts = {
        split: Counter(relation for row in rows for relation in {triple["rel"] for triple in row["triples"]})
        for split, rows in built.splits.items()
    }
    yield f"| sentences with | {' | '.join(counts)} |"
    yield f"|---|{'---|' * len(counts)}"
    for relation in built.ontology.relations:
        if any(count[relation] for count in counts.values()):
            yield f"| {relation} | {' | '.join(f'{count[relation]:,}' for count in counts.values())} |"
    origins = Counter(row["origin"] for rows in built.splits.values() for row in rows)
    yield ""
    yield "`origin` of a sentence: " + "; ".join(f"`{each}` ({n:,}), {_ORIGINS[each]}" for each, n in origins.items())


def _construction(built: Built, choices: Choices) -> Iterable[str]:
    account = built.account
    yield "## How it was made"
    yield ""
    yield "; ".join(f"{n:,} {what}" for what, n in account.counts.items()) + "."
    yield ""
    yield "| a triple of a sentence | triples |"
    yield "|---|---|"
    for grade, words in _GRADES.items():
        if account.grades[grade]:
            yield f"| `{grade}`: {words} | {account.grades[grade]:,} |"
    if any(account.grades[grade] for grade in _GRADES if grade != "given"):
        yield ""
        yield (
            "Alignment is distant supervision, and noisy: a sentence that names both ends of a triple need not "
            f"state it, and a fact that the triples lack is missing from gold. Taken from `{choices.min_grade}` "
            f"on; at most {MOST} sentences of a relation, those of crowded entities last."
        )
        if account.weaker:
            left = ", ".join(f"{n:,} `{grade}`" for grade, n in account.weaker.items())
            yield f"Left out as too weak: {left} triples. `--min-grade` takes them in."
    yield ""
    yield (
        f"Split {account.split_by}, seed {choices.seed}. Similar train sentences by {account.similar_by}, none that "
        "shows gold."
    )
    n_selected = sum(row["selected"] for rows in built.splits.values() for row in rows)
    yield f"{n_selected:,} test sentences are `selected`, by {account.selected_by}."


def _figures(built: Built) -> Iterable[str]:
    found = measure(built.ontology.row, built.splits)
    yield "## What needs no model"
    yield ""
    yield "On the test split, mode `reference`:"
    yield ""
    yield f"- Gold, written as an answer: F1 {found['oracle f1']:.3f}, conformance {found['oracle conformance']:.3f}."
    yield (
        f"- Of gold the metrics of hallucination miss {found['gold subjects not found']:.3f} of the subjects and "
        f"{found['gold objects not found']:.3f} of the objects: no system can be held to less."
    )
    yield f"- The triples of the most similar train sentence: F1 {found['copy f1']:.3f}."


def _notes(built: Built) -> Iterable[str]:
    flags = Counter(
        (split, kind)
        for split, rows in built.splits.items()
        for row in rows
        for kind in {each["kind"] for each in row["repairs"]}
    )
    said = [f"`{kind}`: {n:,} rows of {split}." for (split, kind), n in sorted(flags.items())]
    if built.account.notes or said:
        yield "## To be known"
        yield ""
        yield from (f"- {each}" for each in [*built.account.notes, *said])
