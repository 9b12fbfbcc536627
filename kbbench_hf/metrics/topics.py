"""Words of source texts and triples for GenRES's topic model, and NLTK's stop words."""

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
