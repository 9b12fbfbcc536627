"""Answer programs on triples: `follow` relations from each topic, `intersect` the results, or `conj` two facts.

`programs` says what a program is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Program = Mapping[str, Any]
Cells = Sequence[str]
TYPES = frozenset({"follow", "intersect", "conj"})


def execute(program: Program, triples: Iterable[Cells]) -> list[str]:
    """Return the entities that a program of one of these `TYPES` reaches, sorted; an empty list where there are none.

    >>> execute({"type": "follow", "topics": ["Ann"], "relations": [["child", "sex"]]},
    ...         [["Ann", "child", "Bea"], ["Bea", "sex", "female"]])
    ['female']
    """
    return sorted(_have_both(program, triples) if program["type"] == "conj" else _reached(program, triples))


def _have_both(program: Program, triples: Iterable[Cells]) -> set[str]:
    heads: dict[tuple[str, str], set[str]] = {(program[r], program[o]): set() for r, o in (("r1", "o1"), ("r2", "o2"))}
    for head, relation, tail in triples:
        if (relation, tail) in heads:
            heads[relation, tail].add(head)
    return set.intersection(*heads.values())


def _reached(program: Program, triples: Iterable[Cells]) -> set[str]:
    tails: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    followed = {relation for relations in program["relations"] for relation in relations}
    for head, relation, tail in triples:
        if relation in followed:
            tails[head, relation].add(tail)
    reached = []
    for topic, relations in zip(program["topics"], program["relations"], strict=True):
        entities = {topic}
        for relation in relations:
            entities = {tail for entity in entities for tail in tails.get((entity, relation), ())}
        reached.append(entities)
    return set.intersection(*reached) if program["type"] == "intersect" else set.union(*reached)
