"""Rules for paraphrased names, and for names inside longer names (Text2KGBench, mode `repaired-3`)."""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from kbbench_hf.metrics import mention_rules as rules
from kbbench_hf.text.name_matching import KINDS, NO_FAMILY_NAMES, Label, SentenceWords, Span
from kbbench_hf.text.name_variants import SMALL_WORDS, find_country, same_phrases, singularize, strip_ending

_LONGER = frozenset("basin cluster dam glacier group pass pike range reservoir ridge supercluster".split())
"""Last words of names that contain the name of something else: "Scafell" is no mention in "Scafell Pike"."""
_LAST_WORDS = KINDS | NO_FAMILY_NAMES | rules.LANDSCAPE | _LONGER
_SEQUEL = re.compile(r"\d{1,2}|[IVX]{2,4}")
_AFTER_SEQUEL = SMALL_WORDS | frozenset("is was has had were which that".split())
_SPORTS = frozenset("association baseball basketball football handball hockey ice polo rugby volleyball".split())
_PREPOSITIONS = frozenset("at by for from in on to with".split())
"""Words that do not join the words of a name: "river in York" is not "York River"."""


def is_part_of_name(text: SentenceWords, label: Label, span: Span) -> bool:
    """Return whether a span is only a part of a longer name of something else; a country's name is never one.

    >>> sentence = SentenceWords("In Pavo Minor lies the Pavo Minor Group, as told in Drift 2.")
    >>> [is_part_of_name(sentence, Label.of("Pavo Minor"), span) for span in ((1, 3), (5, 7))]
    [False, True]
    >>> is_part_of_name(sentence, Label.of("Drift"), (11, 12))
    True
    """
    start, end = span
    generic = label.words[0] in KINDS | NO_FAMILY_NAMES or find_country(" ".join(label.written))
    if generic or not text.has_capital(start):
        return False
    if start > 1 and text.words[start - 2] == "symposium" and text.words[start - 1] in ("on", "of"):
        return True
    if end == len(text.words) or text.gap(end) != " ":
        return False
    if text.words[end] in _LONGER:
        return text.has_capital(end) and label.words[-1] != text.words[end]
    if not _SEQUEL.fullmatch(text.written[end]) or not label.is_name or label.words[-1].isdigit():
        return False
    after = text.gap(end + 1)  # a number in front of a noun is a quantity or a version
    ends = end + 1 == len(text.words) or re.match(r"[.,;:!?)\"']+\s", after) or text.words[end + 1] in _AFTER_SEQUEL
    person = label.is_person and text.has_capital(end) and rules.WORKS.isdisjoint(map(singularize, text.words))
    return bool(ends) and not person


def _kind_apart(text: SentenceWords, label: Label) -> Span | None:
    """Find "Grey Bay drainage basin" for "Grey Bay Basin", "grounds of Bell House" for "Bell House Grounds"."""
    if len(label.words) < 2 or label.words[-1] not in _LAST_WORDS:
        return None
    for start, end in text.places(label.part(0, -1)):
        of = start - 1 - (start > 0 and text.words[start - 1] == "the")
        continues = text.has_capital(end) and not text.gap(end).strip()
        if of > 0 and text.words[of - 1 : of + 1] == [label.words[-1], "of"] and not continues:
            return of - 1, end
        for last in range(end + 1, min(end + 3, len(text.words))):
            apart = any(text.has_capital(place) or text.gap(place).strip() for place in range(end, last))
            if text.words[last] == label.words[-1] and not apart and not text.gap(last).strip():
                return start, last + 1
    return None


def _scattered(text: SentenceWords, label: Label) -> Span | None:
    """Find all words near each other; two words in order without a preposition, or in the other order around "of"."""
    span = rules.find_scattered(text, label)
    if not span or len(label.senses) > 2 or any(find_country(key) for key, _ in label.senses):
        return span
    between = text.words[span[0] + 1 : span[1] - 1]
    in_order = singularize(text.words[span[0]]) == singularize(label.words[0])
    joined = len(between) < 3 and _PREPOSITIONS.isdisjoint(between) and (in_order or SMALL_WORDS.issuperset(between))
    return span if joined or (label.is_person and all(map(text.has_capital, range(*span)))) else None


def _reworded(text: SentenceWords, label: Label) -> Span | None:
    """Find the label with one of its phrases replaced by another one for the same thing: "hardback" for "Hardcover"."""
    words = " ".join(label.words)
    for group in same_phrases():
        for inside in filter(None, (re.search(rf"\b{phrase.lower()}\b", words) for phrase in group)):
            for other in group:
                new = Label.of(words[: inside.start()] + other + words[inside.end() :])
                span = text.in_a_row(new) or rules.find_inflected(text, new)
                if span and other[0].isupper() <= text.has_capital(span[0]):
                    return span
    return None


