"""What a question asks for and what it rules out, read from its form; English, no model, nothing trained.

A question comes with greetings, thanks, stories and asides. Three cuts find what matters in it:

1. What is **set aside** ("Unlike my last question, ...", "I already know about X.") is dropped.
2. What is **ruled out** ("but not directed by X", "except Y") is kept apart (`exclusions`).
3. What is **asked for** is the noun phrase after the first cue of asking in a sentence: a question word or a request.
   "Where is it kept?" and "What does she write?" ask for no noun. Sentences without a cue are asked only where no
   sentence has one, as in a list of keywords.
"""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from kbbench_hf.metrics.word_breaks import MARKS, break_words
from kbbench_hf.models.english import (
    ASKED_WITH,
    CONTRACTED,
    FUNCTION,
    LINKS,
    PARTICIPLES,
    REQUESTS,
    VERB_FORMS,
    VERBS,
    listed,
    stem,
    words,
)
from kbbench_hf.models.exclusions import without_exclusions

_QUESTION_WORDS = listed("which what who whom whose where")
_ASKING = listed("""
    identify find list provide search recommend suggest show give tell need needs want wants wanted looking seek seeking
    sought searching interested""")
"""What a request begins with."""
_ASKING_BESIDE = {
    "know": (listed("to you"), None),
    "there": (listed("is are was were s"), None),
    "should": (None, listed("be")),
    "asked": (None, listed("for")),
    "after": (listed("m am re are"), None),
    "like": (listed("would d"), None),
}
"""What a request begins with behind one of some words, or before one: "I am after films", "it should be a film"."""
_LEADING = listed("know tell see find identify wonder wondering wondered determine explain show ask asked me")
_AUXILIARIES = listed("am do does did has have had can could may might must should will would")
_ARTICLES = listed("a an the my")
_INDEFINITE = listed("someone anyone somebody anybody something anything those one ones")
_OF_INDEFINITE = listed("with without for against behind")
"""What these join to an indefinite pronoun is not what is asked for: "what can somebody with gout take"."""
_POINTERS = listed("this that it them these those")
_PUNCTUATION = listed(", ( ) - – —")
_NAME = "\N{BULLET}"
"""Stands for a word of a name."""
_STANDS_FOR = {"who": ("person",), "whom": ("person",)}

_MARKUP = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_STATED = re.compile(r"\bshould be an?\b|\b(?:wanted|sought)(?:\)|\s*$)")
"""Says outright what is asked for: "(genre wanted)", "it should be a film"."""
_SENTENCE_END = re.compile(r"[.!?;:]+(?=\s|$|[\"”'»)])|\n|[\"“”«»]")
_TOKEN = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*|[,()]|[-–—](?=\s)")
_QUOTED_CLAUSE = re.compile(r"([\"“«])(?:who|whom|whose|which|what|where)\b(?=[^\"”»?]*[\"”»])")
"""A quotation that begins as a relative clause and is no question."""
_WRITTEN = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


class Reading(NamedTuple):
    """A question in parts."""

    asked: tuple[tuple[str, ...], ...]
    """The noun phrases that it asks for, in lower case; what stands last in one is its head."""
    uncued: tuple[str, ...]
    """Where no cue says what is asked for, all words that are no part of a name, in lower case."""
    asking: str
    """The sentences that have a cue, in lower case; "" where none has."""
    said: str
    """The question without what it sets aside and what it rules out."""
    sought: str
    """What is said without the words with which one asks: what the texts of answers may have."""
    excluded: str
    """What its answers must not have."""


def read(question: str, given: Collection[str] = (), pairs: Collection[tuple[str, str]] = ()) -> Reading:
    """Return the parts of a question. The stems `given` are those of names: they are no part of what is asked for.

    Nor are `pairs` of words that stand side by side in names ("Salt Bridge"), of which one may name a type.

    >>> found = read("Hi! Unlike Speed, which films are set in Rome, but not directed by Fellini? Many thanks.")
    >>> found.asked, found.said, found.excluded
    ((('films',),), 'Hi!  , which films are set in Rome,  ? Many thanks.', 'but not directed by Fellini')
    >>> read("Hello, could you give me a list of films, please?").sought
    ', could you  me a  of films, ?'
    """
    said, excluded = without_exclusions(_MARKUP.sub(" ", question), given)
    sentences = _SENTENCE_END.split(_QUOTED_CLAUSE.sub(r"\1", said).lower())
    tokens = [_without_names(_TOKEN.findall(break_words(sentence)), given, pairs) for sentence in sentences]
    cued = [_asked_in(each) for each in tokens]
    others = (_noun_phrase(each) for each, found in zip(tokens, cued, strict=True) if found is None)
    stated = [found for each, found in zip(sentences, cued, strict=True) if found and _STATED.search(each)]
    phrases = stated or (cued if any(cued) else others)
    asking = "; ".join(each for each, found in zip(sentences, cued, strict=True) if found is not None)
    uncued = () if asking else tuple(word for each in tokens for word in each if word != _NAME)
    return Reading(tuple(filter(None, phrases)), uncued, asking, said, _sought(said, given), excluded)


