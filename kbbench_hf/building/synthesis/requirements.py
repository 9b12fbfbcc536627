"""Requirements that narrow a template's answers: an attribute of the gold node, or a rare phrase of its text."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from kbbench_hf.building.synthesis.node_phrases import NodeTexts, padded
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import NODE_COLUMNS
from kbbench_hf.metrics.topics import STOP_WORDS
from kbbench_hf.text.words import list_words

_PAUSE = re.compile(r"[^\w ]+|_+")
"""No phrase crosses one, so that the text has it verbatim."""
Requirement = dict[str, Any]
"""`{"kind": "attribute", "field", "op", "value", "source"}` or `{"kind": "phrase", "value", "source"}`."""

LONGEST_PHRASE = 4
MOST_OF_TYPE = 0.05
MOST_OF_CANDIDATES = 0.5
FILLED_SHARE = 0.5
LONGEST_VALUE = 60
MOST_TRIED = 16
"""Phrases of a text whose frequency in the texts of the type is counted, the rarest first."""


def meets(node: Mapping[str, Any], requirement: Requirement) -> bool:
    """Return whether a row of `nodes` meets a requirement; an absent value meets none.

    >>> meets({"year": 1999}, {"kind": "attribute", "field": "year", "op": "<=", "value": 2000})
    True
    >>> meets({"text": "Baked twice."}, {"kind": "phrase", "value": "baked twice"})
    True
    """
    if requirement["kind"] == "phrase":
        return padded(requirement["value"]) in padded(node["text"] or "")
    found, value = node.get(requirement["field"]), requirement["value"]
    if _is_absent(found):
        return False
    if requirement["op"] == "=":
        return bool(found == value)
    return bool(found <= value if requirement["op"] == "<=" else found >= value)


class Requirements:
    """Random requirements from one knowledge base; the same random numbers give the same requirements."""

    def __init__(self, kb: KnowledgeBase, texts: NodeTexts) -> None:
        self._kb, self._texts = kb, texts
        self._fields = cache(self._fields_of)

    def draw(
        self, gold: int, candidates: Sequence[int], size: int, rng: Random
    ) -> list[tuple[Requirement, frozenset[int]]]:
        """Return requirements that the gold node meets, each with the candidates that meet it.

        Attributes come first, in random order; then phrases of the text, first those that about `size` candidates have.
        No two phrases have a common word.
        """
        drawn = [*self._attributes(gold, rng), *self._phrases(gold, candidates, size)]
        return [(each, frozenset(self._meeting(candidates, each))) for each in drawn]

    def has_text(self, row: int) -> bool:
        """Return whether a node's text has more words than its name."""
        return len(self._texts.padded([row])[0].split()) > len(list_words(self._kb.names([row])[0]))

    def _meeting(self, candidates: Sequence[int], requirement: Requirement) -> list[int]:
        if requirement["kind"] == "phrase":
            wanted = padded(requirement["value"])
            texts = self._texts.padded(candidates)
            return [row for row, text in zip(candidates, texts, strict=True) if wanted in text]
        field = requirement["field"]
        values = self._kb.nodes[field].take(pa.array(candidates, pa.int64())).to_pylist()
        return [row for row, value in zip(candidates, values, strict=True) if meets({field: value}, requirement)]

    def _attributes(self, gold: int, rng: Random) -> list[Requirement]:
        found = []
        for field, values in self._fields(self._kb.types([gold])[0]).items():
            value = self._kb.nodes[field][gold].as_py()
            if _is_absent(value) or value not in values:
                continue
            op = "=" if isinstance(value, str) else rng.choice(["<=", ">="])
            if op != "=":
                value = _rounded(value, op, values)
            found.append({"kind": "attribute", "field": field, "op": op, "value": value, "source": field})
        rng.shuffle(found)
        return found

    def _fields_of(self, kind: str) -> dict[str, frozenset[Any]]:
        """Return the further columns of `nodes` that distinguish nodes of a type, each with its values."""
        rows = self._kb.of_type(kind)
        fields = {}
        for field in sorted(set(self._kb.nodes.column_names) - {*NODE_COLUMNS, "details"}):
            kinds = self._kb.nodes.schema.field(field).type
            if pa.types.is_dictionary(kinds):
                kinds = kinds.value_type
            if not (pa.types.is_string(kinds) or pa.types.is_large_string(kinds) or _is_number(kinds)):
                continue
            values = [each for each in self._kb.nodes[field].take(pa.array(rows)).to_pylist() if not _is_absent(each)]
            different = Counter(values)
            short = all(not isinstance(value, str) or len(value) <= LONGEST_VALUE for value in different)
            many = len(rows) / 2 if not _is_number(kinds) else len(rows)
            if short and len(values) >= FILLED_SHARE * len(rows) and 2 <= len(different) <= many:
                fields[field] = frozenset(different)
        return fields

    def _phrases(self, gold: int, candidates: Sequence[int], size: int) -> Iterator[Requirement]:
        """Yield phrases, first those that about `size` candidates have, of equally good ones the rarest first."""
        index = self._texts.of(self._kb.types([gold])[0])
        name = set(list_words(self._kb.names([gold])[0]))
        texts = self._texts.padded(candidates)
        rarity: dict[tuple[str, ...], float] = {}
        for words in map(list_words, _PAUSE.split(self._kb.texts([gold])[0])):
            for start in range(len(words)):
                for stop in range(start + 1, min(start + LONGEST_PHRASE, len(words)) + 1):
                    phrase = tuple(words[start:stop])
                    if _is_content(phrase[0]) and _is_content(phrase[-1]) and not name & set(phrase):
                        rarity[phrase] = sum(map(index.idf, phrase))
        most, is_few = MOST_OF_TYPE * len(index), len(candidates) <= size
        found: list[tuple[float, int, tuple[str, ...]]] = []
        for place, phrase in enumerate(sorted(rarity, key=lambda each: (-rarity[each], each))):
            whole = f" {' '.join(phrase)} "
            n_met = sum(whole in text for text in texts)
            if (is_few or 1 <= n_met <= MOST_OF_CANDIDATES * len(texts)) and 2 <= index.count(phrase) <= most:
                found.append((abs(math.log(n_met / size)), place, phrase))
                if len(found) >= MOST_TRIED:
                    break
        taken: set[str] = set()
        for _, _, phrase in sorted(found):
            if taken.isdisjoint(phrase):
                taken |= {*phrase}
                yield {"kind": "phrase", "value": " ".join(phrase), "source": "text"}


def _is_absent(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _is_content(word: str) -> bool:
    return word not in STOP_WORDS and not word.isdigit() and len(word) > 1


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _rounded(value: float, op: str, values: frozenset[Any]) -> float | int:
    """Return a rounder bound that the value still meets."""
    spread = max(values) - min(values)
    unit = 10 ** math.floor(math.log10(spread / 10)) if spread > 0 else 1
    bound = (math.ceil(value / unit) if op == "<=" else math.floor(value / unit)) * unit
    is_whole = isinstance(value, int)
    rounded = round(bound) if is_whole else round(bound, max(0, -math.floor(math.log10(unit))))
    return rounded if (rounded >= value if op == "<=" else rounded <= value) else value
