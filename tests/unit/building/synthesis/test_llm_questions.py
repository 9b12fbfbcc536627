"""Questions by a scripted writer and scripted judges: what must be kept is known from the texts alone."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.building.synthesis.llm_questions import (
    JudgeVotes,
    Models,
    costs,
    fleiss_kappa,
    plan,
    questions_by_models,
    write_questions,
)
from kbbench_hf.building.synthesis.questions import QuestionSet
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.knowledge_base.store import KnowledgeBase
from tests.servers.scripted import ScriptedServer
from tests.servers.sharding import CONCURRENCY, kill_synthesis
from tests.servers.writers import answer, is_met

COUNT = 8
SPEC = SynthesisSpec(max_hops=1, max_templates=6)
FAST_FAULTS = ("500", "503", "reset", "truncated json", "html", "choices empty")


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    return KnowledgeBase.open(find_dataset("mini-stark").path)


def models(url: str, judges: list[str], writer: str = "writer", agreement: str = "all", **options: object) -> Models:
    def served(model: str) -> dict[str, str]:
        return {"model": model, "base_url": url}

    steps: dict[str, Any] = {step: served(writer) for step in ("extract", "fuse", "rewrite")}
    given = {**steps, "judges": [served(each) for each in judges], "agreement": agreement, **options}
    chosen = SynthesisSpec.of({"models": given}, "spec").models
    assert chosen
    return chosen


def made(kb: KnowledgeBase, server: ScriptedServer, folder: Path, chosen: Models) -> tuple[QuestionSet, str]:
    built, lines = questions_by_models(SPEC, chosen, COUNT, "0", folder, concurrency=16)(kb)
    return built, "\n".join(lines)


def test_a_candidate_is_kept_if_and_only_if_its_text_has_what_was_asked(kb: KnowledgeBase, tmp_path: Path) -> None:
    with ScriptedServer(answer=answer) as server:
        built, card = made(kb, server, tmp_path, models(server.url, ["truthful"] * 3))
        n_asked = len(server.requests)
        again, _ = made(kb, server, tmp_path, models(server.url, ["truthful"] * 3))
    assert built.questions
    for each in built.questions:
        candidates = each.template.template.path.answers(kb.graph, *each.topics).tolist()
        wanted = [str(requirement["value"]) for requirement in each.requirements]
        assert list(each.answers) == [row for row in candidates if is_met(wanted, kb.texts([row])[0])]
        assert each.gold in each.answers
        assert all(str(said["source"]) in kb.texts([each.gold])[0] for said in each.requirements)
        assert all(name in each.text for name in kb.names(list(each.topics)))
    assert again.questions == built.questions
    assert len(server.requests) <= n_asked + 6  # canaries alone
    assert "Fleiss" in card and "truthful is 3 of the judges" in card
    assert re.search(r"\| 3\. truthful \| \d+ \| 0\.\d+ \| 0\.000 \| 1\.000 \|", card)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        ("always", "agreed with every one"),
        ("never", "agreed with none"),
        ("nonsense", "no readable verdict on 100%"),
    ],
)
def test_a_judge_that_tells_nothing_is_noticed_on_the_card(
    kb: KnowledgeBase, tmp_path: Path, judge: str, said: str
) -> None:
    with ScriptedServer(answer=answer) as server:
        chosen = models(server.url, ["truthful", "truthful", judge], agreement="majority")
        _, card = made(kb, server, tmp_path / "majority", chosen)
        assert f"3. {judge} " in card and said in card
        assert "1. truthful agreed" not in card
        if judge != "always":  # all must agree, so that nothing is kept, and the message says through whom
            with pytest.raises(DataError, match=said):
                made(kb, server, tmp_path / "all", models(server.url, ["truthful", "truthful", judge]))


def test_judges_that_agree_always_never_or_unreadably_are_named() -> None:
    n = 40
    judges: dict[str, list[bool | None]] = {
        "1. a": [None, None] + [True] * (n - 2),  # nearly all readable, and all the same
        "2. b": [False] * n,
        "3. c": [True, False] * (n // 2),
        "4. a": [None] * 4 + [True, False] * (n // 2 - 2),
    }
    rows = [list(each) for each in zip(*judges.values(), strict=True)]
    votes = JudgeVotes(tuple(judges), rows, rows[:10])
    alarms = [
        "a is 2 of the judges: their votes are one opinion.",
        "1. a agreed with every one of 38 candidates: it judges nothing.",
        "2. b agreed with none of 40 candidates, gold ones among them.",
        "4. a gave no readable verdict on 10% of 40 candidates.",
    ]
    assert votes.alarms() == alarms
    lines = votes.in_markdown()
    assert lines[2:6] == [
        "| 1. a | 40 | 0.950 | 0.050 | 0.800 |",
        "| 2. b | 40 | 0.000 | 0.000 | 0.000 |",
        "| 3. c | 40 | 0.500 | 0.000 | 0.500 |",
        "| 4. a | 40 | 0.450 | 0.100 | 0.300 |",
    ]
    assert [each.strip("*\n") for each in lines[-4:]] == alarms
    few = JudgeVotes(("1. a", "2. b"), [[True, False]] * 19, [[True, False]])
    assert few.alarms() == []  # too few to say


def test_agreement_of_judges_is_fleiss_kappa() -> None:
    assert fleiss_kappa([[True, True], [False, False], [True, False], [True, False]]) == pytest.approx(0)
    # Of three judges: two subjects unanimous, two 2 to 1. P = (1 + 1 + 1/3 + 1/3) / 4 = 2/3, Pe = 1/2, both by hand.
    votes = [[True] * 3, [False, None, False], [True, True, False], [True, None, False]]
    assert fleiss_kappa(votes) == pytest.approx((2 / 3 - 1 / 2) / (1 / 2))
    assert fleiss_kappa([[True, False]] * 5) == pytest.approx(-1)
    assert np.isnan(fleiss_kappa([[True, True]] * 5))


def test_a_source_that_stands_nowhere_and_a_lost_topic_drop_the_question(kb: KnowledgeBase, tmp_path: Path) -> None:
    with ScriptedServer(answer=answer) as server:
        for writer, why in (
            ("inventor", "survived: no property whose source stands"),
            ("forgetful", "fuse: a name was left out"),
        ):
            with pytest.raises(DataError, match=why):
                made(kb, server, tmp_path / writer, models(server.url, ["truthful"] * 3, writer))


def test_each_planned_question_is_made_or_lost_for_a_reason_on_the_card() -> None:
    folder = DatasetFolder(find_dataset("mini-stark").path)
    nodes = folder.table("nodes", "full").to_pylist()
    silent = [row | {"text": "" if row["type"] == "cook" else row["text"]} for row in nodes]
    kb = KnowledgeBase.from_arrow(pa.Table.from_pylist(silent), folder.table("edges", "full"))
    planned = plan(kb, SPEC, COUNT, "0")
    with_text = [str(each.attempt) for each in planned.questions if kb.texts([each.gold])[0]]
    mute, tired, doubtful, *others = with_text
    sent: dict[str, set[str]] = {}

    def ask(step: str, prompts: Mapping[str, Prompt]) -> dict[str, str | None]:
        sent[step] = {*prompts}
        model = "truthful" if step.startswith("judge") else "writer"
        replies: dict[str, str | None] = {
            key: answer({"messages": prompt.messages, "model": model}) for key, prompt in prompts.items()
        }
        if step.startswith("fuse") and mute in prompts:
            replies[mute] = "blue"
        if step == "rewrite":
            replies[tired] = None  # the second try succeeds
        if step == "judge 2":
            replies |= {key: "blue" for key in prompts if key.startswith(f"{doubtful}/")}
        return replies

    chosen = models("http://127.0.0.1:1", ["truthful", "truthful"])
    built, lines = write_questions(planned, replace(SPEC, least_answers=1, most_answers=1), chosen, 99, ask)
    wide, _ = write_questions(planned, replace(SPEC, least_answers=2, most_answers=9), chosen, 99, ask)
    n_silent, n_wide = len(planned.questions) - len(with_text), len(wide.questions)
    assert n_silent and n_wide and built.questions
    assert sent["extract"] == {*with_text} and sent["fuse again"] == {mute} and sent["rewrite again"] == {tired}
    table = lines[lines.index("| lost | questions |") :]
    assert table[2 : table.index("")] == [
        "| fuse: there was no question | 1 |",
        f"| the gold node has no text | {n_silent} |",
        "| the judges refused the gold node | 1 |",
        f"| too many answers | {n_wide} |",
    ]
    made_of = {str(each.attempt) for each in (*built.questions, *wide.questions)}
    assert made_of == {tired, *others} and len(built.questions) + n_wide == len(made_of)
    again = next(each for each in (*built.questions, *wide.questions) if str(each.attempt) == tired)
    assert again.made_by and again.made_by["outputs"]["rewrite"] == "" != again.made_by["outputs"]["rewrite again"]


def test_a_spec_bounds_replies_and_constrains_them_to_json(kb: KnowledgeBase, tmp_path: Path) -> None:
    options = {"structured": True, "max_tokens": 50}
    with ScriptedServer(answer=answer) as server:
        made(kb, server, tmp_path, models(server.url, ["truthful"] * 3, **options))
        asked = [each for each in server.payloads if "system" in [m["role"] for m in each["messages"]]]
    properties = [[*each["response_format"]["json_schema"]["schema"]["properties"]] for each in asked]
    assert {each["max_tokens"] for each in asked} == {50}
    assert {key for each in properties for key in each} == {"properties", "question", "supported"}
    for wrong in ({"structured": "yes"}, {"max_tokens": 0}, {"max_tokens": "50"}, {"tokens": 50}):
        with pytest.raises(DataError, match=f"{next(iter(wrong))}.*expected"):
            models("http://127.0.0.1:1", ["a", "b"], **wrong)


def test_faults_change_nothing(kb: KnowledgeBase, tmp_path: Path) -> None:
    with ScriptedServer(answer=answer) as server:
        smooth, card = made(kb, server, tmp_path / "smooth", models(server.url, ["truthful"] * 3))
    with ScriptedServer(answer=answer, fault_rate=0.3, kinds=FAST_FAULTS) as server:
        rough, rough_card = made(kb, server, tmp_path / "rough", models(server.url, ["truthful"] * 3))
        assert sum(server.injected.values()) > 0
    assert (rough.questions, rough.splits, rough_card) == (smooth.questions, smooth.splits, card)


def test_the_price_is_known_beforehand_by_model(kb: KnowledgeBase) -> None:
    chosen = models("http://127.0.0.1:1", ["a", "b", "c"])
    planned = plan(kb, SPEC, COUNT, "0")
    found = costs(planned, chosen)
    n_candidates = sum(len(each.answers) for each in planned.questions)
    assert {name: cost.n_prompts for name, cost in found.items()} == {
        "writer": 3 * len(planned.questions),
        **dict.fromkeys("abc", n_candidates),
    }


def test_killed_shards_make_the_questions_of_one_process_and_send_nothing_twice_but_what_was_under_way(
    tmp_path: Path,
) -> None:
    found = kill_synthesis(tmp_path, n_shards=4, n_kills=3, count=COUNT)
    assert found.results == [True, True]
    assert (found.kills, found.refused) == (3, 1)
    assert found.twice <= 3 * CONCURRENCY
