"""Habits of writing that cost a Text2KGBench score without being wrong, each with what it costs these very answers."""

from collections.abc import Callable, Mapping, Sequence

from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.triple_values import read_gold
from kbbench_hf.metrics.triples import Ontology, loose

Answers = Sequence[Sequence[Sequence[str]] | None]


Figures = Callable[[Answers], Mapping[str, float]]
"""Answers -> what each metric of mode `reference` gives them."""
EFFECT_ON = {
    "near_miss_relations": {"f1": "F1", "ontology_conformance": "OC"},
    "underscored_names": {"subject_hallucination": "SH", "object_hallucination": "OH"},
}


def warnings(benchmark: Benchmark, examples: Examples, answers: Answers, mode: str) -> list[ScoreWarning]:
    """Return a warning of every habit in a benchmark's answers that costs them score; see `habit_warnings`.

    `repaired-2` forgives these habits; there a note says how much of the gold its figures leave out.
    """
    if mode == "repaired-2":
        return _left_out(examples)

    def figures(answers: Answers) -> Mapping[str, float]:
        scores = benchmark.scoring.score(examples, answers, "reference")
        return {metric: each.value for metric, each in benchmark.scoring.summarise(scores, "reference").items()}

    return habit_warnings(answers, [examples.context.released[row["ontology_id"]] for row in examples.rows], figures)


def habit_warnings(answers: Answers, ontologies: Sequence[Ontology], figures: Figures) -> list[ScoreWarning]:
    """Return a warning of every such habit in the answers, given with the ontology of each and how they are scored.

    - `near_miss_relations`: relations that are one of the ontology's but for case, spaces or underscores (`publication
      date` for `publication_date`): the script compares them character for character.
    - `underscored_names`: underscores in subjects and objects, as DBpedia writes them: the script stems
      `animated_films` as one word, and looks for that in the sentence.
    """
    found = []
    renamed, n_near, example = _with_ontology_names(ontologies, answers)
    if n_near:
        effect, said = _effect(figures, answers, renamed, EFFECT_ON["near_miss_relations"])
        found.append(
            ScoreWarning(
                "near_miss_relations",
                f"{n_near:,} relations are the ontology's but for case, spaces or underscores, such as {example}; "
                f"mode reference expects underscores, and takes these for wrong. Written as the ontology's: {said}.",
                "Write them so, or score with mode repaired.",
                _n_changed(answers, renamed),
                effect,
            )
        )
    spaced, n_underscored = _with_spaces(answers)
    if n_underscored:
        effect, said = _effect(figures, answers, spaced, EFFECT_ON["underscored_names"])
        found.append(
            ScoreWarning(
                "underscored_names",
                f"{n_underscored:,} subjects and objects have underscores; mode reference stems such a name as one "
                f"word, and seldom finds it in the sentence. Written with spaces: {said}.",
                "Write them so, or score with mode repaired.",
                _n_changed(answers, spaced),
                effect,
            )
        )
    return found


def _left_out(examples: Examples) -> list[ScoreWarning]:
    """Return a note on gold triples whose subject or object the sentences do not name, where there are some."""
    n_triples = n_unnamed = n_sentences = 0
    for row in examples.rows:
        gold = [(each["sub"], each["rel"], each["obj"]) for each in row["triples_repaired"]]
        unnamed = sum(not each.is_mentioned for each in read_gold(row["sentence"], gold))
        n_triples, n_unnamed, n_sentences = n_triples + len(gold), n_unnamed + unnamed, n_sentences + bool(unnamed)
    if not n_unnamed:
        return []
    message = (
        f"Of {n_triples:,} gold triples, {n_unnamed:,} have a subject or object that the sentence does not name; "
        "F1, P and R leave these out, 'F1, all' has them. Whether a sentence states the relation is not judged: by "
        "estimate, the dataset's card says how much of the gold it does."
    )
    return [ScoreWarning("gold_not_named", message, n_examples=n_sentences, severity="note")]


def _with_ontology_names(ontologies: Sequence[Ontology], answers: Answers) -> tuple[Answers, int, str]:
    """Return the answers with near misses renamed, how many there were, and the first, in words."""
    renamed: list[list[list[str]] | None] = []
    n_near, first = 0, ""
    for ontology, answer in zip(ontologies, answers, strict=True):
        if answer is None:
            renamed.append(None)
            continue
        triples = []
        for subject, relation, obj in answer:
            name = relation
            if relation not in ontology.relation_names:
                name = ontology.loose_relations.get(loose(relation), relation)
            if name != relation:
                n_near += 1
                first = first or f"{relation!r} for {name!r}"
            triples.append([subject, name, obj])
        renamed.append(triples)
    return renamed, n_near, first


def _with_spaces(answers: Answers) -> tuple[Answers, int]:
    """Return the answers with spaces for the underscores of subjects and objects, and how many names had some."""
    spaced = [
        answer and [[subject.replace("_", " "), relation, obj.replace("_", " ")] for subject, relation, obj in answer]
        for answer in answers
    ]
    n = sum(("_" in subject) + ("_" in obj) for answer in answers for subject, _, obj in answer or ())
    return spaced, n


def _n_changed(answers: Answers, changed: Answers) -> int:
    pairs = zip(answers, changed, strict=True)
    return sum([list(t) for t in before or ()] != [list(t) for t in after or ()] for before, after in pairs)


def _effect(
    figures: Figures, answers: Answers, changed: Answers, labels: Mapping[str, str]
) -> tuple[dict[str, float], str]:
    """Return what each metric gains by the change, and its figures in words."""
    before, after = figures(answers), figures(changed)
    said = ", ".join(f"{name} {after[each]:.4f} instead of {before[each]:.4f}" for each, name in labels.items())
    return {metric: after[metric] - before[metric] for metric in labels}, said
