"""Writing habits in predicted triples that cost score without being wrong, each with its measured effect.

Benchmarks of extraction rewrite the answers without a habit, score them again and warn of the difference. No
warning is given for a habit that changes no printed digit, or without which the first metric falls.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics.triples import Ontology, name_key, normalize_name, relation_key

Answers = Sequence[Sequence[Sequence[str]] | None]
ScoreAnswers = Callable[[Answers], Mapping[str, float]]
"""Answers -> the value of each metric in the mode that is scored."""

_AFFIXES = (
    re.compile(r"\S(?P<affix>\s?:{1,2}\s?[A-Za-z]\w{1,24})$"),
    re.compile(r"\S(?P<affix>\s?[(\[<{|/]\s?[A-Za-z]\w{1,24}\s?[)\]>}|/]?)$"),
    re.compile(r"^(?P<affix>[A-Za-z]\w{0,24}\s?:{1,2}\s?)(?!//)\S"),
    re.compile(r"^(?P<affix>[(\[<{|]\s?[A-Za-z]\w{1,24}\s?[)\]>}|]\s?)\S"),
    re.compile(r"^(?P<affix><?[a-z]{2,6}://[^\s<>]*[/#])[^\s/#<>]+>?$"),
    re.compile(r"\S(?P<affix>@[a-z]{2,3}(?:-[A-Za-z]{2,8})?|[.;])$"),
    re.compile(r"^(?P<affix>[\[<{(]\s?)(?=[^\[\]<>{}()]+[\]>})]$)"),
    re.compile(r"^(?P<affix>[Tt]he\s)\S"),
)
"""What extraction tools add to a name: a type or namespace (`Bergen:CITY`, `Bergen (City)`, `dbr:Bergen`, an IRI), a
language, a full stop, brackets, an article."""
_LEAST_SHARE = 0.5
"""The share of names with an affix from which the affixes are a habit."""
_NAMES_PER_AFFIX = 3
"""How many names there are for each distinct affix at least: types and namespaces repeat, parts of names do not."""


class Rewriting(NamedTuple):
    """Predictions without one habit, and the sentence that describes the habit."""

    code: str
    message: str
    remedy: str
    answers: Answers
    effect_in: str = "Without"
    """How the sentence on the effect begins."""
    metrics: tuple[str, ...] = ()
    """The metrics that the habit is about; empty for all."""


def habit_warnings(
    answers: Answers, rewritings: Sequence[Rewriting], score: ScoreAnswers, labels: Mapping[str, str]
) -> list[ScoreWarning]:
    """Return a warning for each habit that changes a printed digit of a labelled metric.

    Args:
        answers: the triples of each example; None where a prediction is missing.
        rewritings: the same answers without each habit.
        score: the values of answers, in the mode that is scored.
        labels: metric -> its label, for the metrics whose change is reported.
    """
    found = []
    before: Mapping[str, float] = {}
    for code, message, remedy, changed, begins, metrics in rewritings:
        n_changed = sum(_as_lists(old) != _as_lists(new) for old, new in zip(answers, changed, strict=True))
        if not n_changed:
            continue
        before = before or score(answers)
        after = score(changed)
        moved = [metric for metric in metrics or labels if f"{before[metric]:.4f}" != f"{after[metric]:.4f}"]
        if moved and not after[next(iter(labels))] < before[next(iter(labels))]:
            values = ", ".join(
                f"{labels[each]} {after[each]:.4f} ({after[each] - before[each]:+.4f})" for each in moved
            )
            effect = {metric: after[metric] - before[metric] for metric in moved}
            found.append(ScoreWarning(code, f"{message} {begins}: {values}.", remedy, n_changed, effect))
    return found


def with_ontology_relations(answers: Answers, ontologies: Sequence[Ontology], remedy: str) -> Rewriting:
    """Return answers with the ontology's names for relations that differ in case, blanks or underscores only."""
    renamed = [
        answer and [[subject, _ontology_relation(relation, ontology), obj] for subject, relation, obj in answer]
        for ontology, answer in zip(ontologies, answers, strict=True)
    ]
    found = _differences(answers, renamed)
    example = "{!r} for {!r}".format(*found[0]) if found else ""
    message = (
        f"{len(found):,} relations differ from the ontology only in case, spaces or underscores (such as {example}) "
        "and count as wrong in mode reference."
    )
    return Rewriting("near_miss_relations", message, remedy, renamed, "Normalized", ("f1", "ontology_conformance"))


