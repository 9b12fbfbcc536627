"""Evidence of HybridQA's questions: the row and passages that a question needs, where its words settle that.

People wrote the questions on a row and a passage that it links to, but which passage is needed was not released. The
words of a question settle it if every name and number in it occurs in the evidence, no other row with its passages
holds its words as well, each part of the evidence holds a word that the others lack, and the answer occurs nowhere
else. Of two passages neither names the other's page: only the row connects them.

`table_text` takes its questions from `find_evidence`; `hybridqa_graph` uses the checks of answers and wordings alone.
The patterns below decide which questions the built dataset has, and revision 1 runs none of those that
`is_of_another_kind` and `states_otherwise` use.
"""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.building.ska_bench import hybridqa
from kbbench_hf.building.ska_bench.name_matching import (
    WordWeights,
    capitalized_words,
    content_words,
    is_found_by_cells,
    mentions_name,
    normal_name,
)
from kbbench_hf.text.dates import MONTH_NUMBER
from kbbench_hf.text.words import WORD

MOST_WORDS = 6
"""The most words of an answer: a model would not write a longer one in just the same way."""
MOST_BRIDGE_HITS = 3
"""The most passages of a table that may hold the words of a second passage."""
LEAST_WORDS = 4
"""The fewest words of a question that names nothing."""
MARGIN = math.log(3)
"""How much more the evidence's words must weigh: one word that a third of the passages has."""
_THING = re.compile(
    r"\b(?:what(?:'s| is| was| are| were)(?: the)?(?: full)?(?: names? of(?: the)?)?|which|what) ([a-z]+)\b",
    re.IGNORECASE,
)
"""What a question asks for by name: the noun after "what is the name of the", "which" or "what"."""
_DATE_ASKED = re.compile(r"(?i)^when\b|\bwhen (?:was|did|were|is)\b|\b(?:what|which)(?: \w+){0,4} (?:date|year)s?\b")
_DATED = re.compile(rf"(?i)\b(?:1\d|20)\d\d|\b\d\d?(?:st|nd|rd|th) century|\b(?:{'|'.join(MONTH_NUMBER)})")
_GUESSED = re.compile(r"\bgood chance\b|\b(?:probably|likely)\b|^What is an? \w+ for an? ")
"""Questions whose answer is a guess, or one example of several."""
_THING_ITSELF = re.compile(r"\. It (?:is|was|has|had)\b")
"""What a page says of a thing, and not of a person."""
_PLACES = re.compile(
    r"(?i)\b(?:city|town|capital|seat|location|country|county|province|region|hometown|stadium|venue)$"
)
_MEASURE = re.compile(r"(?i)\b(?:area|diameter|length|height|capacity|population|depth|elevation|weight|speed)\b")
_ROLE = re.compile(
    r"(?i)\b(?:manager|(?:head )?coach|captain|president|chair(?:man)?|owner|mayor|governor|principal|director|editor"
    r"|minister|leader|commander|ceo)\b"
)
_NAME = r"[A-Z][\w'’-]+(?: (?:(?:of|de|van|von) )?[A-Z][\w'’-]+)*"
_JOINS = rf"(?:, {_NAME})*,? (?:and|or|as well as)(?: (?:in|at|of|the|by|for|with|an?))* "
_COMPASS = "(?:[A-Z][a-z]+-)?(?:North|South|East|West|Central|Middle)(?:east|west)?(?:ern)?"
_RIVALS = (
    (r"(?:which|what)(?: \w+){0,2} (?:region|part|area) of(?-i: [A-Z])", rf"\b{_COMPASS}[ -][A-Z]\w+"),
    (r"(?:first|middle|last|full|birth|maiden|real|given) name|surname", rf"\b(?:born|née?) ({_NAME})(?=[;,)])"),
    (r"(?:which|what) (?:school|college)", rf"({_NAME} (?:College|University|School))"),
    (r"nickname", rf"\b(?:nicknamed|dubbed|(?:also known|referred to) as)(?: simply)?(?: the)? \"?({_NAME})"),
)
"""Pairs of patterns: what a question may ask for, and what a page says of the same kind."""
_PERIOD, _YEAR = re.compile(r"(?i)^(?:years?|seasons?|dates?)$"), re.compile(r"\b(?:1\d|20)\d\d\b")
_YOUNGEST = 10
"""The least age in years of a person in a list: a page about a younger one is a namesake's."""
_CODE, _CODE_ASKED = re.compile(r"[A-Z]{1,2}[ -]?\d{2,}"), re.compile(r"(?i)\b(?:codes?|numbers?|designation|model)\b")
"""Answers that are a letter or two and a number, and what asks for such codes."""
_CUT_OFF = re.compile(r"(?:[A-Z]\.)+[A-Z]")
"""Initials whose last period was cut off with the name after them."""
_ASKED = r"(?i)\b(?:which|what)(?: (?:is|was|are|were))?(?: the)?(?: (?:title|name)s? of(?: the)?)?"
_HOW_MANY = re.compile(r"(?i)\bhow many (\w{4,})")
_SETTING = re.compile(r"\bsetting\b"), re.compile(r"\b(?:set|setting|takes? place|follows?|lives?|living)\b")
"""What asks for the setting of a work, and what a sentence says that states it."""
_WORK = r"films?|movies?|songs?|albums?|books?|novels?"
_WORKS = (
    re.compile(rf"{_ASKED} (?:work|{_WORK})\b"),
    re.compile(rf"\b(?:directorial|performances in|for|{_WORK}) {_NAME}|\(\d{{4}}\)"),
)
_MEMBERS = (
    re.compile(rf"{_ASKED} (?:person|player|student|graduate|alumn\w+)\b"),
    re.compile(r"\balumn\w+ (?:is|are|includ\w+) "),
)
"""Pairs of patterns: what asks for others of a kind, and what a page says that lists them."""
_ONE_OF_CLASS = re.compile(r"\b([a-z]{4,}) (?:[A-Z][\w-]*|\d\S*)(?: \(.*\))?$")
"""A title that is the name of one thing: "Dutch ship Eagle (1900)"."""
_DANGLES = re.compile(r"\bthis\b", re.IGNORECASE)
"""What is meant is outside the question."""
_COMPARES = re.compile(
    r"\b(first|last|most|least|more|less|fewer|than|earliest|latest|oldest|youngest|highest|lowest|largest|smallest"
    r"|longest|shortest|biggest|both|between|or|times|before|after|second|third|not|only|all|every|each)\b",
    re.IGNORECASE,
)


