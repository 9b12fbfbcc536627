"""Triples in the forms that models write: several in a line, graphs with ids, odd names, flags and broken JSON."""

import json

import pytest

from kbbench_hf.parsing.lenient_json import Value, extract_json
from kbbench_hf.parsing.line_triples import parse_line
from kbbench_hf.parsing.parsed_reply import ParseError, Triple
from kbbench_hf.parsing.triples import parse_triples

RELATIONS = ["captain", "home port", "built by", "country"]
SENTENCE = "The Petrel of Hallan Quay is captained by Ines Calder. The Saint Oda was built by Brothers Aske in Germany."
CAPTAIN, PORT = ("Petrel", "captain", "Ines Calder"), ("Petrel", "home port", "Hallan Quay")
YARD, LAND = ("Saint Oda", "built by", "Brothers Aske"), ("Saint Oda", "country", "Germany")


def read(reply: str, relations: list[str] = RELATIONS) -> list[Triple]:
    return [(s, r.lower().replace("_", " "), o) for s, r, o in parse_triples(reply, SENTENCE, relations).answer]


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
        "relation<|#|>Petrel<|#|>Ines Calder<|#|>captain<|#|>She leads.\n"
        "relation<|#|>Petrel<|#|>Hallan Quay<|#|>home port<|#|>It lies there.<|COMPLETE|>",
        '("relationship"<|>"Petrel"<|>"Ines Calder"<|>"She leads."<|>"captain"<|>9)##'
        '("relationship"<|>"Petrel"<|>"Hallan Quay"<|>"It lies there."<|>"home port"<|>7)<|COMPLETE|>',
    ],
)
def test_numbers_words_and_signs_join_triples_in_a_line(line: str) -> None:
    assert read(line) == [CAPTAIN, PORT]


@pytest.mark.parametrize(
    "texts", ["Ines Calder is captain of the Petrel<|>9", "She leads the crew.<|>leadership, crew<|>9"]
)
def test_records_without_one_relation_are_refused(texts: str) -> None:
    with pytest.raises(ParseError, match="expected a relation"):
        read(f'("relationship"<|>PETREL<|>INES CALDER<|>{texts})<|COMPLETE|>')


@pytest.mark.parametrize(
    "triple",
    [
        {"head_text": ["Petrel"], "tail_text": ["Ines", "Calder"], "label": "captain", "score": 0.9},
        {"subject": {"label": "SHIP", "text": "Petrel"}, "label": "captain", "object": {"text": "Ines Calder"}},
        {"name": "captain", "startEntity": {"name": "Petrel"}, "endEntity": {"name": "Ines Calder"}},
    ],
)
def test_members_of_glirel_relik_and_itext2kg_name_the_parts(triple: dict[str, object]) -> None:
    assert read(json.dumps({"relationships": [triple]})) == [CAPTAIN]


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
        '[{"head": {"id": "Petrel", "label": "Ship"}, "relation": "captain", '
        '"tail": {"id": "Ines Calder", "label": "Person"}}]',
        '{"relationships": [{"startNode": "Petrel", "endNode": "Ines Calder", "name": "captain"}]}',
        '[{"subject": {"type": "SHIP", "name": "Petrel"}, "relation": {"type": "captain"}, "object": "Ines Calder"}]',
        graph([{"name": "Petrel"}, {"name": "Ines Calder"}], [{"source": 0, "target": 1, "type": "captain"}]),
        graph([["e1", "Petrel"], ["e2", "Ines Calder"]], [["e1", "captain", "e2"]], "entities", "triples"),
        json.dumps({"entities": {"e1": "Petrel", "e2": "Ines Calder"}, "properties": [{"id": "P1", "label": "captain"}],
                    "triples": [["e1", "P1", "e2"]]}),
        "CREATE (p:Ship {id: 's1', name: 'Petrel', built: 1904}), (i:Person {born: 'Fenn', name: \"Ines Calder\"})\n"
        "CREATE (p)-[:CAPTAIN {since: 1999}]->(i)",
        "MERGE (i:Person {id: 'p1', name: 'Ines Calder'})<-[:CAPTAIN]-(p:Ship {id: 's1', name: 'Petrel'})",
        "CREATE (p:Ship)\nSET p.name = 'Petrel'\nCREATE (i:Person {name: 'Ines Calder'})\nCREATE (p)-[:captain]->(i)",
        'ex:s1 rdfs:label "Petrel" ;\n  ex:captain ex:p1 .\nex:p1 rdfs:label "Ines Calder" .',
        '_:b0 rdfs:label "Petrel" .\n_:b1 rdfs:label "Ines Calder" .\n_:b0 ex:captain _:b1 .',
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
        *(f"{statement}({{name: 'Petrel'}})-[:CAPTAIN]->({node})" for statement in ("MERGE ", "")
          for node in ("{age: 30}", ":Person {age: 30}", "", "{}")),
        '_:b0 ex:captain _:b1 .',
        '[["n1", "captain", "n2"]]',
    ],
)  # fmt: skip
def test_ids_without_names_are_refused(reply: str) -> None:
    with pytest.raises(ParseError, match="ids"):
        read(reply)


