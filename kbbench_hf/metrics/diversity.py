"""Diversity of questions: Shannon entropy of words and type-token ratio (STaRK, NeurIPS 2024)."""

import math
import string
from collections import Counter
from collections.abc import Iterable

from kbbench_hf.metrics.topics import STOP_WORDS

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
