"""Which row and passages a question of HybridQA needs, where its words settle that.

People wrote the questions on a row and a passage that it links to, but which passage counts was not released. The words
of a question settle it if every name and number in it stands in the evidence, no other row with its passages holds its
words as well, each part of the evidence holds a word that the others lack, and the answer stands nowhere else. Of two
passages neither names the other's page: only the row joins them.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.building.ska_bench.evidence_words import Words, says
from kbbench_hf.building.ska_bench.hybridqa_tables import Question, Table, title_of
from kbbench_hf.building.ska_bench.table_selection import found_by_words
from kbbench_hf.text.words import WORD

MOST_WORDS = 6
"""The most words of an answer: longer ones, and coordinates, nobody writes in just that way."""
MOST_BRIDGE_HITS = 3
"""In how many of a table's passages the words of a second passage may stand."""
MARGIN = math.log(3)
"""How much more the evidence's words must weigh: one word that a third of the passages has."""
_ASKED = re.compile(
    r"\b(?:what(?:'s| is| was| are| were)(?: the)?(?: full)?(?: names? of(?: the)?)?|which|what) ([a-z]+)\b",
    re.IGNORECASE,
)
_DANGLES = re.compile(r"\bthis\b", re.IGNORECASE)
"""What is meant stands outside of the question."""
_COMPARES = re.compile(
    r"\b(first|last|most|least|more|less|fewer|than|earliest|latest|oldest|youngest|highest|lowest|largest|smallest"
    r"|longest|shortest|biggest|both|between|or|times|before|after|second|third|not|only|all|every|each)\b",
    re.IGNORECASE,
)


class Found(NamedTuple):
    """A question with its evidence: rows, and links of passages."""

    id: str
    question: str
    answer: str
    aliases: Cells
    table: str
    rows: tuple[int, ...]
    links: tuple[str, ...]
    told_in: tuple[int, ...]
    """The columns whose cell gives the answer, or leads to the passage that does."""
    method: str
    by_words: bool = False
    """Whether a search for the question's cells finds its rows."""
    is_joined: bool = True
    """Whether nothing but its rows joins its passages; otherwise a row may not be needed."""

    @property
    def size(self) -> int:
        """How many units it needs."""
        return len(self.rows) + len(self.links)


class Sheet:
    """A table with what its rows and passages say, in words."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.words = Words(table.passages.values())
        self.frame = self.words.of(" ".join([table.title, table.section, *table.header]))
        self.rows = [self.words.of(" ".join(row)) for row in table.rows]
        self.links = [tuple(dict.fromkeys(link for cell in row for link in cell)) for row in table.links]

    @cached_property
    def passages(self) -> dict[str, frozenset[str]]:
        """Return the words of each passage with its title."""
        return {link: self.words.of(f"{title_of(link)} {text}") for link, text in self.table.passages.items()}

    @cached_property
    def linking(self) -> Mapping[str, list[int]]:
        """Return the rows that link to each passage."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for n, links in enumerate(self.links):
            for link in links:
                rows[link].append(n)
        return rows


def evidence(question: Question, sheet: Sheet) -> Found | None:
    """Return a question with the row and the passages that it needs, or None where its words do not settle them."""
    if says(question.text, question.answer) or "°" in question.answer or len(question.answer.split()) > MOST_WORDS:
        return None
    if _DANGLES.search(question.text):
        return None
    row, asked = question.row, sheet.words.of(question.text)
    links = _links(question, asked, sheet)
    passages = [sheet.table.passages[link] for link in links]
    if not links or len(links) > 2 or any(sheet.linking[link] != [row] for link in links):
        return None
    if not all(any(says(text, words) for text in passages) for words in comparisons(question.text)):
        return None
    if not _is_settled(question, asked, links, sheet):
        return None
    others = [cells for n, cells in enumerate(sheet.table.rows) if n != row]
    titles = [name for link in links for name in (title_of(link), title_of(link).partition(" (")[0])]
    aliases = tuple(dict.fromkeys(name for name in titles if normal_name(titles[-1]) == normal_name(question.answer)))
    return Found(
        f"hybridqa-{question.id}",
        question.text,
        question.answer,
        aliases,
        question.table,
        (row,),
        links,
        _told_in(question, sheet.table),
        "trace:answer-in-table" if question.answer_in_table else "trace:answer-in-passage",
        found_by_words(question.text, [sheet.table.rows[row]], others),
        len(links) == 1 or not _name_each_other(links, sheet),
    )


def _told_in(question: Question, table: Table) -> tuple[int, ...]:
    """Return the columns whose cell in the question's row says the answer, or links to or names a page that does."""
    names = [question.answer, *(title_of(link).partition(" (")[0] for link in question.answer_passages)]
    cells = zip(table.rows[question.row], table.links[question.row], strict=True)
    return tuple(
        column
        for column, (cell, linked) in enumerate(cells)
        if set(linked) & set(question.answer_passages) or any(says(cell, name) for name in names)
    )


