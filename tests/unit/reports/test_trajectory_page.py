import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kbbench_hf
from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.reports.run_page import run_page
from kbbench_hf.reports.trajectory_page import IN_BOX, LINE, MOST_ROWS, draw_trajectory, totals, trajectory
from kbbench_hf.scoring.trajectories import TRAJECTORIES, Call, Trajectory

HOSTILE = "</text><script>alert(1)</script>${x}"


@pytest.fixture
def kb() -> KnowledgeBase:
    """Ada writes On salt and On stone; a hostile name is cited."""
    nodes = pa.table(
        {
            "id": ["a", "p", "q", "x"],
            "type": ["author", "paper", "paper", "paper"],
            "name": ["Ada", "On salt", "On stone", HOSTILE],
            "text": [""] * 4,
        }
    )
    edges = pa.table({"head": ["a", "a", "p"], "relation": ["writes", "writes", "cites"], "tail": ["p", "q", "x"]})
    return KnowledgeBase.from_arrow(nodes, edges)


WALK = Trajectory(
    id=1,
    split="test",
    steps=4,
    end="finished",
    selected=["x"],
    backed_off=False,
    calls=[
        Call(1, "search_nodes", {"query": "Ada"}, None, 3, ["a", "q"]),
        Call(2, "neighbors", {"node_id": "a"}, None, 2, ["p", "q"]),
        Call(2, "search_nodes", {"query": "granite"}, None, 0, []),
        Call(3, "neighbors", {"node_id": "p"}, None, 2, ["a", "x"]),
        Call(3, "neighbors", {"node_id": "nobody"}, "unknown_node"),
        Call(4, "select", {"node_ids": ["x"]}),
    ],
    tool_errors={"unknown_node": 1},
    seen=4,
    answer_seen=True,
    answer_selected=True,
)


def test_the_picture_has_the_way_to_what_was_selected_and_what_was_found_in_vain(kb: KnowledgeBase) -> None:
    picture = draw_trajectory(WALK, ["x"], kb)
    assert [(box.whole, box.kind) for box in picture.boxes] == [
        ("“Ada”", "search"),
        ("Ada (a)", "node"),
        ("On salt (p)", "node"),
        (f"1. {HOSTILE} (x)", "hit"),
        ("“granite”", "search"),
        ("0 found, none taken", "nothing"),
    ]
    assert [arrow.whole for arrow in picture.arrows] == ["1 of 3", "writes →", "cites →", ""]
    assert len({box.y for box in picture.boxes}) == 2  # q mattered to nobody, so the walk is one row


