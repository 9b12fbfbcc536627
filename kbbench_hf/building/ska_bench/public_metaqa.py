"""MetaQA from vaijsc/keallm as raw source files: triples as numbers of names, test questions with a bracketed topic.

Its questions come without their path, so the path is derived: the questions of one wording share a path, the one that
gives the answers of most of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, product
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import Cells, clean
from kbbench_hf.building.ska_bench.metaqa import QUESTIONS, RELATIONS, TRIPLES
from kbbench_hf.building.ska_bench.source_files import lines_of, write_json_lines, write_lines
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.files.datasets import Row

MOST_OF_A_KIND = 320
"""How many questions of each number of steps and of triples are taken, in the order of their hashes."""
MOST_ANSWERS, MOST_TRIPLES = 6, 12
_KINDS = {**{relation: kind for kind, relation in RELATIONS.items()}, "has tags": "tags"}
_TRIED = 40
"""How many questions of a wording decide its path."""


class PathQuestion(NamedTuple):
    """A question as it is published."""

    id: str
    hops: int
    text: str
    """Its topic is in brackets."""
    answers: frozenset[str]

    @property
    def topic(self) -> str:
        """The entity that the question asks about."""
        return self.text.partition("[")[2].partition("]")[0]


def write_metaqa(checkout: Path, folder: Path) -> None:
    """Write the triples, and questions whose answers follow from them alone."""
    source = checkout / "data" / "MetaQA"
    triples = sorted(set(_read_triples(source)))
    write_lines(folder / TRIPLES, ("\t".join(triple) for triple in triples))
    questions: list[PathQuestion] = []
    for hops in (1, 2, 3):
        for line in lines_of(source / f"{hops}-hop" / "test.txt"):
            text, answers = line.split("\t")
            questions.append(
                PathQuestion(f"metaqa-{hops}h-{len(questions)}", hops, text, frozenset(answers.split("|")))
            )
    write_json_lines(folder / QUESTIONS, add_paths(questions, triples))


def _read_triples(source: Path) -> Iterator[Cells]:
    names, relations = (
        dict(line.split("\t") for line in lines_of(source / f"{of}2text.txt")) for of in ("entity", "relation")
    )
    for file in sorted(source.glob("*.tsv")):
        for head, relation, tail in (line.split("\t") for line in lines_of(file)):
            if names.get(head) and names.get(tail):
                yield clean(names[head]), relations[relation], clean(names[tail])


def add_paths(questions: Iterable[PathQuestion], triples: Iterable[Cells]) -> list[Row]:
    """Return the questions whose path gives their answers exactly, with that path, at most so many of each kind.

    >>> facts = [("Heat", "directed by", "Mann"), ("Ali", "directed by", "Mann"), ("Ali", "written by", "Roth")]
    >>> [row["path"] for row in add_paths([PathQuestion("q", 1, "who made [Heat]", frozenset({"Mann"}))], facts)]
    ['movie_to_director']
    """
    graph = FilmGraph(triples)
    by_wording: defaultdict[tuple[int, str], list[PathQuestion]] = defaultdict(list)
    for each in questions:
        by_wording[each.hops, each.text.replace(f"[{each.topic}]", "[]")].append(each)
    kinds: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    for (hops, _), members in sorted(by_wording.items()):
        if path := graph.find_path(hops, members):
            for each in members:
                n_triples = graph.n_triples(path, each.topic)
                if len(each.answers) <= MOST_ANSWERS and n_triples <= MOST_TRIPLES and graph.is_answered(each, path):
                    text = each.text.replace(f"[{each.topic}]", each.topic)
                    row = {"id": each.id, "hop": hops, "path": "_to_".join(path), "question": text}
                    row |= {"topic": each.topic, "answers": sorted(each.answers)}
                    kinds[hops, min(n_triples, 5)].append(row)
    hashed = (sorted(kinds[kind], key=lambda row: seeded_hash(row["id"])) for kind in sorted(kinds))
    return [row for rows in hashed for row in rows[:MOST_OF_A_KIND]]


class FilmGraph:
    """A graph of films, walked along MetaQA's paths: ("actor", "movie", "year") goes from an actor to years."""

    def __init__(self, triples: Iterable[Cells]) -> None:
        self._ends: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for head, relation, tail in triples:
            if kind := _KINDS.get(relation):
                self._ends["movie", kind, head].add(tail)
                self._ends[_start(kind), "movie", tail].add(head)

    def find_path(self, hops: int, questions: Sequence[PathQuestion]) -> Cells:
        """Return the path that answers most of these questions; empty where two do, or none."""
        tried = sorted(questions, key=lambda each: seeded_hash(each.id))[:_TRIED]
        fits = Counter({path: sum(self.is_answered(each, path) for each in tried) for path in _paths(hops)})
        (best, most), (_, second) = fits.most_common(2)
        return best if most > second else ()

    def is_answered(self, question: PathQuestion, path: Cells) -> bool:
        """Return whether a path leads from the topic of a question to its answers and nowhere else."""
        return self._layers(path, question.topic)[-1] == question.answers

    def n_triples(self, path: Cells, topic: str) -> int:
        """Return how many triples lie on the ways along a path from its topic to its end."""
        *before, needed = self._layers(path, topic)
        number = 0
        for step, layer in zip(reversed(list(pairwise(path))), reversed(before), strict=True):
            used = [(name, end) for name in layer for end in self._ends.get((*step, name), set()) & needed]
            number, needed = number + len(used), {name for name, _ in used}
        return number

    def _layers(self, path: Cells, topic: str) -> list[set[str]]:
        """Return what is reached after each step; no step returns to the topic."""
        layers = [{topic}]
        for step in pairwise(path):
            layers.append(set(chain.from_iterable(self._ends.get((*step, name), ()) for name in layers[-1])) - {topic})
        return layers


def _start(kind: str) -> str:
    return "tag" if kind == "tags" else kind


def _paths(hops: int) -> Sequence[Cells]:
    kinds = list(_KINDS.values())
    through = [kind for kind in kinds if kind not in ("tags", "genre", "language", "year")]
    if hops == 1:
        return [("movie", kind) for kind in kinds] + [(_start(kind), "movie") for kind in kinds]
    if hops == 2:
        return [("movie", kind, "movie") for kind in through] + [(a, "movie", b) for a, b in product(through, kinds)]
    return [("movie", kind, "movie", end) for kind, end in product(through, kinds)]
