"""Builder of an extraction dataset from a user's own ontology, triples and sentences, with its card."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.text2kgbench.benchmark import read_careful, score, summarise
from kbbench_hf.benchmarks.text2kgbench.material import Material, underscored_gold
from kbbench_hf.building.own_extraction.dataset import Choices, ExtractionDataset, make_dataset
from kbbench_hf.building.own_extraction.inputs import (
    Relations,
    read_own_ontology,
    read_pairs,
    read_sentences,
    read_triples,
)
from kbbench_hf.building.own_extraction.splits import MOST
from kbbench_hf.building.own_kb import check_own_name
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder, Row, write_dataset
from kbbench_hf.metrics.triples import Triple, underscore_spaces


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
    choices = Choices(**chosen)
    own_ontology = read_own_ontology(ontology, name)
    relations = Relations(own_ontology)
    listed = read_sentences(sentences, relations)
    stated = read_pairs(pairs, relations, (each.id for each in listed)) if pairs else {}
    if triples is None and not stated and not any(each.triples for each in listed):
        raise UsageError("Sentences need triples: --triples to align them with, --pairs, or a column triples.")
    table = read_triples(triples, relations) if triples else None
    dataset = make_dataset(own_ontology, listed, table, stated, choices)
    dataset.statistics.notes += own_ontology.notes
    if relations.unknown:
        named = ", ".join(f"{each!r} ({n:,})" for each, n in relations.unknown.most_common(5))
        more = f" and {len(relations.unknown) - 5} more" if len(relations.unknown) > 5 else ""
        dataset.statistics.notes.append(f"Triples of relations that the ontology lacks were left out: {named}{more}.")
    tables = dataset.tables()
    if not tables["prompts"]:
        raise DataError(
            f"No sentence of {sentences} is in a test split: too few have a triple; expected at least one to test. Add "
            "sentences, or a column split with 'test' in it."
        )
    write_dataset(out, tables, write_card(name, dataset, choices))


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


def write_card(name: str, dataset: ExtractionDataset, choices: Choices) -> str:
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
    parts = (heading, _contents(dataset), _construction(dataset, choices), _baselines(dataset), _notes(dataset))
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


def _construction(dataset: ExtractionDataset, choices: Choices) -> Iterable[str]:
    statistics = dataset.statistics
    counts = "; ".join(f"{n:,} {what}" for what, n in statistics.counts.items())
    yield from ("## How it was made", "", f"{counts}.", "", "| a triple of a sentence | triples |", "|---|---|")
    for grade, words in _GRADES.items():
        if statistics.grades[grade]:
            yield f"| `{grade}`: {words} | {statistics.grades[grade]:,} |"
    if any(statistics.grades[grade] for grade in _GRADES if grade != "given"):
        yield ""
        yield (
            "Alignment is distant supervision, and noisy: a sentence that names both ends of a triple need not "
            f"state it, and a fact that the triples lack is missing from gold. Taken from `{choices.min_grade}` "
            f"on; at most {MOST} sentences of a relation, those of crowded entities last."
        )
        if statistics.weaker:
            left = ", ".join(f"{n:,} `{grade}`" for grade, n in statistics.weaker.items())
            yield f"Left out as too weak: {left} triples. `--min-grade` takes them in."
    yield ""
    yield (
        f"Split {statistics.split_by}, seed {choices.seed}. Similar train sentences by {statistics.similar_by}, none "
        "that shows gold."
    )
    n_selected = sum(row["selected"] for rows in dataset.splits.values() for row in rows)
    yield f"{n_selected:,} test sentences are `selected`, by {statistics.selected_by}."


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
    if notes := [*dataset.statistics.notes, *flagged]:
        yield from ("## To be known", "", *(f"- {each}" for each in notes))