def test_a_right_answer_that_was_passed_over_is_drawn_and_said(kb: KnowledgeBase) -> None:
    passed = replace(WALK, selected=[], backed_off=True, answer_selected=False)
    assert ("On stone (q)", "right") in [(box.whole, box.kind) for box in draw_trajectory(passed, ["q"], kb).boxes]
    html = trajectory(passed, ["q"], kb)
    assert "A gold node was seen but not selected (selection error)." in html
    assert "Nothing was selected" in html and "4 steps · 6 calls · 1 error · 4 seen" in html
    picture = draw_trajectory(
        replace(passed, calls=WALK.calls[:2]), ["p", "q"], kb
    )  # q below Ada, then a, with p below
    assert [(box.whole, box.y // LINE) for box in picture.boxes][2:] == [("On salt (p)", 0), ("On stone (q)", 1)]
    assert [(arrow.y // LINE, arrow.to // LINE) for arrow in picture.arrows] == [(0, 0), (0, 0), (0, 1)]


def test_what_a_node_or_a_model_says_is_inert_and_cut_to_fit(kb: KnowledgeBase) -> None:
    spoken = replace(
        WALK,
        end=HOSTILE,
        calls=[*WALK.calls, Call(5, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE), Call(5, "select", HOSTILE)],
    )
    html = trajectory(spoken, [], kb)
    assert "<script" not in html
    assert "${x}" not in html
    written = [unescape(text) for text in re.findall(r"</title>([^<]*)</text>", html)]
    assert max(len(text.removesuffix(" ✓")) for text in written) == IN_BOX


def test_a_long_walk_is_cut_and_says_so(kb: KnowledgeBase) -> None:
    searches = [Call(n, "search_nodes", {"query": str(n)}, None, 0, []) for n in range(MOST_ROWS + 3)]
    picture = draw_trajectory(replace(WALK, calls=searches), [], kb)
    assert (len(picture.boxes), picture.n_left_out) == (2 * MOST_ROWS, 3)
    assert "3 more rows are not drawn" in trajectory(replace(WALK, calls=searches), [], kb)


@pytest.mark.parametrize(
    ("changes", "facts", "outcome"),
    [
        ({}, "4 steps · 6 calls · 1 error · 4 seen", ""),
        ({"steps": 1, "tool_errors": {}}, "1 step · 6 calls · 0 errors · 4 seen", ""),
        ({"prompt_tokens": 1200}, "4 seen · 1,200 tokens in, 0 out", ""),
        ({"cost_usd": 0.5, "seconds": 2.04}, "4 seen · 0.5000 USD · 2.0 s", ""),
        ({"backed_off": True}, "", "Nothing was selected; the ranking is the base retriever"),
        ({"answer_selected": False}, "", "A gold node was seen but not selected (selection error)."),
        ({"answer_seen": False, "answer_selected": False}, "", "No gold node was seen (search error)."),
        ({"selected": ["p", "x"]}, "", "A gold node was selected, but not first."),
    ],
)
def test_a_walk_has_its_counts_and_what_became_of_the_gold(
    kb: KnowledgeBase, changes: Any, facts: str, outcome: str
) -> None:
    text = unescape(trajectory(replace(WALK, **changes), ["x"], kb))
    assert facts in text and outcome in text
    said = ["Nothing was selected", "A gold node", "No gold node"]
    assert [each for each in said if each in text] == [each for each in said if outcome.startswith(each)]


def test_means_over_many_questions_have_their_percentiles() -> None:
    many = [replace(WALK, steps=steps, seen=1) for steps in range(1, 21)]
    assert dict(totals(many))["steps"] == "10.5 (90 % range 1.05 to 19.95)"
    assert dict(totals(many[:19]))["steps"] == "10"
    found = dict(totals([replace(WALK, answer_seen=None, tool_errors={})]))
    assert found["tool errors"] == "none" and "gold node seen" not in found and "seconds" not in found


def test_totals_say_what_was_seen_and_then_selected() -> None:
    blind = replace(WALK, answer_seen=False, answer_selected=False, backed_off=True, selected=[])
    passed = replace(WALK, answer_selected=False, prompt_tokens=10, completion_tokens=2, cost_usd=0.5, seconds=1.0)
    found = dict(totals([WALK, blind, passed]))
    assert found["fell back to the base retriever"] == "1 of 3 (33.3 %)"
    assert found["gold node seen"] == "2 of 3 (66.7 %)"
    assert found["gold node selected, once seen"] == "1 of 2 (50.0 %)"
    assert (found["tool errors"], found["prompt tokens"], found["cost, USD"]) == ("unknown_node 3", "10", "0.5")


def test_the_report_of_an_agents_run_draws_every_example(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "bm25", limit=2, show=False).folder
    assert folder is not None
    walks = [Trajectory(each, "test", 1, "no_call", [], backed_off=True) for each in (0, 1)]
    hit = KnowledgeBase.open(find_dataset("mini-stark").path).names()[80]
    walks[0] = replace(walks[0], calls=[Call(1, "neighbors", {"node_id": "80"}, None, 1, [211])])
    (folder / TRAJECTORIES).write_text("".join(each.line() for each in walks), encoding="utf-8")
    assert "Agent and base retriever" not in run_page(folder)
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps({**run, "base": folder.name}), encoding="utf-8")
    page = run_page(folder)
    assert "<h2>Agent</h2>" in page
    assert re.search(
        r"<td>Hit@1</td><td class=drawn>[^+]*<td>\+0.0000</td><td>[^<]*</td><td>1.0000 *</td><td[^>]*>0/2/0</td>"
        r"<td[^>]*>([\d.]+)</td><td[^>]*>\1</td>",
        page,
    )
    assert page.count("<b>trajectory</b>") == 2
    assert f"{hit} (80)" in page
    assert json.loads(walks[1].line())["calls"] == []
