"""Judges' replies: read where they say something, an error where they do not, never a verdict that was not given."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.errors import DataError
from kbbench_hf.judges.llm_judges import (
    StoredFacts,
    StoredSplits,
    fact_prompt,
    parse_fact_reply,
    parse_split_reply,
    split_prompt,
)
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.protocols import Verdict


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("true", 1.0),
        ("False.", 0.0),
        ('"True", because the text says so', 1.0),
        ("**Yes** - line 2", 1.0),
        ("no", 0.0),
        ('{"supported": true}', 1.0),
        ('Here it is:\n```json\n{"supported": false}\n```', 0.0),
        ("<think>It may be false. Hm.</think>true", 1.0),
    ],
)
def test_a_verdict_is_read(reply: str, verdict: float) -> None:
    assert parse_fact_reply(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    ["", "I cannot tell.", "True or false?", "true/false", "None", "Notable", "<think>true", "true or false"],
)
def test_what_says_neither_is_an_error_and_not_false(reply: str) -> None:
    with pytest.raises(ParseError):
        parse_fact_reply(reply)


@pytest.mark.parametrize(
    ("reply", "n"),
    [
        ('{"sub_triples": []}', 0),
        ("N/A (The triple is specific.)\nGranularity: 0", 0),
        ('["a", "r", "b"]\n["a", "r", "c"]\nGranularity: 2', 2),
        ("[a, r, b]\n[a, r, c]\n[a, r, d]", 3),
        ('["[SOD1]", "r", "b"], ["[SOD1]", "r", "c"]', 2),  # brackets inside entities count nothing here
    ],
)
def test_sub_triples_are_counted(reply: str, n: int) -> None:
    assert parse_split_reply(reply) == n


@pytest.mark.parametrize("reply", ["", "I would split this.", '["a", "r", "b"], ["a", "r"', "Granularity: 2"])
def test_a_split_that_is_not_there_or_breaks_off_is_an_error(reply: str) -> None:
    with pytest.raises(ParseError):
        parse_split_reply(reply)


@given(st.text(max_size=60))
def test_no_reply_breaks_a_reader(reply: str) -> None:
    for read in (parse_fact_reply, parse_split_reply):
        with suppress(ParseError):
            assert read(reply) >= 0


def test_prompts_name_the_triple_and_ask_for_json() -> None:
    prompt = fact_prompt("The text.", '["a", "r", "b"]')
    assert prompt.messages[-1]["content"] == 'Text: The text.\nTriple: ["a", "r", "b"]'
    assert prompt.json_schema is not None and prompt.json_schema["required"] == ["supported"]
    assert "The text." not in split_prompt("The text.", "[]").messages[-1]["content"]


def test_stored_facts_are_replayed_by_position(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    file.write_text(json.dumps({"one": {"score": 0.5, "results": [True, False]}, "two": {"results": [True]}}))
    judge = StoredFacts(file)
    same = '["a", "r", "b"]'
    verdicts = judge.judge([("one", same), ("two", same), ("one", same), ("three", same)])
    assert [verdict.value for verdict in verdicts] == [1.0, 1.0, 0.0, None]
    assert verdicts[-1] == Verdict(None, "not_stored", "")
    # judged with another number of triples: these are not the triples that were judged
    assert [verdict.status for verdict in judge.judge([("one", same)])] == ["not_stored"]


def test_stored_splits_are_replayed_by_triple(tmp_path: Path) -> None:
    file = tmp_path / "splits.json"
    file.write_text(json.dumps({"one": {'["\\u00df", "r", "b"]': '["x"] ["y"]'}}))
    verdicts = StoredSplits(file).judge([("one", '["ß", "r", "b"]'), ("two", '["ß", "r", "b"]')])
    assert verdicts == [Verdict(2.0, "ok", '["x"] ["y"]'), Verdict(None, "not_stored", "")]


@pytest.mark.parametrize("content", ["[]", "{", '{"one": 1}', '{"one": {"x": 1}}', '{"one": {"results": 1}}'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "stored.json"
    file.write_text(content)
    for kind in (StoredFacts, StoredSplits):
        with pytest.raises(DataError, match="expected"):
            kind(file)


def test_a_stored_judge_is_known_by_who_judged(tmp_path: Path) -> None:
    # two systems judged by one judge may be compared, though their verdicts are two files
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    assert StoredFacts(tmp_path / "a.json").name == StoredFacts(tmp_path / "b.json").name