class QuestionEvidence(NamedTuple):
    """A question with its evidence: the numbers of its rows, and the links of its passages."""

    id: str
    question: str
    answer: str
    aliases: Cells
    table: str
    rows: tuple[int, ...]
    links: Cells
    answer_columns: tuple[int, ...]
    """The columns that rejection twins empty: those with the answer, or with a link to its passage."""
    method: str
    found_by_cells: bool = False
    """Whether a search for the question's cells finds its rows."""
    is_joined: bool = True
    """Whether nothing but its rows connects its passages; otherwise a row may not be needed."""


class TableWords:
    """A table with the stems of its rows and passages (`content_words`)."""

    def __init__(self, table: hybridqa.LinkedTable) -> None:
        self.table = table
        self.weights = WordWeights(table.passages.values())
        self.frame = content_words(" ".join([table.title, table.section, *table.header]))
        self.rows = [content_words(" ".join(row)) for row in table.rows]
        self.links = [tuple(dict.fromkeys(link for cell in row for link in cell)) for row in table.links]
        self.passages = {
            link: content_words(f"{hybridqa.title_of(link)} {text}") for link, text in table.passages.items()
        }
        self.linking: defaultdict[str, list[int]] = defaultdict(list)
        """The rows that link to each passage."""
        for n, links in enumerate(self.links):
            for link in links:
                self.linking[link].append(n)


