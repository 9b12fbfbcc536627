"""NLTK's `word_tokenize` and Porter-stemmed text without NLTK: published scores depend on both, byte for byte.

`word_tokenize` cuts a text into sentences (Punkt, which needs a trained model) and each sentence into words (rules).
The rules are here, in NLTK's order, which decides. Where Punkt ends sentences inside the texts of two releases
(Text2KGBench, GenRES) is stored in two small tables of hashes. Any other text is one sentence, which changes a value
only if a full stop inside it would be cut off.
"""

import json
import re
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files

from kbbench_hf.text.porter import NltkVersion, stem

_QUOTED = r"""[\])}>"'»”’ ]"""
_CLITICS = r"('ll|'LL|'re|'RE|'ve|'VE|n't|N'T)"


def _make_rules(nltk: NltkVersion) -> list[tuple[re.Pattern[str], str]]:
    """Return the ordered substitutions after which a sentence is split at white space (NLTK, Apache-2.0)."""
    if nltk == "3.9":
        apostrophe = (r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b", r"\1 \2")
        dashes = []
    else:
        apostrophe = (r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", r"\1 ")
        dashes = [(r"[\u2012-\u2015]", r" \g<0> ")]
    rules = [
        (r"[«“‘„]|`+", r" \g<0> "),
        (r'^"', "``"),
        (r"``", r" \g<0> "),
        (r"""([ (\[{<])("|'')""", r"\1 `` "),
        apostrophe,
        (rf"([^.])(\.)({_QUOTED}*+)\s*$", r"\1 \2 \3 "),  # the final period
        (r"([:,])([^\d])", r" \1 \2"),
        (r"([:,])$", r" \1 "),
        (r"\.{2,}", r" \g<0> "),
        (r"[;@#$%&]", r" \g<0> "),
        *dashes,
        (r"""([^.])(\.)([\])}>"']*)\s*$""", r"\1 \2\3 "),
        (r"[?!]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"\*", r" \g<0> "),
        (r"[\[\](){}<>]", r" \g<0> "),
        (r"--", r" \g<0> "),
        (r"^|$", " "),  # pad
        (r"[»”’]", r" \g<0> "),
        (r"''", r" \g<0> "),
        (r'"', " '' "),
        (r"\s+", " "),
        (r"([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
        (rf"([^' ]){_CLITICS} ", r"\1 \2 "),
        *((rf"(?i)\b({a})({b})", r" \1 \2 ") for a, b in (
            ("can", r"not\b"), ("d", r"'ye\b"), ("gim", r"me\b"), ("gon", r"na\b"), ("got", r"ta\b"), ("lem", r"me\b"),
            ("more", r"'n\b"), ("wan", r"na(?=\s)"),
        )),
        (r"(?i) ('t)(is)\b", r" \1 \2 "),
        (r"(?i) ('t)(was)\b", r" \1 \2 "),
    ]  # fmt: skip
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


_RULES: dict[NltkVersion, list[tuple[re.Pattern[str], str]]] = {"3.9": _make_rules("3.9"), "3.10": _make_rules("3.10")}
_TOUCHED = re.compile(
    r"""["'`«“‘„»”’.:,;@#$%&?!*\[\](){}<>\s\u2012-\u2015]|--|(?i:cannot|gimme|gonna|gotta|lemme|wanna)"""
)
"""Matches what some rule changes; a word without a match is one token."""
_CLOSING = "])}>\"'»”’" + "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""Characters that may follow the final period of a sentence."""


def tokenize(text: str, nltk: NltkVersion = "3.9") -> list[str]:
    """Return the tokens of all sentences of a text.

    >>> tokenize("The film's director (Abe) cannot: 1,000 words.")
    ['The', 'film', "'s", 'director', '(', 'Abe', ')', 'can', 'not', ':', '1,000', 'words', '.']
    """
    tokens: list[str] = []
    for sentence in split_sentences(text):
        words, tail = _cut_sentence(sentence)
        for word in words:
            tokens += _word_tokens(word, nltk)
        tokens += _apply_rules(tail, nltk)
    return tokens


@lru_cache(maxsize=2**15)
def stem_text(text: str, nltk: NltkVersion = "3.9") -> str:
    """Return the stems of a text's tokens, joined without separator, underscores and white space removed.

    Text2KGBench compares this form of an entity with that of its sentence. Cached, and safe in threads.

    >>> stem_text("An_animated  Film (2010)."), stem_text("")
    ('ananimfilm(2010).', '')
    """
    forms: list[str] = []
    for sentence in split_sentences(text):
        words, tail = _cut_sentence(sentence)
        forms += [_word_form(word, nltk) for word in words]
        forms.append(_join_stems(_apply_rules(tail, nltk), nltk))
    return "".join(forms)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text: those of Punkt if the text is in the shipped tables, else the whole text.

    The tables hold the sentences of the English Punkt model (`punkt_tab`, NLTK 3.9.2) in texts of the releases.

    >>> split_sentences("One. Two. ")
    ['One. Two.']
    """
    text = text.rstrip()
    if "." not in text and "?" not in text and "!" not in text:
        return [text]
    ends = _sentence_ends().get(sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    if ends is None:
        return [text]
    return [text[: ends[0]]] + [text[a:b].lstrip() for a, b in zip(ends, [*ends[1:], len(text)], strict=True)]


@cache
def _sentence_ends() -> dict[str, list[int]]:
    """Return sha256 of a text (UTF-8, stripped on the right) -> the end of each sentence but the last."""
    table: dict[str, list[int]] = {}
    for name in ("sentence_ends.json", "sentence_ends_genres.json"):
        table.update(json.loads((files(__package__) / "data" / name).read_text("ascii")))
    return table


def _cut_sentence(sentence: str) -> tuple[list[str], str]:
    """Return the words of a sentence that can be tokenized one by one, and the tail that must stay whole.

    No rule reaches across a space, with two exceptions: closing quotes and brackets may follow the final period (they
    are the tail), and quotes at the start have rules of their own (then all is tail).
    """
    if sentence.startswith(("''", '""', "\"''")):
        return [], sentence
    start = sentence.rstrip(_CLOSING).rfind(" ") + 1
    return (sentence[: start - 1].split(" "), sentence[start - 1 :]) if start else ([], sentence)


def _apply_rules(text: str, nltk: NltkVersion) -> list[str]:
    """Return the tokens of a sentence or a part of one, by all rules of a version."""
    if not _TOUCHED.search(text, 1 if text.startswith(" ") else 0):
        return [text.strip()] if text else []
    for pattern, replacement in _RULES[nltk]:
        text = pattern.sub(replacement, text)
    return text.split()


def _word_tokens(word: str, nltk: NltkVersion) -> list[str]:
    """Return the tokens of a word inside a sentence, between a space and another word."""
    if not _TOUCHED.search(word):
        return [word] if word else []
    return _apply_rules(f" {word} x", nltk)[:-1]


@lru_cache(maxsize=2**16)
def _word_form(word: str, nltk: NltkVersion) -> str:
    return _join_stems(_word_tokens(word, nltk), nltk)


def _join_stems(tokens: list[str], nltk: NltkVersion) -> str:
    """Return the stems of tokens as one text in lower case, without white space and underscores."""
    return "".join(["".join(stem(token, nltk).split()) for token in tokens]).replace("_", "").lower()
