"""Query understanding: the phrases that a query asks for, its linked entities, relations and exclusions.

`QueryParser.parse` serves the graph ranker and, through it, the planners. It corrects spelling, links entities, splits
off exclusions and finds the noun phrases. Its rules were tuned on training and validation queries: published scores
depend on each. Word lists are in `query_words.toml`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.answer_type import AnswerTypePredictor, remove_comparisons, split_exclusions
from kbbench_hf.retrieval.graph_ranker.entity_linking import EntityLinker, LinkedEntities
from kbbench_hf.retrieval.graph_ranker.propagation import NO_SCORES, SparseScores, Vector
from kbbench_hf.retrieval.graph_ranker.query_words import (
    ASKED_WITH,
    CONTRACTED,
    FUNCTION,
    LINKS,
    REQUESTS,
    VERB_FORMS,
    VERBS,
    WORDS,
    SchemaLabels,
    stem,
    word_list,
    words,
)
from kbbench_hf.text.words import WORD, break_words

_QUESTION_WORDS, _CUES, _LEADING = word_list("question_words"), word_list("cues"), word_list("leading")
_AUXILIARIES, _ARTICLES, _POINTERS = word_list("auxiliaries"), word_list("articles"), word_list("pointers")
_INDEFINITE, _OF_INDEFINITE = word_list("indefinite"), word_list("of_indefinite")
_PUNCTUATION, _PARTICIPLES = word_list("punctuation"), word_list("participles")
_NAME = "\N{BULLET}"
"""Replaces a word of a name."""
_IMPLIED_NOUNS = {"who": ("person",), "whom": ("person",)}

_MARKUP = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_STATED = re.compile(r"\bshould be an?\b|\b(?:wanted|sought)(?:\)|\s*$)")
"""States the answer type outright: "(genre wanted)", "it should be a film"."""
_SENTENCE_END = re.compile(r"[.!?;:]+(?=\s|$|[\"”'»)])|\n|[\"“”«»]")
_TOKEN = re.compile(rf"{WORD.pattern}|[,()]|[-–—](?=\s)")
_QUOTED_CLAUSE = re.compile(r"([\"“«])(?:who|whom|whose|which|what|where)\b(?=[^\"”»?]*[\"”»])")
"""A quotation that begins as a relative clause and is no question."""
_COMPOUND = re.compile(rf"{WORD.pattern}(?:[-'’]{WORD.pattern})*")


class ParsedQuery(NamedTuple):
    """The parts of a query."""

    phrases: tuple[tuple[str, ...], ...]
    """The noun phrases it asks for, in lower case; the last word of each is its head."""
    uncued: tuple[str, ...]
    """All words outside names, in lower case, of a query without a cue."""
    cued: str
    """The sentences with a cue, in lower case; "" where none has."""
    included: str
    """The query without asides and exclusions."""
    keywords: str
    """`included` without the words of asking: what texts may share with it."""
    excluded: str
    """What answers must not have."""


def parse_query(
    query: str, name_stems: Collection[str] = (), name_pairs: Collection[tuple[str, str]] = ()
) -> ParsedQuery:
    """Return the parts of a query. Words of names, given by their stems, are in none of its phrases.

    Nor are pairs of adjacent words of a name ("Salt Bridge"), of which one may be that of a type.

    >>> parsed = parse_query("Hi! Unlike Speed, which films are set in Rome, but not directed by Fellini? Many thanks.")
    >>> parsed.phrases, parsed.included, parsed.excluded
    ((('films',),), 'Hi!  , which films are set in Rome,  ? Many thanks.', 'but not directed by Fellini')
    >>> parse_query("Hello, could you give me a list of films, please?").keywords
    ', could you  me a  of films, ?'
    """
    included, excluded = split_exclusions(_MARKUP.sub(" ", query), name_stems)
    sentences = _SENTENCE_END.split(_QUOTED_CLAUSE.sub(r"\1", included).lower())
    tokens = [_mask_names(_TOKEN.findall(break_words(each)), name_stems, name_pairs) for each in sentences]
    cued = [_cued_phrase(each) for each in tokens]
    others = (_noun_phrase(each) for each, phrase in zip(tokens, cued, strict=True) if phrase is None)
    stated = [phrase for each, phrase in zip(sentences, cued, strict=True) if phrase and _STATED.search(each)]
    phrases = stated or (cued if any(cued) else others)
    with_cue = "; ".join(each for each, phrase in zip(sentences, cued, strict=True) if phrase is not None)
    uncued = () if with_cue else tuple(word for each in tokens for word in each if word != _NAME)
    keywords = _remove_request_words(included, name_stems)
    return ParsedQuery(tuple(filter(None, phrases)), uncued, with_cue, included, keywords, excluded)


def _remove_request_words(text: str, name_stems: Collection[str]) -> str:
    """Return a text without the words of asking that are in no name; the text itself where it has no others."""

    def keep_unless_request(word: re.Match[str]) -> str:
        lower = word[0].lower()
        return "" if lower in ASKED_WITH and stem(lower) not in name_stems else word[0]

    keywords = _COMPOUND.sub(keep_unless_request, text)
    return keywords if any(words(keywords)) else text


def _mask_names(
    tokens: Sequence[str], name_stems: Collection[str], name_pairs: Collection[tuple[str, str]]
) -> list[str]:
    """Return the words of a sentence with a sign in place of those of names."""
    stems = [stem(word) for word in tokens]
    paired = set[int]()
    for position, pair in enumerate(pairwise(stems)):
        if pair in name_pairs:
            paired |= {position, position + 1}
    return [
        _NAME if position in paired or (singular in name_stems and word not in VERB_FORMS) else word
        for position, (word, singular) in enumerate(zip(tokens, stems, strict=True))
    ]


def _cued_phrase(tokens: Sequence[str]) -> tuple[str, ...] | None:
    """Return the noun phrase after the first cue of a sentence, () where it asks for no noun; None without a cue."""
    before, content, clause, phrase = "", False, 0, None
    for position, (word, after) in enumerate(zip(tokens, (*tokens[1:], ""), strict=False)):
        if word in _QUESTION_WORDS:
            follows = before in _PUNCTUATION or before in _LEADING or before in ("and", "or")
            relative = content and after and not follows
            if not relative and word != "where" and after not in _AUXILIARIES:
                return (*_noun_phrase(tokens[position:]), *_IMPLIED_NOUNS.get(word, ()))
            phrase = phrase if relative else ()  # "where is it kept", "what does she write": another cue may follow
        elif _is_cue(before, word, after):
            if word in ("wanted", "sought") and after in ("", ")"):  # "(genre wanted)"
                return _noun_phrase(tokens[clause:position])
            return _noun_phrase(tokens[position + 1 :])
        clause = position + 1 if word in _PUNCTUATION else clause
        content = content or not (word in FUNCTION or word in REQUESTS or word in _PUNCTUATION)
        before = word
    return phrase


def _is_cue(before: str, word: str, after: str) -> bool:
    """Whether a word asks for something between these: "there are" and "I know" do not, "are there" and "you know" do.

    What is pointed at ("I need this for a report") is in another sentence, and "a drug whose name" names none.
    """
    if after in _POINTERS:
        return False
    if word in ("name", "names"):
        led = before in ("", "to", "you", "and") or before in _PUNCTUATION or before in ASKED_WITH
        return led or after == "of"
    if rule := WORDS["cues_beside"].get(word):
        return before in rule["before"].split() if "before" in rule else after in rule["after"].split()
    return word in _CUES and before not in _ARTICLES


def _noun_phrase(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the first noun phrase outside the words of asking, at most five words; () after a predicate."""
    phrase: list[str] = []
    for before, word, after in zip(("", *tokens), tokens, (*tokens[1:], ""), strict=False):
        verb = word in VERB_FORMS
        if phrase and (verb or word in LINKS or word in CONTRACTED or word in _PUNCTUATION or word in _ARTICLES):
            break
        if phrase and _is_participle(word) and (after in FUNCTION or after == _NAME):
            break  # "mishaps investigated by some agency"
        if not (phrase or word in REQUESTS or before in _IMPLIED_NOUNS) and _is_predicate(word, after):
            break  # "which one interacts with genes" asks for no gene
        if not phrase and before in _INDEFINITE and word in _OF_INDEFINITE:
            break
        if not (verb or word in FUNCTION or word in REQUESTS or word in _PUNCTUATION or word == _NAME):
            phrase.append(word)
    return tuple(phrase[:5])


