"""Folding and words against their definitions: what published scores of WikiTableQuestions and Text2KGBench rest on."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.answers import wtq_normal
from kbbench_hf.text.dates import MONTH, MONTH_NUMBER, MONTHS
from kbbench_hf.text.folding import fold, fold_typography, repair_text, strip_accents, unscramble
from kbbench_hf.text.name_variants import singularize
from kbbench_hf.text.words import WORD, break_words, list_words

LATIN = st.text(st.characters(max_codepoint=0x24F), max_size=30)


@given(st.text(max_size=30))
def test_accents_are_nonspacing_marks_as_in_the_evaluator_of_wikitablequestions(text):
    decomposed = unicodedata.normalize("NFKD", text)
    assert strip_accents(text) == "".join(each for each in decomposed if unicodedata.category(each) != "Mn")


@given(LATIN)
def test_folding_keeps_no_case_and_no_accents(text):
    decomposed = unicodedata.normalize("NFKD", fold(text))
    assert decomposed == decomposed.casefold()
    assert not any(unicodedata.category(each) == "Mn" for each in decomposed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ħamrun ŋ ŧ ĸ Ə", "hamrun n t k a"), ("Æøß Þór ðĐ", "aeoss thor dd"), ("Ǿre", "ore"), ("İstanbul", "istanbul"),
    ],
)  # fmt: skip
def test_letters_without_decomposition(text, expected):
    assert fold(text) == expected


def test_typography_becomes_that_of_a_typewriter():
    assert fold_typography("´a` «B» ‟c„ ‑–—― −5 ¹⁻² ʹd_e [a]") == '\'a\' "b" "c" ---- -5 1-2 \'d e'
    assert fold_typography("[1]") == "[1]"  # nothing else is left
    assert wtq_normal("«Ø» ´a ’b") == "«ø» a 'b"  # NFKD has made the accent a blank; the evaluator keeps «»


def test_text_in_a_wrong_encoding_is_repaired():
    assert repair_text("Fr&eacute;d&eacute;ric \u2212 Gor\u00c5\u008d") == "Frédéric - Gorō"
    assert unscramble("naïve \u00e2\u20ac\u2122s") == "naïve ’s"


@given(LATIN)
def test_words_of_latin_text_are_runs_of_letters_and_digits(text):
    assert WORD.findall(text) == re.findall(r"[^\W_]+", text)
    assert list_words(text) == re.findall(r"[^\W_]+", text.casefold())


def test_vowel_signs_are_parts_of_words():
    assert WORD.findall("हिन्दी_भाषा, தமிழ்") == ["हिन्दी", "भाषा", "தமிழ்"]


def test_names_of_months():
    names = [*MONTHS, *MONTH_NUMBER, "sept"]
    assert [re.match(MONTH, name)[0] for name in names] == names
    assert [MONTH_NUMBER[month[:3]] for month in MONTHS] == list(range(1, 13))


def test_short_plurals_and_words_of_two_characters():
    assert [singularize(word) for word in ("cats", "its", "gas")] == ["cat", "its", "gas"]
    assert break_words("手机") == " 手机 手 机 "
