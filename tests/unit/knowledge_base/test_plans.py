"""Plans: both forms, checks, the JSON schema, and executions against sets of edges."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base import KnowledgeBase, plans
from kbbench_hf.knowledge_base.metapaths import Hop, MetapathWalk
from kbbench_hf.knowledge_base.plans import AttributeTest, Plan, PlanSchema, execute

NODES = [
    ("d0", "district", "North Bay", None, ""),
    ("d1", "district", "Salt Quay", None, ""),
    ("h0", "harbour; old", "North Bay", 4.5, "deep"),
    ("h1", "harbour; old", 'The "Deep" Basin', 9.0, "deep"),
    ("h2", "harbour; old", "Shallows", None, ""),
    ("l0", "lighthouse", "Gull Light", 12.0, ""),
    ("l1", "lighthouse", "Tern Light", 30.0, ""),
    ("l2", "lighthouse", "Rook Light", float("nan"), ""),
]
EDGES = [
    ("h0", "in_district", "d0"),
    ("h1", "in_district", "d0"),
    ("h2", "in_district", "d1"),
    ("l0", "guards & lights", "h0"),
    ("l0", "guards & lights", "h1"),
    ("l1", "guards & lights", "h1"),
    ("l1", "guards & lights", "h2"),
    ("l2", "near", "l1"),
]


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    ids, types, names, heights, kinds = zip(*NODES, strict=True)
    columns = {"id": ids, "type": types, "name": names, "text": [""] * len(ids), "height": heights, "kind": kinds}
    columns["lamps"] = [None] * 5 + [1, 2, 3]
    heads, relations, tails = zip(*EDGES, strict=True)
    edges = pa.table({"head": heads, "relation": relations, "tail": tails})
    return KnowledgeBase.from_arrow(pa.table({name: list(values) for name, values in columns.items()}), edges)


HARBOURS = '"North Bay":district -[^in_district]-> "harbour; old"'


@pytest.mark.parametrize(
    ("line", "answers", "counts"),
    [
        (HARBOURS, ["h0", "h1"], [[1, 2]]),
        (f'{HARBOURS} -[^"guards & lights"]-> lighthouse', ["l0", "l1"], [[1, 2, 2]]),
        (f'{HARBOURS} <-[!"guards & lights"]- "Tern Light":lighthouse', ["h0"], [[1, 2], [1, 2]]),
        (f'{HARBOURS} & "gull light":lighthouse -["guards & lights"]-> "harbour; old"', ["h0", "h1"], [[1, 2], [1, 2]]),
        ('any lighthouse -[!near]-> lighthouse', ["l0", "l2"], [[3, 1]]),
        ('"Rook Light":lighthouse -[near]-> lighthouse -[^near]-> lighthouse', [], [[1, 1, 1]]),
        ("lighthouse ; height <= 30", ["l0", "l1"], []),
        (f'{HARBOURS} ; height >= 5 ; kind = "deep" ; text "old"', ["h1"], [[1, 2]]),
        ('"harbour; old" ; kind = ""', [], []),
        ('"North":district -[^in_district]-> "harbour; old"', [], [[0, 0]]),
        ('"North Bay":district -[!^in_district]-> "harbour; old" -[^"guards & lights"]-> lighthouse',
         ["l1"], [[1, 1, 1]]),
    ],
)  # fmt: skip
def test_a_plan_gives_exactly_the_nodes_that_meet_it(
    kb: KnowledgeBase, line: str, answers: list[str], counts: list[list[int]]
) -> None:
    plan = Plan.parse(line)
    done = execute(plan, kb)
    assert kb.ids(done.rows) == answers
    assert done.counts == counts
    assert Plan.parse(str(plan)) == Plan.parse(plan.json) == plan
    PlanSchema.of(kb).check(plan)


def test_entities_that_were_linked_replace_names_and_are_no_answers(kb: KnowledgeBase) -> None:
    plan = Plan.parse('"the bay":district -[^in_district]-> "harbour; old" -[in_district]-> district')
    done = execute(plan, kb)
    assert not len(done.rows)
    assert done.remarks == ("no district is named 'the bay'",)
    assert kb.ids(execute(replace(plan, walks=plan.walks[:1]), kb, [kb.rows(["d0"])]).walks[0][1]) == ["h0", "h1"]
    assert not len(execute(plan, kb, [kb.rows(["d0"])]).rows)


def test_an_answer_has_a_path_of_real_edges_by_each_inclusion(kb: KnowledgeBase) -> None:
    near = '"Rook Light":lighthouse -[near]-> lighthouse -["guards & lights"]-> "harbour; old"'
    done = execute(Plan.parse(f'{HARBOURS} & {near} <-[!"guards & lights"]- "Rook Light":lighthouse'), kb)
    assert kb.ids(done.rows) == ["h1"]
    first, second = done.provenance(kb, int(done.rows[0]))
    assert (first.nodes, first.edges) == (["North Bay", 'The "Deep" Basin'], [("in_district", False)])
    assert second.nodes == ["Rook Light", "Tern Light", 'The "Deep" Basin']
    assert second.edges == [("near", True), ("guards & lights", True)]


def test_a_costly_plan_is_cut_and_says_so(kb: KnowledgeBase) -> None:
    plan = Plan.parse('any lighthouse -["guards & lights"]-> "harbour; old" -[in_district]-> district')
    assert execute(plan, kb).n_edges == 7
    assert execute(Plan.parse(HARBOURS), kb).n_edges == 2
    done = execute(plan, kb, most_edges=3)
    assert done.n_edges <= 3
    assert done.remarks[0].endswith("was cut at hop 1: 1 of 3 nodes")
    assert set(done.rows) <= set(execute(plan, kb).rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lighthouse ; height > 3", r"'height > 3' is not a test; expected field >= 30"),
        ('lighthouse ; kind = "', "is not a test"),
        ("district -[^in_district]-> harbour", r"expected \"NAME\":district, or any district"),
        (f"{HARBOURS} & {HARBOURS} -[in_district]-> district", "expected walks that end in one type"),
        ('"a b":district -[in_district', "'\"a b\":district -\\[in_district' is not a plan"),
        ('"\\q":district -[in]-> x', "is not a quoted name"),
        ('{"answer_type": "x"}', "missing required field `paths`"),
        ('{"answer_type": "x", "paths": [{"start": "y", "start_type": "t", "exclude": 1, "hops": []}], "attributes": '
         '[], "text": ""}', r"Expected `bool`, got `int` - at `\$.paths\[0\].exclude`"),
        ('{"answer_type": "x", "paths": [{"start": "y", "start_type": "t", "exclude": true, "hops": []}], "attributes":'
         ' [], "text": ""}', r"paths\[0\].hops is empty"),
        ('{"answer_type": "x", "paths": [{"start": "", "start_type": "t", "exclude": true, "hops": []}], "text": "", '
         '"attributes": []}', r"paths\[0\].start is empty"),
        ("{", "is not a plan: Expecting property name"),
        ("lighthouse ; height = NaN", "'height = NaN' is not a test"),
        ('{"answer_type": "x", "paths": [], "attributes": [{"field": "h", "op": "=", "value": NaN}], "text": ""}',
         "is not a plan: NaN is not a number"),
        ('"":lighthouse -[near]-> lighthouse', "has an empty name; expected \"NAME\":lighthouse, or any lighthouse"),
        ("", "'' is not an answer type; expected a type"),
        ("any lighthouse", "'any lighthouse' is not an answer type"),
        ("lighthouse & district", "is not an answer type"),
        ('"Gull Light":lighthouse', '\'"Gull Light":lighthouse\' is not an answer type'),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_the_offending_part(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Plan.parse(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lighthuose", "Unknown answer type 'lighthuose'. Did you mean 'lighthouse'?"),
        ('"x":distric -[near]-> lighthouse', "Unknown start type 'distric'. Did you mean 'district'?"),
        ('"x":lighthouse -[naer]-> lighthouse', "Did you mean '-\\[near\\]-> lighthouse'?"),
        ('"x":district -[in_district]-> "harbour; old"', "Did you mean '-\\[\\^in_district\\]-> harbour; old'?"),
        ("lighthouse ; depth <= 3", "Unknown field of lighthouse 'depth'. Known: height, lamps"),
        ('lighthouse ; height = "3"', "expected a number for the field height"),
        ('"harbour; old" ; kind <= "x"', "expected = and a text for the field kind"),
    ],
)
def test_what_the_knowledge_base_lacks_is_named_with_what_it_has(kb: KnowledgeBase, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PlanSchema.of(kb).check(Plan.parse(line))


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\u2028b", "a ", " a", "a b", "a  b", " "])
def test_names_with_any_white_space_are_read_as_they_were_written(name: str) -> None:
    plan = Plan(name, (MetapathWalk(None, name, (Hop(name, name),)),), (AttributeTest(name, "=", name),))
    assert Plan.parse(str(plan)) == plan
    assert "\n" not in str(plan)


@pytest.mark.parametrize(
    ("edges", "line", "answers"),
    [
        ([(0, 1), (1, 0)], '"A":p -[r]-> p', [0, 1]),
        ([(0, 1), (0, 0), (0, 2)], '"A":p -[r]-> p', [1, 2]),
        ([(0, 2), (1, 2)], '"A":p -[r]-> p -[^r]-> p', [0, 1]),
        ([(0, 2)], '"A":p -[r]-> p -[^r]-> p', []),
        ([(0, 1), (2, 1), (2, 0)], '"A":p -[r]-> p & "B":p -[r]-> p', [1]),
        ([(0, 1), (2, 1), (2, 2)], '"A":p -[r]-> p <-[r]- "B":p', [1]),
        ([(2, 0), (2, 1)], '"B":p -[r]-> p <-[!r]- "A":p', []),
    ],
)
def test_a_start_is_an_answer_where_another_of_its_name_leads_to_it(
    edges: list[tuple[int, int]], line: str, answers: list[int]
) -> None:
    heads, tails = zip(*edges, strict=True)
    nodes = pa.table({"id": [0, 1, 2], "type": ["p"] * 3, "name": ["A", "A", "B"], "text": [""] * 3})
    pairs = pa.table({"head": heads, "relation": ["r"] * len(edges), "tail": tails})
    assert execute(Plan.parse(line), KnowledgeBase.from_arrow(nodes, pairs)).rows.tolist() == answers


@pytest.mark.parametrize(
    ("test", "passed"),
    [
        (f"depth >= {2**63}", []),
        (f"depth <= {2**63}", [0, 1]),
        (f"depth = {2**63 - 1}", [0]),
        (f"depth = {2.0**63}", []),
        ("depth >= 3.5", [0, 1]),
        (f"height <= {2**53 + 1}", [2]),
    ],
)
def test_numbers_beyond_those_of_a_column_are_compared_exactly(test: str, passed: list[int]) -> None:
    numbers = {"depth": [2**63 - 1, 4, None], "height": [None, 2.0**53 + 2, 1.5]}
    nodes = pa.table({"id": [0, 1, 2], "type": ["q"] * 3, "name": ["A", "B", "C"], "text": [""] * 3, **numbers})
    edges = pa.table({"head": [0], "relation": ["r"], "tail": [1]})
    assert execute(Plan.parse(f"q ; {test}"), KnowledgeBase.from_arrow(nodes, edges)).rows.tolist() == passed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lighthouse ; heigth <= 3", "Unknown field 'heigth'. Did you mean 'height'?"),
        ('lighthouse ; height = "3"', "cannot be tested; expected a value of the type double"),
        ('"harbour; old" ; kind <= 3', "cannot be tested; expected a value of the type large_string"),
        (f'"harbour; old" ; kind >= {2**64}', "cannot be tested; expected a value of the type large_string"),
    ],
)
def test_a_test_that_was_not_checked_is_refused_when_it_is_executed(kb: KnowledgeBase, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        execute(Plan.parse(line), kb)


def test_a_path_that_ends_in_another_type_is_refused(kb: KnowledgeBase) -> None:
    plan = replace(Plan.parse(HARBOURS), answer_type="lighthouse")
    with pytest.raises(UsageError, match="ends in harbour; old; expected the answer type lighthouse"):
        PlanSchema.of(kb).check(plan)


def drawn(schema: dict[str, Any], definitions: dict[str, Any], rng: Random) -> Any:
    """Return a random value that follows a JSON schema."""
    if "$ref" in schema:
        return drawn(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions, rng)
    if "anyOf" in schema:
        return drawn(rng.choice(schema["anyOf"]), definitions, rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema["type"] == "object":
        return {name: drawn(each, definitions, rng) for name, each in schema["properties"].items()}
    if "prefixItems" in schema:
        return [drawn(each, definitions, rng) for each in schema["prefixItems"]]
    if schema["type"] == "array":
        return [drawn(schema["items"], definitions, rng) for _ in range(rng.randint(0, schema["maxItems"]))]
    if schema["type"] == "string":
        letters = 'aé"\\;&:[]->!^\x00\x7f\ud800東 5'
        return "".join(rng.choices(letters, k=rng.randint(schema.get("minLength", 0), 8)))
    if schema["type"] == "integer":
        return rng.choice([0, -7, 2**64, 10**400])
    return rng.choice([0, -0.5, 1e308, float("inf")]) if schema["type"] == "number" else {
        "boolean": rng.random() < 0.5, "null": None,
    }[schema["type"]]  # fmt: skip


def check_drawn_plans(kb: KnowledgeBase, n: int, *, n_executed: int) -> None:
    """Draw plans from the JSON schema: each is one that the knowledge base accepts, in all forms."""
    made, rng = PlanSchema.of(kb), Random(0)
    schema = made.json_schema()
    follows = jsonschema.Draft202012Validator(schema)
    definitions = schema.pop("$defs")
    for number in range(n):
        value = drawn(schema, definitions, rng)
        plan = Plan.parse(json.dumps(value))
        made.check(plan)
        assert "Infinity" not in plan.json.encode().decode()  # strict JSON, in UTF-8
        assert Plan.parse(str(plan)) == Plan.parse(plan.json) == plan
        if number < n_executed:
            schema["$defs"] = definitions
            assert follows.is_valid(json.loads(plan.json))
            execute(plan, kb)


def test_every_text_that_follows_the_schema_is_a_plan(kb: KnowledgeBase) -> None:
    check_drawn_plans(kb, 300, n_executed=100)


def test_the_schema_can_be_narrowed_to_linked_entities_and_a_type(kb: KnowledgeBase) -> None:
    schema = PlanSchema.of(kb).json_schema([("North Bay", "district")], ["lighthouse"])
    follows = jsonschema.Draft202012Validator(schema).is_valid
    two_hops = Plan.parse(f'{HARBOURS} -[^"guards & lights"]-> lighthouse')
    assert follows(json.loads(two_hops.json))
    other = replace(two_hops, walks=(replace(two_hops.walks[0], topic="Salt Quay"),))
    back = Hop("guards & lights", "harbour; old")
    long = replace(
        two_hops, walks=(replace(two_hops.walks[0], hops=(*two_hops.walks[0].hops, back, two_hops.walks[0].hops[1])),)
    )
    for plan in (other, long, Plan("district"), replace(two_hops, attributes=(AttributeTest("depth", "=", 1),))):
        assert not follows(json.loads(plan.json))
    assert len(json.dumps(schema)) < 2000

    def closed(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}

    def hop(relation: str, end: str) -> dict[str, Any]:
        return closed(relation={"enum": [relation]}, direction={"enum": ["in"]}, type={"enum": [end]})

    def test(field: str, kind: str) -> dict[str, Any]:
        return closed(field={"enum": [field]}, op={"enum": ["=", "<=", ">="]}, value={"type": kind})

    hops = [{"$ref": "#/$defs/hop-0-1"}, {"$ref": "#/$defs/hop-1-2"}]
    path = {"start": {"enum": ["North Bay"]}, "start_type": {"enum": ["district"]}, "exclude": {"type": "boolean"}}
    path["hops"] = {"type": "array", "prefixItems": hops, "minItems": 2, "maxItems": 2}
    tests = {"anyOf": [test("height", "number"), test("lamps", "integer")]}
    assert schema == {
        **closed(
            answer_type={"enum": ["lighthouse"]},
            paths={"type": "array", "items": {"$ref": "#/$defs/path-0-2"}, "maxItems": 3},
            attributes={"type": "array", "items": tests, "maxItems": 2},
            text={"type": "string", "maxLength": 100},
        ),
        "$defs": {
            "hop-0-1": hop("in_district", "harbour; old"),
            "hop-1-2": hop("guards & lights", "lighthouse"),
            "path-0-2": closed(**path),
        },
    }
    three = PlanSchema.of(kb).json_schema([("North Bay", "district")], ["lighthouse"], max_hops=3)["$defs"]["path-0-2"]
    assert [each["minItems"] for each in three["properties"]["hops"]["anyOf"]] == [2, 3]


def test_a_column_of_few_values_that_is_stored_as_a_dictionary_is_tested_as_texts(kb: KnowledgeBase) -> None:
    nodes = kb.nodes.set_column(kb.nodes.column_names.index("kind"), "kind", kb.nodes["kind"].dictionary_encode())
    nodes = nodes.append_column("tags", pa.array([["a"]] * len(nodes))).set_column(1, "type", pa.array(kb.types()))
    ends = {end: kb.ids(kb.edges[end].to_numpy()) for end in ("head", "tail")}
    relations = [kb.graph.relations[number] for number in kb.edges["relation"].to_pylist()]
    stored = KnowledgeBase.from_arrow(nodes, pa.table({**ends, "relation": relations}))
    assert pa.types.is_dictionary(stored.nodes["kind"].type)
    assert stored.ids(execute(Plan.parse('"harbour; old" ; kind = "deep"'), stored).rows) == ["h0", "h1"]
    assert PlanSchema.of(stored) == PlanSchema.of(kb)  # lists are no field


def test_the_schema_has_the_hops_that_occur_and_the_fields_with_few_or_short_values(kb: KnowledgeBase) -> None:
    lights, old = "guards & lights", "harbour; old"
    assert PlanSchema.of(kb) == PlanSchema(
        {
            "district": (Hop("in_district", old, "in"),),
            old: (Hop(lights, "lighthouse", "in"), Hop("in_district", "district")),
            "lighthouse": (Hop(lights, old), Hop("near", "lighthouse"), Hop("near", "lighthouse", "in")),
        },
        {"district": {}, old: {"height": float, "kind": ["deep"]}, "lighthouse": {"height": float, "lamps": int}},
    )
    n = plans.MOST_VALUES
    columns: dict[str, list[Any]] = {"id": [*range(n + 1)], "type": ["a"] * (n + 1)}
    columns |= {"name": [""] * (n + 1), "text": [""] * (n + 1)}
    columns["few"] = [f"v{each:02}" for each in range(n)] + [""]
    columns["many"] = [f"v{each:02}" for each in range(n + 1)]
    columns["short"] = ["x" * plans.LONGEST_VALUE] + [""] * n
    columns["long"] = ["x" * (plans.LONGEST_VALUE + 1)] + [""] * n
    columns["flag"], columns["none"] = [True] * (n + 1), [None] * n + [""]
    edges = pa.table({"head": [0], "relation": ["r"], "tail": [1]})
    fields = PlanSchema.of(KnowledgeBase.from_arrow(pa.table(columns), edges)).fields
    assert fields == {"a": {"few": columns["few"][:n], "many": str, "short": columns["short"][:1]}}


def test_a_plan_names_each_entity_once() -> None:
    plan = Plan.parse(f'{HARBOURS} & "Gull Light":lighthouse -["guards & lights"]-> "harbour; old" & {HARBOURS}')
    assert plan.names == ("North Bay", "Gull Light")
    assert Plan.parse("any lighthouse -[near]-> lighthouse").names == ()


def test_rows_of_an_execution_ascend(kb: KnowledgeBase) -> None:
    done = execute(Plan.parse('any "harbour; old" -[^"guards & lights"]-> lighthouse'), kb)
    assert all((np.diff(rows) > 0).all() for rows in (done.rows, *done.walks[0]))


def test_where_every_edge_has_its_reverse_the_schema_has_one_direction() -> None:
    nodes = pa.table({"id": [0, 1], "type": ["gene", "gene"], "name": ["A1", "B2"], "text": ["", ""]})
    edges = pa.table({"head": [0, 1], "relation": ["ppi", "ppi"], "tail": [1, 0]})
    made = PlanSchema.of(KnowledgeBase.from_arrow(nodes, edges))
    assert '"in"' not in json.dumps(made.json_schema())
    made.check(Plan.parse('"A1":gene -[^ppi]-> gene'))