def _given_name_variant(text: SentenceWords, label: Label) -> Span | None:
    """Find "Sophia Helena Marsh" for "Sophie Marsh": one letter differs, or one given name begins the other."""
    first = label.words[0]
    for start, word in enumerate(text.words if label.is_person else ()):
        n = min(len(word), len(first))
        alike = n > 3 and word[: n - 1] == first[: n - 1] and (n > 4 or word[:n] == first[:n])
        if alike and text.has_capital(start) and (end := rules.end_of_longer(text, label, label.words, start)):
            return start, end
    return None


def _derived(text: SentenceWords, label: Label) -> Span | None:
    """Find the same words in a row with other endings: "printed" for "print", "musical" for "music"."""
    return text.row_of([*map(_stem, label.words)], [*map(_stem, text.words)], label)


def _stem(word: str) -> str:
    word = strip_ending(word)
    ending = next((each for each in ("ally", "ian", "ed", "ly", "al") if word.endswith(each)), "")
    return strip_ending(word.removesuffix(ending)) if len(word) - len(ending) >= 4 else word


def _team(text: SentenceWords, label: Label) -> Span | None:
    """Find "the youth team of Norland" for "Norland national youth football team", or "Italy U15"."""
    head, national, rest = label.name.partition(" national ")
    more = [key for word in Label.of(rest).words if (key := singularize(word)) not in _SPORTS | {"under", "team", "s"}]
    if not national or label.words[-1] != "team" or not more:
        return None
    sought = [key for key, _ in Label.of(head).senses] + more + ["team"] * (not any(map(str.isdigit, more)))
    senses = [(re.sub(r"^u(?=\d\d$)", "", key), span) for key, span in text.senses]
    return _near([[span for ours, span in senses if ours == key] for key in sought], len(label.words) + 3)


def _described(text: SentenceWords, label: Label) -> Span | None:
    """Find all but one common word of a long description, in any order."""
    if label.is_name or len(label.senses) < 5:
        return None
    places = [[at for ours, at in text.senses if _akin(ours, key)] for key, _ in label.senses]
    missing = [start for (_, (start, _)), here in zip(label.senses, places, strict=True) if not here]
    if len(missing) > 1 or any(label.written[start][0].isupper() for start in missing):
        return None
    return _near([here for here in places if here], 3 * len(label.senses))


def _akin(one: str, another: str) -> bool:
    """Return whether two words are the same, or one has one or two more letters: "Asia", "Asian"."""
    short, long = sorted((one, another), key=len)
    return one == another or (len(short) > 3 and long.startswith(short) and len(long) - len(short) < 3)


def _near(places: Sequence[Sequence[Span]], room: int) -> Span | None:
    """Return the first span that has one of each group of places within some words."""
    spans = (rules.nearest_spans(first, places[1:]) for first in places[0])
    return next((span for span in spans if span and span[1] - span[0] <= room), None)


def _season(text: SentenceWords, label: Label) -> Span | None:
    """Find "the 2015 season of the Harbour League" for "2015 Harbour League": the name, and the year near it."""
    if not re.fullmatch(r"(?:18|19|20)\d\d", label.words[0]) or len(label.words) < 3:
        return None
    years = [(at, at + 1) for at, word in enumerate(text.words) if word == label.words[0]]
    names = [*text.places(label.part(1, -1 if label.words[-1] == "season" else None))]
    return _near([names, years], len(label.words) + 9)


def _respelt(text: SentenceWords, label: Label) -> Span | None:
    """Find the words in a row with one long one spelled differently, as in "Tudor and Jacabian"."""
    n = len(label.words)
    for start in range(len(text.words) - n + 1 if n > 1 else 0):
        pairs = [pair for pair in zip(label.words, text.words[start : start + n], strict=True) if pair[0] != pair[1]]
        one, another = pairs[0] if len(pairs) == 1 else ("", "")
        alike = min(len(one), len(another)) > 6 and (one[:3], one[-1]) == (another[:3], another[-1])
        if alike and text.has_capital(start) and SequenceMatcher(None, one, another).ratio() >= 0.75:
            return start, start + n
    return None


PARAPHRASES: tuple[tuple[rules.Form, Callable[[SentenceWords, Label], Span | None]], ...] = (
    *((form, _scattered if rule is rules.find_scattered else rule) for form, rule in rules.RULES),
    *(("alias", rule) for rule in (_kind_apart, _reworded, _given_name_variant, _team, _described, _season, _respelt)),
    ("inflected", _derived),
)
"""The rules of `mention_rules` and those for paraphrases, in order: the first rule that finds a span decides."""
