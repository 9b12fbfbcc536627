import gzip
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.answers import answer_scores, answer_type, is_same_answer, match_answers, parse_answer_dates

# Judged by reading, before any rule was written: type|gold|aliases with ;|prediction|y or n.
PAIRS = (Path(__file__).parent / "typed_answers.txt").read_text(encoding="utf-8").splitlines()
CASES = Path(os.environ.get("KBBENCH_SHARED", "../shared")) / "data" / "ska_open_v1" / "answer_cases.jsonl"
MONTHS = "January February March April May June July August September October November December".split()


@pytest.mark.parametrize("pair", PAIRS)
def test_two_answers_are_the_same_where_a_careful_reader_says_so(pair: str) -> None:
    type, gold, aliases, prediction, verdict = pair.split("|")
    names = [alias for alias in aliases.split(";") if alias]
    assert is_same_answer(prediction, gold, type=type, aliases=names) == (verdict == "y")


@pytest.mark.skipif(not CASES.exists(), reason=f"{CASES} is not there")
def test_the_written_verdicts_of_the_source_hold() -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    wrong = [
        case
        for case in cases
        if is_same_answer(case["prediction"], case["gold"], type=case["type"], aliases=case["aliases"]) != case["equal"]
    ]
    assert len(cases) == 48 and wrong == []


def written_otherwise(gold: str, type: str) -> Iterator[str]:
    """Yield the writings in which a person may well give an answer."""
    if not re.search(r"\w", gold):
        return
    yield gold.upper()
    yield f"  {gold.replace(' ', '_')} "
    yield gold.replace("-", "–").replace("'", "’") + "."
    if type == "number" and gold.replace(",", "").isdigit():
        number = int(gold.replace(",", ""))
        yield from (f"{number:,}", f"{number}.0", f"{number} points")
    for date in parse_answer_dates(gold) if type == "date" else ():
        if len(date) == 3 and all(date) and date[0] > 999:
            year, month, day = date
            name = MONTHS[month - 1]
            yield from (f"{name} {day}, {year}", f"{day} {name[:3]}. {year}", f"{year}-{month:02}-{day:02}")


@given(st.text(max_size=30), st.sampled_from(["entity", "number", "date"]))
def test_every_answer_is_the_same_as_itself_and_never_as_an_empty_one(gold: str, type: str) -> None:
    if gold.strip():
        assert is_same_answer(gold, gold, type=type)
        assert not is_same_answer(" ", gold, type=type)


def test_gold_scores_one_in_its_natural_writings() -> None:
    golds = {(pair.split("|")[0], pair.split("|")[1]) for pair in PAIRS} | {
        (type, gold) for gold in golds_of_sources() for type in {"entity", answer_type(gold)}
    }
    for type, gold in sorted(golds):
        for writing in written_otherwise(gold, type):
            assert is_same_answer(writing, gold, type=type), (writing, gold, type)


def golds_of_sources() -> Iterator[str]:
    """Yield the gold answers of the sources where they are there, every twentieth."""
    for name in ("metaqa", "wtq", "hybridqa"):
        file = CASES.parent / f"{name}_questions.jsonl.gz"
        lines = gzip.decompress(file.read_bytes()).decode().splitlines() if file.exists() else []
        for question in map(json.loads, lines[::20]):
            yield from question.get("answers") or [question["answer"]]


def test_sign_point_and_magnitude_part_random_numbers() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(200):
        value = draw.randrange(1, 10**7) / 10 ** draw.randrange(4)
        for other in (-value, value * 10, value / 10, value * 1000):
            assert not is_same_answer(f"{other:.6f}", f"{value:.6f}", type="number")
        assert is_same_answer(f"${value:,.6f}", f"{value:.6f}", type="number")


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'dates'.*date"):
        is_same_answer("x", "x", type="dates")


def test_an_answer_given_twice_under_two_names_counts_once() -> None:
    scores = answer_scores(["NYC", "New York City"], ["New York City"], "typed", "entity", [["NYC"]])
    assert scores == (1, 1, 1, 1, 1)


def test_one_prediction_stands_for_one_gold_answer_only() -> None:
    gold = ["Mercury (planet)", "Mercury (element)"]
    # "Mercury" fits both, and is one of them: 1 of 1 right, 1 of 2 found, F1 = 2 * 1 / (1 + 2)
    assert answer_scores(["Mercury"], gold, "typed") == pytest.approx((2 / 3, 1, 1 / 2, 0, 1))
    # "Mercury" must leave the planet to the prediction that says it
    assert match_answers(["Mercury", "Mercury (planet)"], gold, "entity", []) == [1, 0]
    assert answer_scores(["Mercury", "Mercury (planet)"], gold, "typed").exact_match == 1


def test_wrong_answers_cost_precision_and_repeated_ones_once() -> None:
    # predictions a, x, X.; gold a, b: found 1, wrong 1: P 1/2, R 1/2, F1 = 2 * 1 / (2 + 2)
    assert answer_scores(["x", "a", "X."], ["a", "b"], "typed", "entity") == pytest.approx((1 / 2, 1 / 2, 1 / 2, 0, 0))


def test_without_a_type_an_answer_is_what_its_gold_looks_like() -> None:
    assert answer_scores(["10"], ["10.0"], "typed").answer_f1 == 1
    assert answer_scores(["100"], ["10.0"], "typed").answer_f1 == 0
    assert answer_scores(["1889-04-20"], ["April 20, 1889"], "typed").answer_f1 == 1
    assert [answer_type(each) for each in ("2014-15", "The 4th Man", "$3.6 billion")] == ["date", "entity", "number"]
    assert answer_type("²⁰⁰¹") == "date"  # digits that are not decimal


@pytest.mark.parametrize("number", [1000, 1234, 1500, 1955, 2024, 2099, 2100, 2500, 9999])
def test_four_digits_without_a_type_are_a_year_or_a_number(number: int) -> None:
    for predicted, gold in ((f"{number:,}", f"{number}"), (f"{number}", f"{number:,}"), (f"{number}.0", f"{number}")):
        assert answer_scores([predicted], [gold], mode="typed").answer_f1 == 1, (predicted, gold)
    assert answer_scores([f"{number + 1:,}"], [f"{number}"], mode="typed").answer_f1 == 0
    if number < 2100:
        assert answer_scores([f"the year {number}"], [f"{number}"], mode="typed").answer_f1 == 1
        assert answer_scores([f"{number:,}"], [f"{number}"], mode="typed", type="date").answer_f1 == 0