def _is_predicate(word: str, after: str) -> bool:
    """Whether a word is a finite verb, or a participle with its preposition."""
    finite = word in VERBS or word.removesuffix("s") in VERBS
    return finite or ((word in VERB_FORMS or _is_participle(word)) and after in LINKS)


def _is_participle(word: str) -> bool:
    return word in _PARTICIPLES or (len(word) > 4 and word.endswith(("ed", "ing")))


UNCUED_WEIGHT = 0.5
"""The weight of an entity of a sentence without a cue, which may be a story, where sentences with one have others."""
MENTIONED_WEIGHT = 3.0
"""The weight of a relation that the query mentions; 1 for others."""
ENOUGH_WORDS, LEAST_TEXT = 3, 0.15
"""With so many words besides entities, types and relations, a query leaves all to texts; with none, this share. Tuned
on training and validation queries and on knowledge bases of other kinds."""


class LinkedQuery(NamedTuple):
    """A parsed query, with what it says of a knowledge base."""

    parsed: ParsedQuery
    entities: LinkedEntities
    excluded: LinkedEntities
    relations: Sequence[Vector]
    """The weight of each relation, from head to tail and back."""
    text_share: float
    """The share of the query, 0 to 1, that only texts can answer: not entities, types and relations."""
    planned: SparseScores = NO_SCORES
    """The scores of the nodes that plans of the query lead to."""


