"""Plan ranker and rule planner: plans that lead to answers, relaxations, and the graph ranker's order elsewhere."""

import ast
import csv
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.cli.run import MODEL_HELP
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.plans import Plan
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval import plan_generator
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.retrieval.context import RetrieverContext, render
from kbbench_hf.retrieval.plan_generator import PlanGrammar, SlottedQuery, number_of
from kbbench_hf.retrieval.plan_ranker import PlanRanker
from kbbench_hf.retrieval.planner import PlanCandidate, PlanQuery
from kbbench_hf.retrieval.retrievers import RETRIEVERS, IdRetriever, retriever
from tests.unit.retrieval.small_kb import small_kb

PUBLIC_WORKS = Path(__file__).parent / "graph_ranker/knowledge_bases/public_works"


class Written:
    """A planner that has one plan for every query, and keeps what it was asked."""

    def __init__(self, line: str, score: float = 1.0, least_sure: float = 0.25) -> None:
        self.line, self.score, self.least_sure, self.queries = line, score, least_sure, list[PlanQuery]()

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        self.queries += queries
        return [[PlanCandidate(Plan.parse(self.line), self.score)] for _ in queries]


def ranked(line: str, query: str = "Which of them?", score: float = 1.0) -> tuple[str, list[str], Written]:
    """Return the first name under a plan, the relaxations of the plan, and its planner."""
    kb, planner = small_kb(), Written(line, score)
    ranker = PlanRanker(kb, BM25(render(kb, "text")), planner=planner)
    explanation = ranker.explain(query, np.array([0]))
    assert sum(explanation.winner.signals.values()) == pytest.approx(ranker.search([query], 1).scores[0, 0])
    return explanation.winner.name, list((explanation.plans or [])[0].relaxations), planner


@pytest.mark.parametrize(
    ("line", "first", "relaxations"),
    [
        ('"River Mill":workshop -[stores]-> raw_ore', "Bauxite", []),
        ('"river mill":workshop -[stores]-> raw_ore', "Bauxite", []),
        ('"the River Mill of old":workshop -[stores]-> raw_ore', "Bauxite", []),
        ('"River Mill":workshop -[stores]-> raw_ore & "Lead":metal -[^yields]-> raw_ore', "Galena",
         ['without the path "River Mill":workshop -[stores]-> raw_ore']),
        ('"River Mill":workshop -[stores]-> raw_ore <-[!^yields]- any metal', "Bauxite", []),
        ('"Iron":metal -[^yields]-> raw_ore <-[!^yields]- any metal', "Magnetite",
         ["without the path any metal -[!^yields]-> raw_ore"]),
        ('"River Mill":workshop -[stores]-> metal', "Bauxite", ["with the type raw_ore"]),
    ],
)  # fmt: skip
def test_the_answers_of_a_plan_are_first_and_a_plan_without_answers_is_relaxed(
    line: str, first: str, relaxations: list[str]
) -> None:
    assert ranked(line)[:2] == (first, relaxations)


def test_a_planner_gets_linked_entities_and_probable_types() -> None:
    _, _, planner = ranked("metal", "Which metals does Galena give, but not in the Hollow Forge?")
    query = planner.queries[0]
    assert query.starts == [("Galena", "raw_ore"), ("Hollow Forge", "workshop")]
    assert query.answer_types[0] == "metal"


def test_plans_that_are_not_sure_change_nothing() -> None:
    kb, query = small_kb(), ["Which workshop grinds ochre?"]
    base, lines = BM25(render(kb, "text")), '"Iron":metal -[^yields]-> raw_ore'
    graph = retriever("graph:bm25", RetrieverContext(kb, Path())).search(query, 9)
    unsure, sure = (PlanRanker(kb, base, planner=Written(lines, 0.5, least)).search(query, 9) for least in (0.6, 0.4))
    assert unsure.ids.tolist() == graph.ids.tolist()
    assert unsure.scores == pytest.approx(graph.scores)
    assert sure.scores[0].max() != pytest.approx(graph.scores[0].max()) or sure.ids.tolist() != graph.ids.tolist()


