"""SKA-Bench as a benchmark, on the shipped archipelago."""

import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.base import Examples, PromptOptions
from kbbench_hf.benchmarks.ska_bench.benchmark import (
    MINI,
    SKA_BENCH,
    SKA_OPEN,
    UNANSWERABLE,
    ContextRow,
    explain,
    load,
    parse_careful,
    score,
    summarise,
)
from kbbench_hf.benchmarks.ska_bench.longer_names import longer_names
from kbbench_hf.parsing.parsed_reply import ParseError


def examples(config: str) -> Examples:
    return load(shipped_dataset("mini-ska"), config, "test")


def figures(found: Examples, answers: list[Any], mode: str = "squad") -> dict[str, float]:
    return {name: figure.value for name, figure in summarise(score(found, answers, mode), mode).items()}


@pytest.mark.parametrize("mode", SKA_OPEN.scoring.modes)
@pytest.mark.parametrize(
    "config", ["noise_kg_1k", "order_table_suffix", "hardness_kg_text_easy", "noise_table_text_4k"]
)
def test_gold_answers_score_one_and_empty_lists_zero(config: str, mode: str) -> None:
    found = examples(config)
    assert figures(found, [row["answers"] for row in found.rows], mode)["answer_f1"] == 1
    empty = score(found, [[] for _ in found.rows], mode)
    assert summarise(empty, mode)["answer_f1"].value == 0 and empty.counters["n_empty"] == len(found.rows)


def test_always_no_rejects_everything_at_half_the_balanced_accuracy() -> None:
    control, paper = examples("rejection_control_kg"), examples("rejection_kg")
    always = figures(control, [["no"]] * len(control.rows))
    assert (always["rejection_rate"], always["acceptance_rate"], always["balanced_accuracy"]) == (1, 0, 0.5)
    assert np.isnan(always["answer_f1"])
    alone = figures(paper, [["no"]] * len(paper.rows))
    assert alone["rejection_rate"] == 1 and np.isnan(alone["balanced_accuracy"])
    right = [["yes"] if row["answerable"] else ["No."] for row in control.rows]
    assert figures(control, right)["balanced_accuracy"] == 1


def test_a_missing_answer_scores_zero() -> None:
    found = examples("noise_table_1k")
    answers = [None, *(row["answers"] for row in found.rows[1:])]
    n = len(found.rows)
    assert figures(found, answers)["answer_f1"] == pytest.approx((n - 1) / n)


def test_integration_is_a_slice_of_the_noise_runs() -> None:
    found = examples("noise_table_4k")
    scores = score(found, [row["answers"] for row in found.rows], "squad")
    assert set(scores.slices["n_required"]) == {"1", "2", ">4"} and scores.slices["source"][0] == "mini-ska"


@pytest.mark.parametrize("name", ["paper", "clean", "clean-1"])
def test_prompts_hold_the_context_the_question_and_the_way_to_answer(name: str) -> None:
    for config, words in (("noise_kg_text_4k", '{"answer": '), ("rejection_control_table", '{"answer": "no"}')):
        found = examples(config)
        for row in found.rows[:3]:
            prompt = MINI.asking.prompts[name](row, found, PromptOptions())
            text = prompt.messages[-1]["content"]
            context = found.context.context(row)
            assert context.sk_text in text + "\n" and context.text_text[:-1] in text
            assert row["question"] in text and words in text.splitlines()[-1]
            assert prompt.json_schema and "{sk}" not in text and "{question}" not in text


