import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kbbench_hf
from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.knowledge_base.plans import Plan, execute
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import PlanExplanation
from kbbench_hf.reports import plans
from kbbench_hf.reports.plans import LOSSES, PlannedQuery, draw_plan, plan_section, plan_totals
from kbbench_hf.reports.run_page import run_page
from kbbench_hf.runners.ranking import _record

GALENA, LEAD, SILVER, TIN, TOKEN, CASSITERITE = range(6)
YIELDS = '"Galena":ore -[yields]-> metal'
BOTH = f'{YIELDS} & "Token":coin -[made of]-> metal'


@pytest.fixture
def kb() -> KnowledgeBase:
    """Two ores, their metals, and a coin."""
    nodes = pa.table(
        {
            "id": [*range(6)],
            "type": ["ore", "metal", "metal", "metal", "coin", "ore"],
            "name": ["Galena", "Lead", "Silver", "Tin", "Token", "Cassiterite"],
            "text": [""] * 6,
            "melts_at": [None, 327, 962, None, None, None],
        }
    )
    edges = pa.table(
        {
            "head": [GALENA, GALENA, CASSITERITE, TOKEN],
            "relation": ["yields", "yields", "yields", "made of"],
            "tail": [LEAD, SILVER, TIN, LEAD],
        }
    )
    return KnowledgeBase.from_arrow(nodes, edges)


def explained(kb: KnowledgeBase, plan: str, planned: str = "", relaxations: Sequence[str] = ()) -> dict[str, Any]:
    """Return what an explanation holds of a plan."""
    done = execute(Plan.parse(plan), kb)
    starts = [
        None if walk.topic is None else kb.ids(rows[0]) for walk, rows in zip(done.plan.walks, done.walks, strict=True)
    ]
    record: dict[str, Any] = _record(PlanExplanation(plan, planned or plan, 0.5, relaxations, starts))
    return record


def planned(
    kb: KnowledgeBase, plan: str | None, linked: Sequence[int], ranking: Sequence[int], gold_plan: str | None = None
) -> PlannedQuery:
    """Return a query whose gold is Lead."""
    row = {"id": 7, "query": "?", "answer_ids": [LEAD], "plan": gold_plan and Plan.parse(gold_plan).json}
    return PlannedQuery(kb, row, ranking, linked, [explained(kb, plan)] if plan else [])


@pytest.mark.parametrize(
    ("loss", "plan", "linked", "ranking", "gold_plan"),
    [
        (None, YIELDS, [GALENA], [LEAD], YIELDS),
        (None, None, [], [LEAD], YIELDS),  # by its text
        ("unlinked", YIELDS, [GALENA], [SILVER], BOTH),
        ("unlinked", None, [], [], YIELDS),
        ("no entity", None, [], [TIN], None),
        ("far", '"Cassiterite":ore -[yields]-> metal', [CASSITERITE], [TIN], None),
        ("far", None, [CASSITERITE], [TIN], None),
        ("other nodes", "any metal -[^yields]-> ore", [], [TIN], None),
        ("no plan", None, [GALENA], [TIN], YIELDS),
        ("no plan", None, [], [TIN], "any ore -[yields]-> metal"),  # no entity to link
        ("no plan", None, [CASSITERITE], [TIN], "any ore -[yields]-> metal"),
        ("no plan", None, [SILVER], [TIN], None),  # two edges from Lead
        ("other nodes", '"Cassiterite":ore -[yields]-> metal', [GALENA], [TIN], YIELDS),
        ("other nodes", '"Iron":ore -[yields]-> metal', [GALENA], [TIN], None),
        ("loose", YIELDS, [GALENA, TOKEN], [SILVER, LEAD], BOTH),
        ("test", f"{YIELDS} ; melts_at >= 900", [GALENA], [SILVER], None),
        ("within", YIELDS, [GALENA], [SILVER, LEAD], YIELDS),
        ("within", YIELDS, [GALENA], [SILVER, LEAD], None),
        ("within", YIELDS, [], [SILVER, LEAD], YIELDS),  # the plan starts from an entity: it is linked
        ("outside", YIELDS, [GALENA], [TIN, LEAD], YIELDS),
        ("outside", YIELDS, [GALENA], [], YIELDS),
    ],
)
def test_the_first_stage_that_failed_is_named(
    kb: KnowledgeBase,
    loss: str | None,
    plan: str | None,
    linked: Sequence[int],
    ranking: Sequence[int],
    gold_plan: str | None,
) -> None:
    assert planned(kb, plan, linked, ranking, gold_plan).loss == loss


