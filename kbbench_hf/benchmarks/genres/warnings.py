"""Warnings on GenRES scores: thresholds, topic corpora, malformed triples, constant baselines, direction, affixes.

The authors' prompts of closed extraction have the pairs of the gold, each of which has a relation: naming the most
frequent relation for all of them, a baseline that reads nothing, is hard to beat. Mode `fixed` also has pairs without a
stated relation. `Scoring.warn` and the metric module `genres` call `warnings`.
"""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, Literal

import numpy as np

from kbbench_hf.benchmarks.annotated import made_with
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.genres.prompts import Pair, offered_pairs
from kbbench_hf.benchmarks.triple_habits import habit_warnings, with_gold_punctuation, without_affixes
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.metrics import generative_re
from kbbench_hf.metrics.generative_re import Triple, hard_match, keep_well_formed, match_key, select_triples

Gold = Sequence[Sequence[tuple[str, str, str]]]
HARD = {"precision": "P", "recall": "R", "f1": "F1"}
LEAST_GAIN = 0.005
"""Least gain in F1 for a warning on the direction of triples."""
MOST = 0.5
"""Least share of triples with offered pairs in answers of closed extraction. In the release's open and semi-open
answers it is .22 at most, in its closed ones 1."""


def warnings(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None], mode: str
) -> list[ScoreWarning]:
    """Return all warnings on the scores of answers."""
    identities, rules = made_with(examples), benchmark.scoring.annotations
    gold = [rules.gold(row, mode) for row in examples.rows] if rules else []
    config, distractors = examples.context.config, examples.context.strangers
    offered = {
        each: [offered_pairs(row, each, distractors.get(row["id"])) for row in examples.rows]
        for each in {"reference", mode}
    }
    return [
        *threshold_warning(config, identities.get("embeddings", {})),
        *corpus_warning(identities.get(f"topics-{generative_re.TOPIC_MODES[mode]}", {})),
        *malformed_warning(answers, mode),
        *constant_warning(answers, offered, gold, mode),
        *direction_warning(answers, gold, mode),
        *affix_warning(answers, gold, mode),
    ]


def threshold_warning(config: str, embeddings: Mapping[str, Any]) -> list[ScoreWarning]:
    """Return a warning where US and CS use thresholds of other texts; `embeddings` is what vectors were made with."""
    own = embeddings.get("threshold_corpus")
    if own is None or own == config:
        return []
    message = (
        f"US and CS use similarity thresholds calibrated on {own}, not on {config}; this changed CS by up to 18 points."
    )
    return [ScoreWarning("thresholds_of_other_texts", message, "Calibrate on this config, or leave out --thresholds.")]


def corpus_warning(topics: Mapping[str, Any]) -> list[ScoreWarning]:
    """Return a warning where the topic models were not trained on the release's corpus, which was not at hand."""
    if "instead_of" not in topics:
        return []
    message = (
        f"TS uses topic models trained on {topics['corpus']} instead of the release's corpus ({topics['instead_of']}); "
        "it is not comparable with published scores (9 to 44 points apart where both were tried)."
    )
    remedy = "Build the dataset from a clone that has the corpus, or name it with kbbench annotate --corpus."
    return [ScoreWarning("topic_corpus", message, remedy)]


def malformed_warning(answers: Sequence[Answer | None], mode: str) -> list[ScoreWarning]:
    """Return a warning where triples are malformed: not three elements, or an element that is no text or number."""
    malformed = [[triple for triple in answer or [] if not keep_well_formed([triple])] for answer in answers]
    if not any(malformed):
        return []
    n, n_triples = sum(map(len, malformed)), sum(len(answer or []) for answer in answers)
    first = reprlib.repr(next(triple for triples in malformed for triple in triples))
    treatment = "counts them as wrong triples" if mode == "reference" else "leaves them out"
    message = (
        f"{n:,} of {n_triples:,} triples are malformed, such as {first}; "
        f"expected three texts or numbers, none blank. Mode {mode} {treatment}."
    )
    remedy = "Write each triple as [head, relation, tail]."
    return [ScoreWarning("malformed_triples", message, remedy, sum(map(bool, malformed)))]


@dataclass(frozen=True)
class Constant:
    """One relation for every pair, and its hard-match scores."""

    relation: str
    figures: Mapping[str, float]
    """`precision`, `recall` and `f1`, means over the documents with gold."""


def best_constant(offered: Sequence[Sequence[Pair]], gold: Sequence[Sequence[Triple]]) -> Constant | None:
    """Return the relation with the highest F1 as the answer for every offered pair; None where there is no gold.

    >>> found = best_constant([[("a", "b"), ("b", "a")]], [[("a", "r", "b")]])
    >>> found.relation, [round(value, 2) for value in found.figures.values()]
    ('r', [0.5, 1.0, 0.67])
    """
    documents: dict[str, list[int]] = {}
    for task_key, triples in enumerate(gold):
        for relation in dict.fromkeys(str(triple[1]) for triple in triples):
            documents.setdefault(relation, []).append(task_key)
    n_scored = sum(bool(triples) for triples in gold)
    best: tuple[float, str, Sequence[float]] | None = None
    for relation, places in documents.items():  # of all other documents the constant is wrong
        answers = [[(head, relation, tail) for head, tail in offered[task_key]] for task_key in places]
        values = hard_match(answers, [gold[task_key] for task_key in places], empty=0.0)
        means = [float(total) / n_scored for total in np.nansum(values, axis=1)]
        if best is None or means[2] > best[0]:
            best = means[2], relation, means
    return best and Constant(best[1], dict(zip(HARD, best[2], strict=True)))


