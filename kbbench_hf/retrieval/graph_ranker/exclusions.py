"""Exclusions of a query (negation, asides, comparisons), split off by the form of English sentences.

No grammar here tells where such a phrase ends. At the edge of a sentence it is all that is there ("Unlike my last
question, which was about X, ..."; "... that treat Y, but not by X."). Right after the noun that is asked for ("drugs
other than X that treat Y") it ends with its first names, which are names of the knowledge base; between commas at the
second.
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kbbench_hf.retrieval.graph_ranker.query_words import FUNCTION, LINKS, REQUESTS, stem, word_list, words
from kbbench_hf.text.words import WORD

_CUE = (
    r"(?:which(?!\s+(?:is|was|are|were|has|had|have|i|we)\b)|what|whose|where|how|list|find|name|give|identify|tell|"
    r"show|search|please|can|could|would|will|are|is|do|does|i|we|this|that|here|let)"
)
_ABBREVIATED = re.compile(rf"\b([A-Z]|Dr|Mr|Mrs|Ms|St|Jr|Sr|Prof)\.(?=,| (?!(?i:{_CUE})\b)\w)")
_REST = rf".*?(?=$|[.!?;:](?:\s|$)|\n|,\s*{_CUE}\b|[)\"”])"
_ABOUT = r"(?:\s+(?:on|about|regarding|concerning|of|was|were))"
_TURN = r"(?:question|search|request|query|post|topic|answer|reply|response|message|conversation|chat)s?"
_THOSE = r"(?:any|those|the ones)"
_ASIDE = re.compile(
    r"\b(?:unlike|forget|ignore|never mind|nothing to do with|already know|already have|instead of|regardless of|"
    r"(?:apart|aside) from(?! "
    + _THOSE
    + r"\b)|not (?:asking )?about|(?:do not|don't|did not|didn't) (?:need|want|care|mean|ask)|"
    r"(?:not |un)related to|in contrast to|contrary to|as opposed to|not to be confused with|so much for|"
    r"no longer (?:interested in|about)|moving on from|(?:let us|let's) (?:drop|skip|leave)|"
    r"(?:after|since|before|besides?|following) (?:my|our|the|your) (?:\w+ )?" + _TURN + r"|"
    r"(?:last|previous|earlier|former|first|other) " + _TURN + _ABOUT + r")\b" + _REST,
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"\b(?:except(?:ing)?(?: for)?|excluding|excludes?|leaving (?:out|aside)|leave out|other than|rather than|save for|"
    r"minus|without (?:any|those|the ones)|(?:apart|aside) from|"
    r"(?:but |and )?(?:is |are |was |were )?not (?=(?:that|those|the ones|any|by|in|with|from|on|of|for|\w+ed)\b)|"
    r"but not)\b"
    r"[^,.;:!?]*",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:(?<=[\w,] )(?:that|which|who|whom|where|when|yet|but|and)"
    r"(?: (?!(?:i|we|you|it|this|please|that|which|who)\b)[^\s,.;:!?]+){0,3}? "
    r"(?:(?:do|does|did|has|have|had|is|are|was|were)(?: not|n['’]t)|never)|(?:are|were|is|was)n['’]t|never|without|"
    r"outside(?: of)?|absent from|missing from|skipped by|(?:but (?:please )?)?none (?:that|which|of|by|in|at|from)|"
    r"(?:any|every)(?:thing|where|one|body) but|all but)\b[^,.;:!?]*",
    re.IGNORECASE,
)
"""Excludes only where a name follows: the text of an answer may be negated too ("who never drove a car")."""
_COMPARED = re.compile(r"\bthan\b(?:\s+[^\s,.;:!?]+){1,6}", re.IGNORECASE)
_WITHIN_NAMES = word_list("within_names")


class SplitQuery(NamedTuple):
    """A query, and what its answers must not have."""

    included: str
    excluded: str


def split_exclusions(query: str, name_stems: Collection[str] = ()) -> SplitQuery:
    """Return a query without asides and exclusions, and its exclusions; the whole query where nothing would be left.

    >>> split_exclusions("Unlike Speed, which films are set in Rome, but not directed by Fellini?")
    SplitQuery(included=' , which films are set in Rome,  ?', excluded='but not directed by Fellini')
    >>> split_exclusions("Which films other than Speed are set in Rome?", {"speed", "rome"})
    SplitQuery(included='Which films   are set in Rome?', excluded='other than Speed')
    """
    query = _ABBREVIATED.sub(r"\1", query)  # "Dr. No" is one sentence
    excluded: list[str] = []

    def exclude(match: re.Match[str]) -> str:
        end = _extent(match, name_stems)
        excluded.append(match[0][:end].strip())
        return " " + match[0][end:]

    def exclude_if_named(match: re.Match[str]) -> str:
        named = any(stem(word.lower()) in name_stems for word in WORD.findall(match[0]))
        return exclude(match) if named else match[0]

    included = _ASIDE.sub(lambda match: " " + match[0][_extent(match, name_stems) :], query)
    included = _EXCEPT.sub(exclude, _NEGATED.sub(exclude_if_named, included))
    return SplitQuery(included, " ".join(excluded)) if any(words(included)) else SplitQuery(query, "")


def remove_comparisons(text: str) -> str:
    """Return a text without its standards of comparison.

    >>> remove_comparisons("Which film is longer than Speed, and older?")
    'Which film is longer  , and older?'
    """
    return _COMPARED.sub(" ", text)


def _extent(match: re.Match[str], name_stems: Collection[str]) -> int:
    """Return how many characters of a matched phrase belong to it."""
    phrase, before = match[0], re.split(r"[.!?;:\n]", match.string[: match.start()])[-1]
    if before.rstrip().endswith(",") and "," in phrase:
        return phrase.index(",")
    end = 0
    if _is_noun_phrase(WORD.findall(before.lower())):
        for word in WORD.finditer(phrase):
            if stem(word[0].lower()) in name_stems:
                end = word.end()
            elif end and word[0].lower() not in _WITHIN_NAMES:
                break
    return end or len(phrase)


def _is_noun_phrase(tokens: Sequence[str]) -> bool:
    """Whether words are a bare noun phrase: "which small films", but not "which films of Rome"."""
    places = [position for position, word in enumerate(tokens) if word not in FUNCTION and word not in REQUESTS]
    return bool(places) and LINKS.isdisjoint(tokens[places[0] : places[-1]])
