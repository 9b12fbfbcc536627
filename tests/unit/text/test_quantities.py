"""Numbers by their value, in every usual writing, with units and scales."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.text.quantities import Quantity, find_quantities, parse_number, parse_quantity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,099", "1099.0"), ("$1,099", "1099"), ("252000.0 (millimetres)", "252 m"),
        ("23.27 (square kilometres)", "23.27"),
        ("9 million", "9,000,000"), ("three hundred and six", "306"), ("0.0455 (kilometrePerSeconds)", "0.0455 km/s"),
        ("4.56 km per second", "4.56 (kilometrePerSeconds)"), ("42-metre", "42 m"), ("135 square km", "135000000.0"),
        ("12 %", "12"), ("0927", "927"), ("13017.0(minutes)", "13017"),
        ("1104.1 (inhabitants per square kilometre)", "1104.1"),
        ("1.5 hours", "90 minutes"), ("12 inches", "1 ft"),
    ],
)  # fmt: skip
def test_the_same_number(one, other):
    first, second = parse_quantity(one), parse_quantity(other)
    assert first is not None and second is not None
    assert first.equals(second) and second.equals(first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("252 m", "252 km"),
        ("5 kg", "5 m"),
        ("1,099", "1,098"),
        ("2009", "2011"),
        ("-7", "7"),
        ("9.8 million", "9833520"),
    ],
)
def test_another_number(one, other):
    first, second = parse_quantity(one), parse_quantity(other)
    assert first is not None and second is not None and not first.equals(second)


@pytest.mark.parametrize(("rounded", "exact"), [("9.8 million", 9833520.0), ("$556 million", 556300000.0)])
def test_what_was_rounded_to_a_scale_is_near(rounded, exact):
    quantity = parse_quantity(rounded)
    assert quantity is not None and quantity.equals(Quantity(exact, None, 1.0), rounded=True)
    assert not quantity.equals(Quantity(exact * 1.2, None, 1.0), rounded=True)


@pytest.mark.parametrize("text", ["", "Apollo 11", "12 apples", "PS3", "1.2.3", "10-12", "2 Chainz", "one man"])
def test_what_is_no_number(text):
    assert parse_quantity(text) is None


def test_numbers_are_found_in_a_sentence():
    found = find_quantities("Its 3 minutes, 16 seconds, or 3:16, cost 1,099 men in C128 and 2.5 km.")
    assert {each.value for each in found} == {3.0, 16.0, 3.16, 1099.0, 2.5}


@given(st.integers(-(10**9), 10**9))
def test_thousands_separators_change_nothing(number):
    written, plain = parse_quantity(f"{number:,}"), parse_quantity(str(number))
    assert written == plain and plain is not None and plain.value == number


@given(st.text())
def test_any_text_can_be_asked(text):
    parse_quantity(text)
    find_quantities(text)


def test_the_same_rounded_number_differs_by_less_than_one_in_the_last_digit():
    rounded = parse_quantity("9.8 million")
    assert rounded is not None
    differs = [Quantity(value, None, 1.0).equals(rounded, rounded=True) for value in (9.71e6, 9.7e6, 9.89e6, 9.9e6)]
    assert differs == [True, False, True, False]


def test_units_of_several_words_are_those_of_one():
    assert parse_number("5 sq km") == parse_number("5 km2") != parse_number("5 km")
    assert parse_number("5 square miles") == parse_number("5 mi2")


@pytest.mark.parametrize(
    ("answer", "value", "unit"),
    [
        ("minus twelve", -12, ""), ("negative forty-two dollars", -42, "$"), ("a million", 10**6, ""),
        ("a dozen", 12, ""), ("twenty one percent", 21, "%"), ("$-3", -3, "$"), ("-$3", -3, "$"),
        ("($1.5m)", -1_500_000, "$"), ("1.5m", 1.5, "m"), ("€2 bn", 2 * 10**9, "€"), ("5 k", 5000, ""), ("zero", 0, ""),
    ],
)  # fmt: skip
def test_a_whole_answer_is_one_number_with_its_sign_magnitude_and_unit(answer, value, unit):
    found = parse_number(answer)
    assert found is not None and (float(found.value), found.unit) == (value, unit)


@pytest.mark.parametrize(
    "answer", ["twenty ten", "3 to 4", "3 x 4", "xx$5", "3 thousand 4", "7 or of pears", "five of a b c d"]
)
def test_an_answer_with_more_than_a_number_is_none(answer):
    assert parse_number(answer) is None
