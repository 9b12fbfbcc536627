"""Error classes of predicted triples, as in the paper's error analysis (Table 4)."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.charts import ScoreTable, ShownScore
from kbbench_hf.benchmarks.text2kgbench.material import Material, underscored_gold
from kbbench_hf.metrics.triples import Ontology, Triple, name_key, relation_key, score_reference, triple_key

CLASSES = {
    "right": "right",
    "repeated": "duplicate",
    "spelling": "relation of the ontology, spelled differently",
    "relation": "relation not in the ontology",
    "exchanged": "subject and object swapped",
    "other_relation": "wrong relation",
    "subject": "subject not in the sentence",
    "object": "object not in the sentence",
    "both": "subject and object not in the sentence",
    "other_object": "wrong object",
    "other_subject": "wrong subject",
    "not_in_gold": "plausible but not in gold",
    "missed": "missed (false negative)",
}
"""Class -> its name in the table, in the order in which they are tried; a triple has the first that fits."""


def error_classes(examples: Examples, answers: Sequence[Sequence[Sequence[str]] | None]) -> ScoreTable:
    """Return the number of predicted triples of each class, their share, and the sentences with some.

    The last class counts missed gold. Gold is the release's; names are compared without case, blanks and underscores,
    and hallucination is that of mode `reference`. The paper shows examples without counts; one class per triple is our
    rule.
    """
    material: Material = examples.context
    triples: Counter[str] = Counter()
    sentences: Counter[str] = Counter()
    n_gold = n_missing = 0
    for row, answer in zip(examples.rows, answers, strict=True):
        gold = underscored_gold(row)
        answered = [(subject, relation, obj) for subject, relation, obj in answer or ()]
        found = Counter(_classes(answered, gold, row["sentence"], material.released[row["ontology_id"]]))
        missed = {*map(triple_key, gold)} - {*map(triple_key, answered)}
        found["missed"] += len(missed)
        n_gold += len({*map(triple_key, gold)})
        n_missing += answer is None
        triples += found
        sentences.update(name for name, n in found.items() if n)
    n_answered = triples.total() - triples["missed"]
    rows = {
        words: [
            ShownScore(triples[name], digits=0),
            ShownScore(triples[name] / of) if (of := n_gold if name == "missed" else n_answered) else None,
            ShownScore(sentences[name], digits=0),
        ]
        for name, words in CLASSES.items()
    }
    notes = [f"{n_answered:,} predicted triples, {n_gold:,} gold triples, {len(examples.rows):,} sentences."]
    notes += [f"Sentences without prediction: {n_missing:,}; their gold counts as missed."] if n_missing else []
    columns = [("", "triples"), ("", "share"), ("", "sentences")]
    return ScoreTable("table-4", "Errors by class", columns, rows, "class", notes=notes)


def _classes(answered: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology) -> Iterator[str]:
    wanted = {triple_key(each) for each in gold}
    ends = {(name_key(subject), name_key(obj)) for subject, _, obj in gold}
    objects_of = {(name_key(subject), name_key(relation)) for subject, relation, _ in gold}
    subjects_of = {(name_key(relation), name_key(obj)) for _, relation, obj in gold}
    seen: set[str] = set()
    for triple in answered:
        subject, relation, obj = triple
        first, middle, last = map(name_key, triple)
        alone = score_reference([triple], [], sentence, ontology)
        no_subject, no_object = alone.subject_hallucination > 0, alone.object_hallucination > 0
        if triple_key(triple) in seen:
            yield "repeated"
        elif relation not in ontology.relation_names:
            yield "spelling" if relation_key(relation) in ontology.loose_relations else "relation"
        elif triple_key(triple) in wanted:
            yield "right"
        elif triple_key((obj, relation, subject)) in wanted:
            yield "exchanged"
        elif (first, last) in ends:
            yield "other_relation"
        elif no_subject or no_object:
            yield "both" if no_subject and no_object else "subject" if no_subject else "object"
        elif (first, middle) in objects_of:
            yield "other_object"
        elif (middle, last) in subjects_of:
            yield "other_subject"
        else:
            yield "not_in_gold"
        seen.add(triple_key(triple))