def test_an_explanation_has_the_plan_before_and_after_relaxing_and_its_starts() -> None:
    kb = small_kb()
    ranker = PlanRanker(kb, BM25(render(kb, "text")), planner=Written('"Hollow Forge":workshop -[smelts]-> metal'))
    found = IdRetriever(ranker, kb).explain("What is smelted in the Hollow Forge, but not in the Salt Kiln?", [3, 4])
    assert found is not None
    assert found.linked == [0, 1]
    assert found.plans == [
        (
            '"Hollow Forge":workshop -[smelts]-> raw_ore',
            '"Hollow Forge":workshop -[smelts]-> metal',
            0.5,
            ["with the type raw_ore"],
            [[0]],
        )
    ]
    assert retriever("graph:bm25", RetrieverContext(kb, Path())).explain("What?", np.array([0])).plans is None


def test_rules_plan_what_a_query_mentions() -> None:
    kb = small_kb()
    ranker = retriever("plan:rules", RetrieverContext(kb, Path()))
    assert isinstance(ranker, PlanRanker)

    def plan(query: str) -> str:
        return ranker.explain(query, np.array([0])).plans[0].plan

    assert plan("Which workshop smelts Galena?") == '"Galena":raw_ore -[^smelts]-> workshop'
    assert plan("Which workshop stores Galena?") == '"Galena":raw_ore -[^stores]-> workshop'
    two = '"Hollow Forge":workshop -[smelts]-> raw_ore -[yields]-> metal'
    assert plan("Which metals do the ores yield that the Hollow Forge smelts?") == two
    without = '"Galena":raw_ore -[^stores]-> workshop & "Salt Kiln":workshop'
    assert not plan("Which workshops store Galena, apart from the Salt Kiln?").startswith(without)
    assert plan("Which raw ores are not smelted in the Salt Kiln?") == '"Salt Kiln":workshop -[!smelts]-> raw_ore'
    assert ranker.explain("Find workshops other than the Salt Kiln.", np.array([0])).plans == []
    assert ranker.explain("Find bricks that are baked.", np.array([0])).plans == []


@pytest.mark.parametrize(
    ("query", "n_walks"),
    [("Which mills do grain drying and grain sorting?", 2), ("Which mills do the drying and sorting of grain?", 1)],
)
def test_rules_take_names_that_share_a_word_of_the_query_as_readings_of_one_mention(query: str, n_walks: int) -> None:
    names = ["Grain drying", "Grain sorting", "Low Mill", "High Mill", "Wind Mill"]
    nodes = {"id": [*range(5)], "type": ["process"] * 2 + ["mill"] * 3, "name": names, "text": [""] * 5}
    edges = {"head": [2, 2, 3, 4], "relation": ["do"] * 4, "tail": [0, 1, 0, 1]}
    kb = KnowledgeBase.from_arrow(pa.table(nodes), pa.table(edges))
    plans = retriever("plan:rules", RetrieverContext(kb, Path())).explain(query, np.array([2])).plans  # type: ignore[attr-defined]
    assert len(Plan.parse(plans[0].plan).walks) == n_walks


@pytest.mark.parametrize(
    ("query", "is_sure"),
    [
        ("Which raw ores yield Lead?", True),
        ("Which raw ores do not yield Lead, I wonder?", False),
        ("Raw ores of no Lead", False),
        ("No ore is like it. Which raw ore yields Lead?", True),
        ("I do not know which raw ore yields Lead.", True),
        ("Raw ores that yield Silver and Lead", True),
        ("Raw ores that yield Silver or Lead", False),
        ("Which raw ores are not smelted in the Salt Kiln?", True),
        ("Raw ores that yield neither Silver nor Lead", False),
    ],
)
def test_rules_leave_the_ranking_where_they_do_not_follow_a_negation_or_an_alternative(
    query: str, is_sure: bool
) -> None:
    plan, graph = (
        retriever(model, RetrieverContext(small_kb(), Path())).search([query], 9).scores
        for model in ("plan:rules", "graph:bm25")
    )
    assert (plan.tolist() != graph.tolist()) == is_sure


