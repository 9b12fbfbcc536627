"""Words of texts: those of GenRES's topic model, NLTK's stop words, and the diversity of questions (STaRK)."""

import math
import string
from collections import Counter
from collections.abc import Iterable

from kbbench_hf.metrics.generative_re import WORDS
from kbbench_hf.metrics.triple_lists import Triple
from kbbench_hf.text.tokens import tokenize

STOP_WORDS = frozenset(
    """a about above after again against ain all am an and any are aren as at be because been before being below between
    both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn
    have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m ma me
    mightn more most mustn my myself needn no nor not now o of off on once only or other our ours ourselves out over own
    re s same shan she should shouldn so some such t than that the their theirs them themselves then there these they
    this those through to too under until up ve very was wasn we were weren what when where which while who whom why
    will with won wouldn y you your yours yourself yourselves""".split()
)
"""NLTK's English stop words (from the Snowball stemmer's list, BSD) that are alphanumeric, as words are here. Compared
with case, as in the release: "The" stays."""


def content_words(text: str, mode: str) -> list[str]:
    """Return the alphanumeric tokens of a text without stop words; `WORDS` has the tokenizer of each mode.

    >>> content_words("The effects of 5 - HT on rats .", "reference")
    ['The', 'effects', '5', 'HT', 'rats']
    """
    return [token for token in tokenize(text, WORDS[mode]) if token.isalnum() and token not in STOP_WORDS]


def join_triples(triples: Iterable[Triple], mode: str) -> str:
    """Return triples as one text, each "head relation tail .".

    The release joins them without a space. ".Head" is no word, so the first word of every head but the first is lost.
    `fixed` adds the space.

    >>> join_triples([["a", "r", "b"], ["c", "r", "d"]], "reference")
    'a r b .c r d .'
    >>> join_triples([["a", "r", "b"], ["c", "r", "d"]], "fixed")
    'a r b . c r d .'
    """
    whole = (triple for triple in triples if not isinstance(triple, str) and len(triple) == 3)
    return ("" if mode == "reference" else " ").join(f"{head} {relation} {tail} ." for head, relation, tail in whole)


_CONTRACTIONS = frozenset(
    """aren't couldn't didn't doesn't don't hadn't hasn't haven't isn't it's mightn't mustn't needn't shan't she's
    should've shouldn't that'll wasn't weren't won't wouldn't you'd you'll you're you've""".split()
)


def shannon_entropy(texts: Iterable[str]) -> float:
    """Return the entropy of the distribution of words, in bits; NaN without words.

    Words are separated by white space and keep case and punctuation: this gives STaRK's published values to two
    decimals (10.39, 10.25, 9.63).

    >>> shannon_entropy(["a b", "a c"])  # 1/2 * 1 + 2 * 1/4 * 2
    1.5
    """
    counts = Counter(word for text in texts for word in text.split())
    n = counts.total()
    return -sum(count / n * math.log2(count / n) for count in counts.values()) if n else math.nan


def type_token_ratio(texts: Iterable[str]) -> float:
    """Return the share of distinct words among all words but stop words; NaN without words.

    A word is compared with NLTK's 179 English stop words in lower case and without punctuation at its ends. Published:
    0.179, 0.180 and 0.143; this gives 0.1788, 0.1796 and 0.1406 (no definition tried gives all three).

    >>> type_token_ratio(["The cat saw the cat."])  # cat, saw, cat.: all three differ
    1.0
    """
    words = [word for text in texts for word in text.split() if not _is_stop_word(word)]
    return len(set(words)) / len(words) if words else math.nan


def _is_stop_word(word: str) -> bool:
    plain = word.lower().strip(string.punctuation)
    return plain in STOP_WORDS or plain in _CONTRACTIONS
