"""Find how a sentence mentions an entity: verbatim, short, as an alias, inflected, as a date or number (Text2KGBench).

The modes before `repaired-2` use the older rules of `triples.is_mentioned`. These rules also return the form and the
words, and know more forms. A pronoun or a description ("the film") is no mention. `triple_values` scores by it, and
`building` audits and splits extraction data; the built columns and the scores of both modes depend on every rule and on
their order.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from kbbench_hf.metrics.mention_rules import PARAPHRASES, RULES, Form, is_part_of_name
from kbbench_hf.text.dates import MONTHS, ORDINALS, Date, find_dates, parse_date
from kbbench_hf.text.folding import repair_text
from kbbench_hf.text.name_matching import Label, SentenceWords, Span
from kbbench_hf.text.name_variants import QUALIFIER
from kbbench_hf.text.quantities import NUMBER_WORDS, Quantity, find_quantities, parse_quantity
from kbbench_hf.text.words import is_separated

_VALUE_WORDS = frozenset(MONTHS) | {month[:3] for month in MONTHS} | NUMBER_WORDS.keys() | ORDINALS.keys()
"""Words other than numerals with which a date or number can begin."""


class Mention(NamedTuple):
    """The form in which a sentence mentions an entity, and the words of the mention if they are a name."""

    form: Form
    words: str = ""

    @property
    def found(self) -> bool:
        """Whether the sentence mentions the entity."""
        return self.form != "absent"


@lru_cache(maxsize=2**15)
def find_mention(sentence: str, entity: str) -> Mention:
    """Return how a sentence mentions an entity; an entity without words is `verbatim`.

    - `verbatim`: the same words in a row, in any case, with any accents, blanks, hyphens, quotation marks and dots of
      abbreviations, with or without the parentheses at the end of the label.
    - `short`: a family or regnal name, an acronym (or what it stands for), "Austin" for "Austin, Texas", one part of a
      title in parts, a name without its kind ("Italian" for "Italian language").
    - `alias`: a longer or other name: with middle names, in another order, of a country, misspelt in one letter.
    - `inflected`: in the plural or singular, or of the same root; a country by its people or its adjective.
    - `date_form`, `number_form`: the same date or number in another form. A day is absent if the sentence has only its
      month or year.

    >>> sentence = "On 20th July 2001 the late Italian Ingrid Anna Conrad's club AC Turin, of 1,099 men, met Austin's."
    >>> for name in ("A.C._Turin", "Austin,_Texas", "Ingrid Conrad", "Italy", "2001-07-20", "1099.0", "Texas"):
    ...     print(name, *find_mention(sentence, name))  # doctest: +NORMALIZE_WHITESPACE
    A.C._Turin verbatim AC Turin
    Austin,_Texas short Austin
    Ingrid Conrad alias Ingrid Anna Conrad
    Italy inflected Italian
    2001-07-20 date_form
    1099.0 number_form
    Texas absent
    """
    text = index_sentence(sentence)
    name = " ".join(repair_text(entity).replace("_", " ").replace('"', "").split())
    bare = QUALIFIER.sub("", name.strip("' "))
    labels = [label for each in dict.fromkeys((name, bare)) if (label := Label.of(each)).words]
    if not labels:
        return Mention("verbatim")
    for label in labels:
        if span := text.in_a_row(label):
            return Mention("verbatim", text.quote(span))
    if dates := () if bare.isdigit() else label_dates(bare):
        return Mention("date_form" if any(is_stated(date, text.dates) for date in dates) else "absent")
    if quantity := parse_quantity(name):
        same = any(quantity.equals(each, rounded=True) for each in text.quantities)
        return Mention("number_form" if same else "absent")
    if is_separated(bare):  # the rules compare words, and these are characters
        return Mention("absent")
    for form, rule in RULES:
        for label in reversed(labels):
            if (span := rule(text, label)) and not text.is_deputy(span[0]):
                return Mention(form, text.quote(span))
    return Mention("absent")


def find_forms(sentence: str, subject: str, obj: str) -> tuple[Mention, Mention]:
    """Return the mentions of a triple's subject and object by the rules of `find_mention` (mode `repaired-2`).

    A subject that occurs only inside the object's longer name is absent.

    >>> [each.form for each in find_forms("Its neighbour is Scafell Pike.", "Scafell", "Scafell Pike")]
    ['absent', 'verbatim']
    """
    of_subject, of_object = find_mention(sentence, subject), find_mention(sentence, obj)
    if of_subject.form == of_object.form == "verbatim" and len(of_object.words) > len(of_subject.words):
        text = index_sentence(sentence)
        inner, outer = (list(text.places(Label.of(each.words))) for each in (of_subject, of_object))
        if inner and all(any(o[0] <= i[0] and i[1] <= o[1] for o in outer) for i in inner):
            of_subject = Mention("absent")
    return of_subject, of_object


def find_mentions(sentence: str, subject: str, obj: str) -> tuple[Mention, Mention]:
    """Return how a sentence mentions the subject and the object of a triple (mode `repaired-3`).

    Differs from `find_forms`: paraphrases are mentions (`mention_rules.PARAPHRASES`). A name that occurs only
    inside the longer name of something else is absent. No words are the mention of both ends: those inside the object
    are not the subject's, and of equal words the end with the better form has them.

    >>> sentence = "The grounds of Marlow Conference border the Grey Bay drainage basin and Scafell Pike."
    >>> names = ("Marlow Conference Grounds", "Grey Bay Basin"), ("Scafell", "Scafell Pike"), ("Pike", "Scafell Pike")
    >>> [[end.form for end in find_mentions(sentence, *pair)] for pair in names]
    [['alias', 'alias'], ['absent', 'verbatim'], ['absent', 'verbatim']]
    """
    text = index_sentence(sentence)
    of_subject, of_object = _occurrences(sentence, subject), _occurrences(sentence, obj)
    of_subject = tuple(each for each in of_subject if not any(_is_inside(each, other) for other in of_object))
    for one, another in product(of_subject, of_object):
        if one.span != another.span or one.span == (0, 0) or obj.startswith('"'):  # a literal is the name itself
            return _mention(text, one), _mention(text, another)
    if of_subject and of_object:  # the same words
        is_subject = of_subject[0].form == "verbatim" or of_object[0].form != "verbatim"
        of_subject, of_object = (of_subject, ()) if is_subject else ((), of_object)
    return _mention(text, *of_subject[:1]), _mention(text, *of_object[:1])


class _Occurrence(NamedTuple):
    """One place where a sentence mentions an entity; the span (0, 0) where the place is unknown or there is none."""

    form: Form
    span: Span


_NOWHERE = _Occurrence("absent", (0, 0))


@lru_cache(maxsize=2**15)
def _occurrences(sentence: str, entity: str) -> tuple[_Occurrence, ...]:
    """Return the places where a sentence mentions an entity: all verbatim ones, or the first of each rule."""
    text, mention = index_sentence(sentence), find_mention(sentence, entity)
    name = " ".join(repair_text(entity).replace("_", " ").replace('"', "").split())
    bare = QUALIFIER.sub("", name.strip("' "))
    labels = [label for each in dict.fromkeys((bare, name)) if (label := Label.of(each)).words]
    if not labels:
        return (_Occurrence("verbatim", (0, 0)),)
    places = _free_places(text, mention.words) if mention.form == "verbatim" else []
    if places or is_separated(bare):
        return tuple(_Occurrence("verbatim", span) for span in places)
    if dates := () if bare.isdigit() else label_dates(bare):
        span = _shortest(text, lambda words: any(is_stated(date, find_dates(words)) for date in dates))
        return (_Occurrence("date_form", span),) if span else ()
    if quantity := parse_quantity(name):
        span = _shortest(text, lambda words: any(_is_written(quantity, each) for each in find_quantities(words)))
        return (_Occurrence("number_form", span),) if span else ()
    spans: dict[Span, Form] = {}
    for form, rule in PARAPHRASES:
        for label in labels:
            span = rule(text, label)
            if span and not text.is_deputy(span[0]) and not is_part_of_name(text, label, span):
                others = (each for each in _free_places(text, text.quote(span)) if each != span)
                spans |= {each: form for each in (span, *others) if each not in spans}
    return tuple(_Occurrence(form, span) for span, form in spans.items())


def _shortest(text: SentenceWords, fits: Callable[[str], bool]) -> Span | None:
    """Return the shortest span with a value, of at most eight words; an empty one if its parts are farther apart."""
    n = len(text.words)
    if not n or not fits(text.sentence):
        return None
    starts = [place for place, word in enumerate(text.words) if word[0].isdigit() or word in _VALUE_WORDS]
    for size in range(1, 9):
        for start in starts:
            if start + size <= n and fits(text.quote((start, start + size))):
                return start, start + size
    return 0, 0


def _is_written(gold: Quantity, found: Quantity) -> bool:
    """Return whether a sentence's number is the gold one, rounded to its decimals or in a unit 1,000 times as large."""
    rounded = 0 < found.step < 1 and abs(gold.value - found.value) <= found.step / 2 and found.value > 99 * found.step
    digits = f"{found.value:.0f}".rstrip("0")
    scaled = len(digits) > 3 and gold.unit is None and gold.value in (found.value * 1000**power for power in (1, 2, 3))
    return gold.equals(found, rounded=True) or rounded or scaled


