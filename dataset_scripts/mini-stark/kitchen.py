"""The invented kitchen of mini-stark, from the words in kitchen.json: its people, places and dishes, and questions.

What a dish is made with and who made it are relations only, never words in its text; how it tastes and when it is eaten
is text only. A question asks for both, as STaRK's do, and says the second in other words.
"""

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

SEED = 2026
WORDS = json.loads((Path(__file__).parent / "kitchen.json").read_text(encoding="utf-8"))
TYPES = ("town", "ingredient", "technique", "festival", "cook", "cookbook", "dish")
RELATIONS = [
    ("dish", "made with", "ingredient", 2, 4),
    ("dish", "prepared by", "technique", 1, 1),
    ("dish", "created by", "cook", 1, 1),
    ("dish", "served at", "festival", 0, 2),
    ("cook", "lives in", "town", 1, 1),
    ("cook", "apprenticed to", "cook", 0, 1),
    ("festival", "held in", "town", 1, 2),
    ("cookbook", "contains", "dish", 8, 16),
    ("cookbook", "written by", "cook", 1, 1),
    ("ingredient", "grown near", "town", 1, 2),
]
"""Head type, relation, tail type, and how many tails a head has at least and at most."""
QUESTIONS_PER_TEMPLATE = 9
MOST_ANSWERS = 12

Row = dict[str, str]


class Kitchen(NamedTuple):
    """The three tables of the knowledge base."""

    nodes: list[Row]
    edges: list[Row]
    queries: list[Row]


def kitchen() -> Kitchen:
    """Return the tables, the same every time."""
    draw = random.Random(SEED)
    nodes = [
        {"id": "", "type": kind, "name": name, "text": _dish_text(draw) if kind == "dish" else WORDS[kind][name]}
        for kind in TYPES
        for name in WORDS[kind]
    ]
    for number, node in enumerate(nodes):
        node["id"] = str(number)
    edges = []
    for head_type, relation, tail_type, low, high in RELATIONS:
        tails = [node["id"] for node in nodes if node["type"] == tail_type]
        for head in (node["id"] for node in nodes if node["type"] == head_type):
            for tail in draw.sample([each for each in tails if each != head], draw.randint(low, high)):
                edges.append({"head": head, "relation": relation, "tail": tail})
    return Kitchen(nodes, edges, _queries(nodes, edges, draw))


def _dish_text(draw: random.Random) -> str:
    properties = WORDS["properties"]
    sentences = [properties[key]["text"] for key in draw.sample(list(properties), draw.randint(2, 3))]
    sentences += draw.sample(WORDS["fillers"], 2)
    draw.shuffle(sentences)
    return " ".join(sentences)


def _queries(nodes: list[Row], edges: list[Row], draw: random.Random) -> list[Row]:
    """Ask every kind of question of several nodes; the steps of a kind with `~` go from tail to head."""
    follow: dict[tuple[str, str], set[str]] = defaultdict(set)
    for edge in edges:
        follow[edge["head"], edge["relation"]].add(edge["tail"])
        follow[edge["tail"], f"~{edge['relation']}"].add(edge["head"])
    queries: list[Row] = []
    for number, question in enumerate(WORDS["questions"], start=1):
        starts = [node for node in nodes if node["type"] == question["start"]]
        draw.shuffle(starts)
        asked: list[tuple[str, set[str]]] = []
        for start in starts:
            reached = {start["id"]}
            for step in question["steps"]:
                reached = {end for each in reached for end in follow[each, step]}
            words = question["words"][len(asked) % len(question["words"])]
            asked += _ask(words, start["name"], reached, nodes, draw)
            if len(asked) == QUESTIONS_PER_TEMPLATE:
                break
        for query, answers in asked:
            answer_ids = json.dumps(sorted(map(int, answers)))
            queries.append(
                {"id": str(len(queries)), "query": query, "answer_ids": answer_ids, "template": f"T{number}"}
            )
    return queries


def _ask(words: str, name: str, reached: set[str], nodes: list[Row], draw: random.Random) -> list[tuple[str, set[str]]]:
    """Return the question and its answers, or nothing where too few or too many nodes answer it."""
    phrase = ""
    if "{p}" in words:
        fitting: list[tuple[Any, set[str]]] = []
        for each in WORDS["properties"].values():
            answers = {node for node in reached if each["text"] in nodes[int(node)]["text"]}
            if 1 <= len(answers) <= 5:
                fitting.append((each, answers))
        if not fitting:
            return []
        chosen, reached = draw.choice(fitting)
        phrase = draw.choice(chosen["asked"])
    return [(words.format(x=name, p=phrase), reached)] if 1 <= len(reached) <= MOST_ANSWERS else []