def _links(question: Question, asked: frozenset[str], sheet: Sheet) -> tuple[str, ...]:
    """Return the passages that a question needs; none where the answer follows elsewhere, or words fit too many."""
    row = question.row
    answering = [n for n, cells in enumerate(sheet.table.rows) if any(says(cell, question.answer) for cell in cells)]
    if question.answer_in_table:
        links = _best_passage(asked, row, sheet)
        if (
            answering != [row]
            or _is_named_elsewhere(row, links, sheet)
            or any(_gives(sheet.table.passages[link], question.answer) for link in links)
            or asks_for_another_column(question, sheet.table)
        ):
            return ()
    else:
        links = question.answer_passages
        if answering or [link for link, text in sheet.table.passages.items() if says(text, question.answer)] != [
            *links
        ]:
            return ()
    if question.bridges and question.bridge_hits > MOST_BRIDGE_HITS:
        return ()
    return tuple(dict.fromkeys([*links, *question.bridges]))


def asks_for_another_column(question: Question, table: Table) -> bool:
    """Say whether the thing that is asked for is that of another column: a club's stadium is not the club."""
    words = Words([])
    asked = {word for found in _ASKED.findall(question.text)[:1] for word in words.of(found)}
    headers: dict[bool, set[str]] = {False: set(), True: set()}
    for header, cell in zip(table.header, table.rows[question.row], strict=True):
        headers[says(cell, question.answer)] |= words.of(header)
    return bool(asked & headers[False]) and not asked & headers[True]


def _is_named_elsewhere(row: int, links: Sequence[str], sheet: Sheet) -> bool:
    """Say whether another row has the cell that links to one of these passages: only the first may be a link."""
    linking = {
        normal_name(cell)
        for cell, linked in zip(sheet.table.rows[row], sheet.table.links[row], strict=True)
        if set(linked) & set(links)
    }
    return any(normal_name(cell) in linking for n, cells in enumerate(sheet.table.rows) if n != row for cell in cells)


def _gives(text: str, answer: str) -> bool:
    """Say whether a text mentions an answer, or its number where it has one: "524 km" and "524 km2" are one fact.

    >>> _gives("It covers 524 km2.", "524 km"), _gives("It covers 20 acres.", "524 km")
    (True, False)
    """
    numbers = re.findall(r"\d[\d.,]*\d", answer)
    return says(text, answer) or any(says(text, number) for number in numbers)


def comparisons(question: str) -> list[str]:
    """Return the words by which a question compares, each with the next word: a passage must say them, not all rows.

    >>> comparisons("Who coached the team of the second-largest city after 1990?")
    ['second largest', 'largest city', 'after 1990']
    """
    words = WORD.findall(question)
    return [" ".join(words[n : n + 2]) for n, word in enumerate(words) if _COMPARES.fullmatch(word)]


def _best_passage(asked: frozenset[str], row: int, sheet: Sheet) -> tuple[str, ...]:
    """Return the passage of the row that holds most of the question's words beyond the row's, if it tops the table."""
    wanted = asked - sheet.rows[row] - sheet.frame
    weights = {link: sheet.words.weight(wanted & words) for link, words in sheet.passages.items()}
    best = max(sorted(sheet.links[row]), key=lambda link: weights[link], default="")
    rival = max((weight for link, weight in weights.items() if link not in sheet.links[row]), default=0.0)
    return (best,) if best and rival <= 0.85 * weights[best] else ()


def _is_settled(question: Question, asked: frozenset[str], links: Sequence[str], sheet: Sheet) -> bool:
    """Say whether the evidence holds what the question names, each part is needed, and no other row holds as much."""
    row = question.row
    parts = [sheet.rows[row], *(sheet.passages[link] for link in links)]
    held = sheet.frame.union(*parts)
    if not sheet.words.named(question.text) <= held:
        return False
    answer = sheet.words.of(question.answer)
    for n, part in enumerate(parts):
        rest = sheet.frame.union(*(other for m, other in enumerate(parts) if m != n))
        holds_answer = bool(answer) and answer <= part and not answer <= rest
        joins = n == 0 and len(links) == 2 and not _name_each_other(links, sheet)
        if not holds_answer and not joins and sheet.words.weight((asked & part) - rest) < MARGIN:
            return False
    wanted = asked - sheet.frame
    score = sheet.words.weight(wanted & held)
    rivals = (
        sheet.words.weight(wanted & sheet.rows[n].union(*(sheet.passages[link] for link in sheet.links[n])))
        for n in range(len(sheet.rows))
        if n != row
    )
    return all(rival < score - MARGIN for rival in rivals)


def _name_each_other(links: Sequence[str], sheet: Sheet) -> bool:
    """Say whether one of two passages names the other's page."""
    titles = [title_of(link).partition(" (")[0] for link in links]
    return any(says(sheet.table.passages[link], title) for link, title in zip(links, reversed(titles), strict=True))
