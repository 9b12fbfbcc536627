"""Dates in English text: find and parse them; names of months and weekdays; ordinals.

`metrics` compares answers and names by these dates; `parsing` and `building` use the names and the dates. The order of
`_FORMS` decides where several fit. Scores of SKA-Bench's `typed` and Text2KGBench's own modes, and the built datasets,
depend on what is a date.
"""

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from kbbench_hf.text.folding import lazy_pattern

MONTHS = tuple("january february march april may june july august september october november december".split())
MONTH_NUMBER = {month[:3]: number for number, month in enumerate(MONTHS, start=1)}
"""The first three letters of a month -> 1 to 12."""
MONTH = "|".join((*MONTHS, "sept", *MONTH_NUMBER))
"""Months and their abbreviations as alternatives of an expression, the longer first."""
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
_ONES = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
_ONES += " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
ORDINALS = {word: number for number, word in enumerate(_ONES.split(), start=1)}
"""Ordinals from first to thirty first, which are days -> number."""
ORDINALS |= {f"twenty {word}": 20 + number for word, number in ORDINALS.items() if number < 10}
ORDINALS |= {"thirtieth": 30, "thirty first": 31}
_MONTH = rf"(?P<month>{MONTH})\b\.?"
_IN_WORDS = "|".join(sorted((word.replace(" ", "[ -]") for word in ORDINALS), key=len, reverse=True))
_DAY = rf"(?P<day>\d{{1,2}}(?:st|nd|rd|th)?|{_IN_WORDS})"
_YEAR = r"(?P<year>\d{3,4})(?![\d]|[.,]\d)"
"""A year, and not the start of a longer number: neither 12001 nor 2001.5 nor 1,200."""
_FORMS = [
    lazy_pattern(rf"(?<!\d)(?<!\d[.,]){form}", re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})[-/](?P<number>\d\d?)[-/](?P<day>\d\d?)(?!\d)",
        r"(?P<number>\d\d?)[-/](?P<day>\d\d?)[-/](?P<year>\d{4})(?!\d)",
        r"(?P<day>\d\d?)\.\s?(?P<number>\d\d?)\.\s?(?P<year>\d{4})(?!\d)",
        rf"{_DAY},?\s*(?:day\s+)?(?:of\s+)?{_MONTH},?\s*(?:of\s+|in\s+)?{_YEAR}",
        rf"\b{_MONTH},?\s*(?:the\s+)?{_DAY}\b(?:\s*,|\s+of|\s+in)?\s*{_YEAR}",
        rf"{_YEAR},?\s*(?:on\s+)?(?:the\s+)?{_MONTH},?\s*(?:the\s+)?{_DAY}\b",
        rf"{_YEAR},?\s*(?:on\s+)?(?:the\s+)?{_DAY}\s*(?:of\s+)?{_MONTH}",
        rf"\b{_MONTH},?\s*(?:of\s+)?{_YEAR}",
        rf"{_YEAR}[-,]?\s*(?:in\s+)?{_MONTH}",
        _YEAR,
    )
]
_SHORT_YEAR = lazy_pattern(r"(\d\d?-[A-Z][a-z]{2}-)(\d\d)")
"""A date as spreadsheets write it, 30-Apr-08, without the century."""
_YEAR_AND_MONTH = lazy_pattern(r"(?P<year>\d{4})-(?P<number>0[1-9]|1[0-2])")
"""A whole text only: in running text 2010-11 is a season."""
_DAY_OF_MONTH = [
    lazy_pattern(form, re.IGNORECASE)
    for form in (rf"\b{_DAY}\s*(?:day\s+)?(?:of\s+)?{_MONTH}", rf"\b{_MONTH},?\s*(?:the\s+)?{_DAY}\b")
]
"""A day of a month without its year."""
_PLACEHOLDER = lazy_pattern(r"(?:00|01 January)\s+(?P<year>\d{3,4})|00 (?P<month>[A-Z][a-z]+) (?P<of>\d{3,4})")
"""How Wikidata-TekGen writes a date if only the year, or the month and year, are known."""
_SURROUNDINGS = lazy_pattern(rf"^(?:(?:on|in|the|(?:{'|'.join(WEEKDAYS)}),?)\s+)+|T00:00(?::00)?Z?$", re.IGNORECASE)
"""Words and a time that may surround the date that is a whole text."""


class Date(NamedTuple):
    """A date; an unknown month or day is 0."""

    year: int
    month: int = 0
    day: int = 0

    @property
    def precision(self) -> int:
        """The number of known parts: 1, 2 or 3."""
        return 1 + bool(self.month) + bool(self.day)

    def contradicts(self, other: "Date") -> bool:
        """Return whether a part that both know differs.

        >>> Date(2001, 7, 20).contradicts(Date(2001)), Date(2001, 7, 20).contradicts(Date(2001, 8))
        (False, True)
        """
        return any(one and two and one != two for one, two in zip(self, other, strict=True))


