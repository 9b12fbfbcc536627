"""Questions made for a knowledge base, against a reading of the metapath notation over sets of rows."""

import json
import re
from itertools import combinations
from typing import Any

import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.own_kb.construction.dataset import build_questions
from kbbench_hf.benchmarks.own_kb.construction.spec import Spec
from kbbench_hf.files.datasets import DatasetFolder

Row = dict[str, Any]


def read_walk(arrows: str, topics: dict[str, Any], nodes: dict[Any, Row], edges: list[Row]) -> set[Any]:
    """Follow `start -[r]-> type -[r]-> type` from the topic of that label."""
    start, *steps = re.split(r" -\[(.*?)\]-> ", arrows)
    here = {topics[start]}
    for relation, kind in zip(steps[::2], steps[1::2], strict=True):
        back, negated = "^" in relation, relation.startswith("!")
        name, one, other = relation.strip("!^"), *(("tail", "head") if back else ("head", "tail"))
        found = {e[other] for e in edges if e["relation"] == name and e[one] in here}
        of_type = {node for node, row in nodes.items() if row["type"] == kind}
        here = of_type - found if negated else of_type & found
    return here


def read_metapath(text: str, topic_ids: list[Any], nodes: dict[Any, Row], edges: list[Row]) -> set[Any]:
    """Return the answers of a metapath without the topics, by sets."""
    walks = []
    for chain in text.split(" & "):
        parts = re.split(r" <-\[(.*?)\]- ", chain)
        walks.append(parts[0])
        if len(parts) > 1:
            answer = re.split(r"\]-> ", parts[0])[-1]
            walks.append(f"{parts[2]} -[{parts[1]}]-> {answer}")
    labels = list(dict.fromkeys(walk.split(" -[")[0] for walk in walks))
    topics = dict(zip(labels, topic_ids, strict=True))
    return set.intersection(*(read_walk(walk, topics, nodes, edges) for walk in walks)) - set(topic_ids)


def holds(row: Row, requirement: Row) -> bool:
    if requirement["kind"] == "phrase":
        words = re.findall(r"[^\W_]+", row["text"].lower())
        wanted = requirement["value"].split()
        return any(words[n : n + len(wanted)] == wanted for n in range(len(words)))
    value = row[requirement["field"]]
    if value is None:
        return False
    return (
        {"=": value == requirement["value"]}.get(requirement["op"])
        or (requirement["op"] == "<=" and value <= requirement["value"])
        or (requirement["op"] == ">=" and value >= requirement["value"])
    )


def check(folder: DatasetFolder) -> list[Row]:
    """Recompute every answer set of a dataset; return its questions."""
    nodes = {row["id"]: row for row in folder.rows("nodes", "full")}
    edges = folder.rows("edges", "full")
    rows = [{**row, "split": split} for split in folder.configs()["queries"] for row in folder.rows("queries", split)]
    for row in rows:
        candidates = read_metapath(row["template"], row["topic_ids"], nodes, edges)
        requirements = json.loads(row["requirements"])
        answers = {each for each in candidates if all(holds(nodes[each], one) for one in requirements)}
        assert len(candidates) == row["n_candidates"], row
        assert answers == set(row["answer_ids"]), row
        assert row["answer_ids"] == sorted(row["answer_ids"])
        assert row["gold_id"] in answers
        assert 1 <= len(answers) <= 20
        rest = row["query"]
        for topic in sorted((nodes[each]["name"] for each in row["topic_ids"]), key=len, reverse=True):
            assert topic in row["query"], row
            rest = rest.replace(topic, "|")
        for each in answers:
            assert not re.search(rf"(?<!\w){re.escape(nodes[each]['name'].lower())}(?!\w)", rest.lower()), row
        assert not re.search(r"[_{}]|None|nan\b", rest), row
    for one, other in combinations(rows, 2):
        assert one["query"].casefold() != other["query"].casefold()
        same_answers = one["answer_ids"] == other["answer_ids"]
        same_topics = set(one["topic_ids"]) == set(other["topic_ids"])
        assert not (same_answers and same_topics), (one, other)
        assert one["split"] == other["split"] or not (same_answers or same_topics), (one, other)
    return rows


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    out = tmp_path_factory.mktemp("made") / "kitchen-questions"
    folder = shipped_dataset("mini-stark")
    assert folder is not None
    build_questions(folder, "mini-stark", out, Spec(max_hops=2, max_templates=20), 60, "7", lambda: None)
    return DatasetFolder(out)


def test_every_answer_set_is_what_the_tables_say(kitchen: DatasetFolder) -> None:
    assert len(check(kitchen)) == 60


def test_questions_have_the_columns_of_their_making_and_a_card(kitchen: DatasetFolder) -> None:
    row = kitchen.rows("queries", "test")[0]
    assert {"template", "hops", "topic_ids", "requirements", "gold_id", "n_candidates", "provenance"} <= row.keys()
    assert json.loads(row["provenance"])["seed"] == "7"
    assert "synthetic" in (kitchen.path / "README.md").read_text(encoding="utf-8")
