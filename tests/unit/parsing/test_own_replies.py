"""Replies of our own in many languages, formats and markers: each is read as it says, or refused where it must be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.parsing.answers import parse_answers
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.parsing.scores import parse_score
from kbbench_hf.parsing.triples import parse_triples, without_types
from kbbench_hf.parsing.verdicts import parse_answerable, parse_supported

CASES = [json.loads(line) for line in Path(__file__).with_name("own_replies.jsonl").read_text("utf-8").splitlines()]


def answers(case: Any) -> Any:
    example = case["example"]
    if example["testbed"] == "rejection":
        return parse_answerable(case["reply"]).answer
    return parse_answers(case["reply"], example.get("question", "")).answer


def triples(case: Any) -> Any:
    example = case["example"]
    asked, relations = example.get("sentence") or example["text"], example.get("relations", ())
    return [list(triple) for triple in parse_triples(case["reply"], asked, relations).answer]


READERS: dict[str, Callable[[Any], Any]] = {
    "text2kg": triples,
    "genres": triples,
    "ska": answers,
    "judge_fact": lambda case: parse_supported(case["reply"]).answer,
    "judge_split": lambda case: [
        list(each) for each in parse_triples(case["reply"], partial=False, single=True).answer
    ],
    "reranker": lambda case: parse_score(case["reply"]).answer,
}


@pytest.mark.parametrize("task", READERS)
def test_every_reply_is_read_as_it_says(task: str) -> None:
    cases = [case for case in CASES if case["task"] == task]
    assert len(cases) > 20
    unlike = []
    for case in cases:
        try:
            found = READERS[task](case)
        except ParseError:
            found = "parse_failure"
        if isinstance(found, list) and found and isinstance(found[0], list):
            found, case["expected"] = sorted(found), sorted(case["expected"])
        if found != case["expected"] and found != pytest.approx(case["expected"] if isinstance(found, float) else -1):
            unlike.append((case["reply"], found, case["expected"]))
    assert not unlike


@pytest.mark.parametrize(
    "item", ["The Petrel sailed with twelve men under Ines Calder that spring of 1904", "Assistant"]
)
def test_a_list_with_a_sentence_or_a_word_of_the_template_is_no_answer(item: str) -> None:
    assert parse_answers("- Petrel\n- Ines Calder").answer == ["Petrel", "Ines Calder"]
    with pytest.raises(ParseError, match="no answer"):
        parse_answers(f"- Petrel\n- {item}")


def test_types_behind_names_are_cut_at_the_last_colon() -> None:
    assert without_types([("Bleach: Hell Verse:WORK", "r", "A: B")]) == [("Bleach: Hell Verse", "r", "A")]
    assert without_types([("at 10:30", "r", "Anna:PERSON")]) == [("at 10:30", "r", "Anna")]
