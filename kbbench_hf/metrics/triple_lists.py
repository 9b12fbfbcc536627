"""GenRES scores that need no model: number and length of extracted triples, and literal matches with gold.

The other scores are in `generative_re`.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.text.folding import fold

Triple = Sequence[object]
"""[head, relation, tail]; the output of a model may have other types and any number of elements."""
Floats = NDArray[np.float64]
_BLANKS = re.compile(r"(?<!\d) +| +(?!\d| )|(?<= ) +")


def select_triples(answer: Sequence[Triple], mode: str) -> list[Triple]:
    """Return the triples of an answer that a mode scores.

    `reference` keeps the answer unchanged. Other modes keep lists of three elements, each a number or a string that is
    not blank. Strings are stripped, numbers become strings, and the first of equal triples is kept.

    >>> select_triples([["a", "r", "b"], [" a", "r", "b"], ["a", "r"], ["a", "r", None], ["b", "in", 1961]], "fixed")
    [('a', 'r', 'b'), ('b', 'in', '1961')]
    >>> select_triples([["a", "r", "b"], ["a", "r", "b"]], "reference")
    [['a', 'r', 'b'], ['a', 'r', 'b']]
    """
    if mode == "reference":
        return list(answer)
    return list(dict.fromkeys(keep_well_formed(answer)))


def keep_well_formed(answer: Sequence[object]) -> list[tuple[str, str, str]]:
    """Return the triples of three strings or numbers, as stripped strings, repeated ones included.

    >>> keep_well_formed([["a", "r", "b"], ["a", "r", "b "], ["a", "", "b"], "a r b"])
    [('a', 'r', 'b'), ('a', 'r', 'b')]
    """
    kept = []
    for triple in answer:
        if isinstance(triple, str) or not isinstance(triple, Sequence) or len(triple) != 3:
            continue
        head, relation, tail = (_to_text(element) for element in triple)
        if head and relation and tail:
            kept.append((head, relation, tail))
    return kept


def triples_per_document(answers: Sequence[Sequence[object]]) -> Floats:
    """Return the number of triples of each document, repeated ones included.

    >>> triples_per_document([[["a", "r", "b"]], []])
    array([1., 0.])
    """
    return np.array([len(answer) for answer in answers], dtype=np.float64)


def tokens_per_triple(answers: Sequence[Sequence[Triple]], count: Callable[[str], int], *, empty: float) -> Floats:
    """Return the mean number of tokens of each document's triples.

    A triple with an element that is no string has no tokens.

    Args:
        answers: the triples of each document.
        count: the tokens of a string.
        empty: the value of a document without triples.

    >>> tokens_per_triple([[["New York", "in", "USA"], ["a", "r", 1]]], lambda text: len(text.split()), empty=0.0)
    array([2.])
    """
    return np.array(
        [
            sum(sum(map(count, triple)) for triple in answer if _all_strings(triple)) / len(answer) if answer else empty
            for answer in answers
        ],
        dtype=np.float64,
    )


def hard_match(
    answers: Sequence[Sequence[Triple]], gold: Sequence[Sequence[Triple]], *, empty: float, mode: str = "reference"
) -> Floats:
    """Return precision, recall and F1 of literally equal triples per document, shape (3, documents).

    Case is ignored, and `_` is a space. Precision counts every predicted triple, repeated ones included; recall counts
    every gold triple. In mode `fixed-2` triples are equal by `spelling_key`, and equal ones count once.

    Args:
        answers: the predicted triples of each document.
        gold: its gold triples. A document without gold is not scored.
        empty: the three values of a document without predicted triples.
        mode: `reference`, `fixed` or `fixed-2`.

    >>> hard_match([[["A", "is_in", "B"], ["b", "in", "a"]]], [[["a", "is in", "b"]]], empty=0.0).ravel()
    array([0.5       , 1.        , 0.66666667])
    >>> hard_match([[["Salem , MA", "in", "USA"]]], [[["salem, ma", "in", "usa"]]], empty=0.0, mode="fixed-2").ravel()
    array([1., 1., 1.])
    """
    scores = np.full((3, len(answers)), math.nan)
    for document, (predicted, expected) in enumerate(zip(answers, gold, strict=True)):
        if not expected:
            continue
        if not predicted:
            scores[:, document] = empty
            continue
        predicted_text, expected_text = ([match_key(t, mode) for t in triples] for triples in (predicted, expected))
        if mode == "fixed-2":
            predicted_text, expected_text = [*dict.fromkeys(predicted_text)], [*dict.fromkeys(expected_text)]
        precision = sum(text in expected_text for text in predicted_text) / len(predicted_text)
        recall = sum(text in predicted_text for text in expected_text) / len(expected_text)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        scores[:, document] = precision, recall, f1
    return scores


def _to_text(element: object) -> str:
    if isinstance(element, str):
        return element.strip()
    return str(element) if isinstance(element, int | float) and not isinstance(element, bool) else ""


def _all_strings(triple: Triple) -> TypeGuard[Sequence[str]]:
    return not isinstance(triple, str) and all(isinstance(element, str) for element in triple)


def match_key(triple: Triple, mode: str = "reference") -> str:
    """Return a triple as hard match compares it, without case and with spaces for underscores; see `spelling_key`.

    >>> match_key(["Bergen", "located_in", "Norway"]), match_key(["St. Ives", "located_in", "UK"], "fixed-2")
    ("['bergen', 'located in', 'norway']", "['stives', 'locatedin', 'uk']")
    """
    if mode == "fixed-2":
        return str([spelling_key(str(element)) for element in triple])
    return str(list(triple)).lower().replace("_", " ")


@lru_cache(maxsize=1 << 16)
def spelling_key(name: str) -> str:
    """Return a name's letters and digits, by which spellings of one name are equal.

    Case, accents, blanks and marks are left out; a mark between two digits is a blank, so that 1.5 is not 15. A name
    without a letter or digit keeps its marks.

    >>> [spelling_key(name) for name in ("Al - Hilal", "Al-Hilal", "Québec .|", "1 , 500", "1500", "!!!")]
    ['alhilal', 'alhilal', 'quebec', '1 500', '1500', '!!!']
    """
    folded = fold(name)
    kept = "".join(each if unicodedata.category(each)[0] in "LMN" else " " for each in folded)
    return _BLANKS.sub("", kept) if kept.strip() else "".join(folded.split())
