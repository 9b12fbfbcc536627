"""Reading a number as people write it: signs, groups of thousands, magnitudes, currencies, units, number words."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from kbbench_hf.metrics.entity_names import plain

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_ONES += " seventeen eighteen nineteen"
_WORDS = {word: value for value, word in enumerate(_ONES.split())}
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_MAGNITUDES = {word + plural: Decimal(10**power) for word, power in _POWERS.items() for plural in ("", "s")}
_MAGNITUDES |= {"dozen": Decimal(12), "k": _MAGNITUDES["thousand"], "mn": _MAGNITUDES["million"]}
_MAGNITUDES |= {"mln": _MAGNITUDES["million"], "bn": _MAGNITUDES["billion"], "tn": _MAGNITUDES["trillion"]}
_OF_MONEY = {"m": _MAGNITUDES["million"], "b": _MAGNITUDES["billion"]}
"""Letters that are a magnitude after a sum of money only; elsewhere `m` is metres."""
_MONEY = {"$": "$", "us$": "$", "usd": "$", "€": "€", "eur": "€", "£": "£", "gbp": "£", "¥": "¥", "jpy": "¥", "₹": "₹"}
_MONEY |= {"inr": "₹", "rs": "₹", "c$": "c$", "a$": "a$", "hk$": "hk$"}
_UNITS = {
    unit: names.split(", ")[0]
    for names in (
        "$, dollar, dollars, usd", "€, euro, euros, eur", "£, gbp", "¥, yen, jpy", "%, percent, pct",
        "km, kilometre, kilometer, kilometres, kilometers", "m, metre, meter, metres, meters",
        "cm, centimetre, centimeter, centimetres, centimeters", "mm, millimetre, millimeter, millimetres, millimeters",
        "mi, mile, miles", "ft, foot, feet", "in, inch, inches", "yd, yard, yards", "kg, kilogram, kilograms",
        "lb, lbs", "ha, hectare, hectares", "ac, acre, acres", "km / h, kmh, kph", "mph, mi / h",
        "km2, sq km, square km, square kilometres, square kilometers", "mi2, sq mi, square mi, square miles",
        "year, years", "month, months", "week, weeks", "day, days", "hour, hours", "minute, minutes", "second, seconds",
    )
    for unit in names.split(", ")
}  # fmt: skip
"""Unit -> one name for it, of the units that two answers may not differ in."""
_CAPITAL = re.compile(r"(?<=\d)([MB])\b")
_ACCOUNTING = re.compile(r"(?P<money>[$€£¥₹]?)\s*\((?P<inside>[^()]*)\)(?P<rest>.*)")
"""How balance sheets write a negative number."""
_NUMBER = re.compile(
    r"\s*(?:(?P<minus>-|minus\b|negative\b)|\+|#|no\.\s)?\s*"
    r"(?P<money>(?:[a-z]{1,3} ?)?[$€£¥₹]|\b(?:usd|eur|gbp|jpy|inr|rs)\b\.?)?\s*(?P<inner>-)?\s*"
    r"(?P<digits>\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)(?:\.\d+)?|\d*\.\d+|\d+)\.?"
    r"(?:(?<=\d)(?:st|nd|rd|th)\b)?(?P<rest>.*)"
)
_REST = re.compile(r"[^\W\d]+(?:[23]\b)?|\S")
_NO_UNIT = frozenset({"or", "and", "to", "than", "plus", "minus", "not", "+", "/", ":", ",", "-", "=", "x"})
"""What, right after a number, makes it a part of something else."""


class Number(NamedTuple):
    """A number that an answer is, and its unit where that must agree (`km`, `$`, `%`)."""

    value: Decimal
    unit: str = ""


def with_magnitude(text: str) -> str:
    """Return a text with the capitals that are magnitudes written out; in small letters `m` is metres.

    >>> with_magnitude("3.5M"), with_magnitude("$2B in 2019"), with_magnitude("100m")
    ('3.5 million', '$2 billion in 2019', '100m')
    """
    return _CAPITAL.sub(lambda found: " million" if found[1] == "M" else " billion", text)


@lru_cache(maxsize=1 << 18)
def read_number(text: str) -> Number | None:
    """Return the one number that an answer is, or None.

    >>> read_number("−$1.2 million"), read_number("(35.8)"), read_number("3 or 4")
    (Number(value=Decimal('-1200000.0'), unit='$'), Number(value=Decimal('-35.8'), unit=''), None)
    """
    written = plain(text).rstrip(".")
    for word in ("minus ", "negative "):
        if written.startswith(word):
            written = f"-{_in_digits(written.removeprefix(word))}"
    written = _in_digits(written)
    if accounting := _ACCOUNTING.fullmatch(written):
        written = f"-{accounting['money']}{accounting['inside']}{accounting['rest']}"
    if not (found := _NUMBER.fullmatch(written)):
        return None
    money = (found["money"] or "").replace(" ", "").rstrip(".")
    if money and money not in _MONEY:
        return None
    rest = _REST.findall(found["rest"].rstrip(".").replace("per cent", "percent"))
    value = Decimal(re.sub("[, ]", "", found["digits"]))
    while rest and (factor := _MAGNITUDES.get(rest[0]) or (_OF_MONEY.get(rest[0]) if money else None)):
        value, rest = value * factor, rest[1:]
    more = any(word[0].isdigit() or word in _WORDS or word in _TENS for word in rest)
    if more or len(rest) > 4 or (rest and rest[0] in _NO_UNIT):
        return None
    value = -value if found["minus"] or found["inner"] else value
    return Number(value, _MONEY[money] if money else _UNITS.get(" ".join(rest), ""))


def _in_digits(text: str) -> str:
    """Return a text whose first words are a number, to ninety-nine, with that number in digits."""
    first, *rest = re.split(r"[ -]", text, maxsplit=2)
    if first in ("a", "an") and rest and rest[0] in _MAGNITUDES:
        return " ".join(["1", *rest])
    if first in _TENS and rest and _WORDS.get(rest[0], 0) in range(1, 10):
        return " ".join([str(_TENS[first] + _WORDS[rest[0]]), *rest[1:]])
    value = _WORDS.get(first, _TENS.get(first))
    return text if value is None else f"{value}{text[len(first) :]}"