@pytest.mark.parametrize(("version", "is_shown"), [("1.0.0", False), ("2.0.0", True)])
def test_our_own_prompt_shows_the_title_of_a_table_from_version_2_on(version: str, is_shown: bool) -> None:
    found = examples("noise_table_text_4k")
    folder = SimpleNamespace(manifest={"version": version}, rows=found.context.folder.rows)
    instances = {key: replace(each, title="Crews of {sk}") for key, each in found.context.instances.items()}
    titled = Examples(found.rows, replace(found.context, folder=folder, instances=instances))
    for name, shows in (("paper", False), ("clean", is_shown)):
        [*_, message] = MINI.asking.prompts[name](found.rows[0], titled, PromptOptions()).messages
        assert ("Crews of {sk}" in message["content"]) == shows
        plain = MINI.asking.prompts[name](found.rows[0], found, PromptOptions()).messages[-1]["content"]
        assert message["content"].replace(' "Crews of {sk}"', "") == plain
        untitled = {key: replace(each, title="") for key, each in instances.items()}
        untitled = Examples(found.rows, replace(found.context, folder=folder, instances=untitled))
        assert MINI.asking.prompts[name](found.rows[0], untitled, PromptOptions()).messages[-1]["content"] == plain


def test_what_the_evidence_calls_the_answer_in_full_is_right() -> None:
    found = MINI.data.load(shipped_dataset("mini-ska"), "noise_table_text_4k", "test")
    rows = {row["question"]: row["answer_aliases"] for row in found.rows}
    assert rows["Which strait did the master of the Salt Patience chart?"] == [["Marrow Strait"]]
    answers = [["Marrow Strait"] if "strait" in row["question"] else row["answers"] for row in found.rows]
    assert figures(found, answers, "typed")["answer_f1"] == 1


@pytest.mark.parametrize(
    ("answer", "question", "text", "expected"),
    [
        ("Brazoria County", "Which county?", "It is in Brazoria County, Texas, United States.", 2),
        ("Boston", "Where?", "He lived in Boston, New York, and Chicago.", 0),  # a list
        ("Vienna", "Where?", "He worked in Vienna, Ann said.", 0),
        ("Cleveland Indians", "Which club?", "played with the Cleveland Indians, Chicago Cubs.", 0),
        ("Jayne", "What is her middle name?", "Melanie Jayne Chisholm (born 1974) sings.", 0),
        ("American", "Of which nationality?", "is an American Football player", 0),
        ("Oklahoma City", "Where is it set?", "the Oklahoma City National Memorial in Oklahoma City", 0),
        ("Dr Laila Ghannam", "Who governs it?", "Its governor is Dr Laila Ghannam.", 1),
        ("four", "How many?", "won four Grammy Awards", 0),
        ("Booker Prize", "Which prize?", "She won the Booker Prize for Fiction for Rain.", 1),
        ("Captain Nemo and the City", "Which film?", "Captain Nemo and the City is a film.", 0),  # nobody's title
    ],
)
def test_longer_names_are_the_same_answer(answer: str, question: str, text: str, expected: int) -> None:
    assert len(longer_names(answer, question, [text])) == expected


def test_the_papers_prompt_is_worded_as_in_its_figures() -> None:
    found = examples("noise_table_1k")
    [message] = MINI.asking.prompts["paper"](found.rows[0], found, PromptOptions()).messages
    lines = message["content"].splitlines()
    assert lines[:2] == ["### Table:", "|Ship|Built|Yard|Length (m)|Crew|Home port|"]
    assert lines[-7:] == [
        "Task Description:",
        "Please look at the table, and then answer the following questions.",
        "",
        "### Question:",
        found.rows[0]["question"],
        "",
        'Return the final result as JSON in the format {"answer": <YOUR ANSWER LIST>} in the last line.',
    ]


def test_the_default_prompt_says_how_to_write_what_is_computed_and_ska_benchs_is_the_papers() -> None:
    assert [next(iter(each.asking.prompts)) for each in (MINI, SKA_OPEN, SKA_BENCH)] == ["clean", "clean", "paper"]
    found = examples("noise_table_1k")
    texts = {
        name: json.dumps(prompt(found.rows[0], found, PromptOptions()).messages)
        for name, prompt in MINI.asking.prompts.items()
    }
    for rule in ("two decimals", "without the percent sign", "minus sign", "without the unit", "in digits"):
        assert rule in texts["clean"]
    # kept byte for byte, as started runs need it
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in texts.items()}
    assert (digests["clean-1"], digests["paper"]) == ("51eaee2e6cf2", "0c378d68f09f")