def find_evidence(
    question: hybridqa.HybridQuestion, words: TableWords, revision: int = NEWEST
) -> QuestionEvidence | None:
    """Return a question with the row and the passages that it needs, or None where its words do not settle them.

    From revision 2 of the construction on, its answer is of the kind that it asks for, and no page states another one.
    """
    text, answer, row, table = question.text, question.answer, question.row, words.table
    if revision > 1 and (is_of_another_kind(question, table) or states_otherwise(question, table)):
        return None
    if mentions_name(text, answer) or "°" in answer or len(answer.split()) > MOST_WORDS or _DANGLES.search(text):
        return None
    links = _needed_passages(question, words)
    if not links or len(links) > 2 or any(words.linking[link] != [row] for link in links):
        return None
    passages = [table.passages[link] for link in links]
    if not all(any(mentions_name(passage, phrase) for passage in passages) for phrase in comparisons(text)):
        return None
    is_joined = len(links) == 1 or not hybridqa.pages_name_each_other(table, *links)
    if not _is_settled(question, links, words, is_joined=is_joined):
        return None
    names = [name for link in links for name in (hybridqa.title_of(link), hybridqa.name_of(link))]
    is_title = normal_name(names[-1]) == normal_name(answer)
    return QuestionEvidence(
        f"hybridqa-{question.id}",
        text,
        answer,
        tuple(dict.fromkeys(names)) if is_title else (),
        question.table,
        (row,),
        links,
        _answer_columns(question, table),
        "trace:answer-in-table" if question.answer_in_table else "trace:answer-in-passage",
        is_found_by_cells(text, [table.rows[row]], [cells for n, cells in enumerate(table.rows) if n != row]),
        is_joined,
    )


def _answer_columns(question: hybridqa.HybridQuestion, table: hybridqa.LinkedTable) -> tuple[int, ...]:
    """Return the columns whose cell gives the answer, or leads to the passage that does; from left to right."""
    names, pages = [question.answer, *map(hybridqa.name_of, question.answer_passages)], {*question.answer_passages}
    cells = enumerate(zip(table.rows[question.row], table.links[question.row], strict=True))
    return tuple(
        n for n, (cell, links) in cells if pages & {*links} or any(mentions_name(cell, name) for name in names)
    )


def _needed_passages(question: hybridqa.HybridQuestion, words: TableWords) -> Cells:
    """Return the passages that a question needs; none where the answer follows elsewhere, or words fit too many."""
    row, table, answer = question.row, words.table, question.answer
    answering = [n for n, cells in enumerate(table.rows) if any(mentions_name(cell, answer) for cell in cells)]
    if question.answer_in_table:
        links = _best_passage(question, words)
        is_clear = answering == [row] and not any(_gives_answer(table.passages[n], answer) for n in links)
        if not is_clear or _is_linked_elsewhere(row, links, table) or asks_for_another_column(question, table):
            return ()
    else:
        links = question.answer_passages
        if answering or [link for link, text in table.passages.items() if mentions_name(text, answer)] != [*links]:
            return ()
    if question.bridges and question.bridge_hits > MOST_BRIDGE_HITS:
        return ()
    return tuple(dict.fromkeys([*links, *question.bridges]))


def asks_for_another_column(question: hybridqa.HybridQuestion, table: hybridqa.LinkedTable) -> bool:
    """Return whether the question asks for another column than the answer's: a club's stadium is not the club."""
    things = {word for found in _THING.findall(question.text)[:1] for word in content_words(found)}
    headers: dict[bool, set[str]] = {False: set(), True: set()}
    for header, cell in zip(table.header, table.rows[question.row], strict=True):
        headers[mentions_name(cell, question.answer)] |= content_words(header)
    return bool(things & headers[False]) and not things & headers[True]