def _sought(said: str, given: Collection[str]) -> str:
    """Return a text without the words of asking that are no part of a name; itself where it has no others."""

    def kept(word: re.Match[str]) -> str:
        lower = word[0].lower()
        return "" if lower in ASKED_WITH and stem(lower) not in given else word[0]

    sought = _WRITTEN.sub(kept, said)
    return sought if any(words(sought)) else said


def _without_names(tokens: Sequence[str], given: Collection[str], pairs: Collection[tuple[str, str]]) -> list[str]:
    """Return the words of a sentence, with a sign in place of those of names."""
    stems = [stem(word) for word in tokens]
    paired = {each for place, pair in enumerate(pairwise(stems)) if pair in pairs for each in (place, place + 1)}
    return [
        _NAME if place in paired or (singular in given and word not in VERB_FORMS) else word
        for place, (word, singular) in enumerate(zip(tokens, stems, strict=True))
    ]


def _asked_in(tokens: Sequence[str]) -> tuple[str, ...] | None:
    """Return the noun phrase after the first cue of a sentence, empty where it asks for no noun; None without a cue."""
    before, content, clause, asked = "", False, 0, None
    for place, word in enumerate(tokens):
        after = tokens[place + 1] if place + 1 < len(tokens) else ""
        if word in _QUESTION_WORDS:
            follows = before in _PUNCTUATION or before in _LEADING or before in ("and", "or")
            relative = content and after and not follows
            if not relative and word != "where" and after not in _AUXILIARIES:
                return (*_noun_phrase(tokens[place:]), *_STANDS_FOR.get(word, ()))
            asked = asked if relative else ()  # "where is it kept", "what does she write": another cue may follow
        elif _asks(before, word, after):
            if word in ("wanted", "sought") and after in ("", ")"):  # "(genre wanted)"
                return _noun_phrase(tokens[clause:place])
            return _noun_phrase(tokens[place + 1 :])
        clause = place + 1 if word in _PUNCTUATION else clause
        content = content or not (word in FUNCTION or word in REQUESTS or word in _PUNCTUATION)
        before = word
    return asked


def _asks(before: str, word: str, after: str) -> bool:
    """Whether a word asks between these: "there are" and "I know" do not, "are there" and "you know" do.

    What is pointed at ("I need this for a report") stands elsewhere, and "a drug whose name" names none.
    """
    if after in _POINTERS:
        return False
    if word in ("name", "names"):
        led = before in ("", "to", "you", "and") or before in _PUNCTUATION or before in ASKED_WITH
        return led or after == "of"
    if word in _ASKING_BESIDE:
        befores, afters = _ASKING_BESIDE[word]
        return (befores is None or before in befores) and (afters is None or after in afters)
    return word in _ASKING and before not in _ARTICLES


def _noun_phrase(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the first noun phrase that is no part of the asking, at most five; none after a predicate."""
    phrase: list[str] = []
    for before, word, after in zip(("", *tokens), tokens, (*tokens[1:], ""), strict=False):
        verb = word in VERB_FORMS
        if phrase and (verb or word in LINKS or word in CONTRACTED or word in _PUNCTUATION or word in _ARTICLES):
            break
        if phrase and _is_participle(word) and (after in FUNCTION or after == _NAME):
            break  # "mishaps investigated by some agency"
        if not (phrase or word in REQUESTS or before in _STANDS_FOR) and _is_predicate(word, after):
            break  # "which one interacts with genes" asks for no gene
        if not phrase and before in _INDEFINITE and word in _OF_INDEFINITE:
            break
        if not (verb or word in FUNCTION or word in REQUESTS or word in _PUNCTUATION or word == _NAME):
            phrase.append(word)
    return tuple(phrase[:5])


def _is_predicate(word: str, after: str) -> bool:
    """Whether a verb says something of what is asked for: it is finite, or a participle with its preposition."""
    finite = word in VERBS or word.removesuffix("s") in VERBS
    return finite or ((word in VERB_FORMS or _is_participle(word)) and after in LINKS)


def _is_participle(word: str) -> bool:
    return word in PARTICIPLES or (len(word) > 4 and word.endswith(("ed", "ing")))
