"""The tools against the lists of nodes and edges that a knowledge base was made from, whatever its ids are."""

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.agents.tool_schemas import ERRORS, TOOLS
from kbbench_hf.agents.tools import AgentTools
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.bm25 import BM25
from tests.puzzles import RELATIONS, TYPES, Id, Puzzles, mini_stark, odd

KNOWN = {"strings": odd("strings"), "numbers": odd("numbers"), "mini": mini_stark()}


def tools_of(puzzles: Puzzles) -> AgentTools:
    nodes, edges = ([row._asdict() for row in rows] for rows in (puzzles.nodes, puzzles.edges))
    kb = KnowledgeBase.from_arrow(pa.Table.from_pylist(nodes), pa.Table.from_pylist(edges))
    return AgentTools(kb, BM25([f"{node.name} {node.text}" for node in puzzles.nodes]))


TOOLS_OF = {name: tools_of(puzzles) for name, puzzles in KNOWN.items()}


def expected(puzzles: Puzzles, node: Id, **asked: str) -> dict[Id, dict[str, str]]:
    """Return the neighbours of a node with their relations, by going through all edges."""
    found: dict[Id, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for edge in puzzles.edges:
        for side, here, there in (("out", edge.head, edge.tail), ("in", edge.tail, edge.head)):
            if here == node and asked.get("direction", "both") in (side, "both"):
                found[there][edge.relation].add(side)
    type_of = {each.id: each.type for each in puzzles.nodes}
    return {
        each: {relation: "both" if len(sides) == 2 else sides.pop() for relation, sides in relations.items()}
        for each, relations in found.items()
        if asked.get("node_type") in (None, type_of[each])
        for relations in [{name: s for name, s in relations.items() if asked.get("relation") in (None, name)}]
        if relations
    }


FILTERS: list[dict[str, str]] = [
    {},
    *({"direction": each} for each in ("in", "out", "both")),
    *({"relation": each} for each in RELATIONS),
    *({"node_type": each} for each in TYPES),
    *(
        {"relation": relation, "direction": direction, "node_type": node_type}
        for relation, direction, node_type in itertools.product(RELATIONS[:2], ("in", "out", "both"), TYPES[:2])
    ),
]


@pytest.mark.parametrize("name", ["strings", "numbers"])
def test_neighbors_are_those_of_the_lists_by_id_whatever_filters_are_used(name: str) -> None:
    puzzles, tools = KNOWN[name], TOOLS_OF[name]
    for place, node in enumerate(puzzles.nodes):
        for asked in FILTERS[place % 3 :: 3]:
            wanted = expected(puzzles, node.id, **asked)
            result = tools.question().call("neighbors", {"node_id": node.id, "limit": 50, **asked}).result
            found = {each["id"]: each["relations"] for each in result["nodes"]}
            order = sorted(wanted)[:50]  # type: ignore[type-var]
            assert result["total"] == len(wanted), (node.id, asked)
            assert list(found) == order, (node.id, asked)
            assert found == {each: wanted[each] for each in order}, (node.id, asked)


@pytest.mark.parametrize("name", KNOWN)
def test_every_page_is_a_beginning_of_the_whole_and_says_how_much_there_is(name: str) -> None:
    tools, chance = TOOLS_OF[name], random.Random(1)
    for node in chance.sample(list(KNOWN[name].nodes), 10):
        for call in ({"node_id": node.id}, {"node_id": node.id, "query": f"{node.name} {node.text[:50]}"}):
            whole = tools.question().call("neighbors", {**call, "limit": 50}).result
            for limit in (1, 7, 20):
                page = tools.question().call("neighbors", {**call, "limit": limit}).result
                assert page == {"nodes": whole["nodes"][:limit], "total": whole["total"]}


@pytest.mark.parametrize("name", KNOWN)
def test_ids_are_taken_as_they_are_given_back_and_as_digits_where_they_are_numbers(name: str) -> None:
    tools, puzzles = TOOLS_OF[name], KNOWN[name]
    for node in puzzles.nodes:
        question = tools.question()
        assert question.call("select", {"node_ids": [node.id]}).result == {"selected": 1, "ignored": []}
        back = json.loads(json.dumps(question.selected))
        assert back == [node.id] and type(back[0]) is type(node.id)
        assert question.call("neighbors", {"node_id": node.id}).error is None
        if isinstance(node.id, int):
            assert question.call("select", {"node_ids": [str(node.id), node.id]}).result["selected"] == 1
        for stranger in (float("nan"), 1.0, True, None, [node.id], {"id": node.id}, f"{node.id} .", f"x{node.id}"):
            outcome = question.call("select", {"node_ids": [stranger]})
            assert outcome.result["selected"] == 1 and len(outcome.result["ignored"]) == 1, stranger
    strings = name == "strings"
    assert (tools.question().call("select", {"node_ids": [10]}).result["selected"] == 0) is strings


@pytest.mark.parametrize("name", KNOWN)
def test_a_search_shows_what_shares_a_word_best_first_and_of_a_type_the_same_in_order(name: str) -> None:
    tools, puzzles = TOOLS_OF[name], KNOWN[name]
    text_of = {node.id: f"{node.name} {node.text}".casefold() for node in puzzles.nodes}
    type_of = {node.id: node.type for node in puzzles.nodes}
    for node in puzzles.nodes[2:40]:
        word = next((each for each in node.name.casefold().replace("/", " ").split() if each.isalpha()), None)
        if word is None or len(word) < 5:
            continue
        result = tools.question().call("search_nodes", {"query": word, "limit": 20}).result
        shown = [each["id"] for each in result["nodes"]]
        assert shown and all(word in text_of[each] for each in shown) and result["total"] >= len(shown)
        if result["total"] <= 20:
            typed = tools.question().call("search_nodes", {"query": word, "limit": 20, "node_type": node.type})
            assert list(typed.shown) == [each for each in shown if type_of[each] == node.type]
    assert tools.question().call("search_nodes", {"query": "qqqqqqq zzzzzzz"}).result == {"nodes": [], "total": 0}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**4000, "\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
ARGUMENTS = sorted({name for tool in TOOLS for name in tool.properties})
IDS = st.sampled_from([each.id for puzzles in KNOWN.values() for each in puzzles.nodes])


@settings(max_examples=300)
@given(
    name=st.sampled_from([*KNOWN]),
    tool=st.sampled_from([tool.name for tool in TOOLS]) | st.text(),
    arguments=ANYTHING | st.dictionaries(st.sampled_from(ARGUMENTS), ANYTHING | IDS | st.lists(IDS), max_size=5),
)
def test_whatever_is_called_is_answered_on_one_short_line(name: str, tool: str, arguments: object) -> None:
    question = TOOLS_OF[name].question()
    outcome = question.call(tool, arguments)
    _check(outcome.text, outcome.error)
    assert len(outcome.shown) == len(outcome.result.get("nodes", ()))
    assert set(question.selected) <= {node.id for node in KNOWN[name].nodes}


def _check(text: str, error: str | None) -> None:
    assert len(text.splitlines()) == 1 and len(text.encode()) < 100_000
    result: Mapping[str, Any] = json.loads(text)
    assert (error is None) == ("error" not in result) and (error is None or error in ERRORS)


@pytest.mark.parametrize(
    "arguments",
    [
        {"node_ids": ["x" * 10**6] * 50},
        {"node_ids": ["\ud800", "\x00", "\u2028", 10**5000]},
        {"node_ids": [[[]] * 10**4]},
        {"query": "word " * 10**6, "node_type": "y" * 10**6},
        {"node_id": "z" * 10**6},
        {"node_id": 10**5000, "limit": 10**5000},
        {"limit": "9" * 10**4},
        {"x" * 10**6: 1},
    ],
)
def test_what_is_called_at_any_length_is_answered_shortly(arguments: dict[str, Any]) -> None:
    for name, tool in itertools.product(KNOWN, TOOLS):
        outcome = TOOLS_OF[name].question().call(tool.name, arguments)
        assert len(outcome.text) < 10_000
        _check(outcome.text, outcome.error)
    assert len(TOOLS_OF["mini"].question().call("x" * 10**6, arguments).text) < 1_000


@pytest.mark.parametrize("name", ["strings", "numbers"])
def test_snippets_are_the_beginning_of_a_text_cut_at_a_word_and_hold_nothing_that_steers(name: str) -> None:
    texts = {node.id: " ".join(node.text.replace("\x07", " ").split()) for node in KNOWN[name].nodes}
    shown: dict[Id, str] = {}
    for node in KNOWN[name].nodes:
        result = TOOLS_OF[name].question().call("neighbors", {"node_id": node.id, "limit": 50}).result
        shown |= {each["id"]: each["snippet"] for each in result["nodes"]}
    assert len(shown) > 100
    for node_id, snippet in shown.items():
        assert len(snippet) <= 300 and all(each.isprintable() for each in snippet)
        begun = snippet.removesuffix("…")
        assert texts[node_id].startswith(begun)
        assert begun == texts[node_id] or texts[node_id][len(begun)] == " " or " " not in texts[node_id][:290]


def test_a_snippet_holds_what_stands_in_details_and_further_columns_records_or_not() -> None:
    nodes = pa.table(
        {
            "id": ["g", "h"],
            "type": ["gene", "gene"],
            "name": ["PHYHIP", ""],
            "text": ["", "A text."],
            "details": ['{"name": "PHYHIP", "details": {"summary": "Interacts with a hydroxylase."}}', "no record"],
            "year": [1999, None],
        }
    )
    edges = pa.table({"head": ["g"], "relation": ["ppi"], "tail": ["h"]})
    kb = KnowledgeBase.from_arrow(nodes, edges)
    question = AgentTools(kb, BM25(["one", "one"])).question()
    shown = question.call("search_nodes", {"query": "one"}).result["nodes"]
    assert [each["snippet"] for each in shown] == [
        "year: 1999 summary: Interacts with a hydroxylase.",
        "A text. details: no record",
    ]