def is_of_another_kind(question: hybridqa.HybridQuestion, table: hybridqa.LinkedTable) -> bool:
    """Return whether a question cannot mean its answer: a date that is none, a person that is a thing, a guess.

    Nor does it where the page of a place is a person's, where nothing says which one it is, as in "When was the public
    school established?", or where it asks for the one thing that the table is about, and not for what a row is about.
    """
    text, answer, needed = question.text, question.answer, {*question.answer_passages}
    headers = " ".join([table.section, *table.header])
    one = [noun for noun in _ONE_OF_CLASS.findall(table.title) if not mentions_name(headers, noun)]
    if any(re.search(rf"(?i)\b(?:the|an?|which|what) {noun}\b", text) for noun in one):
        return True
    is_no_date = _DATE_ASKED.search(text) and not _DATED.search(answer)
    is_code = _CODE.fullmatch(answer) and not _CODE_ASKED.search(text)
    if answer in ("0", "-") or is_no_date or is_code or _CUT_OFF.fullmatch(answer) or _GUESSED.search(text):
        return True
    if len(content_words(text)) < LEAST_WORDS and not capitalized_words(text):
        return True
    cells = [*zip(table.header, table.rows[question.row], table.links[question.row], strict=True)]
    linked = [(cell, link) for _, cell, links in cells for link in {*links} & {*needed, *question.bridges}]
    page_words = {n: content_words(f"{hybridqa.title_of(n)} {table.passages[n]}") for _, n in linked}
    if any(not content_words(cell) & page_words[n] for cell, n in linked):
        return True  # the page is another thing's: a hero's, where the cell is the sidekick
    pages = [table.passages[link] for link in {*needed, *question.bridges} & table.passages.keys()]
    born = [int(year) for page in pages for year in hybridqa.BORN.stated.findall(page)]
    years = [int(year) for header, cell, _ in cells if _PERIOD.search(header) for year in _YEAR.findall(cell)]
    if any(n < year + _YOUNGEST for n in years for year in born):
        return True
    places = [table.passages[n] for head, _, links in cells if _PLACES.search(head) for n in needed & {*links}]
    named = [table.passages[n] for _, cell, links in cells if mentions_name(cell, answer) for n in links]
    is_thing = named and text.startswith("Who ") and all(map(_THING_ITSELF.search, named))
    return bool(is_thing) or any(map(hybridqa.BORN.stated.search, places))


def states_otherwise(question: hybridqa.HybridQuestion, table: hybridqa.LinkedTable) -> bool:
    """Return whether a page offers another answer than the gold one.

    Of an answer in a passage that is a rival beside it (`_offers_another`), or another date of its page's entity. Of an
    answer in the table it is another number of its column, another holder of its office, or a list of others.
    """
    answer, cells = question.answer, [*zip(table.header, table.rows[question.row], strict=True)]
    own = {link for linked in table.links[question.row] for link in linked}
    if not question.answer_in_table:
        needed = {link: table.passages[link] for link in question.answer_passages if link in table.passages}
        others = [table.passages[link] for link in own - needed.keys()]
        # the page of a person dates what the person did, and not the thing that is asked about
        others = [each for page in others if not hybridqa.BORN.stated.search(page) for each in _sentences(page)]
        dated = [each for each in others if {*_YEAR.findall(each)} - {*_YEAR.findall(answer)}]
        names = [*map(hybridqa.name_of, needed)] if _DATE_ASKED.search(question.text) else []
        offers = any(_offers_another(page, question.text, answer) for page in needed.values())
        return offers or any(mentions_name(each, name) for each in dated for name in names)
    if any(_lists_others(table.passages[link], question.text) for link in own):
        return True
    headers = [header for header, cell in cells if mentions_name(cell, answer)]
    measured = " ".join(header for header in headers if _MEASURE.search(header) and re.search(r"\d", answer))
    measures = {word for word in content_words(measured) if not word.isdigit()}
    roles = {role.lower() for header in headers for role in _ROLE.findall(header)}
    names = [cell for _, cell in cells if cell[:1].isalpha() and not mentions_name(cell, answer)]
    shown = table.passages.items() if measures or roles else ()
    sentences = [(link, each) for link, text in shown for each in _sentences(text)]
    rivals = [
        each for link, each in sentences if link in own and measures & content_words(each) and re.search(r"\d", each)
    ]
    for link, each in sentences:
        if any(mentions_name(each, role) for role in roles) and not mentions_name(hybridqa.title_of(link), answer):
            rivals += [each] if link in own or any(mentions_name(each, name) for name in names) else []
    return any(not _gives_answer(sentence, answer) for sentence in rivals)


def _offers_another(page: str, question: str, answer: str) -> bool:
    """Return whether a page offers another answer of the kind that a question asks for, or the answer in a list.

    >>> _offers_another("Mali is in West Africa, in the Sahel.", "In which region of Africa is Mali?", "Sahel")
    True
    """
    for asks, states in _RIVALS if answer[:1].isupper() else ():
        rivals = re.findall(states, page) if re.search(rf"(?i)\b(?:{asks})", question) else []
        if any(not mentions_name(rival, answer) and not mentions_name(answer, rival) for rival in rivals):
            return True
    sentences = _sentences(page)
    for noun in _HOW_MANY.findall(question):
        number = rf"\b{noun[:5]}\w* (?:\w+ )?\d|\b\d[\d,.]*(?: \w+)? {noun[:5]}"
        if any(re.search(number, each) and not _gives_answer(each, answer) for each in sentences):
            return True
    asks_setting, states_setting = _SETTING
    on_answer = [each for each in sentences if mentions_name(each, answer)]
    if asks_setting.search(question) and not any(map(states_setting.search, on_answer)):
        return True
    places = [*re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w| [A-Z])", page)] if answer[:1].isupper() else []
    joined = []
    for place in places:
        before, after = page[: place.start()], page[place.end() :]
        joined.append(re.match(rf"{_JOINS}({_NAME})", after) or re.search(rf"({_NAME}){_JOINS}$", before))
    return bool(places) and all(found and not mentions_name(question, found[1]) for found in joined)


