"""A user's own ontology, triples and sentences -> the same dataset as the released ones."""

import re
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.benchmarks.text2kgbench.construction.card import write_card
from kbbench_hf.benchmarks.text2kgbench.construction.dataset import Choices, make
from kbbench_hf.benchmarks.text2kgbench.construction.inputs import (
    Relations,
    read_own_ontology,
    read_pairs,
    read_sentences,
    read_triples,
)
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
