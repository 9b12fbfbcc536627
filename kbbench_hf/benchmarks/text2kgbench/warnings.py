"""Habits of writing that cost a Text2KGBench score without being wrong, each with what it costs these very answers."""

from collections.abc import Sequence

from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.triples import loose

Answers = Sequence[Sequence[Sequence[str]] | None]


def warnings(benchmark: Benchmark, examples: Examples, answers: Answers) -> list[ScoreWarning]:
    """Return a warning of every such habit in the answers; the effect is measured in mode `reference`.

    - `near_miss_relations`: relations that are one of the ontology's but for case, spaces or underscores (`publication
      date` for `publication_date`): the script compares them character for character.
    - `underscored_names`: underscores in subjects and objects, as DBpedia writes them: the script stems
      `animated_films` as one word, and looks for that in the sentence.
    """
    found = []
    renamed, n_near, example = _with_ontology_names(examples, answers)
    if n_near:
        effect, said = _effect(benchmark, examples, answers, renamed, ("f1", "ontology_conformance"))
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
        effect, said = _effect(benchmark, examples, answers, spaced, ("subject_hallucination", "object_hallucination"))
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


def _with_ontology_names(examples: Examples, answers: Answers) -> tuple[Answers, int, str]:
    """Return the answers with near misses renamed, how many there were, and the first, in words."""
    renamed: list[list[list[str]] | None] = []
    n_near, first = 0, ""
    for row, answer in zip(examples.rows, answers, strict=True):
        if answer is None:
            renamed.append(None)
            continue
        ontology = examples.context.released[row["ontology_id"]]
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
    benchmark: Benchmark, examples: Examples, answers: Answers, changed: Answers, metrics: Sequence[str]
) -> tuple[dict[str, float], str]:
    """Return what each metric gains by the change, and its figures in words."""
    before, after = (
        benchmark.scoring.summarise(benchmark.scoring.score(examples, each, "reference"), "reference")
        for each in (answers, changed)
    )
    said = ", ".join(
        f"{benchmark.metrics[metric]} {after[metric].value:.4f} instead of {before[metric].value:.4f}"
        for metric in metrics
    )
    return {metric: after[metric].value - before[metric].value for metric in metrics}, said
