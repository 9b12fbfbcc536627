"""What a question says of a knowledge base: the nodes that it names, the relations that it speaks of, what is left."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.answer_type import AnswerTypes
from kbbench_hf.retrieval.graph_ranker.entity_linking import Named, NodeNames
from kbbench_hf.retrieval.graph_ranker.exclusions import without_comparison, without_exclusions
from kbbench_hf.retrieval.graph_ranker.propagation import Vector
from kbbench_hf.retrieval.graph_ranker.query_words import (
    ASKED_WITH,
    CONTRACTED,
    EXCLUDED_WITH,
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
from kbbench_hf.retrieval.graph_ranker.schema_labels import Labels
from kbbench_hf.text.words import WORD, break_words

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
_TOKEN = re.compile(rf"{WORD.pattern}|[,()]|[-–—](?=\s)")
_QUOTED_CLAUSE = re.compile(r"([\"“«])(?:who|whom|whose|which|what|where)\b(?=[^\"”»?]*[\"”»])")
"""A quotation that begins as a relative clause and is no question."""
_WRITTEN = re.compile(rf"{WORD.pattern}(?:[-'’]{WORD.pattern})*")


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


ELSEWHERE = 0.5
"""What is named in a sentence that asks nothing may be part of a story, where those that ask name something."""
SPOKEN = 3.0
"""A relation that the question speaks of passes on so many times as much as another."""
ENOUGH_WORDS, LEAST_TEXT = 3, 0.15
"""With so many words of texts that name no node, type or relation, a question leaves all to texts; with none, so much.
Chosen on training and validation questions and on knowledge bases of other kinds."""


class Asked(NamedTuple):
    """What a question says of the knowledge base."""

    reading: Reading
    named: Named
    excluded: Named
    relations: Sequence[Vector]
    """What each relation passes on, from head to tail and back."""
    left: float
    """How much it leaves to texts, between 0 and 1: what it asks by names, types and relations, these tell."""


class Questions:
    """Questions to a knowledge base, as far as its names, types and relations tell what they say.

    Args:
        kb: the knowledge base.
        types: its types.
        n_ways: whether edges are followed both ways (2), or one where every edge has its reverse.
    """

    def __init__(self, kb: KnowledgeBase, types: AnswerTypes, n_ways: int) -> None:
        self._kb, self._types, self._n_ways = kb, types, n_ways
        self._names, self._relations = NodeNames(kb.names()), Labels(kb.graph.relations)
        self._spelling = Spelling(types.common, lambda word: types.knows(word) or self._names.knows(word))

    def understood(self, query: str) -> Asked:
        """Return what a question says, its misspelt words read as they were meant."""
        query = self._spelling.corrected(query)
        named = self._names.find(query)
        reading = read(query, *self._words_of(named))
        joined = without_comparison(reading.said)  # what is compared with need not be joined to what is asked for
        if joined != query:
            named = self._names.find(joined)
        if len(named.rows) > 1:
            meant = np.isin(named.rows, self._names.find(reading.asking).rows)
            named = Named(named.rows, named.strength * np.where(meant | ~meant.any(), 1, ELSEWHERE))
        relations = self.spoken(reading.said, reading.asked)
        return Asked(reading, named, self._names.find(reading.excluded), relations, self._left(reading.sought, named))

    def _words_of(self, named: Named) -> tuple[set[str], set[tuple[str, str]]]:
        """Return the stems of names that are in no name of a type, and the pairs in which they stand beside one."""
        stems = self._names.stems(named.rows)
        given = {word for word in stems if not self._types.is_label(word)}
        if len(given) == len(stems):
            return given, set()
        spelled = [list(words(name)) for name in self._kb.names(named.rows)]
        return given, {pair for name in spelled for pair in pairwise(name) if len(given.intersection(pair)) == 1}

    def _left(self, sought: str, named: Named) -> float:
        """Return how much a question leaves to texts: as far as it has words of theirs that name nothing."""
        sure = named.surest
        told = self._names.stems(named.rows[named.strength >= sure / 2])
        left = {word for word in words(sought) if not (word in told or self._types.is_schema_word(word))}
        n_left = sum(not self._types.is_unused(word) for word in left)
        return float(1 - sure * (1 - np.clip(n_left / ENOUGH_WORDS, LEAST_TEXT, 1)))

    def spoken(self, text: str, phrases: Sequence[Sequence[str]] = ()) -> list[Vector]:
        """Return what each relation passes on from head to tail and back: more where the text speaks of it.

        What is asked for by a relation's name alone ("the parent peak of X") is its tail: the way back to the head is
        not spoken of. Where every edge has its reverse, both ways are one.
        """
        spoken = self._relations.spoken(dict.fromkeys(words(text), 1.0)) > 0
        bare = [phrase for phrase in phrases if not any(self._types.is_label(stem(word)) for word in phrase)]
        asked = self._relations.spoken({stem(word): 1.0 for phrase in bare for word in phrase}) > 0
        ways = [spoken, spoken & ~asked][: self._n_ways]
        return [np.where(way, SPOKEN, 1.0) for way in ways]


SHORTEST = 5
"""Letters below which a slip turns one word into another."""
_LOWER_CASE = re.compile(rf"(?<![^\W_])(?<![-'’])[^\W\dA-Z_]{{{SHORTEST},}}(?![-'’]?[^\W_])")
"""Words of which no letter is a capital, as those of names often are, and which are no part of a compound."""
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_ENGLISH = FUNCTION | REQUESTS | VERB_FORMS | EXCLUDED_WITH


class Spelling:
    """The spelling of questions to a knowledge base.

    Args:
        common: stems of words that are commonly used there: these and the words of asking are what a slip may mean.
        known: whether a stem is used there at all. Such a word stays, as do words that are no slip of one of those.

    >>> Spelling(["cellular", "medication"], {"meditation"}.__contains__).corrected("whihc medicatoins, a meditation")
    'which medications, a meditation'
    """

    def __init__(self, common: Iterable[str], known: Callable[[str], bool]) -> None:
        self._known = known
        self._common = {word for word in (*common, *_ENGLISH) if len(word) >= SHORTEST}
        self._shortened: dict[str, list[str]] = {}
        for word in sorted(self._common):
            for short in _without_one(word):
                self._shortened.setdefault(short, []).append(word)

    def corrected(self, text: str) -> str:
        """Return the text in which misspelt words are those that they were meant to be; names are not corrected."""
        return _LOWER_CASE.sub(lambda found: self._word(found[0]), text)

    def _word(self, word: str) -> str:
        singular = stem(word)
        if word in _ENGLISH or singular in self._common or self._known(singular):
            return word
        meant = self._meant(singular)
        if meant is None:
            return self._meant(word) or word
        return f"{meant}s" if word == f"{singular}s" and not meant.endswith("s") else meant

    def _meant(self, word: str) -> str | None:
        """Return the first common word of which this is a slip."""
        shortened = list(_without_one(word))
        dropped = self._shortened.get(word, [])
        added = [short for short in shortened if short in self._common]
        changed = [meant for short in shortened for meant in self._shortened.get(short, [])]
        return next((meant for meant in (*dropped, *added, *changed) if _is_slip(word, meant)), None)


def _without_one(word: str) -> Iterator[str]:
    return (word[:place] + word[place + 1 :] for place in range(len(word)))


def _is_slip(written: str, meant: str) -> bool:
    """Whether a finger that means one word may write the other.

    Two letters change places; or, within the word, one is left out, hit twice, hit along with a key beside its own, or
    missed for it. Words that differ otherwise ("mouth" and "month", "shelf" and "shell") are two words.
    """
    same = 0
    while same < min(len(written), len(meant)) and written[same] == meant[same]:
        same += 1
    rest = 0
    while rest < min(len(written), len(meant)) - same and written[-1 - rest] == meant[-1 - rest]:
        rest += 1
    wrong, right = written[same : len(written) - rest], meant[same : len(meant) - rest]
    if len(wrong) == len(right) == 2:
        return wrong == right[::-1]
    if not same or not rest:
        return False
    if not right:
        return any(_are_beside(wrong, letter) for letter in (written[same - 1], written[-rest]))
    return not wrong or _are_beside(wrong, right)


def _are_beside(one: str, other: str) -> bool:
    """Whether two letters are one key or two that touch in a row of the keyboard."""
    return one == other or any(f"{one}{other}" in row or f"{other}{one}" in row for row in _KEYS)
