"""Warnings on Text2KGBench predictions: habits that cost score, and gold triples that a mode leaves out."""

from collections.abc import Mapping, Sequence

from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.text2kgbench.material import gold_triples
from kbbench_hf.benchmarks.triple_habits import (
    Answers,
    Rewriting,
    ScoreAnswers,
    habit_warnings,
    with_gold_punctuation,
    with_ontology_relations,
    with_spaces,
    without_affixes,
)
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.triples import Ontology, Triple, normalize_name

EFFECT_ON = {
    "f1": "F1",
    "ontology_conformance": "OC",
    "subject_hallucination": "SH",
    "object_hallucination": "OH",
}


def warnings(benchmark: Benchmark, examples: Examples, answers: Answers, mode: str) -> list[ScoreWarning]:
    """Return a warning for each habit that costs the answers score in this mode; see `extraction_warnings`.

    `repaired-2` and `repaired-3` add a note on how much of the gold their scores leave out.
    """

    def score(changed: Answers) -> Mapping[str, float]:
        scores = benchmark.scoring.score(examples, changed, mode)
        return {metric: each.value for metric, each in benchmark.scoring.summarise(scores, mode).items()}

    gold = [gold_triples(row, mode) for row in examples.rows]
    ontologies = [examples.context.released[row["ontology_id"]] for row in examples.rows]
    found = extraction_warnings(answers, gold, ontologies, score, mode)
    return [*_left_out(examples, gold, mode), *found] if by_value(mode) else found


def by_value(mode: str) -> bool:
    """Return whether a mode compares triples by value: relations and names in any spelling."""
    return mode not in ("reference", "paper", "repaired")


def extraction_warnings(
    answers: Answers,
    gold: Sequence[Sequence[Triple]],
    ontologies: Sequence[Ontology],
    score: ScoreAnswers,
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
    rewritings: list[Rewriting] = []
    if mode in ("reference", "paper"):  # the other modes read these as they are meant
        remedy = "Fix the spelling, or use --mode repaired."
        rewritings += [with_ontology_relations(answers, ontologies, remedy), with_spaces(answers, remedy)]
    if not by_value(mode):
        rewritings.append(with_gold_punctuation(answers, gold, "Fix the spelling, or use --mode repaired-3."))
    return habit_warnings(answers, [*rewritings, without_affixes(answers)], score, EFFECT_ON)


def _left_out(examples: Examples, gold: Sequence[Sequence[Triple]], mode: str) -> list[ScoreWarning]:
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
