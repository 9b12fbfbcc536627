"""English word lists of query understanding (function words, words of asking, verbs), and a stemmer for plurals."""

from collections.abc import Iterator
from functools import lru_cache

from kbbench_hf.text.words import WORD, break_words


def listed(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


LINKS = listed("""
    in on to for with by from as at into among between within through via during under over that which who whom whose
    where when is are was were be been being am do does did has have had having of can could may might must should will
    would and also about up out off""")
"""Words that end a noun phrase."""
FUNCTION = LINKS | listed("""
    a an the or but nor what how why i me my we us our you your he she it its they them their this these those there any
    some all each every both either neither no not if whether than then so such only very more most one ones""")
ASKED_WITH = listed("""
    identify find list lists provide supply search recommend suggest show give tell know need needs want wants
    looking look seek seeking searching identifying finding listing interested curious let see get discover
    determine describe explain assist please information details detail info about rundown overview example examples
    several few exist exists known possible potential common shared specific particular certain various other
    another same like shall kindly grateful appreciate trying hoping hope wanted wonder wondering question questions
    answer answers ask asked asking hello hi thanks thank help read hear heard saw seen remember think thought guess
    suppose maybe perhaps once thing things someone anyone everyone somebody anybody everybody something anything
    everything""")
"""Words of asking: they describe neither the answer nor its texts."""
KINDS = listed("""
    kind kinds type types sort sorts form name names called word words part parts portion piece pieces member
    members""")
"""Words before what is asked for ("the parts of the mill"); texts may have them."""
CONTRACTED = listed("m s re ve t d ll don doesn didn isn aren wasn weren hasn haven whos whats")
"""Remains of contracted words; names may have some of them (T cell, vitamin D)."""
REQUESTS = ASKED_WITH | KINDS | CONTRACTED
EXCLUDED_WITH = listed("unlike except excluding without instead apart rather regardless")
"""Words of exclusion."""
VERBS = listed("""
    share interact involve associate relate link connect affect influence cause contain include exhibit engage act serve
    use help target treat bind make take participate occur play impact lead function""")
"""Verbs that commonly follow the noun phrase that is asked for."""
VERB_FORMS = listed(
    " ".join(f"{verb} {verb}s {verb.removesuffix('e')}ed {verb.removesuffix('e')}ing" for verb in VERBS)
)
VERB_FORMS |= listed("made taken bound occurred")
PARTICIPLES = listed("found built kept held paid written drawn led given known seen sold sent said put run won worn")
"""Irregular ones; "written works" has one before its noun, "works written by X" one behind it."""


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