class QueryParser:
    """Parses queries to one knowledge base.

    Args:
        kb: the knowledge base.
        types: its node types.
        n_directions: 2 where edges are followed both ways, 1 where every edge has its reverse.
    """

    def __init__(self, kb: KnowledgeBase, types: AnswerTypePredictor, n_directions: int) -> None:
        self._kb, self._types, self._n_directions = kb, types, n_directions
        self.linker, self._relations = EntityLinker(kb.names()), SchemaLabels(kb.graph.relations)
        self._spelling = Spelling(types.common, lambda word: types.knows(word) or self.linker.knows(word))

    def parse(self, query: str) -> LinkedQuery:
        """Return the parsed and linked query, its spelling corrected."""
        query = self._spelling.correct(query)
        entities = self.linker.link(query)
        parsed = parse_query(query, *self._name_words(entities))
        compared = remove_comparisons(parsed.included)  # standards of comparison need not be adjacent to answers
        if compared != query:
            entities = self.linker.link(compared)
        if len(entities.rows) > 1:
            cued = np.isin(entities.rows, self.linker.link(parsed.cued).rows)
            strength = entities.strength * np.where(cued | ~cued.any(), 1, UNCUED_WEIGHT)
            entities = LinkedEntities(entities.rows, strength)
        relations = self.relation_weights(parsed.included, parsed.phrases)
        excluded = self.linker.link(parsed.excluded)
        return LinkedQuery(parsed, entities, excluded, relations, self._text_share(parsed.keywords, entities))

    def _name_words(self, entities: LinkedEntities) -> tuple[set[str], set[tuple[str, str]]]:
        """Return the stems of names that are in no label of a type, and the pairs of one of them and another word."""
        stems = self.linker.stems(entities.rows)
        own = {word for word in stems if not self._types.is_label(word)}
        if len(own) == len(stems):
            return own, set()
        names = [list(words(name)) for name in self._kb.names(entities.rows)]
        return own, {pair for name in names for pair in pairwise(name) if len(own.intersection(pair)) == 1}

    def _text_share(self, keywords: str, entities: LinkedEntities) -> float:
        sure = entities.surest
        linked = self.linker.stems(entities.rows[entities.strength >= sure / 2])
        left = {word for word in words(keywords) if not (word in linked or self._types.is_schema_word(word))}
        n_left = sum(not self._types.is_unused(word) for word in left)
        return float(1 - sure * (1 - np.clip(n_left / ENOUGH_WORDS, LEAST_TEXT, 1)))

    def relation_weights(self, text: str, phrases: Sequence[Sequence[str]] = ()) -> list[Vector]:
        """Return the weight of each relation from head to tail and back: more where the text mentions it.

        What a phrase asks for by a relation's label alone ("the parent peak of X") is its tail: the way back to the
        head is not mentioned. Where every edge has its reverse, there is one direction.
        """
        mentioned = self._relations.coverage(dict.fromkeys(words(text), 1.0)) > 0
        bare = [phrase for phrase in phrases if not any(self._types.is_label(stem(word)) for word in phrase)]
        asked_for = self._relations.coverage({stem(word): 1.0 for phrase in bare for word in phrase}) > 0
        directions = [mentioned, mentioned & ~asked_for][: self._n_directions]
        return [np.where(each, MENTIONED_WEIGHT, 1.0) for each in directions]


