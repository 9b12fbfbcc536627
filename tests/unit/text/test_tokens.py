"""Tokens, stems and normal forms: those of NLTK, with and without it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.text import tokens as text
from kbbench_hf.text.porter import NltkVersion, stem
from kbbench_hf.text.tokens import split_sentences, stem_text, tokenize
from tests.golden.make_sentence_ends import TABLE, release_texts, sentence_ends
from tests.golden.text2kg_runs import nltk_data

# What the rules look at, mixed with words: a random text from these meets every rule within a few hundred tries.
PIECES = (
    *("''", '"', "'", ".", ". ", ",", ", ", ":", "; ", "'s", "'S", "n't", "'ll", "cannot", "gonna", "wanna ", "'tis"),
    *("more'n", "d'ye", "gimme", "’", "”", "»", "«", "“", "`", "``", "-", "--", "–", "...", "..", "(", ")", "[", "]"),
    *("<", ">", "{", "}", " ", "  ", "\n", "\t", "\xa0", "x", "foo", "Bar", "12", "3.5", "?", "!", "*", "@", "_", "é"),
    *("Σ", "İ", "'68", "running", "films", "Sky", "generally", "happily"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
SUFFIXES = (
    "ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness fulness ousness aliti "
    "iviti biliti fulli logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement ment ent "
    "sion tion ou ism ate iti ous ive ize ed ing eed ied ies sses ss s y ly ll e"
).split()
words = st.tuples(
    st.text("abeioustlyzwxrdSY'_é", max_size=6), st.lists(st.sampled_from(SUFFIXES), max_size=2).map("".join)
).map("".join)


class Nltk(NamedTuple):
    """The installed NLTK: whose behaviour it has, its stemmer and its tokenizer of one sentence."""

    version: NltkVersion
    stem: Callable[[str], str]
    tokenize: Callable[[str], list[str]]


@pytest.fixture(scope="module")
def nltk() -> Nltk:
    package = pytest.importorskip("nltk")
    old = tuple(map(int, package.__version__.split(".")[:2])) < (3, 10)
    tokenizer = package.tokenize.NLTKWordTokenizer()
    return Nltk("3.9" if old else "3.10", package.stem.PorterStemmer().stem, tokenizer.tokenize)


@pytest.fixture(scope="module")
def punkt(nltk: Nltk) -> Path:
    data = nltk_data()
    if data is None or nltk.version != "3.9":
        pytest.skip("needs nltk==3.9.2, and its data: pip install --no-deps llama-index-core")
    return data


@given(words)
def test_stems_are_nltks(nltk, word):
    assert stem(word, nltk.version) == nltk.stem(word)


@given(texts)
def test_tokens_of_a_sentence_are_nltks(nltk, string):
    assert tokenize(string, nltk.version) == nltk.tokenize(string.rstrip())


@given(texts)
def test_the_normal_form_is_that_of_all_tokens_at_once(string):
    # The definition, without the short cut of taking words one by one.
    joined = "".join(stem(token) for token in tokenize(string))
    assert stem_text(string) == re.sub(r"_|\s", "", joined).lower()


@pytest.mark.parametrize(
    ("word", "old", "new"),
    [("Sky", "ski", "sky"), ("Dying", "dy", "die"), ("News", "new", "news"), ("sky", "sky", "sky")],
)
def test_irregular_words_are_found_in_lower_case_since_nltk_3_10(word, old, new):
    assert (stem(word), stem(word, "3.10")) == (old, new)


def test_nltk_3_10_parts_dashes_and_leading_apostrophes():
    assert tokenize("1990–1995 in '68") == ["1990–1995", "in", "'68"]
    assert tokenize("1990–1995 in '68", "3.10") == ["1990", "–", "1995", "in", "'", "68"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ties", "tie"), ("ponies", "poni"), ("feed", "feed"), ("agreed", "agre"),
        ("hopping", "hop"), ("falling", "fall"), ("enjoy", "enjoy"), ("happy", "happi"), ("flies", "fli"),
        ("rationally", "ration"), ("geologi", "geolog"), ("replacement", "replac"), ("adoption", "adopt"),
        ("controlling", "control"), ("is", "is"), ("IS", "is"), ("y" * 4000, "y" * 3999 + "i"), ("", ""),
    ],
)  # fmt: skip
def test_stems_worked_by_hand(word, expected):
    # yyyy...: a y after a consonant is a vowel, so they alternate; the last of an even number follows a consonant.
    assert stem(word) == expected


BY_RULE = """
relational=relat conditional=condit valency=valenc hesitancy=hesit digitizer=digit conformably=conform orally=oral
radically=radic differently=differ vilely=vile analogously=analog vietnamization=vietnam predication=predic
operator=oper feudalism=feudal decisiveness=decis hopefulness=hope callousness=callous formality=formal
sensitivity=sensit sensibility=sensibl theology=theolog logy=logi fully=fulli tally=talli ably=abli
triplicate=triplic formative=form formalize=formal electricity=electr electrical=electr hopeful=hope goodness=good
revival=reviv allowance=allow inference=infer airliner=airlin gyroscopic=gyroscop adjustable=adjust able=abl
defensible=defens irritant=irrit adjustment=adjust dependent=depend homologous=homolog communism=commun
activate=activ angularity=angular effective=effect bowdlerize=bowdler onion=onion mission=mission
probate=probat rate=rate cease=ceas controll=control roll=roll tree=tree argue=argu bathe=bath
plastered=plaster bled=bled sing=sing troubled=troubl sized=size tanned=tan hissing=hiss fizzed=fizz failing=fail
filing=file freed=freed eyed=eye used=use oiling=oil boxed=box snowed=snow skiing=ski dyed=dy
dies=die cries=cri died=die cried=cri say=say toy=toy gas=ga by=by
"""


def test_each_rule_of_the_stemmer_has_a_word():
    pairs = [pair.split("=") for pair in BY_RULE.split()]
    assert [stem(word) for word, _ in pairs] == [expected for _, expected in pairs]


def test_the_context_of_the_notes_example():
    sentence = "Bleach: Hell Verse is a 2010 Japanese animated film directed by Noriyuki Abe."
    # No separator before the concepts: "Abe." and "film" are one token, so "abe." is not parted.
    assert (
        stem_text(sentence + "film film genre")
        == "bleach:hellversisa2010japanesanimfilmdirectbynoriyukiabe.filmfilmgenr"
    )


def test_empty_and_blank_texts_have_no_tokens():
    assert [tokenize(""), tokenize(" \n"), stem_text(""), split_sentences("")] == [[], [], "", [""]]


def test_a_text_outside_the_table_is_one_sentence():
    assert split_sentences("It rains. It pours.") == ["It rains. It pours."]


def test_the_table_holds_no_text():
    table = text._sentence_ends()
    assert TABLE.stat().st_size < 200_000
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in table)
    assert all(ends == sorted(ends) and ends[0] > 0 for ends in table.values())


def test_texts_of_the_release_that_punkt_cuts_have_nltks_tokens(shared, punkt, monkeypatch):
    from nltk.tokenize import word_tokenize

    monkeypatch.setattr("nltk.data.path", [str(punkt)])
    texts = {each.rstrip() for each in release_texts(shared / "data/text2kgbench")}
    cut = sentence_ends(iter(texts), punkt)
    hashed = [each for each in sorted(texts) if sha256(each.encode()).hexdigest() in cut]
    assert len(hashed) == 1861
    assert [each for each in hashed if tokenize(each) != word_tokenize(each)] == []


def test_sixteen_threads_normalise_as_one(shared):
    strings = list(dict.fromkeys(release_texts(shared / "data/text2kgbench")))[:3000]
    text.stem_text.cache_clear()
    text._word_form.cache_clear()
    text._sentence_ends.cache_clear()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(16) as pool:
            parallel = list(
                pool.map(lambda offset: [stem_text(each) for each in strings[offset:] + strings[:offset]], range(16))
            )
    finally:
        sys.setswitchinterval(interval)
    alone = [stem_text.__wrapped__(each) for each in strings]
    assert all(forms == alone[offset:] + alone[:offset] for offset, forms in enumerate(parallel))


def test_caches_are_bounded():
    assert text.stem_text.cache_info().maxsize and text._word_form.cache_info().maxsize


def test_no_nltk_is_needed(tmp_path):
    (tmp_path / "nltk.py").write_text("raise ImportError('nltk is not here')")
    code = "from kbbench_hf.text.tokens import stem_text; print(stem_text('The animated films.'))"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}."}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout == "theanimfilm.\n"
