import json
from dataclasses import replace
from pathlib import Path

import pytest

import kbbench_hf
from kbbench_hf.scoring.trajectories import (
    TRAJECTORIES,
    Call,
    Trajectory,
    read_trajectories,
    slices_of,
    trajectory_warnings,
)

WALK = Trajectory(
    id="q1",
    split="test",
    steps=4,
    end="finished",
    selected=["ü", 7],
    backed_off=False,
    calls=[
        Call(1, "search_nodes", {"query": "a"}, None, 2, [7, "07"], 0),
        Call(2, "neighbors", {"node_id": "7"}, None, 40, ["b"], 1),
        Call(3, "neighbors", {"node_id": "b"}, None, 1, ["ü"], 0),
        Call(3, "neighbors", "{broken", "bad_arguments"),
        Call(4, "select", {"node_ids": ["ü", 7]}),
    ],
    tool_errors={"bad_arguments": 1},
    seen=4,
    answer_seen=True,
    answer_selected=False,
    seconds=1.5,
)


def test_examples_are_sliced_by_what_the_agent_did_and_saw() -> None:
    blind, unknown = (replace(WALK, id=name, answer_seen=seen) for name, seen in (("q2", False), ("q3", None)))
    assert slices_of([WALK, blind, unknown], ["q1", "q2", "q3", "q4"]) == {
        "hops_walked": [WALK.hops, blind.hops, unknown.hops, "none"],
        "end": ["finished", "finished", "finished", "none"],
        "answer_seen": ["true", "false", "false", "false"],
    }
    assert "answer_seen" not in slices_of([unknown], ["q3"])


def test_a_trajectory_is_read_as_it_was_written(tmp_path: Path) -> None:
    spoken = replace(WALK, id=8, messages=[{"role": "user", "content": "ü\u2028\ud800"}])
    (tmp_path / TRAJECTORIES).write_text(WALK.line() + spoken.line(), encoding="utf-8")
    assert [each.line() for each in read_trajectories(tmp_path)] == [WALK.line(), spoken.line()]
    assert "messages" not in json.loads(WALK.line())
    assert read_trajectories(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    ("selected", "hops"), [(["ü"], "2"), (["b", "ü"], "1"), ([7], "0"), ([], "none"), (["never shown"], "unseen")]
)
def test_hops_are_counted_from_the_nearest_search_hit(selected: list[str | int], hops: str) -> None:
    assert replace(WALK, selected=selected).hops == hops


def test_a_string_of_digits_that_is_an_id_itself_is_no_number() -> None:
    calls = [Call(1, "search_nodes", {}, shown=["7"]), Call(2, "neighbors", {"node_id": "7"}, shown=["c"])]
    assert replace(WALK, calls=calls, selected=["c"]).hops == "1"


def test_questions_that_no_agent_walked_have_keys_of_their_own() -> None:
    assert slices_of([WALK], ["q1", "q2"]) == {
        "hops_walked": ["2", "none"],
        "end": ["finished", "none"],
        "answer_seen": ["true", "false"],
    }


def test_what_the_base_answered_is_said_beside_the_figures() -> None:
    nothing = replace(WALK, selected=[], backed_off=True, end="failed")
    found = {each.code: each for each in trajectory_warnings([WALK, nothing])}
    assert (found["backed_off"].severity, found["backed_off"].n_examples) == ("warning", 1)
    assert found["agent_failed"].n_examples == 1
    assert [each.severity for each in trajectory_warnings([WALK] * 19 + [replace(nothing, end="stuck")])] == ["note"]
    assert trajectory_warnings([WALK]) == []


def test_a_run_with_trajectories_is_scored_with_them_and_the_same_way_again(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "bm25", limit=2, show=False).folder
    assert folder is not None
    walks = [replace(WALK, id=0), replace(WALK, id=1, selected=[], backed_off=True, answer_seen=False)]
    (folder / TRAJECTORIES).write_text("".join(each.line() for each in walks), encoding="utf-8")
    result = kbbench_hf.score(folder)
    assert {"n_tool_calls": 10, "n_tool_errors": 2, "n_backed_off": 1, "n_answer_seen": 1}.items() <= dict(
        result.counters
    ).items()
    assert result.slices["hops_walked"].keys() == {"2", "none"}
    assert "backed_off" in {each.code for each in result.warnings}
    assert kbbench_hf.score(folder) == result
