import time

import pytest

from kbbench_hf.benchmarks.ska_bench.benchmark import parse_answers, parse_verdict
from kbbench_hf.parsing.parsed_reply import ParseError


@pytest.mark.parametrize(
    ("response", "answers"),
    [
        ('{"answer": ["a", "b"]}', ["a", "b"]),
        ('First {"answer": ["draft"]}, then {"answer": ["final"]}.', ["final"]),
        ('{"answer": ["a"]} and {"score": 3}', ["a"]),
        ('<think>{"answer": ["no"]}</think>{"answer": ["yes"]}', ["yes"]),
        ('I wonder {"answer": ["x"]}</think>\n{"answer": ["y"]}', ["y"]),
        ('<reasoning>a { b</reasoning> ```json\n{"answer": "one"}\n```', ["one"]),
        ('{"Answer": 12}', ["12"]),
        ('{"answer": [["a", ["b"]], 2.5, null, "", true]}', ["a", "b", "2.5", "yes"]),
        ('{"answer": []}', []),
        ('{"why": {"answer": "inner"}, "answer": "outer"}', ["outer"]),
        ('a set {1, 2} and {"answer": ["braces {} \\" in text"]}', ['braces {} " in text']),
        ('{"answer": ["Æ", "日本"]}', ["Æ", "日本"]),
    ],
)
def test_the_last_object_with_an_answer_is_read(response: str, answers: list[str]) -> None:
    assert parse_answers(response) == answers


@pytest.mark.parametrize(
    "response",
    [
        "",
        "no idea",
        '{"answer": ',
        '{"result": ["a"]}',
        '<think>{"answer": ["a"]}',
        '{"answer": {"name": "a"}}',
        "{" * 5000,
    ],
)
def test_a_response_without_an_answer_is_a_parse_failure(response: str) -> None:
    with pytest.raises(ParseError):
        parse_answers(response)


def test_hostile_text_is_read_in_bounded_time() -> None:
    start = time.process_time()
    for hostile in ('{"a":' * 200_000, "{" * 2_000_000, "<think>" * 200_000, '{"answer": ' * 100_000):
        with pytest.raises(ParseError):
            parse_answers(hostile)
    assert time.process_time() - start < 60  # a square of the length would be hours


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [(["yes"], "yes"), (["No."], "no"), (["maybe"], None), ([], None), (None, None), (["no", "no"], None)],
)
def test_a_verdict_is_one_yes_or_no(answers: list[str] | None, verdict: str | None) -> None:
    assert parse_verdict(answers) == verdict
