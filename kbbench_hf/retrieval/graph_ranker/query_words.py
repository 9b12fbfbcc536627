"""English word lists of query understanding (function words, words of asking, verbs), and a stemmer for plurals."""

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from kbbench_hf.text.words import WORD, break_words

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def word_list(*names: str) -> frozenset[str]:
    """Return the words in the lists of these names in `query_words.toml`, which describes them."""
    return frozenset(word for name in names for word in WORDS[name].split())


LINKS, FUNCTION = word_list("links"), word_list("links", "function_words")
ASKED_WITH, CONTRACTED = word_list("asked_with"), word_list("contracted")
REQUESTS = word_list("asked_with", "kinds", "contracted")
VERBS = word_list("verbs")
VERB_FORMS = word_list("verbs", "irregular_forms") | {
    f"{verb.removesuffix(ending)}{suffix}"
    for verb in VERBS
    for ending, suffix in (("", "s"), ("e", "ed"), ("e", "ing"))
}


def words(text: str) -> Iterator[str]:
    """Yield the stems of the words of a text, without function words.

    >>> list(words("The genes of a family"))
    ['gene', 'family']
    """
    return (stem(word) for word in WORD.findall(break_words(text).lower()) if word not in FUNCTION)


_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", ""))
_SINGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot", "mice": "mouse"}


@lru_cache(maxsize=2**16)
def stem(word: str) -> str:
    """Return an English word in the singular.

    >>> [stem(word) for word in ("bodies", "drugs", "people", "is")]
    ['body', 'drug', 'person', 'is']
    >>> [stem(word) for word in ("classes", "branches", "rashes", "boxes", "virus", "axis")]
    ['class', 'branch', 'rash', 'box', 'virus', 'axis']
    """
    if word in _SINGULAR:
        return _SINGULAR[word]
    for ending, singular in _ENDINGS:
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            found = word.removesuffix(ending) + singular
            if len(found) >= 3:
                return found
    return word
