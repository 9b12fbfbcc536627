"""Rules that find the words by which a sentence mentions an entity in a form that is not verbatim.

`RULES` are those of mode `repaired-2`. `PARAPHRASES` (mode `repaired-3`) also know paraphrases and longer names.
`mention_forms` applies them. A rule returns the span of the words it finds, None where it finds none. Scores
of both modes depend on the rules and on their order: a new rule needs a new mode.
"""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Literal

from kbbench_hf.text.name_matching import KINDS, NO_FAMILY_NAMES, PARTICLES, Label, SentenceWords, Span
from kbbench_hf.text.name_variants import (
    SMALL_WORDS,
    TITLES,
    find_country,
    find_nicknames,
    normalize_word,
    same_phrases,
    singularize,
    strip_ending,
)

Form = Literal["verbatim", "short", "alias", "inflected", "date_form", "number_form", "absent"]
LANDSCAPE = frozenset("river creek mountains mountain islands desert glacier".split())
"""Kinds that names of landscapes omit after an article: "the Enco"."""
_FORM = r"(?:A\.?F\.?C|F\.?C|A\.?C|A\.?S|S\.?C|S\.?V|C\.?F|N\.?V|A\.?G|S\.?p\.?A|GmbH|Inc|Ltd|LLC|Co|Corp)\b\.?"
_COMPANY = re.compile(rf"^{_FORM}\s+|,?\s+{_FORM}$")
"""Words that mark the name of a club or company."""
WORKS = frozenset("album book episode film films game games movie novel season sequel series song".split())


def find_inflected(text: SentenceWords, label: Label) -> Span | None:
    """Find the same words in a row in the singular or plural, or words of the same roots."""
    for inflect in (singularize, strip_ending):
        if span := text.row_of([*map(inflect, label.words)], [*map(inflect, text.words)], label):
            return span
    return None


def _longer(text: SentenceWords, label: Label) -> Span | None:
    """Find all words in order with others between them ("Stanislav Yevgrafovich Petrov"), or without middle ones."""
    if len(label.words) < 2:
        return None
    keys, first = [normalize_word(word) for word in label.written], label.words[0]
    for start, word in enumerate(text.words):
        if label.written[0][0].isupper() and not text.has_capital(start):
            continue
        initial = label.is_name and word[0] == first[0] and min(len(word), len(first)) == 1
        alike = text.keys[start] == keys[0] or initial or word in find_nicknames(first)
        if alike and (end := end_of_longer(text, label, keys, start)):
            return start, end
    return None


def end_of_longer(text: SentenceWords, label: Label, keys: Sequence[str], start: int) -> int:
    """Return the end of a name that starts here, by all its words or its last one; 0 if neither follows."""
    is_event = len(keys) > 2 and re.fullmatch(r"(?:18|19|20)\d\d", keys[0])
    wanted, skipped, position = 1, 0, start + 1
    while position < len(text.words) and wanted < len(keys) and skipped < 4:
        gap, previous = text.gap(position), text.words[position - 1]
        if re.search(r"[.;:!?]\s", gap) and len(previous) > 2:
            return 0
        dropped = label.is_person and (not skipped or label.words[wanted] == previous[0])
        if text.keys[position] == keys[wanted]:
            wanted += 1
        elif text.keys[position] == keys[-1] and text.has_capital(position) and (is_event or dropped):
            wanted = len(keys)
        elif "," not in gap and (text.has_capital(position) or text.words[position] in SMALL_WORDS):
            skipped += 1
        else:
            return 0
        position += 1
    return position if wanted == len(keys) else 0


def _before_comma(text: SentenceWords, label: Label) -> Span | None:
    """Find "Austin" for "Austin, Texas", "Frederick" for "Frederick II , Holy Roman Emperor"."""
    head, comma, _ = label.name.partition(",")
    part = Label.of(head)
    if not comma or not part.words or part.words[0].isdigit():
        return None
    is_upper = part.written[0][0].isupper()
    same_case = (span for span in text.places(part) if text.has_capital(span[0]) == is_upper)
    return next(same_case, None) or _regnal(text, part) or _longer(text, part)


