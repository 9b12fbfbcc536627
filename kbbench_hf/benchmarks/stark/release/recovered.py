"""The template that a released question was made from, where names, answers and knowledge base leave only one.

The release has a question and its answers; its template and its topic entities were not released. A question names
some nodes word for word. If one template leads from these to all of the answers, no other one does and no single
relation either, and this is not what chance would do, the question was made from it. Most questions are left open:
models put the names in words of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from kbbench_hf.benchmarks.node_words import listed_words
from kbbench_hf.benchmarks.stark.release.questions import HUMAN, QUESTIONS
from kbbench_hf.knowledge_base.metapaths import Hop, Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.topics import STOP_WORDS

CHANCE = 0.01
"""As likely as that, nodes drawn by chance would be where some template leads from the names of the question."""
MOST_TRIED = 500
"""Sets of topics of one question; of a question that names more, nothing is said."""
_CHUNK = 20_000

Named = Mapping[str, Sequence[int]]
"""Type -> rows of the nodes of it that a question names."""


def with_templates(
    queries: Mapping[str, pa.Table], templates: Sequence[str], nodes: pa.Table, edges: pa.Table
) -> dict[str, pa.Table]:
    """Return the splits of `queries` with `template` filled in where it is found; people's questions have none."""
    nodes = pa.table({name: nodes[name] for name in ("id", "type", "name")} | {"text": pa.repeat("", len(nodes))})
    kb = KnowledgeBase.from_arrow(nodes, edges.select(["head", "relation", "tail"]))
    made = {split: table for split, table in queries.items() if split != HUMAN}
    asked = {
        row["id"]: (row["query"], row["answer_ids"])
        for table in made.values()
        for row in table.select(["id", "query", "answer_ids"]).to_pylist()
    }
    with Console(stderr=True).status("Looking for the templates of the questions"):
        found = dict(zip(asked, recovered_templates(kb, templates, [*asked.values()]), strict=True))
    filled = {split: [found[each] for each in table["id"].to_pylist()] for split, table in made.items()}
    place = QUESTIONS.get_field_index("template")
    return {
        split: table.set_column(place, QUESTIONS.field(place), pa.array(filled[split], pa.string()))
        if split in filled
        else table
        for split, table in queries.items()
    }


def recovered_templates(
    kb: KnowledgeBase, templates: Sequence[str], questions: Sequence[tuple[str, Sequence[int]]]
) -> list[str | None]:
    """Return the one of `templates` that each question, with the ids of its answers, was made from; None where open.

    `templates` must be all that there were. One whose walks another one has too, from further topics, is never
    returned: the question may name these in other words.
    """
    every = [Metapath.parse(each) for each in templates]
    whole = {path.text for path in every if not any(_is_part(path, other) for other in every)}
    paths = [path for path in every if path.is_within(kb.graph)]
    listed = [_walks(path) for path in paths]
    others = [path for path in _single_hops(kb) if _walks(path) not in listed]
    found: list[str | None] = []
    for named, (_, ids) in zip(named_nodes(kb, [text for text, _ in questions]), questions, strict=True):
        answers = kb.rows(ids)
        fits, chance = _fitting(kb, paths, named, answers)
        is_one = len(fits) == 1 and fits <= whole and chance < CHANCE
        found.append(fits.pop() if is_one and not _fitting(kb, others, named, answers)[0] else None)
    return found


def named_nodes(kb: KnowledgeBase, texts: Sequence[str]) -> list[Named]:
    """Return for each text the nodes whose whole names stand in it, by type; names within longer ones do not count."""
    said = [listed_words(text) for text in texts]
    starts: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for number, words in enumerate(said):
        for place in range(len(words)):
            for begins in {tuple(words[place : place + length]) for length in (1, 2)}:
                starts.setdefault(begins, []).append((number, place))
    spans: list[dict[tuple[int, int], list[int]]] = [{} for _ in texts]
    for first in range(0, len(kb), _CHUNK):
        rows = range(first, min(first + _CHUNK, len(kb)))
        for row, name in zip(rows, kb.names(rows), strict=True):
            words = listed_words(name)
            if words and words[0] not in STOP_WORDS and len("".join(words)) > 1:
                for number, place in starts.get(tuple(words[:2]), ()):
                    if said[number][place : place + len(words)] == words:
                        spans[number].setdefault((place, place + len(words)), []).append(row)
    return [_outermost(kb, each) for each in spans]


def _outermost(kb: KnowledgeBase, spans: Mapping[tuple[int, int], Sequence[int]]) -> Named:
    named: dict[str, list[int]] = {}
    for (start, stop), rows in spans.items():
        if not any(a <= start and stop <= b and (a, b) != (start, stop) for a, b in spans):
            for row, kind in zip(rows, kb.types(rows), strict=True):
                named.setdefault(kind, []).append(row)
    return named


def _fitting(
    kb: KnowledgeBase, paths: Sequence[Metapath], named: Named, answers: NDArray[np.int64]
) -> tuple[set[str], float]:
    """Return the templates that lead from named nodes to all answers, and how likely chance would find one of them."""
    kinds = set(kb.types(answers))
    fits: set[str] = set()
    chances = [1.0]
    tried = 0
    for path in paths:
        if {path.answer_type} != kinds:
            continue
        for topics in _topics(path, named):
            tried += 1
            if tried > MOST_TRIED:
                return set(), 1.0
            reached = path.answers(kb.graph, *topics)
            if np.isin(answers, reached).all():
                fits.add(path.text)
                chances.append((len(reached) / len(kb.of_type(path.answer_type))) ** len(set(answers.tolist())))
    return fits, min(chances) * max(tried, 1)


def _topics(path: Metapath, named: Named) -> Iterator[tuple[int, ...]]:
    """Yield the ways to name the topics of a template by different nodes."""
    starts = {walk.topic: walk.start_type for walk in path.walks if walk.topic is not None}
    choices = [named.get(starts[topic], ()) for topic in path.topics]
    return (each for each in product(*choices) if len(set(each)) == len(each))


def _single_hops(kb: KnowledgeBase) -> Iterator[Metapath]:
    """Yield every relation between two types, in both directions where these differ."""
    for head, relation, tail, _ in kb.tuples():
        yield Metapath.parse(f"{head} -[{relation}]-> {tail}")
        if not kb.graph.symmetric:
            yield Metapath.parse(f"{tail} -[^{relation}]-> {head}")


def _walks(path: Metapath) -> list[tuple[str, tuple[Hop, ...]]]:
    return [(walk.start_type, walk.hops) for walk in path.walks]


def _is_part(path: Metapath, other: Metapath) -> bool:
    """Say whether another template has all walks of this one, and further topics."""
    walks, others = _walks(path), _walks(other)
    return len(other.topics) > len(path.topics) and all(walks.count(walk) <= others.count(walk) for walk in walks)
