"""Questions whose answers a walk finds, with the walk: those of mini-stark, and of knowledge bases with odd ids.

Answers are worked out here from the lists of nodes and edges by dictionaries, not by the code that is tested.
"""

import csv
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
MINI = ROOT / "kbbench_hf" / "benchmarks" / "stark" / "mini" / "data"
Id = str | int


class Hop(NamedTuple):
    """One step of a walk: from tails to heads where the direction is "in"."""

    relation: str
    direction: str
    node_type: str


class Node(NamedTuple):
    id: Id
    type: str
    name: str
    text: str


class Edge(NamedTuple):
    head: Id
    relation: str
    tail: Id


class Puzzle(NamedTuple):
    """A question, the node it names, and for every hop the nodes from which the walk still gets to an answer.

    `on_the_way[0]` is the named node, `on_the_way[-1]` are the answers.
    """

    id: Id
    query: str
    topic: Node
    hops: tuple[Hop, ...]
    on_the_way: tuple[tuple[Id, ...], ...]

    @property
    def answers(self) -> tuple[Id, ...]:
        return self.on_the_way[-1]


@dataclass(frozen=True)
class Puzzles:
    """A knowledge base and its questions."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    questions: Sequence[Puzzle]

    def of(self, text: str) -> Puzzle:
        """Return the question that a message asks: the longest that stands in it."""
        return max((each for each in self.questions if each.query in text), key=lambda each: len(each.query))

    def wrong(self, question: Puzzle, n: int) -> list[Id]:
        """Return `n` nodes that are no answer, the same every time."""
        others = [node.id for node in self.nodes if node.id not in question.answers]
        return random.Random(str(question.id)).sample(others, n)

    def write(self, folder: Path) -> tuple[Path, Path, Path]:
        """Write nodes, edges and questions as csv, as a user has them."""
        questions = [
            {"id": each.id, "query": each.query, "answer_ids": json.dumps(each.answers)} for each in self.questions
        ]
        tables: Mapping[str, Sequence[Mapping[str, Any]]] = {
            "nodes": [node._asdict() for node in self.nodes],
            "edges": [edge._asdict() for edge in self.edges],
            "queries": questions,
        }
        files = []
        for name, rows in tables.items():
            files.append(folder / f"{name}.csv")
            with files[-1].open("w", encoding="utf-8", newline="") as sink:
                writer = csv.DictWriter(sink, rows[0])
                writer.writeheader()
                writer.writerows(rows)
        return files[0], files[1], files[2]


class _Walker:
    """The edges by head and by tail."""

    def __init__(self, nodes: Sequence[Node], edges: Sequence[Edge]) -> None:
        self.type_of = {node.id: node.type for node in nodes}
        self.follow: dict[tuple[Id, str, str], set[Id]] = defaultdict(set)
        for head, relation, tail in edges:
            self.follow[head, relation, "out"].add(tail)
            self.follow[tail, relation, "in"].add(head)

    def step(self, node: Id, hop: Hop) -> set[Id]:
        found = self.follow.get((node, hop.relation, hop.direction), set())
        return {each for each in found if self.type_of[each] == hop.node_type}

    def on_the_way(self, topic: Id, hops: Sequence[Hop], answers: set[Id] | None = None) -> tuple[tuple[Id, ...], ...]:
        """Return the nodes of every level that lead to `answers`, to all where None; empty where none is reached."""
        levels = [{topic}]
        for hop in hops:
            levels.append({end for node in levels[-1] for end in self.step(node, hop)})
        if answers is not None:
            levels[-1] &= answers
        for level in range(len(hops) - 1, -1, -1):
            levels[level] = {node for node in levels[level] if self.step(node, hops[level]) & levels[level + 1]}
        return tuple(tuple(sorted(level)) for level in levels)  # type: ignore[type-var]


def mini_stark() -> Puzzles:
    """Return mini-stark's questions with the walks of their templates."""
    nodes = [Node(**row) for row in pq.read_table(MINI / "nodes" / "full.parquet").to_pylist()]
    edges = [Edge(**row) for row in pq.read_table(MINI / "edges" / "full.parquet").to_pylist()]
    kitchen = json.loads((ROOT / "dataset_scripts" / "mini-stark" / "kitchen.json").read_text(encoding="utf-8"))
    walker = _Walker(nodes, edges)
    ends = {(edge.relation, "out"): walker.type_of[edge.tail] for edge in edges}
    ends |= {(edge.relation, "in"): walker.type_of[edge.head] for edge in edges}
    questions = []
    for row in pq.read_table(MINI / "queries" / "test.parquet").to_pylist():
        template = kitchen["questions"][int(row["template"][1:]) - 1]
        steps = [(step.lstrip("~"), "in" if step.startswith("~") else "out") for step in template["steps"]]
        hops = tuple(Hop(*step, ends[step]) for step in steps)
        named = [node for node in nodes if node.type == template["start"] and node.name in row["query"]]
        topic = max(named, key=lambda node: len(node.name))
        way = walker.on_the_way(topic.id, hops, set(row["answer_ids"]))
        questions.append(Puzzle(row["id"], row["query"], topic, hops, way))
    return Puzzles(nodes, edges, questions)


