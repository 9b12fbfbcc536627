"""Requirements that narrow a template's answers, an attribute or a rare phrase of the gold node; phrase search.

`questions` draws requirements, `retrieval_audit` checks them again with `meets`; a requirement is stored as JSON in the
column `requirements` of a synthesized dataset.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from kbbench_hf.building.synthesis.english import WORDS, verb_form
from kbbench_hf.knowledge_base.plans import LONGEST_VALUE, AttributeTest
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import NODE_COLUMNS
from kbbench_hf.metrics.generative_re import STOP_WORDS
from kbbench_hf.text.folding import strip_accents
from kbbench_hf.text.words import list_words


def padded(text: str) -> str:
    """Return the words of a text with spaces between and around them, so that phrases match whole words."""
    return f" {' '.join(list_words(text))} "


def folded(text: str) -> str:
    """Return a text without accents, widths and case.

    >>> folded("Élan ＩＬ-10") == folded("E\u0301lan il-10") == "elan il-10"
    True
    """
    return strip_accents(text).casefold()


def is_named(name: str, text: str) -> bool:
    """Return whether a text contains a name as whole words, whatever separates their letters.

    A name without letters and digits must occur verbatim.

    >>> [is_named(name, "What acts on the IL 10 receptor?") for name in ("il-10", "IL10", "Receptor", "cept", "?")]
    [True, True, True, False, True]
    >>> is_named("", "Anything")
    False
    """
    wanted = "".join(list_words(folded(name)))
    if not wanted:
        return bool(name.strip()) and name.strip() in text
    # Words begin and end at bounds, so that the text between two bounds is a sequence of whole words.
    words = list_words(folded(text))
    joined, bounds = "".join(words), set(accumulate(map(len, words), initial=0))
    return any(joined.startswith(wanted, start) and start + len(wanted) in bounds for start in bounds)


class NodeTexts:
    """The texts of a knowledge base, loaded on first use."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._padded: dict[int, str] = {}
        self.of = cache(self._of_type)

    def padded(self, rows: Sequence[int]) -> list[str]:
        """Return the text of each row as `padded` has it."""
        missing = [row for row in rows if row not in self._padded]
        self._padded |= dict(zip(missing, map(padded, self._kb.texts(missing)), strict=True)) if missing else {}
        return [self._padded[row] for row in rows]

    def _of_type(self, kind: str) -> "PhraseIndex":
        """Return the index of the texts of a type; `of` keeps it."""
        return PhraseIndex(self.padded(self._kb.of_type(kind).tolist()))


