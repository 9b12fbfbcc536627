import csv
import itertools
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks.stark.benchmark import METAPATHS
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.plans import Plan, execute

NAMES = [(base, name) for base, templates in METAPATHS.items() for name in templates]
PER_TYPE = 5


def hops(chain: str) -> list[tuple[str, str]]:
    """Return [(node, arrow after it)] of a chain, by another road than the package's: cut at every bracket."""
    return re.findall(r"([\w/][\w/ :]*?) (-\[.*?\]->|<-\[.*?\]-|$)", chain.strip() + " ")


@pytest.fixture(scope="module")
def bases() -> dict[str, KnowledgeBase]:
    """A random knowledge base for each, in which every relation of its templates joins the types they join."""
    rng, found = np.random.default_rng(0), {}
    for base, templates in METAPATHS.items():
        joined = set()
        for text in templates.values():
            for chain in text.split("&"):
                steps = [(re.sub(r"^any |:\d+$", "", node), arrow) for node, arrow in hops(chain)]
                for (left, arrow), (right, _) in itertools.pairwise(steps):
                    relation = re.sub(r"[-<>\[\]!]*(?=[\w^ ])", "", arrow, count=1).rstrip("->]").strip()
                    ends = (left, right) if arrow.startswith("-") else (right, left)
                    ends = ends[::-1] if "^" in arrow else ends
                    joined.add((ends[0], relation.removeprefix("^"), ends[1]))
        types = sorted({end for head, _, tail in joined for end in (head, tail)})
        ids = [f"{kind}#{i}" for kind in types for i in range(PER_TYPE)]
        edges = [
            (f"{head}#{i}", relation, f"{tail}#{j}")
            for head, relation, tail in sorted(joined)
            for i, j in itertools.product(range(PER_TYPE), repeat=2)
            if rng.random() < (0.2 if relation == "indication" else 0.5)
        ]
        if base == "prime":  # every relation of Prime stands in both directions
            edges += [(tail, relation, head) for head, relation, tail in edges]
        nodes = pa.table({"id": ids, "type": [one.split("#")[0] for one in ids], "name": ids, "text": [""] * len(ids)})
        heads, relations, tails = zip(*edges, strict=True)
        found[base] = KnowledgeBase.from_arrow(nodes, pa.table({"head": heads, "relation": relations, "tail": tails}))
    return found


def holds(
    edges: set[tuple[str, str, str]],
    nodes: list[str],
    steps: list[tuple[str, str]],
    path_end: str,
    topics: dict[str, str],
) -> bool:
    """Whether the steps lead from their topic to `path_end`, tried for every assignment of nodes between."""
    kinds = [re.sub(r"^any |:\d+$", "", node) for node, _ in steps]
    arrows = [arrow for _, arrow in steps[:-1]]

    def of(kind: str) -> list[str]:
        return [node for node in nodes if node.split("#")[0] == kind]

    def stands(left: str, arrow: str, right: str) -> bool:
        relation = arrow.strip("-<>[]").lstrip("!")
        edge = (right, relation[1:], left) if relation.startswith("^") else (left, relation, right)
        return edge in edges

    if len(arrows) == 1 and "[!" in arrows[0]:
        starts = of(kinds[0]) if steps[0][0].startswith("any ") else [topics[steps[0][0]]]
        return not any(stands(start, arrows[0], path_end) for start in starts)
    for between in itertools.product(*(of(kind) for kind in kinds[1:-1])):
        path = [topics[steps[0][0]], *between, path_end]
        if all(stands(path[i], arrows[i], path[i + 1]) for i in range(len(arrows))):
            return True
    return False


@pytest.mark.parametrize(("base", "name"), NAMES)
def test_each_template_answers_as_its_text_says(bases: dict[str, KnowledgeBase], base: str, name: str) -> None:
    kb, template = bases[base], Metapath.parse(METAPATHS[base][name])
    nodes = kb.ids()
    edges = {
        (nodes[h], kb.graph.relations[r], nodes[t])
        for h, r, t in zip(*(kb.edges[c].to_pylist() for c in ("head", "relation", "tail")), strict=True)
    }
    walks = []
    for chain in template.text.split("&"):
        steps = hops(chain)
        turn = next((i for i, (_, arrow) in enumerate(steps) if not arrow.startswith("-")), len(steps) - 1)
        left = steps[: turn + 1]
        ends = [node for node, _ in steps][turn:][::-1]
        arrows = [arrow for _, arrow in steps[turn:-1]][::-1]
        right = list(zip(ends, [*arrows, ""], strict=True))
        walks += [walk for walk in (left, right) if len(walk) > 1]
    n_answers = 0
    for entities in itertools.product(range(PER_TYPE), repeat=len(template.topics)):
        topics = {
            topic: f"{re.sub(r':[0-9]+$', '', topic)}#{i}" for topic, i in zip(template.topics, entities, strict=True)
        }
        expected = [
            node
            for node in nodes
            if node.split("#")[0] == template.answer_type
            and node not in topics.values()
            and all(holds(edges, nodes, walk, node, topics) for walk in walks)
        ]
        found = template.answers(kb.graph, *kb.rows(topics.values()).tolist())
        assert kb.ids(found) == expected
        plan = Plan.of(template, list(topics.values()))  # a node's name is its id here
        assert kb.ids(execute(plan, kb).rows) == expected
        assert Plan.parse(str(plan)) == Plan.parse(plan.json) == plan
        n_answers += len(expected)
    assert n_answers > 0


def test_there_are_as_many_templates_as_in_the_paper() -> None:
    assert {base: len(templates) for base, templates in METAPATHS.items()} == {"prime": 28, "mag": 7, "amazon": 10}


def test_two_hops_on_the_real_slice_are_those_of_a_join_of_its_lines(shared: Path) -> None:
    folder = shared / "data/stark/prime/ibd_subgraph"
    kb = KnowledgeBase.from_tables(folder / "nodes.csv", folder / "edges.csv")
    joined = defaultdict(set)
    with (folder / "edges.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            joined[int(row["head"]), row["relation"]].add((row["tail_type"], int(row["tail"])))
    asked = 0
    for name in (
        "drugs_with_common_carrier", "drugs_targeting_genes_of_function", "processes_sharing_genes",
        "components_of_targets_of", "drugs_carried_by_genes_of_component",
    ):  # fmt: skip
        template = Metapath.parse(METAPATHS["prime"][name])
        (walk,) = template.walks
        first, second = walk.hops
        for topic in kb.of_type(walk.start_type)[::10].tolist():
            start = kb.ids([topic])[0]
            between = {one for kind, one in joined[start, first.relation] if kind == first.node_type}
            ends = {one for node in between for one in joined[node, second.relation]}
            expected = sorted(one for kind, one in ends if kind == second.node_type and one != start)
            assert sorted(kb.ids(template.answers(kb.graph, topic))) == expected
            asked += bool(expected)
    assert asked > 100
