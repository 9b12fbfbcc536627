"""What models really write is read; what is no score is refused; the order keeps its promises."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.retrieval.reranker import MOST_CHARACTERS, RERANK_METHODS, parse_score, prompt, reorder


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("0.7", 0.7), ("1", 1.0), ("0", 0.0), ("1.0", 1.0), (".5", 0.5), ("Score: 0.85.", 0.85), ("**0.9**", 0.9),
        ("8/10", 0.8), ("4 out of 5", 0.8), ("90%", 0.9), ("I would say 0.3, as only one relation holds", 0.3),
        ("0.2 at first sight, but overall: 0.6", 0.6), ('{"score": 1}', 1.0), ('```json\n{"score": 0.4}\n```', 0.4),
        ("<think>maybe 0.1? no, 0.9</think>\n0.75", 0.75), ("Score:\n\n0.55\n", 0.55), ("1/1", 1.0),
    ],
)  # fmt: skip
def test_scores_are_read_as_models_write_them(text: str, score: float) -> None:
    assert parse_score(text) == pytest.approx(score)


@pytest.mark.parametrize(
    "text", ["", "none", "10.5", "21.0", "-", "1.2.3 is a version", "score", '{"score": 7}', "GPT4"]
)
def test_what_is_no_score_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_score(text)


def test_a_prompt_with_a_schema_requests_in_words_what_the_schema_requests() -> None:
    asked = RERANK_METHODS["clean"].prompt("Which?", "dish", "Fig tart")
    assert asked.json_schema and '{"score": NUMBER}' in asked.messages[0]["content"]
    kept = RERANK_METHODS["clean-1"]
    assert kept.prompt_sha256.startswith("ef084c8c5771"), "byte for byte, as started runs need it"


def test_mutated_answers_are_a_score_or_a_parse_error() -> None:
    generator = random.Random(13)  # seed 13
    for _ in range(10_000):
        text = "".join(
            generator.choice('0123456789./% {}"scoreoutf\n<>think-') for _ in range(generator.randint(0, 30))
        )
        with suppress(ParseError):
            assert 0 <= parse_score(text) <= 1


@given(st.lists(st.integers(0, 999), unique=True, max_size=60), st.integers(0, 30), st.randoms(use_true_random=False))
def test_reranking_permutes_the_top_and_leaves_the_rest(ids: list[int], depth: int, generator: random.Random) -> None:
    weight = generator.choice([0.1, 0.0])
    judged = {each: generator.choice([None, 0.0, 0.5, 1.0] if weight else [-4.0, 0.0, 1e-9]) for each in ids[:depth]}
    order = [each for each, _ in reorder(ids, judged, weight)]
    scores = [score for _, score in reorder(ids, judged, weight)]
    assert set(order[:depth]) == set(ids[:depth])  # so Recall@depth is what it was
    assert order[depth:] == ids[depth:]
    assert scores == sorted(scores, reverse=True)
    if not weight:
        assert len({*scores}) == len(scores), "candidates of one score would be ordered by id"
        assert order[:depth] == sorted(ids[:depth], key=lambda each: -(judged[each] or 0))


def test_a_failed_candidate_keeps_the_others_and_its_first_rank_decides() -> None:
    assert [each for each, _ in reorder(["a", "b", "c"], {"a": None, "b": 0.0, "c": 0.5})] == ["c", "a", "b"]


def test_a_hub_s_document_is_cut_and_no_id_is_in_the_prompt() -> None:
    text = prompt("which drug", "drug", "x" * 10**6).messages[0]["content"]
    assert len(text) < MOST_CHARACTERS + 1000 and "which drug" in text