TABLE = "| Subject | Relation | Object |\n|---|---|---|\n| Petrel | captain | Ines Calder |\n"


@pytest.mark.parametrize(
    ("reason", "reply"),
    [
        ("brat", "T1\tShip 4 10\tPetrel\nT2\tPerson 30 41\tInes Calder\nR1\tcaptain Arg1:T1 Arg2:T2"),
        ("brat", "T1\tShip 4 10\tPetrel\nT2\tPerson 30 41\tInes Calder"),
        ("brat", "R1\tcaptain\tArg1:T1 Arg2:T2"),
        ("DOT", 'digraph {\n  n1 [label="Petrel"];\n  n1 -> n2 [label="captain"];\n  n2 [label="Ines Calder"];\n}'),
        ("DOT", 'digraph { "Petrel" -> "Ines Calder" [label="captain"]; Petrel -> Quay [label="home port"]; }'),
        ("DOT", 'a [shape=box, label="Petrel"]; b [shape=box, label="Ines Calder"]; a -> b [w=2, label="captain"]'),
        ("Mermaid", "graph TD\n  A[Petrel] -->|captain| B[Ines Calder]"),
        ("Mermaid", "graph TD\n  A[Petrel]\n  B[Ines Calder]\n  A --captain--> B"),
        ("Mermaid", "A[Petrel]-->|captain|B[Ines Calder]; A-->|home port|C[Hallan Quay];"),
        ("Mermaid", "Petrel -->|captain| Ines Calder"),
        ("Mermaid", "A[Petrel] --> B[captain] --> C[Ines Calder]"),
        ("arrows", "Ines Calder ← captain ← Petrel\nPetrel → home port → Hallan Quay"),
        ("arrows", "Ines Calder <-[captain]- Petrel\nPetrel → home port → Hallan Quay"),
        *(("ditto", f"{TABLE}| {mark} | home port | Hallan Quay |") for mark in (
            "〃", '"', "do.", "Ditto", "as above", '-"-', "(same)", "- 〃 -", "^", "同上")),
        *(("ditto", f"(Petrel, captain, Ines Calder)\n({mark}, home port, Hallan Quay)") for mark in '"〃^'),
        ("ditto", "(Petrel, captain, Ines Calder)\n('', home port, Hallan Quay)"),
        ("ditto", 'Petrel → captain → Ines Calder\n" → home port → Hallan Quay'),
        ("ditto", 'subject\trelation\tobject\nPetrel\tcaptain\tInes Calder\nditto\thome port\tHallan Quay'),
        ("ditto", '[["Petrel", "captain", "Ines Calder"], ["ditto", "home port", "Hallan Quay"]]'),
        ("one relation", '{"subject": ["Petrel", "Oda", "Plum"], "relation": ["captain", "country"], "object": "Oda"}'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("relations", [RELATIONS, []])
def test_notations_that_would_be_misread_are_refused_with_a_reason(
    reason: str, reply: str, relations: list[str]
) -> None:
    with pytest.raises(ParseError, match=reason):
        read(reply, relations)


def test_a_name_of_the_text_is_no_ditto_mark() -> None:
    assert parse_triples("(Ditto, type, Pokémon)", "Ditto is a Pokémon.").answer == [("Ditto", "type", "Pokémon")]


TEXT = (
    "1. FC Magdeburg plays in Germany. Tom Lister, Jr. was born in Compton, a town of 1,234,567. "
    "The Petrel of Hallan Quay is captained by Ines Calder."
)
CLUB = [("1. FC Magdeburg", "country", "Germany")]
MORE = [CAPTAIN, PORT]


@pytest.mark.parametrize(
    ("reply", "triples"),
    [
        # names with numbers, commas and points
        ("(1. FC Magdeburg, country, Germany)", CLUB),
        ("1. (1. FC Magdeburg, country, Germany) 2. (Petrel, captain, Ines Calder)", [*CLUB, CAPTAIN]),
        ("1. FC Magdeburg → country → Germany", CLUB),
        ("[Compton, population, 1,234,567]", [("Compton", "population", "1,234,567")]),
        ("(Compton, population, 1,234,567); (Compton, area, 12,345)",
         [("Compton", "population", "1,234,567"), ("Compton", "area", "12,345")]),
        ("(Tom_Lister,_Jr., place_of_birth, Compton)", [("Tom_Lister,_Jr.", "place of birth", "Compton")]),
        ("[Tom_Lister,_Jr., place_of_birth, Compton]", [("Tom_Lister,_Jr.", "place of birth", "Compton")]),
        # keyword arguments, third arguments, signs of logic
        ('captain(ship="Petrel", person="Ines Calder")', [CAPTAIN]),
        ('extract(head="Petrel", type="captain", tail="Ines Calder")', [CAPTAIN]),
        ('captain(subject="Petrel", object="Ines Calder"); home_port(subject="Petrel", object="Hallan Quay")', MORE),
        ("captain(Petrel, Ines Calder, confidence=0.9)", [CAPTAIN]),
        ('[["Petrel", "captain", "Ines Calder", 0.9]]', [CAPTAIN]),
        ("Petrel → captain → Ines Calder (confidence: 0.9)", [CAPTAIN]),
        ("skipper(Petrel, Ines Calder) berth(Pet", [("Petrel", "skipper", "Ines Calder")]),  # cut off
        ('captain("Petrel", "Ines Calder", "since 1999")', None),
        ("(Petrel, Ines Calder, Hallan Quay) -> captain", None),
        ("captain(Petrel, Ines Calder, 1999)", None),
        ("captain(ship, Petrel, Ines Calder)", None),
        ("The text says captain(Petrel, Ines Calder).", None),
        # arrows to the left, and of other languages
        ("Ines Calder <-[captain]- Petrel", None),
        ("Ines Calder <--captain-- Petrel", None),
        ("Ines Calder ← captain ← Petrel", None),
        ("(Ines Calder)<-[:captain]-(Petrel)", [CAPTAIN]),
        # other tables, and lists of names
        ("|---|---|---|\n| Petrel | captain | Ines Calder |", [CAPTAIN]),
        ("| Entity | Type | Note |\n|---|---|---|\n| Petrel | Ship | a boat |", None),
        ("| Relation | Domain | Range |\n|---|---|---|\n| captain | ship | person |", None),
        ("| Ship | Captain | Port |\n|---|---|---|\n| Petrel | Ines Calder | Hallan Quay |", None),
        ('["Petrel", "Ines Calder", "Hallan Quay"]', None),
        ("(Petrel, Ines Calder, Hallan Quay)", None),
        ('{"ships": ["Petrel", "Ines Calder", "Hallan Quay"]}', None),
        ('entities = ["Petrel", "Ines Calder", "Hallan Quay"]\ntriples = [["Petrel", "captain", "Ines Calder"]]',
         [CAPTAIN]),
        # broken JSON
        ('{"triples": [{"subject": "Petrel", "relation": "captain", "object": "Ines Calder"}, '
         '"subject": "Petrel", "relation": "home port", "object": "Hallan Quay"}]}', MORE),
        ('{"triples": [{"subject": "Petrel", "relation": "captain", "object": "Ines Calder", '
         '{"subject": "Petrel", "relation": "home port", "object": "Hallan Quay"}]}', MORE),
        ('{"triples": [["Petrel", "captain", "Ines Calder"], "Petrel", "home port", "Hallan Quay"]]}', MORE),
        ('{"triples": [["Petrel", "captain", "Ines Calder", ["Petrel", "home port", "Hallan Quay"]]}', MORE),
        ('{"subject": "Petrel", "relation": "captain", "object": "Ines Calder", '
         '"subject": "Petrel", "relation": "home port", "object": "Hallan Quay"}', MORE),
        # parallel lists
        ('{"subject": ["Petrel", "Petrel"], "relation": ["captain", "home port"], '
         '"object": ["Ines Calder", "Hallan Quay"]}', MORE),
        ('{"subject": "Petrel", "relation": ["captain", "home port"], "object": ["Ines Calder", "Hallan Quay"]}', MORE),
        ('{"triples": [["Petrel", "captain", "Ines Calder"], [["Quince", "Ada Loy"], [["Plum", "Ada Loy"]', [CAPTAIN]),
        # pairs are no triples, and names are not put into another order
        ('{"triples": [["Petrel", "Ines Calder"], "Hallan Quay"]]}', None),
        ('[["Petrel", "captain"], "Ines Calder"]', None),
        ('{"triples": [["Ada Loy", "Old Mill"], "Ada Loy", "1907 flood"]}', None),
        ('[["Petrel", "Ines Calder"], "captain"]', None),
    ],
)  # fmt: skip
def test_names_keep_their_parts_and_what_is_no_triple_is_refused(reply: str, triples: list[Triple] | None) -> None:
    relations = [*RELATIONS, "place of birth", "population", "area"]
    try:
        found = [(s, r.replace("_", " "), o) for s, r, o in parse_triples(reply, TEXT, relations).answer]
    except ParseError:
        found = None
    assert found == triples


@pytest.mark.parametrize(
    ("flag", "counts"),
    [
        *(
            ('"valid": false', False),
            ('"negated": true', False),
            ('"supported": "no"', False),
            ('"is_valid": "0"', False),
        ),
        *(('"status": "rejected"', False), ('"verdict": "not supported"', False), ('"polarity": "negative"', False)),
        *(
            ('"valid": true', True),
            ('"negated": "no"', True),
            ('"supported": "yes"', True),
            ('"confidence": 0.9', True),
        ),
        *(('"inferred": true', True), ('"direct": false', True)),
    ],
)
def test_an_item_that_is_marked_as_not_holding_does_not_count(flag: str, counts: bool) -> None:
    items = '{"subject": "Petrel", "relation": "captain", "object": "Ines Calder"}, ' \
            f'{{"subject": "Petrel", "relation": "home port", "object": "Hallan Quay", {flag}}}'  # fmt: skip
    assert read(f"[{items}]") == ([CAPTAIN, PORT] if counts else [CAPTAIN])
    name, value = (part.strip('"') for part in flag.split(": "))
    table = (
        f"| Subject | Relation | Object | {name} |\n|---|---|---|---|\n| Petrel | home port | Hallan Quay | {value} |"
    )
    rows = f"{table}\n| Petrel | captain | Ines Calder | |"
    assert read(rows) == ([PORT, CAPTAIN] if counts else [CAPTAIN])


def test_a_statement_without_an_object_is_whole_in_open_extraction_alone() -> None:
    reply = '[["Patterson", "was assassinated", ""], ["Patterson", "lives in", ""], ["Patterson", "is", ""]]'
    assert parse_triples(reply).answer == [("Patterson", "was assassinated", "")]
    with pytest.raises(ParseError):
        parse_triples(reply, "", RELATIONS)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('["head": "Up", "tail": "Pete"]', [[{"head": "Up", "tail": "Pete"}]]),
        ('{"a": [1, 2.50, -3], "b": true, "c": None}', [{"a": ["1", "2.50", "-3"], "b": True, "c": None}]),
        ("{'it's': \"say \"hi\" now\", b: 'x'}", [{"it's": 'say "hi" now', "b": "x"}]),
        ("[“a”, „b“, «c»] {a => 1, b = 2}", [["a", "b", "c"], {"a": "1", "b": "2"}]),
        ("[1,000,000, x_,_y] [] {}", [["1,000,000", "x_,_y"], [], {}]),
        ('// no\n{"a": 1, /* b */ "c": 2}', [{"a": "1", "c": "2"}]), ('{"a": {"b": 1}', [{"a": {"b": "1"}}]),
        ('[{"a": 1}, {"a": 2', [[{"a": "1"}, {}]]), ('{"a": "cut', [{}]), ('["a", ...]', [["a"]]),
        ('{"a", "b"}("a", "b") ["c"]', [["a", "b"], ["a", "b"], ["c"]]), ("no (value) here", []),
    ],
)  # fmt: skip
def test_json_with_the_mistakes_of_models_has_the_values_that_a_person_reads(text: str, values: list[Value]) -> None:
    assert [found.value for found in extract_json(text)] == values


@pytest.mark.parametrize(
    ("line", "triple"),
    [
        ("(captain's log; captain; captain Ines)", ("captain's log", "captain", "captain Ines")),
        ("captain(subject='Petrel', object='Ines')", ("Petrel", "captain", "Ines")),
        ("captain(ship='Petrel', person='Ines')", ("Petrel", "captain", "Ines")),
        ("captain(subject='Petrel', object='')", None), ("captain(ship='', person='Ines')", None),
    ],
)  # fmt: skip
def test_a_line_with_an_empty_part_is_no_triple_and_one_with_a_relation_in_each_part_may_be(
    line: str, triple: Triple | None
) -> None:
    assert parse_line(line, {"captain"}) == triple
