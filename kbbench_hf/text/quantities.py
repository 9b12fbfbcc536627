"""Numbers as values, with or without a unit: `1,099`, `$875.4 million`, `252000.0 (millimetres)`, `58 minutes`."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "bn": 1e9}
_WORDS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
} | {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)}
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
"""Dimension -> how many of its unit a unit is -> names of that, without blanks."""
_UNIT = {name: (of, size) for of, units in _UNITS.items() for size, names in units.items() for name in names.split()}
_NUMERAL = r"[+-]?(?:\d{1,3}(?:,\d{2,3})+|\d+)(?:\.\d+)?"
_NUMBER = re.compile(
    rf"(?P<numeral>(?<![\d.,^])(?<![A-Za-z])(?<![A-Za-z]-){_NUMERAL}(?![\d]|[.,:]\d))"
    rf"|\b(?P<words>(?:{'|'.join(_WORDS)})\b(?:[ -](?:(?:and|{'|'.join((*_WORDS, *list(_SCALES)[:5]))})\b))*)",
    re.IGNORECASE,
)
_SCALE = re.compile(rf"[ -]?({'|'.join(_SCALES)})\b", re.IGNORECASE)
_UNIT_AFTER = re.compile(r"[ -]?\(?(?P<unit>[A-Za-z]+(?:\^?[23]|/[a-z]+\d?)?(?: (?:per )?[A-Za-z]+(?: [A-Za-z]+)?)?)")
_CLOCK = re.compile(r"\b(\d{1,3}):(\d\d)\b(?!:)")
_CURRENCY = re.compile(r"^(?:[A-Z]{1,3})?[$£€¥]\s?|\s?(?:%|percent|USD|dollars|euros?)$", re.IGNORECASE)


class Quantity(NamedTuple):
    """A number, its unit (dimension, size) if it has one, and what its last digit is worth."""

    value: float
    unit: tuple[str, float] | None = None
    step: float = 0.0

    def equals(self, other: "Quantity", *, rounded: bool = False) -> bool:
        """Return whether two quantities are the same number, or the same amount where a unit is known.

        A number without a unit can be in that of the other, or in the basic one of its dimension (metres, seconds).
        With `rounded`, what was rounded to a scale (`9.8 million`) or converted is the same within one of its last
        digit, if it has two or more.

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
        difference = abs(self.value * size - other.value * other_size)
        if difference <= 1e-9 * abs(self.value * size):
            return True
        return rounded and any(
            difference < each.step * unit and abs(each.value) >= 10 * each.step
            for each, unit in ((self, size), (other, other_size))
            if each.step > 1 or (each.step and size != other_size)
        )


@lru_cache(maxsize=2**14)
def read_quantity(text: str) -> Quantity | None:
    """Return the quantity that a text is as a whole; None where it is none.

    >>> read_quantity("$875.4 million"), read_quantity("1104.1 (kilograms)")
    (Quantity(value=875400000.0, unit=None, step=100000.0), Quantity(value=1104.1, unit=('mass', 1.0), step=0.1))
    >>> read_quantity("Apollo 11"), read_quantity("12 apples")
    (None, None)
    """
    text = _CURRENCY.sub("", text.replace("_", " ").strip().strip("\"'"))
    found = list(_quantities(text))
    if len(found) != 1 or found[0][1] != 0:
        return None
    quantity, _, end = found[0]
    return quantity if re.fullmatch(r"[ ).]*| ?\([^()]*\)", text[end:]) else None


@lru_cache(maxsize=2**13)
def find_quantities(text: str) -> tuple[Quantity, ...]:
    """Return every quantity in a text.

    Minutes and seconds are found as one number too, as DBpedia has them: 58 minutes and 41 seconds are 58.41.

    >>> [each.value for each in find_quantities("Its 1,099 men played 58 minutes and 41 seconds over 2.5 km.")]
    [1099.0, 58.0, 41.0, 2.5, 58.41]
    """
    found = list(_quantities(text))
    clock = [f"{minutes}.{seconds}" for minutes, seconds in _CLOCK.findall(text)]
    for (minutes, _, end), (seconds, start, _) in pairwise(found):
        if (minutes.unit, seconds.unit) == (_UNIT["min"], _UNIT["s"]) and start - end < 8:
            clock.append(f"{minutes.value:.0f}.{seconds.value:02.0f}")
    return (*(quantity for quantity, _, _ in found), *(Quantity(float(each)) for each in clock))


def _quantities(text: str) -> Iterator[tuple[Quantity, int, int]]:
    """Yield each quantity with where it starts and ends."""
    for match in _NUMBER.finditer(text):
        end = match.end()
        if match["words"]:
            value = float(_in_words(match["words"]))
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
                if unit := _UNIT.get(_unit_name("".join(words[:n]))):
                    end = after.start("unit") + len(" ".join(words[:n]))
                    break
        yield Quantity(value, unit, step), match.start(), end


def _unit_name(written: str) -> str:
    name = written.replace("^", "").lower().replace("meter", "metre").replace("liter", "litre")
    name = name.replace("metres", "metre").replace("grams", "gram").replace("km", "kilometre")
    name = name.replace("kilometre", "km") if name.replace("kilometre", "km") in _UNIT else name
    return name if name in _UNIT else name.removesuffix("es" if name == "inches" else "s")


def _in_words(words: str) -> int:
    total = part = 0
    for word in re.split(r"[ -]+", words.lower()):
        if word in _WORDS:
            part += _WORDS[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALES:
            total, part = total + (part or 1) * int(_SCALES[word]), 0
    return total + part