def _listed(text: SentenceWords, label: Label) -> Span | None:
    """Find all members of a list, or most of a long one: "Cream, Raisins" in "raisins, sugar and cream"."""
    parts = [Label.of(part) for part in re.split(r"\s*[,;]\s*", label.name)]
    if len(parts) < 2 or not all(part.words for part in parts):
        return None
    found = [span for part in parts if (span := text.in_a_row(part) or find_inflected(text, part))]
    enough = len(found) == len(parts) or (len(parts) > 3 and len(found) >= 0.75 * len(parts))
    return (min(start for start, _ in found), max(end for _, end in found)) if enough else None


def _without_kind(text: SentenceWords, label: Label) -> Span | None:
    """Find "Italian" for "Italian language", "the Enco" for "Enco River", "Velvet Underground" with its article."""
    n, last = len(label.words), label.words[-1]
    rest = label.part(0, -1)
    without = n > 1 and last in KINDS and (label.written[-1].islower() or not label.is_name)
    if without and (span := text.in_a_row(rest) or find_inflected(text, rest)):
        return span
    if n == 2 and not LANDSCAPE.isdisjoint(label.words):
        for start, end in text.places(label.part(0, 1) if last in LANDSCAPE else label.part(1)):
            if start and text.words[start - 1] == "the" and text.has_capital(start) and not text.has_capital(end):
                return start, end
    if n == 2 and last == "party":
        for i, word in enumerate(text.words):
            alone = not text.has_capital(i + 1) or word != label.words[0]
            if strip_ending(word) == strip_ending(label.words[0]) and text.has_capital(i) and alone:
                return i, i + 1
    first_tells = label.words[0] not in TITLES | {"the"} and not re.match(r"\d+\. ", label.name)
    if n > 2 and not first_tells and label.words[1] not in SMALL_WORDS and (span := text.in_a_row(label.part(1))):
        return span
    club = Label.of(_COMPANY.sub("", label.name))
    if club.words and len(club.words) < n:
        return next((span for span in text.places(club) if text.has_capital(span[0]) and text.is_alone(span)), None)
    return None


def _before_of(text: SentenceWords, label: Label) -> Span | None:
    """Find "League of Communists" for "League of Communists of Yugoslavia"."""
    for i, word in enumerate(label.words):
        of = word == "of" or (word == "in" and label.words[i + 1 : i + 2] == ("the",))
        if not of or i < 2 + (label.words[0] == "the") or not label.is_name:
            continue
        head = label.part(0, i)
        for start, end in text.places(head):
            followed = end < len(text.words) and text.words[end] == word
            if text.has_capital(start) and text.has_capital(end - 1) and not followed:
                return start, end
        if span := find_inflected(text, head):
            return span
    return None


def _acronym(text: SentenceWords, label: Label) -> Span | None:
    """Find "UN" for "United Nations", "HtDP" for "How to Design Programs", and the other way round."""
    if len(label.words) == 1:
        return _spelled_out(text, label.words[0]) if re.fullmatch(r"(?:[A-Z]\.?){2,8}", label.name) else None
    humps = [hump for word in label.written for hump in re.findall(r"[A-Z][a-z]*|\d+|[a-z]+|.", word)]
    large = [word for word in label.words if word not in SMALL_WORDS]
    initials = {"".join(w[0].lower() for w in words) for words in (label.words, large, humps)}
    if label.words[-1].isdigit():
        initials.add("".join(word[0] for word in label.words[:-1]) + label.words[-1])
    for i, word in enumerate(text.written):
        if text.words[i] in initials and word[0].isupper() and sum(not letter.islower() for letter in word) > 1:
            return i, i + 1
    spelled = [letters for letters in initials if 2 <= len(letters) <= 6 and not letters.isdigit()]
    spans = ((len(letters), span) for letters in spelled for span in text.places(Label.of(" ".join(letters))))
    apart = (span for n, span in spans if span[1] - span[0] == n)
    return next((span for span in apart if all(word.isupper() for word in text.written[slice(*span)])), None)


def _spelled_out(text: SentenceWords, letters: str) -> Span | None:
    """Find the words for which the letters of an acronym stand; small words between may be skipped."""
    for start in range(len(text.words)):
        initials = ""
        for position in range(start, min(start + 2 * len(letters), len(text.words))):
            if initials and text.words[position] in SMALL_WORDS:
                continue
            initials += text.words[position][0]
            if not letters.startswith(initials):
                break
            if initials == letters:
                long_or_capital = len(letters) > 2 or (text.has_capital(start) and text.has_capital(position))
                return (start, position + 1) if long_or_capital else None
    return None


