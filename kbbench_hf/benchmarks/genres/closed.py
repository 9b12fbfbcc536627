"""Closed extraction: the entity pairs in prompts, and the best constant answer, a baseline that reads nothing.

The authors' prompts have the pairs of the gold, each of which has a relation: naming the most frequent relation for all
of them is hard to beat. Mode `fixed` also has pairs without a stated relation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbbench_hf.benchmarks.base import Example
from kbbench_hf.metrics.generative_re import Triple, hard_match, keep_well_formed, spelling_key

Pair = tuple[str, str]
MOST = 0.5
"""Least share of triples with offered pairs in answers of closed extraction. In the release's open and semi-open
answers it is .22 at most, in its closed ones 1."""


def offered_pairs(row: Example, mode: str, stranger: str | None = None) -> list[Pair]:
    """Return the entity pairs (head, tail) of a document in prompts of closed extraction.

    `reference`: the ends of each gold triple as released, CDR's "not induced by" included. `fixed`: every two ends of
    them in both directions, and each with the stranger, an entity that the text does not name, so that some pairs have
    no relation. `fixed-2`: the same, one spelling of each end. No entity is paired with itself, as 25 of the gold
    triples of Wiki20m and DocRED would need.

    >>> row = {"triples": [{"sub": "a", "rel": "r", "obj": "b"}]}
    >>> offered_pairs(row, "reference"), offered_pairs(row, "fixed")
    ([('a', 'b')], [('a', 'b'), ('b', 'a')])
    """
    pairs = [(triple["sub"], triple["obj"]) for triple in row["triples"]]
    if mode == "reference":
        return pairs
    ends = {end for pair in pairs for end in pair}
    if ends and stranger is not None:
        ends.add(stranger)
    if mode == "fixed-2":
        ends = {*{spelling_key(end): end for end in sorted(ends, reverse=True)}.values()}
    alphabetical = sorted(ends)  # the gold's order, or a stranger at the end, would tell
    return [(head, tail) for head in alphabetical for tail in alphabetical if head != tail]


def strangers(rows: Sequence[Example]) -> dict[str, str]:
    """Return for each document (by id) an entity that it does not name: the first such end in the next ones' gold."""
    firsts = [(place, triple["sub"]) for place, row in enumerate(rows) for triple in row["triples"][:1]]
    found = {}
    for place, row in enumerate(rows):
        text = row["text"].casefold()
        own = {end.casefold() for triple in row["triples"] for end in (triple["sub"], triple["obj"])}
        later = (end for start, end in firsts if start > place)
        around = (*later, *(end for start, end in firsts if start < place))
        name = next((end for end in around if end.casefold() not in text and end.casefold() not in own), None)
        if name is not None:
            found[row["id"]] = name
    return found


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
    return best and Constant(best[1], dict(zip(("precision", "recall", "f1"), best[2], strict=True)))


def is_closed(answers: Iterable[Sequence[Triple] | None], offered: Iterable[Sequence[Pair]]) -> bool:
    """Return whether answers are those of closed extraction, by their pairs: predictions files do not tell."""
    n_joined = n_triples = 0
    for answer, pairs in zip(answers, offered, strict=True):
        known = {(head.casefold(), tail.casefold()) for head, tail in pairs}
        triples = keep_well_formed(answer or [])
        n_triples += len(triples)
        n_joined += sum((head.casefold(), tail.casefold()) in known for head, _, tail in triples)
    return n_triples > 0 and n_joined >= MOST * n_triples