SHORTEST = 5
"""Letters below which a slip turns one word into another."""
_LOWER_CASE = re.compile(rf"(?<![^\W_])(?<![-'’])[^\W\dA-Z_]{{{SHORTEST},}}(?![-'’]?[^\W_])")
"""Words without a capital, which names often have, and outside compounds."""
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_ENGLISH = FUNCTION | REQUESTS | VERB_FORMS | word_list("excluded_with")


class Spelling:
    """Spelling correction of queries to a knowledge base.

    Args:
        common: stems of words that are common there: only these and words of asking are corrections.
        known: whether a stem is used there at all; such words are not corrected.

    >>> Spelling(["cellular", "medication"], {"meditation"}.__contains__).correct("whihc medicatoins, a meditation")
    'which medications, a meditation'
    """

    def __init__(self, common: Iterable[str], known: Callable[[str], bool]) -> None:
        self._known = known
        self._common = {word for word in (*common, *_ENGLISH) if len(word) >= SHORTEST}
        self._shortened: dict[str, list[str]] = {}
        for word in sorted(self._common):
            for short in _without_one_letter(word):
                self._shortened.setdefault(short, []).append(word)

    def correct(self, text: str) -> str:
        """Return the text with its misspelt words corrected; names stay."""
        return _LOWER_CASE.sub(lambda match: self._correct_word(match[0]), text)

    def _correct_word(self, word: str) -> str:
        singular = stem(word)
        if word in _ENGLISH or singular in self._common or self._known(singular):
            return word
        correction = self._correction(singular)
        if correction is None:
            return self._correction(word) or word
        return f"{correction}s" if word == f"{singular}s" and not correction.endswith("s") else correction

    def _correction(self, word: str) -> str | None:
        """Return the first common word of which this is a slip."""
        shortened = list(_without_one_letter(word))
        dropped = self._shortened.get(word, [])
        added = [short for short in shortened if short in self._common]
        changed = [suggestion for short in shortened for suggestion in self._shortened.get(short, [])]
        return next((suggestion for suggestion in (*dropped, *added, *changed) if _is_slip(word, suggestion)), None)


def _without_one_letter(word: str) -> Iterator[str]:
    return (word[:position] + word[position + 1 :] for position in range(len(word)))


def _is_slip(written: str, suggestion: str) -> bool:
    """Whether `written` is a typing error of `suggestion`.

    Two letters are swapped; or, within the word, one is left out, doubled, replaced by a key beside its own, or that
    key is hit as well. Words that differ otherwise ("mouth" and "month", "shelf" and "shell") are two words.
    """
    same = _n_shared(written, suggestion)
    rest = _n_shared(written[same:][::-1], suggestion[same:][::-1])
    wrong, right = written[same : len(written) - rest], suggestion[same : len(suggestion) - rest]
    if len(wrong) == len(right) == 2:
        return wrong == right[::-1]
    if not same or not rest:
        return False
    if not right:
        return any(_are_close(wrong, letter) for letter in (written[same - 1], written[-rest]))
    return not wrong or _are_close(wrong, right)


def _n_shared(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _are_close(one: str, other: str) -> bool:
    """Whether two letters are the same or adjacent in a row of the keyboard."""
    return one == other or any(f"{one}{other}" in row or f"{other}{one}" in row for row in _KEYS)