@lru_cache(maxsize=2**14)
def parse_date(text: str) -> tuple[Date, ...]:
    """Return the dates that a whole text can mean, the likeliest first; empty if it is no date.

    In an ambiguous date of digits the month comes first. `01 January 1988` and `00  1988` are some day of that year in
    Wikidata-TekGen; the first may also be New Year's Day. A bare number of three digits is no year.

    >>> parse_date("July 20th, 2001") == parse_date("2001-07-20") == parse_date("20 July 2001") == (Date(2001, 7, 20),)
    True
    >>> parse_date("00 May 1997"), parse_date("01 January 1988"), parse_date("July 2001, in Rome")
    ((Date(year=1997, month=5, day=0),), (Date(year=1988, month=0, day=0), Date(year=1988, month=1, day=1)), ())
    """
    text = " ".join(text.replace("_", " ").strip().strip("\"'").split()).removesuffix(".")
    text = _SURROUNDINGS.sub("", text)
    if unknown := _PLACEHOLDER.fullmatch(text):
        if unknown["year"]:
            year = int(unknown["year"])
            return (Date(year), Date(year, 1, 1)) if text.startswith("01") else (Date(year),)
        known = unknown["month"].lower() in MONTHS
        return (Date(int(unknown["of"]), _month(unknown["month"])),) if known else ()
    if short := _SHORT_YEAR.fullmatch(text):
        centuries = ("20", "19") if int(short[2]) < 50 else ("19", "20")
        written = [f"{short[1]}{century}{short[2]}".replace("-", " ") for century in centuries]
        return tuple(date for each in written for date in parse_date(each))
    for form in (*_FORMS, _YEAR_AND_MONTH):
        if (match := form.fullmatch(text)) and (dates := _possible_dates(match)):
            return dates
    return ()


@lru_cache(maxsize=2**13)
def find_dates(text: str) -> tuple[Date, ...]:
    """Return every date in a text, as precise as the text has it; any number of four digits can be a year.

    A day without a year is combined with each year that has no month, which remains a date of its own. Without such
    years it is combined with the years of the other dates.

    >>> find_dates("Born in 1942 on January, 1, he left on the 22nd of March, 2009, and died in May 2011.")
    (Date(year=1942, month=1, day=1), Date(year=2009, month=3, day=22), Date(year=2011, month=5, day=0))
    >>> find_dates("In 1989 it opened on 2 May.")
    (Date(year=1989, month=5, day=2), Date(year=1989, month=0, day=0))
    """
    spans: list[tuple[int, int]] = []
    results: list[tuple[int, Date]] = []
    for match in chain.from_iterable(form.finditer(text) for form in _FORMS):
        if not _overlaps(match, spans) and (dates := _possible_dates(match)):
            spans.append(match.span())
            results += [(match.start(), date) for date in dates]
    matches = chain.from_iterable(form.finditer(text) for form in _DAY_OF_MONTH)
    days = [(_month(each["month"]), _day(each["day"])) for each in matches if not _overlaps(each, spans)]
    days = [(month, day) for month, day in days if 1 <= day <= 31]
    years = {date.year for _, date in results if date.precision == 1} or {date.year for _, date in results}
    in_order = [date for _, date in sorted(results, key=lambda each: each[0])]
    return tuple(dict.fromkeys([*(Date(year, *day) for year in sorted(years) for day in days), *in_order]))


def _overlaps(match: re.Match[str], spans: list[tuple[int, int]]) -> bool:
    """Return whether a match shares a character with one of the spans."""
    return any(start < match.end() and match.start() < end for start, end in spans)


def _possible_dates(match: re.Match[str]) -> tuple[Date, ...]:
    """Return the dates that a match of one of the forms can be; empty if none is, as of 2001-13-45 or the year 12."""
    parts = match.groupdict()
    year, day = int(parts["year"]), (_day(parts["day"]) if parts.get("day") else 0)
    if not parts.get("number"):
        month = _month(parts["month"]) if parts.get("month") else 0
        possible = day <= 31 and (day or not parts.get("day")) and (month or len(parts["year"]) == 4)
        return (Date(year, month, day),) if possible else ()
    number = int(parts["number"])
    year_first = match.start("year") == match.start()
    orders = [(number, day)] if year_first or number == day else [(number, day), (day, number)]
    wanted = 1 if parts.get("day") else 0
    return tuple(Date(year, m, d) for m, d in orders if 1 <= m <= 12 and wanted <= d <= 31)


def _month(written: str) -> int:
    """Return the number of a month that `MONTH` matched."""
    return MONTH_NUMBER[written[:3].casefold()]


def _day(written: str) -> int:
    """Return the number of a day, in digits or as an ordinal, that `_DAY` matched; it may be above 31."""
    digits = re.match(r"\d+", written)
    return int(digits[0]) if digits else ORDINALS[" ".join(re.split(r"[ -]+", written.lower()))]
