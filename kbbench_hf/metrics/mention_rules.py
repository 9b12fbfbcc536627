"""Rules that find the words by which a sentence mentions an entity in a form that is not verbatim."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from kbbench_hf.text.name_matching import KINDS, PARTICLES, Label, SentenceWords, Span
from kbbench_hf.text.name_variants import (
    SMALL_WORDS,
    TITLES,
    find_country,
    find_nicknames,
    normalize_word,
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
    for letters in initials:
        if 2 <= len(letters) <= 6 and not letters.isdigit():
            for start, end in text.places(Label.of(" ".join(letters))):
                if end - start == len(letters) and all(word.isupper() for word in text.written[start:end]):
                    return start, end
    return None


def _spelled_out(text: SentenceWords, letters: str) -> Span | None:
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


def _nation(text: SentenceWords, label: Label) -> Span | None:
    """Find a country by another name, its adjective or its people; also inside a longer label."""
    senses = label.senses
    if not any(find_country(" ".join(label.written[start:end])) for _, (start, end) in senses):
        return None
    sought, n = [key for key, _ in senses], len(senses)
    for i in range(len(text.senses) - n + 1):
        if [key for key, _ in text.senses[i : i + n]] == sought:
            return text.senses[i][1][0], text.senses[i + n - 1][1][1]
    return None


def _regnal(text: SentenceWords, label: Label) -> Span | None:
    """Find "Elizabeth" for "Elizabeth II", "John Paul" for "John Paul II"; but no work for its sequel."""
    if not WORKS.isdisjoint(text.words):
        return None
    for i, word in enumerate(label.written[1:], start=1):
        for span in text.places(label.part(0, i)) if re.fullmatch(r"[IVX]{1,5}|Jr|Sr", word) else ():
            if text.has_capital(span[0]) and text.is_alone(span):
                return span
    return None


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
    for name in dict.fromkeys((person.part(start), last)):
        for span in text.places(name):
            if text.has_capital(span[1] - len(last.words)) and text.is_alone(span) and len("".join(last.words)) > 1:
                return span
    return None


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
    of_nation = any(find_country(" ".join(label.written[start:end])) for _, (start, end) in senses)
    room = (40 if of_nation else 12 if len(senses) < 4 else 4) + len(label.words)
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
    if sum(map(len, label.words)) < 7:
        return None
    for i in range(len(text.words) - n + 1):
        pairs = zip(label.words, text.words[i : i + n], strict=True)
        alike = all(a == b or (min(len(a), len(b)) > 4 and _one_letter_apart(a, b)) for a, b in pairs)
        if alike and label.written[0][0].isupper() <= text.has_capital(i):
            return i, i + n
    return None


def _one_letter_apart(a: str, b: str) -> bool:
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