def _lists_others(page: str, question: str) -> bool:
    """Return whether a page lists others that a question may ask for: works of a person, former students of a school.

    >>> _lists_others("Bo (born 2 May 1950) directed the film Rain.", "What is the film by the director born in 1950?")
    True
    """
    if not capitalized_words(question) & content_words(page):
        return False
    works, members = (asks.search(question) and states.search(page) for asks, states in (_WORKS, _MEMBERS))
    return bool(members or (works and re.search(r"\bborn\b", page)))


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?]) ", text)


def _is_linked_elsewhere(row: int, links: Sequence[str], table: hybridqa.LinkedTable) -> bool:
    """Return whether another row has the cell that links to one of these passages: only the first may be a link."""
    cells = zip(table.rows[row], table.links[row], strict=True)
    linking = {normal_name(cell) for cell, linked in cells if set(linked) & set(links)}
    return any(normal_name(cell) in linking for n, cells in enumerate(table.rows) if n != row for cell in cells)


def _gives_answer(text: str, answer: str) -> bool:
    """Return whether a text mentions an answer, or its number where it has one: "524 km" and "524 km2" are one fact.

    >>> _gives_answer("It covers 524 km2.", "524 km"), _gives_answer("It covers 20 acres.", "524 km")
    (True, False)
    """
    return any(mentions_name(text, part) for part in (answer, *re.findall(r"\d[\d.,]*\d", answer)))


def comparisons(question: str) -> list[str]:
    """Return the words by which a question compares, each with the next word: a passage must say them, not all rows.

    >>> comparisons("Who coached the team of the second-largest city after 1990?")
    ['second largest', 'largest city', 'after 1990']
    """
    words = WORD.findall(question)
    return [" ".join(words[n : n + 2]) for n, word in enumerate(words) if _COMPARES.fullmatch(word)]


def _best_passage(question: hybridqa.HybridQuestion, words: TableWords) -> Cells:
    """Return the passage of the row that holds most of the question's words beyond the row's, or none.

    None where a passage that the row does not link to holds nearly as much.
    """
    links = words.links[question.row]
    wanted = content_words(question.text) - words.rows[question.row] - words.frame
    weights = {link: words.weights.sum(wanted & held) for link, held in words.passages.items()}
    best = max(sorted(links), key=lambda link: weights[link], default="")
    rival = max((weight for link, weight in weights.items() if link not in links), default=0.0)
    return (best,) if best and rival <= 0.85 * weights[best] else ()


def _is_settled(question: hybridqa.HybridQuestion, links: Sequence[str], words: TableWords, *, is_joined: bool) -> bool:
    """Return whether the evidence holds the question's names, each part is needed, and no other row holds as much."""
    stems, weigh = content_words(question.text), words.weights.sum
    parts = [words.rows[question.row], *(words.passages[link] for link in links)]
    held = words.frame.union(*parts)
    if not capitalized_words(question.text) <= held:
        return False
    answer = content_words(question.answer)
    for n, part in enumerate(parts):
        rest = words.frame.union(*(other for m, other in enumerate(parts) if m != n))
        holds_answer = bool(answer) and answer <= part and not answer <= rest
        connects = n == 0 and len(links) == 2 and is_joined
        if not holds_answer and not connects and weigh((stems & part) - rest) < MARGIN:
            return False
    wanted = stems - words.frame
    least = weigh(wanted & held) - MARGIN
    others = (n for n in range(len(words.rows)) if n != question.row)
    rivals = (words.rows[n].union(*map(words.passages.__getitem__, words.links[n])) for n in others)
    return all(weigh(wanted & rival) < least for rival in rivals)
