"""Shortcut audit of an extraction dataset: F1 of copied train triples and of names without relations.

`kbbench audit` runs it through the benchmarks of Text2KGBench's form, and prints the findings.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kbbench_hf.benchmarks.audits import ClosedBook, Finding
from kbbench_hf.benchmarks.text2kgbench.material import Material, gold_triples, load, underscored_gold
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.metrics.mention_forms import index_sentence
from kbbench_hf.metrics.triples import Triple, score_reference
from kbbench_hf.text.name_matching import Label

Guess = Callable[[Row], list[Triple]]


def audit(folder: DatasetFolder, closed_book: ClosedBook | None = None) -> list[Finding]:
    """Return the mean F1, in mode `reference`, of shortcut guesses on the splits `test` and `unseen`, as findings.

    - `copy`: the triples of the most similar train sentence.
    - `train_facts`: every train triple whose subject and object the sentence has, word for word.
    - `first_name`: the first name that train has too as the subject of all others, by train's commonest relation.

    `closed_book` is not used: there are no answers in words to check.
    """
    guesses = _guesses(folder.rows("sentences", "train") if "train" in folder.configs()["sentences"] else [])
    found = []
    for split in folder.configs()["sentences"]:
        if split in ("test", "unseen"):
            examples = load(folder, "sentences", split)
            for name, (title, limit, guess) in guesses.items():
                value = _f1(examples.rows, examples.context, guess)
                found.append(Finding(split, name, title, value, limit, len(examples.rows)))
    return found


def _f1(rows: Sequence[Row], material: Material, guess: Guess) -> float:
    """Return the mean F1 of a shortcut's guesses; NaN without rows."""
    scores = [
        score_reference(guess(row), gold_triples(row), row["sentence"], material.released[row["ontology_id"]]).f1
        for row in rows
    ]
    return float(np.mean(scores)) if scores else float("nan")


def _guesses(train: Sequence[Row]) -> dict[str, tuple[str, float, Guess]]:
    """Return name -> title, limit and guess of each shortcut."""
    by_id = {row["id"]: row for row in train}
    triples = [triple for row in train for triple in underscored_gold(row)]
    facts, relations = dict.fromkeys(triples), Counter(relation for _, relation, _ in triples)
    find_names = _name_finder({name for subject, _, obj in facts for name in (subject, obj)})

    def copy(row: Row) -> list[Triple]:
        return underscored_gold(by_id[row["similar_ids"][0]]) if row["similar_ids"] else []

    def train_facts(row: Row) -> list[Triple]:
        known = find_names(row["sentence"])
        return [triple for triple in facts if triple[0] in known and triple[2] in known]

    def first_name(row: Row) -> list[Triple]:
        known = find_names(row["sentence"])
        names = sorted(known, key=lambda name: (known[name], name))
        return [(names[0], max(sorted(relations), key=relations.__getitem__), other) for other in names[1:]]

    return {
        "copy": ("the triples of the most similar train sentence", 0.10, copy),
        "train_facts": ("train triples whose names stand in the sentence", 0.10, train_facts),
        "first_name": ("the first known name with all others, by the commonest relation", 0.30, first_name),
    }


def _name_finder(names: set[str]) -> Callable[[str], Mapping[str, int]]:
    """Return the function from a sentence to the names in it, each with the position of its first word."""
    labels = {name: Label.of(name.replace("_", " ")) for name in sorted(names)}
    by_word: dict[str, list[str]] = {}
    for name, label in labels.items():
        if label.words:
            by_word.setdefault(label.words[0], []).append(name)

    def find_names(sentence: str) -> Mapping[str, int]:
        text = index_sentence(sentence)
        possible = {name for word in text.words for name in by_word.get(word, ())}
        found = {name: next(text.places(labels[name]), None) for name in possible}
        return {name: span[0] for name, span in found.items() if span}

    return find_names