def test_a_plan_of_lower_score_that_leads_to_the_gold_is_told_apart(kb: KnowledgeBase) -> None:
    query = planned(kb, '"Cassiterite":ore -[yields]-> metal', [GALENA], [TIN], YIELDS)
    assert replace(query, plans=[*query.plans, explained(kb, YIELDS)]).loss == "other plan"
    assert replace(query, plans=[*query.plans, *query.plans]).loss == "other nodes"


def test_a_linked_entity_three_edges_away_is_near(kb: KnowledgeBase) -> None:
    query = planned(kb, None, [SILVER], [TIN])
    assert replace(query, row={**query.row, "answer_ids": [TOKEN]}).loss == "no plan"


def test_a_path_that_was_cut_at_the_bound_is_lost_in_execution(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = planned(kb, YIELDS, [GALENA], [TIN])
    monkeypatch.setattr(plans, "execute", partial(execute, most_edges=1))
    assert query.loss == "cut"
    assert "was cut at hop 1" in plan_section(query)


def test_a_drawing_has_the_nodes_at_every_step_and_where_gold_was_lost(kb: KnowledgeBase) -> None:
    plan = f'{BOTH} & any ore -[!yields]-> metal ; melts_at <= 900 ; text "grey"'
    query = planned(kb, plan, [GALENA, TOKEN], [SILVER, TIN, LEAD])
    assert query.execution is not None
    drawn = draw_plan(query, query.execution)
    assert [(box.name, box.words, box.kind) for box in drawn.boxes] == [
        ("“Galena”", "ore", ""),
        ("metal", "2 nodes, gold", "right"),
        ("“Token”", "coin", ""),
        ("metal", "1 node, gold", "right"),
        ("any", "ore, 2 nodes", ""),
        ("metal", "3 ruled out, gold too", "wrong"),
        ("answers: metal", "0 nodes, 0 of 1 gold", "wrong"),
        ("melts_at <= 900", "0 nodes left, 0 of 1 gold", "wrong"),
        ("text “grey”", "not executed: orders the answers", "open"),
        ("first: Silver (2)", "gold at rank 3", "wrong"),
    ]
    assert [text for *_, text in drawn.arrows if text] == ["yields ↓", "made of ↓", "not yields ↓"]
    assert all(box.x >= 0 and box.x + box.width <= drawn.width and box.y < drawn.height for box in drawn.boxes)
    assert len({(box.x, box.y) for box in drawn.boxes}) == len(drawn.boxes)


def test_a_drawing_has_the_nodes_before_and_after_an_attribute_test(kb: KnowledgeBase) -> None:
    query = planned(kb, f"{YIELDS} ; melts_at >= 900", [GALENA], [SILVER])
    assert query.execution is not None
    assert [box[:3] for box in draw_plan(query, query.execution).boxes[2:]] == [
        ("answers: metal", "2 nodes, 1 of 1 gold", "right"),
        ("melts_at >= 900", "1 node left, 0 of 1 gold", "wrong"),
        ("first: Silver (2)", "gold is not in the ranking", "wrong"),
    ]


def test_a_drawing_is_selectable_text_and_described_in_words(kb: KnowledgeBase) -> None:
    html = plan_section(planned(kb, YIELDS, [GALENA], [TIN, LEAD], YIELDS))
    assert "<title>The executed plan</title><desc>“Galena”: ore. metal: 2 nodes, gold. answers: metal" in html
    assert ">“Galena”</text>" in html and "<script" not in html and "<image" not in html
    assert "The gold was lost in fusion." in html
    assert f"gold plan (2 nodes): <code>{YIELDS.replace(chr(34), '&quot;').replace('>', '&gt;')}</code>" in html


def test_relaxations_and_other_plans_are_listed(kb: KnowledgeBase) -> None:
    query = planned(kb, YIELDS, [GALENA], [LEAD])
    relaxed = explained(kb, YIELDS, f"{YIELDS} ; melts_at <= 5", ["without the test melts_at <= 5"])
    tin = explained(kb, '"Cassiterite":ore -[yields]-> metal')
    html = plan_section(replace(query, plans=[relaxed, *query.plans, tin]))
    assert "other plan (score 0.50, 1 node, no gold)" in html
    assert "without the test melts_at &lt;= 5" in html
    assert (
        html.count("drawn plan (score 0.50, 2 nodes, gold)")
        == html.count("other plan (score 0.50, 2 nodes, gold)")
        == 1
    )


def test_names_in_a_plan_are_inert(kb: KnowledgeBase) -> None:
    hostile = "</title><script>alert(1)</script>${x}"
    html = plan_section(planned(kb, f'{json.dumps(hostile)}:ore -[yields]-> metal ; text "{hostile}"', [], [TIN]))
    assert "<script" not in html and "${" not in html
    assert "&lt;script&gt;" in html


def test_totals_count_every_planned_query_once(kb: KnowledgeBase) -> None:
    queries = [
        planned(kb, YIELDS, [GALENA], [LEAD]),
        planned(kb, YIELDS, [GALENA], [SILVER]),
        planned(kb, YIELDS, [GALENA], [TIN]),
        planned(kb, None, [], [TIN]),
    ]
    totals = plan_totals(queries)
    assert [(row[0], row[-1]) for row in totals["chart"].rows] == [
        ("gold first", "1"), ("no entity", "1"), ("linking", "0"), ("plan", "0"), ("execution", "0"), ("fusion", "2"),
    ]  # fmt: skip
    assert [(loss.what, n) for loss, n, _ in totals["losses"]] == [
        (LOSSES[name].what, "1") for name in ("no entity", "within", "outside")
    ]
    assert plan_totals([]) == {}
    many = plan_totals(queries * 5)
    assert [(n, len(shown)) for _, n, shown in many["losses"]] == [("5", 3)] * 3


@pytest.fixture
def run(in_tmp: Path) -> Path:
    """A run with plans by rules."""
    folder = kbbench_hf.run("mini-stark", "plan:rules", limit=12, show=False).folder
    assert folder is not None
    return folder


def test_the_report_of_a_run_with_plans_has_the_totals_and_a_drawing_for_each_example(run: Path) -> None:
    page, kb = run_page(run), KnowledgeBase.open(find_dataset("mini-stark").path)
    records = map(json.loads, (run / "explanations.jsonl").read_text(encoding="utf-8").splitlines())
    assert all({*record["named"]} <= {*kb.names(kb.rows(record["linked"]))} for record in records)
    scores = (run / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    hits = [json.loads(line)["hit_at_1"] for line in scores]
    assert "First error of each planned query (12;" in page
    assert page.count("<svg class=plan") == 12
    stages = "gold first|no entity|linking|plan|execution|fusion"
    rows = re.findall(rf"<tr><td>({stages})</td>.*?<td>(\d+)</td></tr>", page, re.DOTALL)
    lost = {stage: int(count) for stage, count in rows[:6]}
    assert 0 < lost["gold first"] == sum(hits) < sum(lost.values()) == 12
    assert page.count("A gold node is first.") == lost["gold first"]


def test_examples_of_each_loss_are_shown_and_linked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kbbench_hf.reports.run_page, "N_EXAMPLES", 3)
    page = run_page(run)
    links = re.findall(r'href="#(query-\d+)"', page)
    assert 2 < len(links) == len({*links}) <= 12
    assert {*links} <= {*re.findall(r'<details id="(query-\d+)"', page)}
    assert page.count("<svg class=plan") <= len(links) + 3


def test_plans_are_not_executed_on_another_knowledge_base(run: Path) -> None:
    settings = read_json(run / "run.json")
    settings["settings"]["knowledge_base"] = "0" * 64
    (run / "run.json").write_text(json.dumps(settings), encoding="utf-8")
    page = run_page(run)
    assert "planned query" not in page and "<svg class=plan" not in page
    assert "ranking explained" in page


@pytest.mark.parametrize(
    ("plan", "reason"),
    [("any play -[r]-> play", "Unknown (node type|relation)"), ("any play", "is not an answer type")],
)
def test_an_edited_plan_is_named_with_its_query_and_file(run: Path, plan: str, reason: str) -> None:
    file = run / "explanations.jsonl"
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    edited = next(each for each in records if each["plans"])
    edited["plans"][0] |= {"plan": plan, "starts": [None]}
    file.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    with pytest.raises(
        DataError, match=f"explanations.jsonl: query {edited['id']!r} has the plan '{re.escape(plan)}': .*{reason}"
    ):
        run_page(run)


def test_a_run_without_plans_has_no_totals(in_tmp: Path) -> None:
    result = kbbench_hf.run("mini-stark", "graph:bm25", limit=2, show=False)
    assert result.folder is not None
    assert "plans" not in (result.folder / "explanations.jsonl").read_text(encoding="utf-8")
    assert "planned query" not in run_page(result.folder)