def _ontology_relation(relation: str, ontology: Ontology) -> str:
    if relation in ontology.relation_names:
        return relation
    return ontology.loose_relations.get(relation_key(relation), relation)


def with_spaces(answers: Answers, remedy: str) -> Rewriting:
    """Return answers with spaces for the underscores of subjects and objects."""
    spaced = [
        answer and [[subject.replace("_", " "), relation, obj.replace("_", " ")] for subject, relation, obj in answer]
        for answer in answers
    ]
    message = (
        f"{len(_differences(answers, spaced)):,} subjects and objects contain underscores; mode reference stems each "
        "as one word and rarely finds it in the sentence."
    )
    metrics = ("subject_hallucination", "object_hallucination")
    return Rewriting("underscored_names", message, remedy, spaced, "With spaces", metrics)


def with_gold_punctuation(answers: Answers, gold: Sequence[Sequence[Sequence[str]]], remedy: str) -> Rewriting:
    """Return answers with the gold's name where a subject or object differs in quotation marks or typography only."""
    changed = [answer and _with_gold_names(answer, known) for answer, known in zip(answers, gold, strict=True)]
    found = _differences(answers, changed)
    example = f"{found[0][0].strip()!r} for {found[0][1]!r}" if found else ""
    message = (
        f"{len(found):,} subjects and objects differ from the gold only in quotation marks, dashes or apostrophes "
        f"(such as {example}) and count as wrong."
    )
    return Rewriting("punctuation_of_names", message, remedy, changed, "Normalized", ("f1",))


def _with_gold_names(answer: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return an answer with the gold's spelling of names that differ from it in punctuation only."""
    spelled = {_punctuation_key(name): name for triple in gold for name in (triple[0], triple[2])}
    folded = {name_key(name) for name in spelled.values()}

    def respelled(name: str) -> str:
        return name if name_key(name) in folded else spelled.get(_punctuation_key(name), name)

    return [[respelled(subject), relation, respelled(obj)] for subject, relation, obj in answer]


def _differences(answers: Answers, changed: Answers) -> list[tuple[str, str]]:
    """Return the parts of triples that were changed, before and after, in order."""
    pairs = zip(answers, changed, strict=True)
    triples = [each for old, new in pairs for each in zip(old or (), new or (), strict=True)]
    return [(old, new) for before, after in triples for old, new in zip(before, after, strict=True) if old != new]


def without_affixes(answers: Answers) -> Rewriting:
    """Return answers without what most of their names carry beside the name; see `_AFFIXES`."""
    names = [name for answer in answers for triple in answer or () for name in (triple[0], triple[2])]
    habits = []
    for pattern in _AFFIXES:
        affixes = Counter(match["affix"] for name in names if (match := pattern.search(name)))
        if affixes.total() >= max(_LEAST_SHARE * len(names), _NAMES_PER_AFFIX * len(affixes), 1):
            habits.append((len(affixes), affixes.total(), pattern))
    if not habits:
        return Rewriting("types_in_names", "", "", answers)
    _, n, pattern = min(habits, key=lambda habit: habit[:2])
    example = next(name for name in names if pattern.search(name))
    message = f"{n:,} of {len(names):,} subjects and objects carry a type, namespace or mark, such as {example!r}."
    bare = [
        answer and [[_strip_affix(each, pattern) for each in triple] for triple in answer] for answer in answers
    ]  # tools write relations as they write names
    return Rewriting("types_in_names", message, "Remove it from the names before scoring.", bare)


def _strip_affix(name: str, pattern: re.Pattern[str]) -> str:
    match = pattern.search(name)
    if not match:
        return name
    bare = (name[: match.start("affix")] + name[match.end("affix") :]).strip(" <>" if "(" in name else " <>[]{}()")
    return bare.replace("_", " ") if "://" in match["affix"] else bare


def _punctuation_key(name: str) -> str:
    return name_key(normalize_name(name)).translate({ord("'"): None, ord('"'): None, ord("`"): None})


def _as_lists(answer: Sequence[Sequence[str]] | None) -> list[list[str]]:
    return [list(triple) for triple in answer or ()]
