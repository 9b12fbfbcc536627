"""Find how a sentence mentions an entity: verbatim, short, as an alias, inflected, as a date or number (Text2KGBench).

The modes before `repaired-2` use the older rules of `mentions`. These rules also return the form and the words, and
know more forms. A pronoun or a description ("the film") is no mention.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kbbench_hf.metrics.mention_rules import RULES, Form
from kbbench_hf.text.dates import Date, parse_date
from kbbench_hf.text.folding import repair_text
from kbbench_hf.text.name_matching import Label, SentenceWords
from kbbench_hf.text.name_variants import QUALIFIER
from kbbench_hf.text.quantities import parse_quantity
from kbbench_hf.text.words import is_separated


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


def find_mentions(sentence: str, subject: str, obj: str) -> tuple[Mention, Mention]:
    """Return how a sentence mentions the subject and the object of a triple.

    A subject that occurs only inside the object's longer name is absent.

    >>> [each.form for each in find_mentions("Its neighbour is Scafell Pike.", "Scafell", "Scafell Pike")]
    ['absent', 'verbatim']
    """
    of_subject, of_object = find_mention(sentence, subject), find_mention(sentence, obj)
    if of_subject.form == of_object.form == "verbatim" and len(of_object.words) > len(of_subject.words):
        text = index_sentence(sentence)
        inner, outer = (list(text.places(Label.of(each.words))) for each in (of_subject, of_object))
        if inner and all(any(o[0] <= i[0] and i[1] <= o[1] for o in outer) for i in inner):
            of_subject = Mention("absent")
    return of_subject, of_object


index_sentence = lru_cache(maxsize=2**13)(SentenceWords)


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
