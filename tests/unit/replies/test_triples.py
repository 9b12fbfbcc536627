"""Triples in the forms that models write: several in a line, graphs with ids, odd names, flags and broken JSON."""

import json

import pytest

from kbbench_hf.replies.reading import ParseError, Triple
from kbbench_hf.replies.triples import read_triples

RELATIONS = ["captain", "home port", "built by", "country"]
SENTENCE = "The Petrel of Hallan Quay is captained by Ines Calder. The Saint Oda was built by Brothers Aske in Germany."
CAPTAIN, PORT = ("Petrel", "captain", "Ines Calder"), ("Petrel", "home port", "Hallan Quay")
YARD, LAND = ("Saint Oda", "built by", "Brothers Aske"), ("Saint Oda", "country", "Germany")


def read(reply: str, relations: list[str] = RELATIONS) -> list[Triple]:
    return [(s, r.lower().replace("_", " "), o) for s, r, o in read_triples(reply, SENTENCE, relations).answer]


@pytest.mark.parametrize("form", [
    "({}, {}, {})", "({}; {}; {})", "({} | {} | {})", "<{}, {}, {}>", "[{}, {}, {}]", "⟨{}, {}, {}⟩",
    '("{}", "{}", "{}")',
    "{} → {} → {}", "({} -> {} -> {})", "{} --{}--> {}", "({})-[{}]->({})", "{} | {} | {}", "{} - {} - {}",
    "<{}> <{}> <{}>", "“{}” “{}” “{}”",
])  # fmt: skip
@pytest.mark.parametrize("between", ["; ", ", ", " and ", ", and ", " ∧ ", "  ", ". "])
def test_several_triples_in_a_line_are_several(form: str, between: str) -> None:
    for triples in ([CAPTAIN, PORT], [CAPTAIN, PORT, YARD], [CAPTAIN, PORT, YARD, LAND]):  # three of three is the trap
        line = between.join(form.format(*triple) for triple in triples)
        for text in (line, f"Triples: {line}"):
            for relations in (RELATIONS, []):
                try:
                    assert read(text, relations) == triples, text
                except ParseError:  # where a full stop or a dash could belong to a name
                    assert between == ". " or form.startswith("{} -")


@pytest.mark.parametrize(
    "line",
    [
        "1. (Petrel, captain, Ines Calder) 2. (Petrel, home port, Hallan Quay)",
        "1) Petrel, captain, Ines Calder; 2) Petrel, home port, Hallan Quay",
        "The triples are (Petrel, captain, Ines Calder) and (Petrel, home port, Hallan Quay).",
        "captain(Petrel, Ines Calder) ∧ home_port(Petrel, Hallan Quay)",
        "captain(Petrel, Ines Calder) and home_port(Petrel, Hallan Quay)",
        "[(Petrel, captain, Ines Calder), (Petrel, home port, Hallan Quay)]",
        "<triplet> Petrel <subj> Ines Calder <obj> captain <subj> Hallan Quay <obj> home port",
    ],
)
def test_numbers_words_and_signs_join_triples_in_a_line(line: str) -> None:
    assert read(line) == [CAPTAIN, PORT]


def graph(nodes: object, edges: object, held: str = "nodes", linked: str = "relationships") -> str:
    return json.dumps({held: nodes, linked: edges})


NAMED = [{"id": "n1", "label": "Ship", "properties": {"name": "Petrel"}},
         {"id": "n2", "label": "Person", "properties": {"title": "Captain", "name": "Ines Calder"}}]  # fmt: skip
EDGE = [{"source": "n1", "target": "n2", "type": "captain"}]


@pytest.mark.parametrize(
    "reply",
    [
        graph(NAMED, EDGE),
        graph(NAMED, [{"start_node_id": "n1", "end_node_id": "n2", "type": "captain", "properties": {}}]),
        graph(NAMED, [{"source": {"id": "n1"}, "target": {"id": "n2"}, "type": "captain"}]),
        graph([{"id": 0, "name": "Petrel"}, {"id": 1, "name": "Ines Calder"}],
              [{"relation": "captain", "source": 0, "target": 1}], linked="links"),
        graph([{"id": 1, "label": "Petrel"}, {"id": 2, "label": "Ines Calder"}],
              [{"from": 1, "to": 2, "label": "captain"}], linked="edges"),
        graph({"e1": "Petrel", "e2": {"name": "Ines Calder"}}, [["e1", "captain", "e2"]], "entities", "triples"),
        graph([{"id": "Petrel", "type": "Ship"}, {"id": "Ines Calder", "type": "Person"}],
              [{"source_node_id": "Petrel", "target_node_id": "Ines Calder", "type": "captain"}]),
        '{"relationships": [{"startNode": "Petrel", "endNode": "Ines Calder", "name": "captain"}]}',
        '[{"subject": {"type": "SHIP", "name": "Petrel"}, "relation": {"type": "captain"}, "object": "Ines Calder"}]',
        "CREATE (p:Ship {id: 's1', name: 'Petrel', built: 1904}), (i:Person {born: 'Fenn', name: \"Ines Calder\"})\n"
        "CREATE (p)-[:CAPTAIN {since: 1999}]->(i)",
        "MERGE (i:Person {id: 'p1', name: 'Ines Calder'})<-[:CAPTAIN]-(p:Ship {id: 's1', name: 'Petrel'})",
        "CREATE (p:Ship)\nSET p.name = 'Petrel'\nCREATE (i:Person {name: 'Ines Calder'})\nCREATE (p)-[:captain]->(i)",
        "graph TD\n  A[Petrel] -->|captain| B[Ines Calder]",
        'digraph {\n  n1 [label="Petrel"];\n  n1 -> n2 [label="captain"];\n  n2 [label="Ines Calder"];\n}',
        'ex:s1 rdfs:label "Petrel" ;\n  ex:captain ex:p1 .\nex:p1 rdfs:label "Ines Calder" .',
        "nodes:\n  - id: n1\n    name: Petrel\n  - id: n2\n    name: Ines Calder\n"
        "edges:\n  - source: n1\n    target: n2\n    relation: captain",
        "E1: Petrel\nE2: Ines Calder\n\n(E1, captain, E2)",
    ],
)  # fmt: skip
def test_ids_of_nodes_are_resolved_to_names(reply: str) -> None:
    assert read(reply) == [CAPTAIN]


@pytest.mark.parametrize(
    "reply",
    [
        graph(NAMED[:1], EDGE),
        graph([{"id": "n1", "label": "Ship"}, {"id": "n2", "label": "Person"}], EDGE),
        graph([], EDGE),
        "CREATE (petrel:Ship), (ines:Person)\nCREATE (petrel)-[:CAPTAIN]->(ines)",
        "MERGE (a)-[:CAPTAIN]->(b)",
        "graph LR\n  A -->|captain| B",
        '_:b0 ex:captain _:b1 .',
        '[["n1", "captain", "n2"]]',
    ],
)  # fmt: skip
def test_ids_without_names_are_refused(reply: str) -> None:
    with pytest.raises(ParseError, match="ids"):
        read(reply)
