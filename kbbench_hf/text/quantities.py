"""Numbers with their units: `1,099`, `$875.4 million`, `252000.0 (millimetres)`, `58 minutes`, `twenty-one`, `(35.8)`.

Two parsers share one vocabulary. `parse_quantity` and `find_quantities` convert units and round, for numbers in running
text (Text2KGBench from `repaired-2` on). `parse_number` is exact and accepts sums of money and the negative numbers of
accounts, for answers (SKA-Bench `typed`). Scores depend on what each of them accepts, so neither replaces the other.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kbbench_hf.text.folding import fold_typography, lazy_pattern

_TEENS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TEENS += " seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: number for number, word in enumerate(_TEENS.split())}
NUMBER_WORDS |= {word: 10 * number for number, word in enumerate(_TENS.split(), start=2)}
"""The words from zero to nineteen, and the tens to ninety -> number."""
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALES = {word: 10.0**power for word, power in _POWERS.items()} | {"bn": 1e9}
_UNITS = {
    "length": {
        1e-3: "millimetre mm", 1e-2: "centimetre cm", 1.0: "metre m", 1e3: "kilometre km", 0.0254: "inch",
        0.3048: "foot feet ft", 0.9144: "yard yd", 1609.344: "mile mi", 1.495978707e11: "au",
    },
    "area": {
        1.0: "squaremetre m2 sqm", 1e6: "squarekilometre km2 sqkm", 1e4: "hectare ha", 4046.8564224: "acre",
        0.09290304: "squarefoot squarefeet sqft ft2", 2589988.110336: "squaremile sqmi",
    },
    "volume": {1e-3: "litre l", 1.0: "cubicmetre m3", 1e-6: "cubiccentimetre cm3 cc"},
    "mass": {1e-3: "gram g", 1.0: "kilogram kg kilo", 1e3: "tonne t", 0.45359237: "pound lb"},
    "time": {1.0: "second s sec", 60.0: "minute min", 3600.0: "hour h hr", 86400.0: "day", 604800.0: "week"},
    "speed": {
        1.0: "metrepersecond m/s mps", 1e3: "kilometrepersecond km/s kmps", 1 / 3.6: "kilometreperhour km/h kph kmh",
        0.44704: "mileperhour mph", 1852 / 3600: "knot kn",
    },
    "temperature": {1.0: "kelvin k"},
    "density": {1.0: "grampercubiccentimetre g/cm3"},
}  # fmt: skip
"""Dimension -> size in its base unit -> names of the unit, without blanks."""
_UNIT = {name: (of, size) for of, units in _UNITS.items() for size, names in units.items() for name in names.split()}
THOUSANDS = r"(?<=\d),(?=\d{3}(?!\d))"
"""The comma before three digits."""
NUMERAL = r"[+-]?(?:\d{1,3}(?:,\d{2,3})+|\d+)(?:\.\d+)?"
"""A number in digits; groups of two are those of India (1,00,000)."""
_NUMBER = lazy_pattern(
    rf"(?P<numeral>(?<![\d.,^])(?<![A-Za-z])(?<![A-Za-z]-){NUMERAL}(?![\d]|[.,:]\d))"
    rf"|\b(?P<words>(?:{'|'.join(NUMBER_WORDS)})\b(?:[ -](?:(?:and|{'|'.join((*NUMBER_WORDS, *_POWERS))})\b))*)",
    re.IGNORECASE,
)
_SCALE = lazy_pattern(rf"[ -]?({'|'.join(_SCALES)})\b", re.IGNORECASE)
_UNIT_AFTER = lazy_pattern(r"[ -]?\(?(?P<unit>[A-Za-z]+(?:\^?[23]|/[a-z]+\d?)?(?: (?:per )?[A-Za-z]+(?: [A-Za-z]+)?)?)")
_CLOCK = lazy_pattern(r"\b(\d{1,3}):(\d\d)\b(?!:)")
_CURRENCY = lazy_pattern(r"^(?:[A-Z]{1,3})?[$£€¥]\s?|\s?(?:%|percent|USD|dollars|euros?)$", re.IGNORECASE)


class Quantity(NamedTuple):
    """A number, its unit (dimension, size) if any, and the value of one in its last digit."""

    value: float
    unit: tuple[str, float] | None = None
    step: float = 0.0

    def equals(self, other: "Quantity", *, rounded: bool = False) -> bool:
        """Return whether two quantities are the same number, or the same amount if their units are known.

        A number without a unit can be in the unit of the other, or in the base unit of its dimension (meters, seconds).
        With `rounded`, a number that was rounded to a scale (`9.8 million`) or converted may differ by less than one in
        its last digit, if it has at least two digits.

        >>> gold = Quantity(252000.0, ("length", 0.001), 0.1)
        >>> gold.equals(Quantity(252.0, ("length", 1.0))), gold.equals(Quantity(252000.0)), gold.equals(Quantity(25.2))
        (True, True, False)
        >>> Quantity(9833520.0, None, 1.0).equals(Quantity(9.8e6, None, 1e5), rounded=True)
        True
        """
        if self.unit and other.unit and self.unit[0] != other.unit[0]:
            return False
        sizes = [(self.unit[1] if self.unit else 1.0, other.unit[1] if other.unit else 1.0)]
        if not (self.unit and other.unit):
            sizes.append((1.0, 1.0))
        return any(self._equals(other, one, another, rounded) for one, another in sizes)

    def _equals(self, other: "Quantity", size: float, other_size: float, rounded: bool) -> bool:
        """Return whether two values are equal in units of these sizes; with `rounded`, at the digits of one of them."""
        difference = abs(self.value * size - other.value * other_size)
        if difference <= 1e-9 * abs(self.value * size):
            return True
        return rounded and any(
            difference < each.step * unit and abs(each.value) >= 10 * each.step
            for each, unit in ((self, size), (other, other_size))
            if each.step > 1 or (each.step and size != other_size)
        )


@lru_cache(maxsize=2**14)
def parse_quantity(text: str) -> Quantity | None:
    """Return the quantity that a whole text is; None if it is none.

    >>> parse_quantity("$875.4 million"), parse_quantity("1104.1 (kilograms)")
    (Quantity(value=875400000.0, unit=None, step=100000.0), Quantity(value=1104.1, unit=('mass', 1.0), step=0.1))
    >>> parse_quantity("Apollo 11"), parse_quantity("12 apples")
    (None, None)
    """
    text = _CURRENCY.sub("", text.replace("_", " ").strip().strip("\"'"))
    parsed = list(_scan_quantities(text))
    if len(parsed) != 1 or parsed[0][1] != 0:
        return None
    quantity, _, end = parsed[0]
    return quantity if re.fullmatch(r"[ ).]*| ?\([^()]*\)", text[end:]) else None


@lru_cache(maxsize=2**13)
def find_quantities(text: str) -> tuple[Quantity, ...]:
    """Return every quantity in a text.

    Minutes and seconds are also one number, as in DBpedia: 58 minutes and 41 seconds are 58.41.

    >>> [each.value for each in find_quantities("Its 1,099 men played 58 minutes and 41 seconds over 2.5 km.")]
    [1099.0, 58.0, 41.0, 2.5, 58.41]
    """
    parsed = list(_scan_quantities(text))
    clock = [f"{minutes}.{seconds}" for minutes, seconds in _CLOCK.findall(text)]
    for (minutes, _, end), (seconds, start, _) in pairwise(parsed):
        if (minutes.unit, seconds.unit) == (_UNIT["min"], _UNIT["s"]) and start - end < 8:
            clock.append(f"{minutes.value:.0f}.{seconds.value:02.0f}")
    return (*(quantity for quantity, _, _ in parsed), *(Quantity(float(each)) for each in clock))


def _scan_quantities(text: str) -> Iterator[tuple[Quantity, int, int]]:
    """Yield each quantity with its start and end."""
    for match in _NUMBER.finditer(text):
        end = match.end()
        if match["words"]:
            value = float(_sum_number_words(match["words"]))
            step = 10.0 ** (len(f"{value:.0f}") - len(f"{value:.0f}".rstrip("0"))) if value else 1.0
        else:
            digits = match["numeral"].replace(",", "")
            value, step = float(digits), 10.0 ** -len(digits.partition(".")[2])
        if scale := _SCALE.match(text, end):
            value, step, end = value * _SCALES[scale[1].lower()], step * _SCALES[scale[1].lower()], scale.end()
        unit = None
        if after := _UNIT_AFTER.match(text, end):
            words = after["unit"].split()
            for n in range(len(words), 0, -1):
                if unit := _UNIT.get(_normalize_unit("".join(words[:n]))):
                    end = after.start("unit") + len(" ".join(words[:n]))
                    break
        yield Quantity(value, unit, step), match.start(), end


def _normalize_unit(written: str) -> str:
    """Return the name of a unit as `_UNIT` has it: singular, British, "km" for "kilometre"; or a name it lacks."""
    name = written.replace("^", "").lower().replace("meter", "metre").replace("liter", "litre")
    name = name.replace("metres", "metre").replace("grams", "gram").replace("km", "kilometre")
    name = name.replace("kilometre", "km") if name.replace("kilometre", "km") in _UNIT else name
    return name if name in _UNIT else name.removesuffix("es" if name == "inches" else "s")


def _sum_number_words(words: str) -> int:
    """Return the number of words such as "two thousand three hundred and six"; other words add nothing."""
    total = part = 0
    for word in re.split(r"[ -]+", words.lower()):
        if word in NUMBER_WORDS:
            part += NUMBER_WORDS[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALES:
            total, part = total + (part or 1) * int(_SCALES[word]), 0
    return total + part


_MAGNITUDES = {word + plural: Decimal(10**power) for word, power in _POWERS.items() for plural in ("", "s")}
_MAGNITUDES |= {"dozen": Decimal(12), "k": _MAGNITUDES["thousand"], "mn": _MAGNITUDES["million"]}
_MAGNITUDES |= {"mln": _MAGNITUDES["million"], "bn": _MAGNITUDES["billion"], "tn": _MAGNITUDES["trillion"]}
_OF_MONEY = {"m": _MAGNITUDES["million"], "b": _MAGNITUDES["billion"]}
"""Letters that are a magnitude only after a sum of money; elsewhere `m` is meters."""
_MONEY = {"$": "$", "us$": "$", "usd": "$", "€": "€", "eur": "€", "£": "£", "gbp": "£", "¥": "¥", "jpy": "¥", "₹": "₹"}
_MONEY |= {"inr": "₹", "rs": "₹", "c$": "c$", "a$": "a$", "hk$": "hk$"}
_ANSWER_UNITS = {
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
"""Name of a unit -> its first name. Two answers with different units of these are different."""
_CAPITAL = lazy_pattern(r"(?<=\d)([MB])\b")
_ACCOUNTING = lazy_pattern(r"(?P<money>[$€£¥₹]?)\s*\((?P<inside>[^()]*)\)(?P<rest>.*)")
"""A negative number in a balance sheet."""
_ANSWER = lazy_pattern(
    r"\s*(?:(?P<minus>-|minus\b|negative\b)|\+|#|no\.\s)?\s*"
    r"(?P<money>(?:[a-z]{1,3} ?)?[$€£¥₹]|\b(?:usd|eur|gbp|jpy|inr|rs)\b\.?)?\s*(?P<inner>-)?\s*"
    r"(?P<digits>\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)(?:\.\d+)?|\d*\.\d+|\d+)\.?"
    r"(?:(?<=\d)(?:st|nd|rd|th)\b)?(?P<rest>.*)"
)
_REST = lazy_pattern(r"[^\W\d]+(?:[23]\b)?|\S")
_NO_UNIT = frozenset({"or", "and", "to", "than", "plus", "minus", "not", "+", "/", ":", ",", "-", "=", "x"})
"""Words and signs after a number that make it part of another expression."""


class AnswerNumber(NamedTuple):
    """The number of an answer, and its unit if that must agree (`km`, `$`, `%`)."""

    value: Decimal
    unit: str = ""


def spell_magnitudes(text: str) -> str:
    """Return a text with `M` and `B` after a number as words; a small `m` is meters.

    >>> spell_magnitudes("3.5M"), spell_magnitudes("$2B in 2019"), spell_magnitudes("100m")
    ('3.5 million', '$2 billion in 2019', '100m')
    """
    return _CAPITAL.sub(lambda found: " million" if found[1] == "M" else " billion", text)


@lru_cache(maxsize=1 << 18)
def parse_number(text: str) -> AnswerNumber | None:
    """Return the number that a whole answer is; None if it is none, or more than one.

    >>> parse_number("−$1.2 million"), parse_number("(35.8)"), parse_number("3 or 4")
    (AnswerNumber(value=Decimal('-1200000.0'), unit='$'), AnswerNumber(value=Decimal('-35.8'), unit=''), None)
    """
    written = fold_typography(text).rstrip(".")
    for word in ("minus ", "negative "):
        if written.startswith(word):
            written = f"-{_replace_number_words(written.removeprefix(word))}"
    written = _replace_number_words(written)
    if accounting := _ACCOUNTING.fullmatch(written):
        written = f"-{accounting['money']}{accounting['inside']}{accounting['rest']}"
    if not (match := _ANSWER.fullmatch(written)):
        return None
    money = (match["money"] or "").replace(" ", "").rstrip(".")
    if money and money not in _MONEY:
        return None
    rest = _REST.findall(match["rest"].rstrip(".").replace("per cent", "percent"))
    value = Decimal(re.sub("[, ]", "", match["digits"]))
    while rest and (factor := _MAGNITUDES.get(rest[0]) or (_OF_MONEY.get(rest[0]) if money else None)):
        value, rest = value * factor, rest[1:]
    more = any(word[0].isdigit() or word in NUMBER_WORDS for word in rest)
    if more or len(rest) > 4 or (rest and rest[0] in _NO_UNIT):
        return None
    value = -value if match["minus"] or match["inner"] else value
    return AnswerNumber(value, _MONEY[money] if money else _ANSWER_UNITS.get(" ".join(rest), ""))


def _replace_number_words(text: str) -> str:
    """Return a text with the number words at its start, up to ninety-nine, as digits."""
    first, *rest = re.split(r"[ -]", text, maxsplit=2)
    if first in ("a", "an") and rest and rest[0] in _MAGNITUDES:
        return " ".join(["1", *rest])
    value = NUMBER_WORDS.get(first)
    if value and value >= 20 and rest and 0 < NUMBER_WORDS.get(rest[0], 0) < 10:
        return " ".join([str(value + NUMBER_WORDS[rest[0]]), *rest[1:]])
    return text if value is None else f"{value}{text[len(first) :]}"