TYPES = ("ring light", "Ørsted/größe", "型", "select")
RELATIONS = ("is in", "is in/of", "größer als", "finish", "→")
_SYLLABLES = ("ka", "lo", "mi", "tu", "re", "vas", "nor", "pel", "dri", "zum")
STRANGE = (
    "7", "007", "7.0", "-1", "-7", "0x10", "1e3", "true", "null", "NaN", "[1]", '{"id": 1}', "a b", "a/b", "a:b#c",
    "..", "'", '"', "\\", "é", "e\u0301", "ⅷ", "٣", "日本", "🦊", "<b>", "select", "x" * 300, "ID", "id", "Id",
)  # fmt: skip
"""Ids that a careless reader takes for another thing, or for one another."""
FAR = (0, 1, 10, 2**31, 2**53, 2**53 + 1, 10**18 - 1)
"""Whole numbers that are no rows; two of them are one float."""


def odd(ids: str, n_questions: int = 30, seed: int = 0, n_nodes: int = 120) -> Puzzles:
    """Return a knowledge base of no sense whose ids are `ids`: "strings" or "numbers", and questions about it.

    It has names that several nodes have, nodes without name, text or edge, edges to themselves, several relations of
    one pair, and a hub with more neighbours than a call may show; its types and relations are called as tools are.
    """
    draw = random.Random(f"{ids} {seed}")
    some: list[Id]
    if ids == "strings":
        some = [*STRANGE, *(f"n-{draw.randrange(10**9)}" for _ in range(n_nodes - len(STRANGE)))]
    else:
        some = [*FAR, *draw.sample(range(1_000, 10**9), n_nodes - len(FAR))]
    draw.shuffle(some)
    names = draw.sample(sorted({"".join(draw.choices(_SYLLABLES, k=4)) for _ in range(9 * n_nodes)}), n_nodes)
    nodes = [
        Node(each, draw.choice(TYPES), _name(name, draw), _text(draw)) for each, name in zip(some, names, strict=True)
    ]
    for place in range(0, n_nodes - 1, 10):
        nodes[place] = nodes[place]._replace(name="The Same", text="")
        nodes[place + 1] = nodes[place + 1]._replace(name="", text=nodes[place + 1].text if place % 20 else "")
    alone = {nodes[3].id, nodes[7].id}
    joined = [node.id for node in nodes if node.id not in alone]
    hub = next(node for node in nodes[2:] if node.name not in ("", "The Same") and node.id not in alone)
    edges = [Edge(hub.id, RELATIONS[0], each) for each in joined]
    edges += [Edge(draw.choice(joined), draw.choice(RELATIONS), draw.choice(joined)) for _ in range(3 * n_nodes)]
    edges += [edge._replace(relation=draw.choice(RELATIONS)) for edge in draw.sample(edges, n_nodes // 2)]
    return Puzzles(nodes, edges, _questions(nodes, edges, n_questions, draw))


def _name(word: str, draw: random.Random) -> str:
    return draw.choice(("{}", '{} "{}"', "<{}>", "{}\u00a0Ω", "{}/{}", "L'{}", "{} 🦊")).format(word.capitalize(), word)


def _text(draw: random.Random) -> str:
    words = ["".join(draw.choices(_SYLLABLES, k=2)) for _ in range(draw.choice((0, 3, 30, 120)))]
    return draw.choice(("{}", "{}\n\n{}", "\t{}\x07", "{}🦊" * 2)).format(" ".join(words), "x" * 400)


def _questions(nodes: Sequence[Node], edges: Sequence[Edge], n: int, draw: random.Random) -> list[Puzzle]:
    """Ask for what 1 to 3 random hops from a node with a name of its own reach, where few enough nodes do."""
    walker = _Walker(nodes, edges)
    named = [node for node in nodes if node.name not in ("", "The Same")]
    found: list[Puzzle] = []
    while len(found) < n:
        topic = draw.choice(named)
        hops = [
            Hop(draw.choice(RELATIONS), draw.choice(("out", "in")), draw.choice(TYPES))
            for _ in range(1 + len(found) % 3)
        ]
        way = walker.on_the_way(topic.id, hops)
        if way[-1] and max(map(len, way)) <= 8 and topic.id not in way[-1] and _shown(walker, way, hops):
            walk = ", ".join(f"{hop.relation} {hop.direction} {hop.node_type}" for hop in hops)
            query = f"Question {len(found)}: from {topic.name}, {walk}?"
            found.append(Puzzle(len(found), query, topic, tuple(hops), way))
    return found


def _shown(walker: _Walker, way: Sequence[Sequence[Id]], hops: Sequence[Hop]) -> bool:
    """Whether each step of the walk can be seen whole."""
    return all(len(walker.step(node, hop)) <= 50 for level, hop in zip(way, hops, strict=False) for node in level)