def _names_country(label: Label) -> bool:
    """Return whether a label contains the name, adjective or people of a country."""
    return any(find_country(" ".join(label.written[start:end])) for _, (start, end) in label.senses)


def _nation(text: SentenceWords, label: Label) -> Span | None:
    """Find a country by another name, its adjective or its people; also inside a longer label."""
    sought, n = [key for key, _ in label.senses], len(label.senses)
    if not _names_country(label):
        return None
    rows = (text.senses[i : i + n] for i in range(len(text.senses) - n + 1))
    found = next((row for row in rows if [key for key, _ in row] == sought), None)
    return (found[0][1][0], found[-1][1][1]) if found else None


def _regnal(text: SentenceWords, label: Label) -> Span | None:
    """Find "Elizabeth" for "Elizabeth II", "John Paul" for "John Paul II"; but no work for its sequel."""
    if not WORKS.isdisjoint(text.words):
        return None
    cuts = (i for i, word in enumerate(label.written) if i and re.fullmatch(r"[IVX]{1,5}|Jr|Sr", word))
    spans = (span for i in cuts for span in text.places(label.part(0, i)))
    return next((span for span in spans if text.has_capital(span[0]) and text.is_alone(span)), None)


def _family_name(text: SentenceWords, label: Label) -> Span | None:
    """Find the last word alone, of a label that can be a person's name."""
    numbered = label.words[-1] in ("jr", "sr") or re.fullmatch(r"[IVX]+", label.written[-1])
    person = label.part(0, -1) if numbered and len(label.words) > 2 else label
    if not person.is_person:
        return None
    last = Label.of(person.name.split()[-1])
    start = len(person.words) - len(last.words)
    while start > 1 and person.words[start - 1] in PARTICLES:
        start -= 1
    if len("".join(last.words)) < 2:
        return None
    spans = (span for name in dict.fromkeys((person.part(start), last)) for span in text.places(name))
    return next((span for span in spans if text.has_capital(span[1] - len(last.words)) and text.is_alone(span)), None)


def _title_part(text: SentenceWords, label: Label) -> Span | None:
    """Find one part of a title in parts: "A New Hope" for "Star Wars: A New Hope"."""
    parts = re.split(r"\s*[:–—;]\s+|\s+[-:/]\s+", label.name)
    for part in map(Label.of, parts if len(parts) > 1 else ()):
        if len("".join(part.words)) < 4 or part.words[0].isdigit():
            continue
        for span in text.places(part):
            follows = text.written[span[1]] if span[1] < len(text.written) else ""
            another = text.gap(span[1]).startswith(":") or re.fullmatch(r"\d+|[IVX]+", follows)
            if text.has_capital(span[0]) and not another and (len(part.words) > 1 or text.is_alone(span)):
                return span
    return None


def _shorter(text: SentenceWords, label: Label) -> Span | None:
    """Find some words of a long name in order and the last: "Carl Mannerheim" for "Carl Gustaf Emil Mannerheim"."""
    landmark = label.is_name and label.words[-1] in ("dam", "river", "lake", "bridge", "airport")
    if len(label.words) < 3 or not (label.is_person or landmark):
        return None
    for position in range(1, len(text.words)):
        if text.words[position] != label.words[-1] or not text.has_capital(position):
            continue
        start, left = position, len(label.words) - 1
        while start > 0 and text.words[start - 1] in label.words[:left]:
            start -= 1
            left = label.words[:left].index(text.words[start])
        n_named = sum(word not in SMALL_WORDS for word in text.words[start : position + 1])
        if n_named > 1 and text.is_alone((start, position + 1)):
            return start, position + 1
    return None


def find_scattered(text: SentenceWords, label: Label) -> Span | None:
    """Find all words but small ones near each other: "Oxford University", "the President ... of the United States"."""
    senses = label.senses
    if len(senses) < 2:
        return None
    places: list[list[Span]] = []
    for key, (start, _) in senses:
        here = [span for ours, span in text.senses if ours == key]
        if not here and re.fullmatch(r"\d\d", key):  # of a season: 2014-15
            here = [span for ours, span in text.senses if re.fullmatch(rf"(?:19|20){key}", ours)]
        if len(senses) < 4 and label.is_name and label.written[start][0].isupper() and key not in TITLES:
            here = [span for span in here if text.has_capital(span[0])]
        if not here:
            return None
        places.append(here)
    room = (40 if _names_country(label) else 12 if len(senses) < 4 else 4) + len(label.words)
    spans = [span for first in places[0] if (span := nearest_spans(first, places[1:]))]
    start, end = min(spans, key=lambda span: span[1] - span[0], default=(0, room + 1))
    return (start, end) if end - start <= room else None