class PhraseIndex:
    """Document frequencies of words and phrases in the texts of a type."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._texts)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, text in enumerate(self._texts):
            for token in dict.fromkeys(text.split()):
                places.setdefault(token, []).append(place)
        return places

    def count(self, words: Iterable[str]) -> int:
        """Return the number of texts that contain these words in sequence."""
        phrase = list(words)
        rarest = min((self._places.get(word, []) for word in phrase), key=len)
        if len(phrase) == 1:
            return len(rarest)
        whole = f" {' '.join(phrase)} "
        return sum(whole in self._texts[place] for place in rarest)

    def idf(self, word: str) -> float:
        """Return the inverse document frequency of a word: the logarithm of texts over texts that have it."""
        return float(np.log(len(self._texts) / max(1, len(self._places.get(word, [])))))


_PAUSE = re.compile(r"(?<!\b\w)(?<!\b\w\w)\.(?=\s|$)|[,;:!?\"“”\n]+(?=\s|$)|(?<=\s)[\"“]|\s[-–—]+\s")
"""No phrase crosses one, so that the text has it verbatim. Other signs within a phrase leave its bounds open."""
_FUNCTION_WORDS = STOP_WORDS | WORDS["function_words"]
Requirement = dict[str, Any]
"""`{"kind": "attribute", "field", "op", "value", "source"}` or `{"kind": "phrase", "value", "source"}`."""

LONGEST_PHRASE = 5
"""Words of a phrase."""
MOST_OF_TYPE = 0.5
"""Largest share of the nodes of a type that have a phrase."""
MOST_ALONE = 0.5
"""Largest share of candidates among the nodes of their type that have a phrase."""
FILLED_SHARE = 0.5
"""Least share of the nodes of a type that have a value, for a column to give attributes."""
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
    actual, value = node.get(requirement["field"]), requirement["value"]
    if _is_absent(actual):
        return False
    if requirement["op"] == "=":
        return bool(actual == value)
    return bool(actual <= value if requirement["op"] == "<=" else actual >= value)


class Requirements:
    """Random requirements from one knowledge base; the same random numbers give the same requirements."""

    def __init__(self, kb: KnowledgeBase, texts: NodeTexts) -> None:
        self._kb, self._texts = kb, texts
        self._fields = cache(self._fields_of)

    def draw(
        self, gold: int, candidates: Sequence[int], size: int, rng: Random, said: Collection[str] = ()
    ) -> list[tuple[Requirement, frozenset[int]]]:
        """Return requirements that the gold node meets, each with the candidates that meet it.

        Attributes come first, in random order; then phrases of the text, first those that about `size` candidates have.
        No phrase has one of the words `said`, which the question has anyway.
        """
        drawn = [*self._attributes(gold, rng), *self._phrases(gold, candidates, size, said)]
        return [(each, frozenset(self._candidates_meeting(candidates, each))) for each in drawn]

    def verbatim(self, gold: int, requirement: Requirement) -> Requirement:
        """Return a requirement with the value of a phrase spelled as the text of the gold node spells it."""
        if requirement["kind"] != "phrase":
            return requirement
        phrase = r"\W+".join(map(re.escape, requirement["value"].split()))
        text = self._kb.texts([gold])[0]
        match = re.search(rf"\b{phrase}\b", text, re.IGNORECASE)
        if not match:
            return requirement
        starts = not text[: match.start()].strip() or text[: match.start()].rstrip()[-1] in ".:;!?"
        is_name = match[0][1:] != match[0][1:].lower()
        spelled = match[0][0].lower() + match[0][1:] if starts and not is_name else match[0]
        return requirement | {"value": spelled}

    def has_text(self, row: int) -> bool:
        """Return whether a node's text has more words than its name."""
        return len(self._texts.padded([row])[0].split()) > len(list_words(self._kb.names([row])[0]))

    def _candidates_meeting(self, candidates: Sequence[int], requirement: Requirement) -> list[int]:
        """Return the candidates that meet a requirement, in their order."""
        if requirement["kind"] == "phrase":
            wanted = padded(requirement["value"])
            texts = self._texts.padded(candidates)
            return [row for row, text in zip(candidates, texts, strict=True) if wanted in text]
        test = AttributeTest(requirement["field"], requirement["op"], requirement["value"])
        passing: list[int] = test.passing(self._kb, np.array(candidates, np.int64)).tolist()
        return passing

    def _attributes(self, gold: int, rng: Random) -> list[Requirement]:
        """Return a requirement from each attribute of the gold node, in random order; numbers become rounded bounds."""
        found = []
        for field, values in self._fields(self._kb.types([gold])[0]).items():
            value = self._kb.nodes[field][gold].as_py()
            if _is_absent(value) or value not in values:
                continue
            op = "=" if isinstance(value, str) else rng.choice(["<=", ">="])
            if op != "=":
                value = _round_bound(value, op, values)
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

    def _phrases(self, gold: int, candidates: Sequence[int], size: int, said: Collection[str]) -> Iterator[Requirement]:
        """Yield phrases, first those that about `size` candidates have, of equally good ones the rarest first.

        A phrase removes candidates, and twice as many nodes of the type have it, so that it does not do alone.
        """
        index = self._texts.of(self._kb.types([gold])[0])
        barred = {*said, *list_words(self._kb.names([gold])[0])}
        texts = self._texts.padded(candidates)
        whole = [phrase for phrase in whole_phrases(self._kb.texts([gold])[0]) if barred.isdisjoint(phrase)]
        found: list[tuple[float, int, tuple[str, ...]]] = []
        for place, phrase in enumerate(sorted(whole, key=lambda each: (-sum(map(index.idf, each)), each))):
            n_met = sum(f" {' '.join(phrase)} " in text for text in texts)
            if 1 <= n_met < len(texts) and n_met / MOST_ALONE <= index.count(phrase) <= MOST_OF_TYPE * len(index):
                found.append((abs(math.log(n_met / size)), place, phrase))
                if len(found) >= MOST_TRIED:
                    break
        for _, _, phrase in sorted(found):
            yield {"kind": "phrase", "value": " ".join(phrase), "source": "text"}