def _free_places(text: SentenceWords, words: str) -> list[Span]:
    """Return the spans of some words of a sentence where they are no part of a longer name."""
    label = Label.of(words)
    spans = dict.fromkeys((*text.places(label), *filter(None, [text.in_a_row(label)])))
    return [span for span in spans if text.is_whole(label, span) and not is_part_of_name(text, label, span)]


def _is_inside(subject: _Occurrence, obj: _Occurrence) -> bool:
    """Return whether a subject has only some words inside the object's name."""
    one, other = subject.span, obj.span
    return one != other and other[0] <= one[0] and one[1] <= other[1] and obj.form in ("verbatim", "short", "inflected")


def _mention(text: SentenceWords, found: _Occurrence = _NOWHERE) -> Mention:
    """Return a mention with its words as written: no full stop after a number, and whole brackets."""
    if not found.span[1]:
        return Mention(found.form)
    words = text.quote(found.span)
    if words[-2:-1].isdigit():
        words = words.removesuffix(".")
    for whole in (f"({words}", f"{words})"):
        if whole.count("(") == whole.count(")") and whole in text.sentence:
            words = whole
    return Mention(found.form, words.replace("  and  ", " & "))


index_sentence = lru_cache(maxsize=2**13)(SentenceWords)
"""Returns the words of a sentence; cached, as a sentence is searched for each name of its triples."""


def label_dates(label: str) -> tuple[Date, ...]:
    """Return the dates that a label can mean: those of `parse_date`; a 1 January of DBpedia can be any day of the year.

    >>> label_dates("1942-01-01")
    (Date(year=1942, month=1, day=1), Date(year=1942, month=0, day=0))
    """
    dates = parse_date(label)
    return (*dates, Date(dates[0].year)) if len(dates) == 1 and dates[0][1:] == (1, 1) else dates


def is_stated(date: Date, found: Sequence[Date]) -> bool:
    """Return whether a date is among the dates of a text, with all its parts.

    >>> is_stated(Date(2001), [Date(2001, 7)]), is_stated(Date(2001, 7, 20), [Date(2001, 7)])
    (True, False)
    """
    return any(not date.contradicts(each) and each.precision >= date.precision for each in found)
