"""Dates in every usual writing, what is no date, and what two dates that are known in part have in common."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.text.dates import Date, find_dates, parse_date

JULY = Date(2001, 7, 20)
WRITTEN = [
    "20 July 2001", "20 July, 2001", "July 20, 2001", "July 20th 2001", "the 20th of July, 2001", "20 Jul 2001",
    "Jul. 20, 2001", "2001-07-20", "2001/7/20", "7/20/2001", "20/7/2001", "20.07.2001", "07-20-2001", "2001, July 20",
    "twentieth of July 2001", "Friday, 20 July 2001", "2001-07-20T00:00:00Z", '"2001-07-20"', "20_July_2001",
    "July 20,2001", "the 20th day of July 2001",
]  # fmt: skip


@pytest.mark.parametrize("written", WRITTEN)
def test_a_day_is_the_same_in_every_writing(written):
    assert parse_date(written) == (JULY,)


@pytest.mark.parametrize("written", WRITTEN)
def test_a_day_is_found_in_a_sentence_in_every_writing(written):
    assert find_dates(f"It was shown on {written.replace('_', ' ')}, in Rome.") == (JULY,)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("July 2001", (Date(2001, 7),)), ("July, 2001", (Date(2001, 7),)), ("2001-07", (Date(2001, 7),)),
        ("2001", (Date(2001),)), ("00  1997", (Date(1997),)), ("00 May 1997", (Date(1997, 5),)),
        ("01 January 1988", (Date(1988), Date(1988, 1, 1))), ("1 January 1988", (Date(1988, 1, 1),)),
        ("30-Apr-08", (Date(2008, 4, 30), Date(1908, 4, 30))),
        ("1/2/1990", (Date(1990, 1, 2), Date(1990, 2, 1))), ("twenty-seventh of December 2012", (Date(2012, 12, 27),)),
    ],
)  # fmt: skip
def test_what_is_not_known_or_open_is_said(written, meant):
    assert parse_date(written) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "May",
        "May 5",
        "2001-13-45",
        "12",
        "123",
        "12,345",
        "2001.5",
        "1989 World Cup",
        "00 Maytime 1997",
        "0 July 2001",
    ],
)
def test_what_is_no_date(text):
    assert parse_date(text) == ()


def test_parts_of_a_date_that_stand_apart_are_put_together():
    assert Date(1942, 1, 1) in find_dates("Carter (born in 1942 on January, 1) wrote it.")
    assert Date(2012, 10, 26) in find_dates("Shown in London on 23 October 2012 and in the UK on 26 October.")
    assert find_dates("In the season 2005-06 he left on 3 May.") == (Date(2005, 5, 3), Date(2005))


def test_years_are_not_looked_for_inside_other_numbers():
    assert find_dates("It cost 12001, 2001.5 or 1,2001 pounds.") == ()


def test_dates_contradict_each_other_only_in_what_both_know():
    assert not JULY.contradicts(Date(2001)) and not Date(2001, 7).contradicts(JULY)
    assert JULY.contradicts(Date(2001, 8)) and JULY.contradicts(Date(2002))
    assert [each.precision for each in (Date(1), Date(1, 2), Date(1, 2, 3))] == [1, 2, 3]


@given(st.dates())
def test_iso_dates_are_read_back(date):
    assert parse_date(date.isoformat()) == (Date(date.year, date.month, date.day),)


@given(st.text())
def test_any_text_can_be_asked(text):
    for date in (*parse_date(text), *find_dates(text)):
        assert 0 <= date.month <= 12 and 0 <= date.day <= 31


def test_dates_are_found_in_the_order_of_the_text():
    assert find_dates("Left in May 2011, back in 1999, gone on 2 June 2003.") == (
        Date(2011, 5), Date(1999), Date(2003, 6, 2),
    )  # fmt: skip