def whole_phrases(text: str) -> list[tuple[str, ...]]:
    """Return the phrases of a text that nothing is cut from: between two signs, or between function words.

    A phrase has 2 to 5 words, or it is one name. Next to an apostrophe, a hyphen, an abbreviation or a number, the
    bounds of a phrase are not known.

    >>> whole_phrases("Wrapped in cloth, it is a bowl of sour soup, from Trinidad and Tobago or Kilnsea.")
    [('bowl', 'of', 'sour', 'soup'), ('kilnsea',), ('trinidad', 'and', 'tobago'), ('wrapped', 'in', 'cloth')]
    >>> whole_phrases("The author's well-known St. Albans fish, 2.5 metres long")
    []
    """
    phrases: dict[tuple[str, ...], None] = {}
    for piece in _PAUSE.split(text):
        words = piece.split()
        folded, end = [word.casefold() for word in words], len(words)
        cuts = [place for place in range(end) if folded[place] in _FUNCTION_WORDS and not _is_inside(words, place)]
        for cut, stop in {*pairwise([-1, *cuts, end]), (-1, end)}:
            phrase = tuple(folded[cut + 1 : stop])
            is_bound = (cut < 0 or folded[cut] in WORDS["before_phrases"]) and (
                stop == end or folded[stop] in WORDS["after_phrases"]
            )
            is_name = cut >= 0 and len(phrase) == 1 and len(phrase[0]) > 3 and words[cut + 1][0].isupper()
            inside = _FUNCTION_WORDS.intersection(phrase) - WORDS["prepositions"] - {"a", "an", "and", "the"}
            if (
                not is_bound
                or inside
                or any(map(_is_finite, phrase))
                or not (is_name or 2 <= len(phrase) <= LONGEST_PHRASE)
            ):
                continue
            if all(map(str.isalpha, phrase)) and _FUNCTION_WORDS.isdisjoint({phrase[0], phrase[-1]}):
                phrases[phrase] = None
    return sorted(phrases)


def _is_inside(words: list[str], place: int) -> bool:
    """Return whether a function word holds a phrase together: "of", or a small word of a name."""
    if not 0 < place < len(words) - 1 or words[place] not in ("of", "and", "the", "for"):
        return False
    return words[place] == "of" or (words[place - 1][0].isupper() and words[place + 1][0].isupper())


def _is_absent(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _is_finite(word: str) -> bool:
    """Return whether a word is a verb's present, not a noun of that form: its subject may be cut off."""
    base, tense = verb_form(word)
    return tense in ("base", "present") and (base not in WORDS["nouns_too"] or word == "works")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _round_bound(value: float, op: str, values: frozenset[Any]) -> float | int:
    """Return a rounder bound that the value still meets."""
    spread = max(values) - min(values)
    unit = 10 ** math.floor(math.log10(spread / 10)) if spread > 0 else 1
    bound = (math.ceil(value / unit) if op == "<=" else math.floor(value / unit)) * unit
    is_whole = isinstance(value, int)
    rounded = round(bound) if is_whole else round(bound, max(0, -math.floor(math.log10(unit))))
    return rounded if (rounded >= value if op == "<=" else rounded <= value) else value
