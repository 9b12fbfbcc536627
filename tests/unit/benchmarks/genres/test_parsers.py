"""The historical reader equals the release's, and the lenient one only ever adds."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.benchmarks.genres.parsers import (
    answer_of,
    historical,
    historical_semi_open,
    lenient,
    lenient_semi_open,
    parse_lenient,
)
from kbbench_hf.judges.llm_judges import parse_split_reply
from kbbench_hf.parsing.parsed_reply import ParseError


def test_the_first_triple_of_a_list_comes_last() -> None:
    assert historical('[["a","r","b"], ["c","r","d"], ["e","r","f"]]') == [
        ["c", "r", "d"],
        ["e", "r", "f"],
        ["a", "r", "b"],
    ]


def test_a_triple_met_once_is_skipped_in_the_second_pass_and_met_twice_is_copied() -> None:
    # first pass: b, b (the first one of the list fails); second pass: a is new, b was met twice, then three times
    text = '[["a","r","x"], ["b","r","y"], ["b","r","y"]]'
    a, b = ["a", "r", "x"], ["b", "r", "y"]
    assert historical(text) == [b, b, a, b, b]


def test_lists_of_another_length_and_text_that_is_no_json_are_dropped() -> None:
    assert historical('["a","r"] ["a","r","b","c"] [a, r, b] ["a\\_b","r","c"]') == []


def test_the_prompt_before_the_answer_is_not_read() -> None:
    assert historical('[INST] Write ["x","y","z"] [/INST] ["a","r","b"]') == [["a", "r", "b"]]
    assert answer_of("no mark at all") == "no mark at all"


def test_a_semi_open_answer_loses_its_types() -> None:
    assert historical_semi_open("[['A:PERSON','Live In','B:LOCATION']]") == [["A", "Live In", "B"]]
    assert lenient_semi_open("[[‘A:PERSON’, ‘Live In’, ‘B:LOCATION’]]") == [["A", "Live In", "B"]]


@pytest.mark.parametrize(
    ("text", "triple", "repair"),
    [
        ("1. [Nita, born in, Pristina]", ["Nita", "born in", "Pristina"], "unquoted"),
        ("[Ligon, born on, May 10, 1810]", ["Ligon", "born on", "May 10, 1810"], "comma"),
        ('[“PTR", "won", "1995 election"]', ["PTR", "won", "1995 election"], "quotes"),
        ("['O'Hara', 'of', 'Galway']", ["O'Hara", "of", "Galway"], "quotes"),
        ('["a\\_b", "r", "c"]', ["a_b", "r", "c"], "escape"),
        ('[["a", "r", "b"], ["c"', ["a", "r", "b"], "list"),
        ('["the [SOD1] gene", "is", "x"', None, None),
        ("[the [SOD1] gene, is, mutated]", ["the [SOD1] gene", "is", "mutated"], "unquoted"),
        ("1. Enron, in, Houston, Texas\n2. Enron, is, bankrupt", ["Enron", "in", "Houston, Texas"], "numbered"),
    ],
)  # fmt: skip
def test_the_lenient_reader_mends(text: str, triple: list[str] | None, repair: str | None) -> None:
    reading = parse_lenient(text)
    assert reading.triples[:1] == ([triple] if triple else [])
    assert list(reading.repairs) == ([repair] if repair else [])


def test_brackets_inside_quoted_entities_end_nothing() -> None:
    assert lenient('[["[SOD1] gene", "is [a]", "gene]"]]') == [["[SOD1] gene", "is [a]", "gene]"]]
    assert historical('["the [SOD1] gene", "is", "x"]') == []  # the shortest bracket ends too early


@pytest.mark.parametrize(
    "text",
    [
        "Sure, I would be happy to help! Please provide the text, and I will list the relations.",
        "Use the format [ENTITY 1, RELATIONSHIP, ENTITY 2].",
        "1. He went on to lead, in 2004, a band.\n2. The others did not.",
        "",
        "[" * 5000,
        '["a", "r"]',
    ],
)
def test_what_holds_no_triple_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        lenient(text)


def test_an_empty_list_is_an_answer() -> None:
    assert lenient("[]") == lenient("relations: [ [ ] ]") == []


@given(st.text(alphabet="[]\",'“”‘’ab1. \n\\{}:", max_size=80))
def test_no_text_breaks_a_reader_and_the_lenient_one_starts_with_the_historical_triples(text: str) -> None:
    found = historical(text)
    assert parse_lenient(text).triples[: len(found)] == found
    historical_semi_open(text)


def test_ten_thousand_nested_brackets_are_read_in_no_time() -> None:
    assert parse_lenient('[["a' * 3000 + '","r","b"]' * 3000).triples


def test_every_stored_response_parses_to_the_stored_triples(shared: Path) -> None:
    # DocRED and Wiki20m, 14 models: 28 files, 9,800 documents
    documents = 0
    for file in sorted((shared / "data/genres/raw_responses").glob("*.json")):
        stored = json.loads((shared / "data/genres/outputs" / file.name).read_text(encoding="utf-8"))
        for text, response in json.loads(file.read_text(encoding="utf-8")).items():
            assert historical(response) == stored[text], (file.stem, text)
            documents += 1
    assert documents == 9800


def test_the_lenient_reader_recovers_what_can_be_recovered_and_changes_nothing_else(shared: Path) -> None:
    recovered = {}
    for file in sorted((shared / "data/genres/raw_responses").glob("*.json")):
        empty = 0
        for response in json.loads(file.read_text(encoding="utf-8")).values():
            before, after = historical(response), parse_lenient(response).triples
            assert after[: len(before)] == before
            empty += not before and bool(after)
        recovered[file.stem] = empty
    assert recovered["wiki20m_rand_500_wizardlm-70b_1"] == 112  # of 113 that were empty; 110 were thought recoverable
    assert recovered["docred_rand_200_llama-2-7b_1"] == 1  # the other 118 ask for the text


@pytest.mark.parametrize("text", ["[" * 40_000, '"' * 40_000], ids=["brackets", "quotes"])
def test_a_model_that_repeats_itself_costs_no_more_than_others(text: str) -> None:
    started = time.process_time()
    for parse in (lenient, parse_split_reply):
        with pytest.raises(ParseError):
            parse(text)
    assert time.process_time() - started < 20  # 1 s; a square of the length would be minutes
