"""Replies of our own in many languages, formats and markers: each is read as it says, or refused where it must be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.parsing.answer_lists import clean_answer, json_answers, split_answers
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


def test_a_line_of_more_than_six_words_is_no_name() -> None:
    name = "Harbour of Old Northern Island Towns"
    assert parse_answers(f"Petrel\n{name}").answer == ["Petrel", name]
    with pytest.raises(ParseError, match="no answer"):
        parse_answers(f"Petrel\n{name.replace('Old', 'the Old')}")


def test_types_behind_names_are_cut_at_the_last_colon() -> None:
    assert without_types([("Bleach: Hell Verse:WORK", "r", "A: B")]) == [("Bleach: Hell Verse", "r", "A")]
    assert without_types([("at 10:30", "r", "Anna:PERSON")]) == [("at 10:30", "r", "Anna")]


LINES = """
1. Petrel 2. Oda => Petrel|Oda ~ (a) Petrel, (b) Oda => Petrel|Oda ~ both Petrel and Saint Oda => Petrel|Saint Oda
1,2,3 => 1|2|3 ~ 1,000,000 => 1,000,000 ~ 1000,2000 => 1000|2000 ~ 1,000,2,000 => ? ~ 12,34 => ? ~ 1,234 => 1,234
28, 30 (two ships) => 28|30 ~ (28 and 30) => 28|30 ~ (Lima, Peru) => Lima, Peru ~ [Lima; Oslo] => Lima|Oslo
Lima、Oslo和东京 => Lima|Oslo|东京 ~ 18, 20; 30 and 31 => 18|20|30|31 ~ 5 km and 6 km => 5 km|6 km
5 and 6 km => 5|6 km ~ 5 km and 6 m => 5 km and 6 m ~ March 3 and March 4 => March 3|March 4 ~ $5 and $6 => $5|$6
"Petrel" and "Oda" => Petrel|Oda ~ Petrel and the Oda => Petrel and the Oda ~ Petrel, the Oda => ?
petrel and the oda => ? ~ Marks & Spencer => Marks & Spencer ~ Ines Calder and Anna Aske => Ines Calder|Anna Aske
Ines Calder, Anna Aske => Ines Calder|Anna Aske ~ Ines, Anna, and Bo => Ines|Anna|Bo ~ Ines, Anna, Bo => Ines|Anna|Bo
Ines Calder, Anna and Bo => ? ~ Ines, Anna => ? ~ Ines and Anna => ? ~ Ines and Anna and Bo => ?
Peru, Chile => Peru|Chile
Lima, Peru and Oslo, Norway => ? ~ May 3, 1904 => May 3, 1904 ~ Sammy Davis, Jr. => Sammy Davis, Jr. ~ 28 or 30 => ?
Ines Calder or Anna Aske => ? ~ Ministry of Trade and Industry => ? ~ 1904 and 1905 meters => 1904|1905 meters
Petrel (1904), Oda (1905) => Petrel (1904)|Oda (1905) ~ Red, white and blue => ? ~ five and six => ? ~ 5%, 6% => 5%|6%
Ines Calder, captain of the Petrel => ? ~ 5 apples, 6 pears => ? ~ 5 pounds, 6 pound => 5 pounds|6 pound
3 March, 4 March => 3 March|4 March ~ March 3, April 4 => March 3|April 4 ~ 3 March and 4 April => 3 March|4 April
3 March, 4 March 1904 => 3 March|4 March 1904 ~ May 3, 1904, May 4, 1905 => May 3, 1904|May 4, 1905 ~ 3 March, 4 => ?
Monday, 4 March => Monday, 4 March ~ Monday, March 4, 1904 => Monday, March 4, 1904 ~ 4 March, 1904 => 4 March, 1904
"""
SEVERAL = """
Ines and Anna => Ines|Anna ~ Marks & Spencer => ? ~ Ines, Anna => Ines|Anna ~ Petrel and the Oda => ?
Ministry of Trade and Industry => Ministry of Trade|Industry ~ 28 or 30 => ? ~ Lima, Peru => Lima, Peru
"""


@pytest.mark.parametrize(("table", "several"), [(LINES, False), (SEVERAL, True)])
def test_a_line_is_one_answer_or_several_or_it_is_not_certain(table: str, several: bool) -> None:
    cases = [case.split(" => ") for line in table.strip().splitlines() for case in line.split(" ~ ")]
    found = []
    for line, _ in cases:
        try:
            found.append((line, "|".join(split_answers(line, several))))
        except ParseError:
            found.append((line, "?"))
    assert found == [tuple(case) for case in cases]
    both = "Trade and Industry"
    assert split_answers(both, is_name=lambda name: name == both) == [both]
    assert split_answers(both, is_name=lambda name: " " not in name) == ["Trade", "Industry"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("**Petrel** - the ship", "Petrel"), ("Petrel. It sailed in 1904.", "Petrel"), ("*_*", None),
        ("Petrel...", None),
        ("Petrel Inc. It sailed.", "Petrel Inc. It sailed"), ("J. K. Aske", "J. K. Aske"), ('"Petrel".', "Petrel"),
        ('"Petrel" and "Oda"', '"Petrel" and "Oda"'), ("**'Petrel'**", "Petrel"), ("St.", "St."), ("U.S.", "U.S."),
        ("a" * 200, "a" * 200), ("a" * 201, None), ("Petrel. (a ship)", "Petrel"), ("Petrel. A b", "Petrel. A b"),
        ("in 28. The ship sailed", "in 28"), ("It is. The ship sailed", "It is. The ship sailed"), ("1904.", "1904"),
    ],
)  # fmt: skip
def test_an_answer_is_without_marks_and_remarks(text: str, answer: str | None) -> None:
    assert clean_answer(text) == answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([], []), (["a", "N/A"], ["a", "N/A"]), ("", []), (None, []), ({"name": "a"}, ["a"]), ({"answer": "b"}, ["b"]),
        ({"ship": "a", "score": 0.5}, ["a"]), ({"ship": "a", "port": "b"}, ["b"]), ({"ship": "a", "ports": "b"}, ["b"]),
        ({"answer_1": "a", "answer_2": "b"}, ["a", "b"]), ({"0": "a", "1": "b"}, ["a", "b"]), ({"7": "a"}, "?"),
        ({"ship": "a", "crew": "b"}, "?"), ({"2": "a", "3": "b"}, "?"), ({"ship": True}, "?"),
        (["18, 20 and 30"], ["18", "20", "30"]),
        (["18, 20", "x"], ["18, 20", "x"]), ([["a", ["b"]], True], ["a", "b", "yes"]), ({"name": ""}, []),
    ],
)  # fmt: skip
def test_an_answer_in_json_is_a_text_a_list_or_the_member_in_the_question(answer: Any, expected: Any) -> None:
    def read(value: Any) -> Any:
        try:
            return json_answers(value, 0, "Which port did it use?", split_answers)
        except ParseError:
            return "?"

    assert read({"answer": answer}) == read({"data": {"answers": answer}}) == expected
    assert read({"ship": "a"}) is read({"data": "a"}) is read({}) is None
    assert json_answers({"answer": "a"}, 7, "", split_answers) is None