def test_text_from_the_data_is_never_taken_for_a_placeholder() -> None:
    found = examples("noise_kg_1k")
    row = found.rows[0] | {"question": "What is {task} or {sk} or {}?"}
    assert (
        "What is {task} or {sk} or {}?"
        in MINI.asking.prompts["paper"](row, found, PromptOptions()).messages[0]["content"]
    )


def test_what_cannot_be_shown_is_not_asked_and_counted(tmp_path) -> None:
    from kbbench_hf.benchmarks.ska_bench.benchmark import SubsetData

    found = examples("noise_kg_1k")
    material = SubsetData(found.context.folder, "kg", found.context.instances, {"over_budget": 3})
    counters = score(Examples(found.rows, material), [["x"]] * len(found.rows), "squad").counters
    assert counters == {"n_empty": 0, "n_over_budget": 3, "n_answerable_noise": 0}


def test_every_config_of_the_mini_dataset_can_be_asked() -> None:
    for config in MINI.data.configs:
        found = examples(config)
        assert found.rows and all(row["question"] and row["answers"] and row["kb_tokens"] for row in found.rows)


def test_a_verdict_that_is_neither_yes_nor_no_is_reported() -> None:
    judged, asked = examples("rejection_kg"), examples("noise_kg_1k")
    assert MINI.scoring.check(judged, "mini-kg-00", ["perhaps"]) == "['perhaps'] is neither ['yes'] nor ['no']"
    assert (
        MINI.scoring.check(judged, "mini-kg-00", ["No"]) is None
        and MINI.scoring.check(asked, "mini-kg-00", ["perhaps"]) is None
    )


def test_the_shipped_dataset_loads_like_any_on_the_hub() -> None:
    import datasets

    rows = datasets.load_dataset(str(shipped_dataset("mini-ska").path), "rejection_table", split="test")
    assert rows.num_rows == 13 and rows[0]["answerable"] is False and rows[0]["sk_units"]


def test_an_answer_is_right_but_for_case_and_its_context_is_shown_with_its_evidence_marked() -> None:
    found = examples("noise_kg_4k")
    row = {**found.rows[0], "answers": ["Ostra", "Sarn"]}
    shown = explain(found, row, ["ostra ", "Velm"])
    assert shown.gold == ["Ostra", "Sarn"]
    assert shown.answer == [("ostra ", "right"), ("Velm", "wrong")]
    assert any(marked for _, marked in shown.question) and not all(marked for _, marked in shown.question)


def test_any_answer_to_what_cannot_be_answered_is_made_up() -> None:
    found = examples("rejection_kg")
    row = {**found.rows[0], "answerable": False}
    shown = explain(found, row, ["Ostra"])
    assert (shown.gold, shown.answer) == ([UNANSWERABLE], [("Ostra", "hallucinated")])


@pytest.mark.parametrize(
    ("response", "answers"),
    [
        ("Answer: Ostra, Sarn", ["Ostra", "Sarn"]),  # both are nodes of the context
        ("Answer: ostra and sarn", ["ostra", "sarn"]),
        ("Answer: Merry Auk, Ostra", ["Merry Auk", "Ostra"]),
        ("Answer: Ostra and Nowhere", None),
    ],
)
def test_a_list_in_one_line_is_split_where_the_context_has_its_parts_as_names(
    response: str, answers: list[str] | None
) -> None:
    row = next(row for row in examples("noise_kg_4k").rows if row["id"] == "mini-kg-00")
    if answers is None:
        with pytest.raises(ParseError, match="one answer or several"):
            parse_careful(response, row)
    else:
        assert parse_careful(response, row).answer == answers


def test_a_name_with_a_comma_or_an_and_stays_one_where_the_context_has_it() -> None:
    class Row(ContextRow):
        _names = frozenset({"ross and macdonald", "lawrence, elliott"})  # type: ignore[assignment]

    found = examples("noise_kg_1k")
    row = Row(found.rows[0], found.context)
    assert parse_careful("Answer: Ross and Macdonald", row).answer == ["Ross and Macdonald"]
    assert parse_careful('{"answer": "Lawrence, Elliott"}', row).answer == ["Lawrence, Elliott"]