def is_closed(answers: Iterable[Sequence[Triple] | None], offered: Iterable[Sequence[Pair]]) -> bool:
    """Return whether answers are those of closed extraction, by the share of triples with an offered pair.

    Predictions files do not say which prompt was used. False where there are no triples.
    """
    n_joined = n_triples = 0
    for answer, pairs in zip(answers, offered, strict=True):
        known = {(head.casefold(), tail.casefold()) for head, tail in pairs}
        triples = keep_well_formed(answer or [])
        n_triples += len(triples)
        n_joined += sum((head.casefold(), tail.casefold()) in known for head, _, tail in triples)
    return n_triples > 0 and n_joined >= MOST * n_triples


def constant_warning(
    answers: Sequence[Answer | None], offered: Mapping[str, Sequence[Sequence[Pair]]], gold: Gold, mode: str
) -> list[ScoreWarning]:
    """Return the scores of the best constant answer, where answers are those of closed extraction (see `prompts`).

    `offered` has the pairs of each mode. Prompts of `reference` have fewer pairs than those of `fixed`, and answers do
    not tell which it was, so that `fixed` names both constants.
    """
    if not is_closed(answers, offered[mode]) or not (constant := best_constant(offered[mode], gold)):
        return []
    beaten = _hard_match_scores(answers, gold, mode)["f1"] <= constant.figures["f1"]
    message = f"Closed extraction: to say {_in_words(constant, offered[mode])}."
    if mode != "reference" and (other := best_constant(offered["reference"], gold)):
        message += f" Of those that mode reference offers: {_in_words(other, offered['reference'])}."
    if beaten:
        message += " These answers are no better."
    severity: Literal["note", "warning"] = "warning" if beaten else "note"
    return [ScoreWarning("constant_answer", message, beside=constant.figures, severity=severity)]


def _in_words(constant: Constant, offered: Sequence[Sequence[Pair]]) -> str:
    scores = ", ".join(f"{label} {constant.figures[metric]:.4f}" for metric, label in HARD.items())
    return f"{constant.relation!r} of all {sum(map(len, offered)):,} pairs offered, without reading, has {scores}"


def direction_warning(answers: Sequence[Answer | None], gold: Gold, mode: str) -> list[ScoreWarning]:
    """Return a warning with the hard-match scores without direction, where triples are reversed gold."""
    turned = [answer and _with_gold_direction(answer, known) for answer, known in zip(answers, gold, strict=True)]
    changed = [sum(map(ne, before or (), after or ())) for before, after in zip(answers, turned, strict=True)]
    own, other = _hard_match_scores(answers, gold, mode), _hard_match_scores(turned, gold, mode)
    if other["f1"] - own["f1"] < LEAST_GAIN:
        return []
    scores = ", ".join(f"{label} {other[metric]:.4f} instead of {own[metric]:.4f}" for metric, label in HARD.items())
    message = f"{sum(changed):,} triples are gold with head and tail exchanged. Blind to the direction: {scores}."
    effect = {metric: other[metric] - own[metric] for metric in HARD}
    n_documents = sum(map(bool, changed))
    return [ScoreWarning("turned_round", message, "Say in the prompt which end comes first.", n_documents, effect)]


def affix_warning(answers: Sequence[Answer | None], gold: Gold, mode: str) -> list[ScoreWarning]:
    """Return a warning where quotation marks, or affixes on most names (`Bergen:CITY`), cost hard-match score."""
    triples = [answer and [triple for triple in answer if _is_triple(triple)] for answer in answers]
    habits = [with_gold_punctuation(triples, gold, "Write names as the text does."), without_affixes(triples)]
    return habit_warnings(triples, habits, lambda changed: _hard_match_scores(changed, gold, mode), HARD)


def _is_triple(triple: object) -> bool:
    return isinstance(triple, list | tuple) and len(triple) == 3 and all(isinstance(each, str) for each in triple)


def _with_gold_direction(answer: Answer, gold: Sequence[Triple]) -> Answer:
    """Return an answer with reversed triples where that gives gold that the answer does not have yet."""
    known, there = {match_key(triple) for triple in gold}, {match_key(triple) for triple in answer}
    turned = []
    for triple in answer:
        back = list(reversed(triple)) if isinstance(triple, list | tuple) and len(triple) == 3 else triple
        wanted = match_key(back) in known - there and match_key(triple) not in known
        turned.append(back if wanted else triple)
    return turned


def _hard_match_scores(answers: Sequence[Answer | None], gold: Gold, mode: str) -> dict[str, float]:
    """Return precision, recall and F1 by hard match, as `benchmark.score` has them."""
    values = hard_match(
        [select_triples(answer or [], mode) for answer in answers],
        gold,
        empty=generative_re.EMPTY_SCORES[mode]["f1"],
        mode=mode,
    )
    if not np.isnan(values).all():
        values[:, [answer is None for answer in answers]] = 0.0
    return dict(zip(HARD, (float(np.nanmean(row)) if not np.isnan(row).all() else 0.0 for row in values), strict=True))
