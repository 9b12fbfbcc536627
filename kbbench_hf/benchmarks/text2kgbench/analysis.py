"""Analysis of extraction datasets and predictions: statistics (Table 1), classes of errors (Table 4), and warnings.

The warnings are on habits that cost score, and on gold triples that a mode leaves out. `kbbench report` shows the
tables; scoring and the metric module `text2kg` the warnings.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kbbench_hf.benchmarks import triple_habits as habits
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.charts import ScoreTable, ShownScore, Statistics
from kbbench_hf.benchmarks.text2kgbench.material import Material, gold_triples, in_prompts, underscored_gold
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.triples import (
    Ontology,
    Triple,
    name_key,
    normalize_name,
    relation_key,
    score_reference,
    triple_key,
)

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
        found = Counter(_classify(answered, gold, row["sentence"], material.released[row["ontology_id"]]))
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


def _classify(answered: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology) -> Iterator[str]:
    """Yield the class of each predicted triple, in order: the first of `CLASSES` that fits."""
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


_SHARED_OUT = ("train", "validation", "test")
"""The splits that the paper's Table 1 counts together."""


def statistics(folder: DatasetFolder) -> Statistics:
    """Return the statistics of a built dataset; a sentence with several rows counts once for each.

    Types and relations are those that prompts show. In Wikidata-TekGen a row of train and validation is a triple.
    Differs from upstream: of Sport 1,609 of the paper's 1,693 sentences were released; Computer's 12 relations are 4 in
    the JSON that prompts show.
    """
    splits = {split: folder.rows("sentences", split) for split in folder.configs()["sentences"]}
    others = [split for split in splits if split not in _SHARED_OUT]
    counts = {split: Counter(row["ontology_id"] for row in rows) for split, rows in splits.items()}
    table = []
    for row in folder.rows("ontologies", "full"):
        name = row["ontology_id"]
        types, relations = (len(in_prompts(row[part])) for part in ("concepts", "relations"))
        shared_out = sum(counts[split][name] for split in splits if split in _SHARED_OUT)
        each = [counts[split][name] for split in splits]
        table.append((name, *(f"{n:,}" for n in (types, relations, shared_out, *each))))
    heads = ("types", "relations", "sentences", *splits)
    rows = [row for of in splits.values() for row in of]
    scored = splits.get("test", rows)
    gold = [len(row["triples_repaired"]) for row in scored]
    words = [len(row["sentence"].split()) for row in scored]
    named = [each["subject_mentioned"] and each["object_mentioned"] for row in scored for each in row["mentions"]]
    test = [
        ("sentences", f"{len(scored):,}"),
        ("different ones", f"{len({name_key(row['sentence']) for row in scored}):,}"),
        ("gold triples", f"{sum(gold):,}"),
        ("gold triples per sentence", f"{np.mean(gold):.2f}" if gold else "-"),
        ("gold triples with both ends named", f"{np.mean(named):.1%}" if named else "-"),
        ("words per sentence", f"{np.mean(words):.1f}" if words else "-"),
        ("selected", f"{sum(row['selected'] for row in scored):,}"),
        *((f"split {split}", f"{len(splits[split]):,}") for split in others),
    ]
    return Statistics(
        {"Ontologies (Table 1)": table, "Test split": test},
        {"words per test sentence": words, "gold triples per test sentence": gold},
        {"Ontologies (Table 1)": heads},
        "sentences",
    )


EFFECT_ON = {
    "f1": "F1",
    "ontology_conformance": "OC",
    "subject_hallucination": "SH",
    "object_hallucination": "OH",
}


def warnings(benchmark: Benchmark, examples: Examples, answers: habits.Answers, mode: str) -> list[ScoreWarning]:
    """Return a warning for each habit that costs the answers score in this mode; see `extraction_warnings`.

    `repaired-2` and `repaired-3` add a note on how much of the gold their scores leave out.
    """

    def score(changed: habits.Answers) -> Mapping[str, float]:
        scores = benchmark.scoring.score(examples, changed, mode)
        return {metric: each.value for metric, each in benchmark.scoring.summarise(scores, mode).items()}

    gold = [gold_triples(row, mode) for row in examples.rows]
    ontologies = [examples.context.released[row["ontology_id"]] for row in examples.rows]
    found = extraction_warnings(answers, gold, ontologies, score, mode)
    return [*_left_out_note(examples, gold, mode), *found] if by_value(mode) else found


def by_value(mode: str) -> bool:
    """Return whether a mode compares triples by value: relations and names in any spelling."""
    return mode not in ("reference", "paper", "repaired")


def extraction_warnings(
    answers: habits.Answers,
    gold: Sequence[Sequence[Triple]],
    ontologies: Sequence[Ontology],
    score: habits.ScoreAnswers,
    mode: str,
) -> list[ScoreWarning]:
    """Return a warning for each habit that changes a printed digit of the scores in a mode.

    - `near_miss_relations`: relations that differ from the ontology's in case, spaces or underscores only
      (`publication date` for `publication_date`): the script compares them character for character.
    - `underscored_names`: underscores in subjects and objects, as DBpedia writes them: the script stems
      `animated_films` as one word, and looks for that in the sentence.
    - `punctuation_of_names`: names that differ from the gold in quotation marks, dashes or apostrophes only.
    - `types_in_names`: a type or namespace on most names (`Bergen:CITY`, `dbr:Bergen`).
    """
    rewritings: list[habits.Rewriting] = []
    if mode in ("reference", "paper"):  # the other modes read these as they are meant
        remedy = "Fix the spelling, or use --mode repaired."
        rewritings += [habits.with_ontology_relations(answers, ontologies, remedy), habits.with_spaces(answers, remedy)]
    if not by_value(mode):
        rewritings.append(habits.with_gold_punctuation(answers, gold, "Fix the spelling, or use --mode repaired-3."))
    return habits.habit_warnings(answers, [*rewritings, habits.without_affixes(answers)], score, EFFECT_ON)


def _left_out_note(examples: Examples, gold: Sequence[Sequence[Triple]], mode: str) -> list[ScoreWarning]:
    """Return a note on gold triples whose subject or object the sentences do not name, where there are some."""
    from kbbench_hf.metrics.triple_values import find_gold_mentions

    n_unnamed = n_sentences = 0
    for row, triples in zip(examples.rows, gold, strict=True):
        sentence = row["sentence"]
        if mode != "repaired-2":
            triples = [(normalize_name(head), relation, normalize_name(tail)) for head, relation, tail in triples]
            sentence = normalize_name(sentence)
        golds = find_gold_mentions(sentence, triples, version=int(mode[-1]))
        unnamed = sum(not each.is_mentioned for each in golds)
        n_unnamed, n_sentences = n_unnamed + unnamed, n_sentences + bool(unnamed)
    if not n_unnamed:
        return []
    message = (
        f"{n_unnamed:,} of {sum(map(len, gold)):,} gold triples have a subject or object that the sentence does not "
        "name; F1, P and R leave them out, 'F1 all' includes them."
    )
    return [ScoreWarning("gold_not_named", message, n_examples=n_sentences, severity="note")]