def nearest_spans(first: Span, others: Sequence[Sequence[Span]]) -> Span | None:
    """Return the span from a first place over the nearest place of each other group; None if a group has none left."""
    chosen = [first]
    for here in others:
        free = [span for span in here if span not in chosen]
        if not free:
            return None
        chosen.append(min(free, key=lambda span: abs(span[0] - chosen[-1][0])))
    return min(start for start, _ in chosen), max(end for _, end in chosen)


def _misspelt(text: SentenceWords, label: Label) -> Span | None:
    """Find the words with one letter added, removed or replaced in words of at least five, as in transliterations."""
    n = len(label.words)
    for i in range(len(text.words) - n + 1 if sum(map(len, label.words)) > 6 else 0):
        pairs = zip(label.words, text.words[i : i + n], strict=True)
        alike = all(a == b or (min(len(a), len(b)) > 4 and _one_letter_apart(a, b)) for a, b in pairs)
        if alike and label.written[0][0].isupper() <= text.has_capital(i):
            return i, i + n
    return None


def _one_letter_apart(a: str, b: str) -> bool:
    """Return whether two words of letters differ by one letter added, removed or replaced, not the first."""
    if abs(len(a) - len(b)) > 1 or a[0] != b[0] or any(letter.isdigit() for letter in a + b):
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[start + 1 :] in (b[start + 1 :], b[start:]) or a[start:] == b[start + 1 :]


RULES: tuple[tuple[Form, Callable[[SentenceWords, Label], Span | None]], ...] = (
    ("inflected", find_inflected),
    ("alias", _longer),
    ("short", _before_comma),
    ("alias", _listed),
    ("short", _without_kind),
    ("short", _before_of),
    ("short", _acronym),
    ("inflected", _nation),
    ("short", _regnal),
    ("short", _family_name),
    ("short", _title_part),
    ("alias", _shorter),
    ("alias", find_scattered),
    ("alias", _misspelt),
)
"""Form -> its rule, in order: the first rule that finds a span decides."""


_LONGER = frozenset("basin cluster dam glacier group pass pike range reservoir ridge supercluster".split())
"""Last words of names that contain the name of something else: "Scafell" is no mention in "Scafell Pike"."""
_LAST_WORDS = KINDS | NO_FAMILY_NAMES | LANDSCAPE | _LONGER
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
    person = label.is_person and text.has_capital(end) and WORKS.isdisjoint(map(singularize, text.words))
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
    span = find_scattered(text, label)
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
                span = text.in_a_row(new) or find_inflected(text, new)
                if span and other[0].isupper() <= text.has_capital(span[0]):
                    return span
    return None


def _given_name_variant(text: SentenceWords, label: Label) -> Span | None:
    """Find "Sophia Helena Marsh" for "Sophie Marsh": one letter differs, or one given name begins the other."""
    first = label.words[0]
    for start, word in enumerate(text.words if label.is_person else ()):
        n = min(len(word), len(first))
        alike = n > 3 and word[: n - 1] == first[: n - 1] and (n > 4 or word[:n] == first[:n])
        if alike and text.has_capital(start) and (end := end_of_longer(text, label, label.words, start)):
            return start, end
    return None


def _derived(text: SentenceWords, label: Label) -> Span | None:
    """Find the same words in a row with other endings: "printed" for "print", "musical" for "music"."""
    return text.row_of([*map(_stem, label.words)], [*map(_stem, text.words)], label)


def _stem(word: str) -> str:
    """Return a word without its derivational endings; a short word is unchanged."""
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
    spans = (nearest_spans(first, places[1:]) for first in places[0])
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


PARAPHRASES: tuple[tuple[Form, Callable[[SentenceWords, Label], Span | None]], ...] = (
    *((form, _scattered if rule is find_scattered else rule) for form, rule in RULES),
    *(("alias", rule) for rule in (_kind_apart, _reworded, _given_name_variant, _team, _described, _season, _respelt)),
    ("inflected", _derived),
)
"""`RULES` and the rules for paraphrases, in order: the first rule that finds a span decides."""