def test_rules_are_at_least_the_graph_ranker_on_every_kind_of_question() -> None:
    kb = KnowledgeBase.from_tables(PUBLIC_WORKS / "nodes.csv", PUBLIC_WORKS / "edges.csv")
    with (PUBLIC_WORKS / "queries.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    answers = [kb.rows(ast.literal_eval(row["answer_ids"])).tolist() for row in rows]
    hits: dict[str, dict[str, int]] = {}
    for model in ("graph:bm25", "plan:rules"):
        ranking = retriever(model, RetrieverContext(kb, Path())).search([row["query"] for row in rows], 1)
        hits[model] = defaultdict(int)
        for row, first, gold in zip(rows, ranking.ids[:, 0].tolist(), answers, strict=True):
            hits[model][row["kind"]] += first in gold
    assert {kind for kind, n in hits["graph:bm25"].items() if hits["plan:rules"][kind] < n} == set()
    assert sum(hits["plan:rules"].values()) >= sum(hits["graph:bm25"].values()) + 5


def test_words_of_the_schema_are_none_of_texts_where_only_exclusions_are_named() -> None:
    folder = PUBLIC_WORKS.parent / "food_and_stage"
    kb = KnowledgeBase.from_tables(folder / "nodes.csv", folder / "edges.csv")
    ranker = retriever("plan:rules", RetrieverContext(kb, Path()))
    assert isinstance(ranker, PlanRanker)
    best = (ranker.explain("Which dishes are not served at Coppermarket Oyster Bar?", np.array([0])).plans or ())[0]
    assert best.plan == '"Coppermarket Oyster Bar":restaurant -[!^served at]-> dish'
    assert best.score > 0.5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("plan(bm25)", "plan:rules, plan:llm:MODEL"),
        ("plan:RULES", r"Unknown planner 'RULES'.* Did you mean plan:rules\?"),
        ("plan:rule", r"Did you mean plan:rules\?"),
        ("plan:rules(bm25,bm25)", r"'plan:rules\(bm25,bm25\)' does not start from one .* plan:rules\(bm25\)"),
        ("plan:rules(graph(plan:rules))", "does not start from one text ranker"),
    ],
)
def test_a_plan_ranker_of_another_form_is_refused_with_what_there_is(model: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        retriever(model, RetrieverContext(small_kb(), Path()))


def test_the_help_of_run_names_every_kind_of_retriever() -> None:
    kinds = set(RETRIEVERS) - {"knn"}  # a control
    assert {kind for kind in kinds if not re.search(rf"\b{kind}[:(,]", MODEL_HELP)} == set()


def test_no_relaxation_is_taken_twice() -> None:
    kb = KnowledgeBase.from_arrow(
        pa.table({"id": [0, 1, 2, 3], "type": ["inn", "inn", "ale", "pie"], "name": ["Oak", "Elm", "Stout", "Leek"],
                  "text": [""] * 4}),
        pa.table({"head": [1, 1], "relation": ["sells", "sells"], "tail": [2, 3]}),
    )  # fmt: skip
    ranker = PlanRanker(kb, BM25(render(kb, "text")), planner=Written('"Oak":inn -[sells]-> ale'))
    (plan,) = ranker.explain("What does the Oak sell?", np.array([2])).plans or ()
    assert plan.relaxations == ["with the type pie"]


def test_a_language_model_votes_on_plans_and_responses_that_break_the_schema_are_no_votes() -> None:
    asked: dict[str, Prompt] = {}
    right = Plan.parse('"Hollow Forge":workshop -[stores]-> raw_ore')
    other = Plan.parse('"Hollow Forge":workshop -[smelts]-> raw_ore ; text "iron"')
    unknown = Plan.parse('"Hollow Forge":workshop -[eats]-> raw_ore')

    def complete(prompts: Mapping[str, Prompt], samples: int) -> dict[str, list[str]]:
        asked.update(prompts)
        return {query: [right.json, other.json, right.json, unknown.json, right.json[:40]] for query in prompts}

    context = RetrieverContext(small_kb(), Path(), complete=lambda name, cache: complete if name == "org/m" else None)
    ranker = retriever("plan:llm:org/m", context)
    assert isinstance(ranker, PlanRanker)
    query = "Which ores does the Hollow Forge keep?"
    plans = ranker.explain(query, np.array([4])).plans or ()
    assert [(plan.plan, plan.score) for plan in plans] == [(str(right), 0.4), (str(replace(other, text="")), 0.2)]
    assert ranker.search([query, "Anything old?"], 1).ids[0, 0] == 4
    assert [*asked] == [query]  # without an entity there is nothing to plan
    follows = jsonschema.Draft202012Validator(asked[query].json_schema).is_valid
    assert follows(json.loads(right.json))
    assert not follows(json.loads(unknown.json))
    assert "Hollow Forge (workshop)" in str(asked[query].messages)


def test_a_served_planner_needs_its_server() -> None:
    with pytest.raises(UsageError, match="--base-url URL"):
        retriever("plan:llm:org/m", RetrieverContext(small_kb(), Path()))


@pytest.mark.parametrize("settings", [{"max_hops": 2}, {"max_hops": 2, "format": 9}])
def test_a_planner_that_writes_plans_in_another_format_is_to_be_trained_again(settings: dict, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(settings))
    with pytest.raises(UsageError, match=r"writes plans in format [19]; expected 2. Train it again"):
        plan_generator.build(tmp_path, small_kb())


def options(grammar: PlanGrammar, numbers: list[str], query: SlottedQuery, *symbols: str) -> dict[str, Plan]:
    """Return what may follow after these symbols, and the plan that each one gives."""
    alternatives = grammar.start(query)
    for symbol in symbols:
        alternatives = grammar.after(alternatives, numbers.index(symbol), query)
    return {numbers[rest[0]]: state.plan for rest, state in alternatives if rest}


def test_tests_of_a_plan_are_of_the_fields_of_its_type_and_texts_come_last() -> None:
    columns = {"year": [0, 1990, None], "score": [1.5, None, None], "genre": ["drama", "", ""]}
    nodes = {"id": [1, 2, 3], "type": ["film", "film", "person"], "name": ["Salt", "Stone", "Ann"], "text": [""] * 3}
    edges = pa.table({"head": [3, 3], "relation": ["made"] * 2, "tail": [1, 2]})
    kb, numbers = KnowledgeBase.from_arrow(pa.table(nodes | columns), edges), ["<end>"]

    def encode(symbol: str) -> list[int]:
        numbers.extend([symbol] if symbol not in numbers else [])
        return [numbers.index(symbol)]

    grammar, query = PlanGrammar(kb, encode, 1), SlottedQuery("", (np.array([2]),), ("0", "drama", "1.5"))
    films = ["film", "<walk><e1>person", "<in>made<to>person"]
    assert sorted(options(grammar, numbers, query)) == ["film", "person"]
    assert list(options(grammar, numbers, query, *films[:1])) == films[1:2]
    assert list(options(grammar, numbers, query, *films[:2])) == films[2:]
    found = options(grammar, numbers, query, *films)
    tests = {symbol: str(plan.attributes[0]) for symbol, plan in found.items() if plan.attributes}
    signs = {"equal": "=", "least": ">=", "most": "<="}
    numeric = {"<v1>": "0", "<v3>": "1.5"}
    assert tests == {"<test>genre<equal><v2>": 'genre = "drama"'} | {
        f"<test>{field}<{sign}>{slot}": f"{field} {operator} {value}"
        for field in ("year", "score")
        for sign, operator in signs.items()
        for slot, value in numeric.items()
    }
    texts = {"<text><v1>": "0", "<text><v2>": "drama", "<text><v3>": "1.5"}
    assert found.keys() - tests.keys() == {*texts, "<end>"}
    after = options(grammar, numbers, query, *films, "<test>year<least><v1>")
    assert after.keys() == found.keys() - {"<test>year<least><v1>"}
    assert [str(each) for each in after["<test>year<most><v3>"].attributes] == ["year >= 0", "year <= 1.5"]
    last = options(grammar, numbers, query, *films, "<text><v2>")
    assert {symbol: plan.text for symbol, plan in last.items()} == {
        "<text><v1>": "drama; 0",
        "<text><v3>": "drama; 1.5",
        "<end>": "drama",
    }


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("-7", -7), ("7.50", 7.5), ("7.x", None), ("x", None), ("", None)]
)
def test_a_number_is_whole_where_it_has_no_point(text: str, number: float | None) -> None:
    assert (number_of(text), type(number_of(text))) == (number, type(number))
