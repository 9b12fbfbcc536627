"""The subset `table_text`: HybridQA's questions on OTT-QA's tables, with the row and the passages that each one needs.

People wrote the questions on a row and a passage that it links to, but which passage counts was not released. A
question is kept if its words settle it: every name and number in it stands in the evidence, no other row with its
passages holds its words as well, each part of the evidence holds a word that the others lack, and the answer stands
nowhere else. Two rows compared on what their passages say are composed by grammar (`composed_questions`). Questions on
three units or more, and composed ones, wait for people to read them.
"""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.construction import composed_questions
from kbbench_hf.benchmarks.ska_bench.construction.evidence_words import Words, says
from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_tables import (
    ORIGIN,
    SOURCE,
    Question,
    Table,
    read,
    subset_of,
    title_of,
)
from kbbench_hf.benchmarks.ska_bench.construction.table_selection import found_by_words
from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Pool, Release
from kbbench_hf.metrics.typed_answers import answer_type

MOST_WORDS = 12
"""The most words of an answer: longer ones, and coordinates, nobody writes in just that way."""
PER_TABLE, PER_ANSWER = 2, 4
"""The most questions on one table, and with one answer."""
BY_WORDS = 0.33
"""The largest share of questions whose row a search for the question's cells finds."""
MOST_BRIDGE_HITS = 3
"""In how many of a table's passages the words of a second passage may stand."""
COMPOSED = 30
"""How many questions are composed."""
MARGIN = math.log(3)
"""How much more the evidence's words must weigh: one word that a third of the passages has."""
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
    method: str
    by_words: bool = False

    @property
    def is_reviewed(self) -> bool:
        """Whether the release rule lets it stand without people having read it."""
        return len(self.rows) + len(self.links) == 2


def make(folder: Path) -> Release:
    """Return the instances of the subset, and the tables and passages that they are asked on.

    Raises:
        DataError: a file of the source is absent or malformed.
    """
    questions, tables = read(folder)
    subsets = subset_of(questions)
    own = [question for question in questions if subsets[question.table] == "table_text"]
    sheets = {name: Sheet(tables[name]) for name in sorted({question.table for question in own})}
    found = _chosen([each for question in own if (each := evidence(question, sheets[question.table]))])
    taken = {each.table for each in found if each.is_reviewed}
    free = {name: sheet.table for name, sheet in sheets.items() if name not in taken}
    found += [
        Found(**composed._asdict(), method="composed")
        for composed in sorted(composed_questions.compose(free), key=lambda each: _hash(each.id))[:COMPOSED]
    ]
    return _release(sorted(found), {each.table: tables[each.table] for each in sorted(found)})


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
    row, asked = question.row, sheet.words.of(question.text)
    links = _links(question, asked, sheet)
    passages = [sheet.table.passages[link] for link in links]
    if not links or len(links) > 2 or any(sheet.linking[link] != [row] for link in links):
        return None
    if not all(any(says(text, words) for text in passages) for words in _comparisons(question.text)):
        return None
    if not _is_settled(question, asked, links, sheet):
        return None
    others = [tuple(cells) for n, cells in enumerate(sheet.table.rows) if n != row]
    by_words = found_by_words(question.text, [sheet.table.rows[row]], others)
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
        "trace:answer-in-table" if question.answer_in_table else "trace:answer-in-passage",
        by_words,
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


def _comparisons(question: str) -> list[str]:
    """Return the words by which a question compares, each with the next word: a passage must say them, not all rows.

    >>> _comparisons("Who coached the team of the second-largest city after 1990?")
    ['second largest', 'largest city', 'after 1990']
    """
    words = re.findall(r"[^\W_]+", question)
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
        joins = n == 0 and len(links) == 2 and not any(says(*pair) for pair in _mentions_of_titles(links, sheet))
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


def _mentions_of_titles(links: Sequence[str], sheet: Sheet) -> list[tuple[str, str]]:
    one, other = links
    texts = sheet.table.passages
    return [
        (texts[one], title_of(other).partition(" (")[0]),
        (texts[other], title_of(one).partition(" (")[0]),
    ]


def _chosen(found: Sequence[Found]) -> list[Found]:
    """Return the questions without those too many of a table or an answer, or whose row a search finds."""
    tables: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    kept: list[Found] = []
    for each in sorted(found, key=lambda each: (each.is_reviewed, each.by_words, _hash(each.id))):
        if tables[each.table] < PER_TABLE and answers[each.answer] < PER_ANSWER:
            tables[each.table] += 1
            answers[each.answer] += 1
            kept.append(each)
    others = [each for each in kept if not (each.is_reviewed and each.by_words)]
    plain = sum(each.is_reviewed for each in others)
    searched = [each for each in kept if each.is_reviewed and each.by_words]
    return others + searched[: int(plain * BY_WORDS / (1 - BY_WORDS))]


def _release(found: Sequence[Found], tables: Mapping[str, Table]) -> Release:
    text = sorted({_passage(table, link) for table in tables.values() for link in table.passages})
    numbers = {cells: n for n, cells in enumerate(text)}
    shown = {name: tuple(sorted({numbers[_passage(t, link)] for link in t.passages})) for name, t in tables.items()}
    instances = [
        Instance(
            id=each.id,
            subset="table_text",
            question=each.question,
            answers=(each.answer,),
            group=each.table,
            answer_type=answer_type(each.answer),
            answer_aliases=(each.aliases,) if each.aliases else (),
            split="test" if each.is_reviewed else "unreviewed",
            split_key=each.table,
            title=tables[each.table].title,
            positive_sk=each.rows,
            positive_text=tuple(sorted(numbers[_passage(tables[each.table], link)] for link in each.links)),
            own_text=shown[each.table],
            method=each.method,
            source=SOURCE.name,
            source_id=each.id.partition("-")[2],
            commit=SOURCE.commit,
            licence=SOURCE.licence,
        )
        for each in found
    ]
    pool = Pool(
        {name: list(table.rows) for name, table in tables.items()},
        text,
        {name: table.header for name, table in tables.items()},
        origins=dict.fromkeys(tables, ORIGIN),
        text_origins=[ORIGIN] * len(text),
    )
    return Release(instances, {"table_text": pool})


def _passage(table: Table, link: str) -> Cells:
    return title_of(link), table.passages[link]


def _hash(name: str) -> str:
    return hashlib.sha256(f"{SEED}|table_text|{name}".encode()).hexdigest()
