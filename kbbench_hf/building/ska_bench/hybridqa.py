"""HybridQA's questions on OTT-QA's tables with linked passages, and the numbers that the passages state.

The released text is tokenized ("Tom 's horse , in 1945"); question, answer, cells and passages are detokenized here.
`hybridqa_graph` (kg_text) and `table_text` share the tables by halves, and compose questions from the stated numbers.

The patterns of repairs, numbers and headers decide which questions there are and how they are worded: a change of one
alters the built dataset.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, clean
from kbbench_hf.building.ska_bench.name_matching import mentions_name, normal_name
from kbbench_hf.building.ska_bench.source_files import DataSource, JsonKind, join_tokens, read_json_lines
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

SOURCE = DataSource(
    "HybridQA", "wenhuchen/HybridQA @db22fda, wenhuchen/OTT-QA @b289bcc", "MIT; text Wikipedia, CC BY-SA"
)
TABLES, QUESTIONS = "hybridqa_tables.jsonl.gz", "hybridqa_questions.jsonl.gz"
_PERSON = re.compile(r"[A-Z]\S*(?: [A-Z]\S*)+")
"""Two capitalized words or more: an answer that lists such names has several items."""
_FULL_DATE = r"(?:\d{1,2} [A-Z][a-z]+ |[A-Z][a-z]+ \d{1,2}, )(\d{4})"
_NOUN = re.compile(r"[A-Z][A-Za-z' -]*(?:[^s]|ss)$")
"""A header in the singular: one that names a single entity in each cell."""
_REPAIRS = (
    (re.compile(r"\b(the|of|in|a|to|is) \1\b"), r"\1"),
    (re.compile(r"\ban (?=[bcdfgjklmnpqrstvwxyz][a-z]*\b)"), "a "),
    (re.compile(r"\bwho's (?=\w+(?: \w+){0,2} (?:is|are|was|were)\b)"), "whose "),
    (re.compile(r"^[Ww]ho (?=(?:is|was) the (?:\w+ )?(?:title|name)\b)"), "What "),
    (re.compile(r"^[Ww]ho (?=many\b)"), "How "),
)
"""What is wrong in questions by people -> what they mean; applied in this order."""
_BUILT = re.compile(r"^(\d{4}) (?:built|opened|founded|established)$")
"""An answer that is a year with a word of its cell; the year alone is the answer."""
_LOWER, COMMON = re.compile(r"(?<![\w-])[a-z]{3,}(?![\w-])"), 5
"""A word in lower case, and in how many passages it is common."""
_NO_ROLE = re.compile(
    r"(?i)^other|\b(?:from|to|by|at|in|with|on|first|second|third|\d\w*|cast|roles?|affiliation|\w+ed)\b"
)
"""Words of headers that do not say what an entity is: who was eliminated, or what an actor played."""
_NO_NOUN = re.compile(
    r"\b(?:from|to|by|at|in|with|on|via|nationality|country|nation|nominees?|third|second|first)\b", re.IGNORECASE
)
"""Words of headers whose cells are no entities with a number of their own."""


class LinkedTable(NamedTuple):
    """A table whose cells link to passages; every row has as many cells as the header."""

    name: str
    title: str
    section: str
    header: Cells
    rows: tuple[Cells, ...]
    links: tuple[tuple[Cells, ...], ...]
    """For each cell: the links whose passages are there, without repetition."""
    passages: Mapping[str, str]
    """Link -> text, by link; none is empty."""


class HybridQuestion(NamedTuple):
    """A question whose answer lies in one row of a table, or in a passage that the row links to."""

    id: str
    text: str
    answer: str
    table: str
    row: int
    quoted: tuple[int, ...]
    """The columns whose cell in the row is quoted in the question."""
    answer_passages: Cells
    """The links of the row whose passages hold the answer; empty where it is a cell's."""
    bridges: Cells
    """Links of the row whose passages hold words of the question that nothing else in the evidence does."""
    bridge_hits: int
    """How many of the table's passages hold them as well as those do."""
    answer_in_table: bool


def title_of(link: str) -> str:
    """Return the title of the page behind a link.

    >>> title_of("/wiki/Saving_Grace_(TV_series)")
    'Saving Grace (TV series)'
    """
    return clean(link.removeprefix("/wiki/").replace("_", " "))


def name_of(link: str) -> str:
    """Return the title of the page behind a link, without a qualifier: "Saving Grace"."""
    return title_of(link).partition(" (")[0]


def split_answers(answer: str) -> list[str]:
    """Return the items of an answer that lists people, or three things and more; otherwise the answer alone.

    >>> split_answers("Jennifer Aniston and Paul Rudd"), split_answers("strawberries, apples, lettuce")
    (['Jennifer Aniston', 'Paul Rudd'], ['strawberries', 'apples', 'lettuce'])
    >>> split_answers("paranoia and delirium"), split_answers("New York City, New York")
    (['paranoia and delirium'], ['New York City, New York'])
    """
    parts = re.split(r", and | and |, ", answer)
    several = " and " in answer or answer.islower()
    return parts if several and (len(parts) > 2 or all(map(_PERSON.fullmatch, parts))) else [answer]


_TABLE_FIELDS: Mapping[str, JsonKind] = {
    "table": str,
    "title": str,
    "section": str,
    "header": [str],
    "rows": [list],
    "passages": dict,
}
_QUESTION_FIELDS: Mapping[str, JsonKind] = {
    "id": str,
    "question": str,
    "answer": str,
    "table": str,
    "row": int,
    "row_cells_quoted": [int],
    "answer_passages": [str],
    "bridge_passages": [str],
    "bridge_hits_in_table": int,
    "answer_in_table": bool,
}
"""In the order of the fields of `HybridQuestion`."""


def read_questions(folder: Path, revision: int = NEWEST) -> tuple[list[HybridQuestion], dict[str, LinkedTable]]:
    """Return the questions by id, from revision 2 of the construction on in good form, and the tables by name.

    The links of a question may be absent from its table, where the release has no text of them.

    Raises:
        DataError: a file is absent or malformed, or a question names a table or a row that is not there.
    """
    tables = {row["table"]: _table(row) for row in read_json_lines(folder / TABLES, _TABLE_FIELDS)}
    questions = []
    for row in read_json_lines(folder / QUESTIONS, _QUESTION_FIELDS):
        table = tables.get(row["table"])
        if table is None or not 0 <= row["row"] < len(table.rows):
            raise DataError(f"{row['id']} needs row {row['row']} of {row['table']!r}, which {TABLES} does not have.")
        values = (join_tokens(row[name]) if name in ("question", "answer") else row[name] for name in _QUESTION_FIELDS)
        question = HybridQuestion._make(tuple(each) if isinstance(each, list) else each for each in values)
        if revision > 1:
            question = question._replace(text=repair_wording(question.text), answer=_BUILT.sub(r"\1", question.answer))
        questions.append(question)
    return sorted(questions, key=lambda question: question.id), dict(sorted(tables.items()))


def assign_subsets(questions: Sequence[HybridQuestion]) -> dict[str, str]:
    """Return the subset of each table that has questions: `kg_text` or `table_text`, halves by the hash of its name."""
    draws = {name: seeded_hash(f"subset|{name}")[0] for name in sorted({each.table for each in questions})}
    return {name: "table_text" if draw < 128 else "kg_text" for name, draw in draws.items()}


def _table(row: Row) -> LinkedTable:
    """Return a stored table with its texts detokenized, and without links and passages of no text."""
    try:
        passages = {link: text for link, tokens in sorted(row["passages"].items()) if (text := join_tokens(tokens))}
        rows = tuple(tuple(join_tokens(text) for text, _ in cells) for cells in row["rows"])
        links = tuple(
            tuple(tuple(dict.fromkeys(link for link in linked if link in passages)) for _, linked in cells)
            for cells in row["rows"]
        )
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{row['table']}: a cell is not [text, links], or a passage no text ({error}). Get {TABLES} again."
        ) from error
    header = tuple(map(join_tokens, row["header"]))
    if any(len(cells) != len(header) for cells in rows):
        raise DataError(f"{row['table']}: a row has not {len(header)} cells, as the header has. Get {TABLES} again.")
    title, section = join_tokens(row["title"]), join_tokens(row["section"])
    return LinkedTable(row["table"], title, section, header, rows, links, passages)


def repair_wording(text: str) -> str:
    """Return a question in good form, with a capital; the empty one stays empty.

    >>> repair_wording("who many people live in the the town who's tower is red?")
    'How many people live in the town whose tower is red?'
    """
    for pattern, replacement in _REPAIRS:
        text = pattern.sub(replacement, text)
    return f"{text[:1].upper()}{text[1:]}"


class NumberKind(NamedTuple):
    """A number that passages state of their entity, and its wordings in questions."""

    stated: re.Pattern[str]
    """Its one group is the number as it is written."""
    noun: str
    """What its entity is called under the header "Name"."""
    says: str
    """A condition on an entity; `{}` is the number."""
    asks: str
    """What asks for the number in revision 1; `{}` is what the entity is called."""
    compares: str
    """What asks which of two has the number that wins."""
    wins: Callable[[float, float], float]
    """Which of two numbers the comparison asks for: `min` or `max`."""
    least: float
    """The least difference of two that are compared, as a share of the larger number."""
    attribute: str
    """What the number is called, in questions from revision 2 on."""
    bears: str
    """How a number identifies a noun: "the club founded in 1901"."""
    headers: str
    """A pattern of headers of columns that state the number, so that the passage is not needed."""


NUMBER_KINDS = (
    NumberKind(
        re.compile(rf"^[^.]{{0,120}}\((?:[^()]*[,;] )?(?:born |b\. )?(?:on )?{_FULL_DATE}(?: ?[-–—]|\)|,| in)"),
        "person",
        "was born in {}",
        "in which year was the {} born",
        "who was born earlier",
        min,
        1 / 3000,
        "birth year",
        "born in {}",
        r"\b(?:born|birth|aged?)\b",
    ),
    NumberKind(
        re.compile(r"\bpopulation (?:of|was|is)(?: [a-z]+){0,3} (\d{1,3}(?:,\d{3})+|\d{3,})\b"),
        "place",
        "has a population of {}",
        "what is the population of the {}",
        "which has more inhabitants",
        max,
        1 / 6,
        "population",
        "with a population of {}",
        r"\bpopulation\b",
    ),
    NumberKind(
        re.compile(
            r"(?:^[^.]{0,200}|\. |\. (?:It|The \w+) was )\b(?:[Ff]ounded|[Ee]stablished)(?: [a-z]+){0,2} in "
            r"(1[5-9]\d\d|20\d\d)\b"
        ),
        "body",
        "was founded in {}",
        "in which year was the {} founded",
        "which was founded earlier",
        min,
        1 / 3000,
        "founding year",
        "founded in {}",
        r"\b(?:founded|established)\b",
    ),
)
BORN = NUMBER_KINDS[0]


class StatedNumber(NamedTuple):
    """The number that the passage behind a cell states, as it is written."""

    row: int
    column: int
    link: str
    stated: str

    @property
    def number(self) -> float:
        """The number as a float, without thousands separators."""
        return float(self.stated.replace(",", ""))


def common_words(tables: Iterable[LinkedTable]) -> frozenset[str]:
    """Return the words that the passages of tables often write in lower case: a question may call things by them."""
    texts = {text for table in tables for text in table.passages.values()}
    counts = Counter(word for text in texts for word in _LOWER.findall(text))
    return frozenset(word for word, n in counts.items() if n >= COMMON)


def spoken_header(header: str, words: Collection[str]) -> str:
    """Return a header as a question writes it, names and abbreviations as they are; empty where its noun is no word.

    >>> [spoken_header(header, {"head", "coach", "team"}) for header in ("Head Coach", "MLS team", "Conf", "Coach (s)")]
    ['head coach', 'MLS team', '', 'coach']
    """
    parts = re.sub(r" ?\(s\)$", "", header).split()
    spoken = [part.lower() if part.lower() in words else part for part in parts]
    return " ".join(spoken) if spoken and spoken[-1] in words and not _NO_ROLE.search(header) else ""


def spoken_noun(header: str, kind: NumberKind, words: Collection[str]) -> str:
    """Return what a question calls the entities of a column that have a number; empty where it has no word for them."""
    noun = spoken_header(header_noun(header, kind.noun), {*words, kind.noun})
    return "" if re.search(r"\b(?:war|battle|conflict|event|match|game|body)$", noun) else noun


def stated_numbers(table: LinkedTable) -> dict[tuple[NumberKind, int], list[StatedNumber]]:
    """Return the numbers that the passages of each column state, row by row, by kind and column.

    Only columns whose header is one singular noun count, and of them only cells that link to one page, called like the
    cell, which no other row links to. A page that states several numbers of a kind states none.
    """
    linking = Counter(link for row in table.links for link in {link for cell in row for link in cell})
    found: defaultdict[tuple[NumberKind, int], list[StatedNumber]] = defaultdict(list)
    for column, header in enumerate(table.header):
        name = header_noun(header, "")
        if not _NOUN.match(name) or _NO_NOUN.search(name) or table.header.count(header) > 1:
            continue
        for row, cells in enumerate(table.rows):
            link, *others = table.links[row][column] or ("",)
            if others or linking[link] != 1 or normal_name(name_of(link)) != normal_name(cells[column]):
                continue
            text = table.passages[link]
            # what a person founded is something else
            for kind in [BORN] if BORN.stated.search(text) else NUMBER_KINDS:
                numbers = {number.rstrip(",") for number in kind.stated.findall(text)}
                if len(numbers) == 1:
                    found[kind, column].append(StatedNumber(row, column, link, numbers.pop()))
    return found


def pages_name_each_other(table: LinkedTable, one: str, other: str) -> bool:
    """Return whether one of two passages names the page of the other."""
    return any(mentions_name(table.passages[link], name_of(page)) for link, page in ((one, other), (other, one)))


NumberPair = tuple[NumberKind, StatedNumber, NumberKind, StatedNumber]
"""Two numbers, each after its kind: the one that identifies a row, and the one to be asked for."""


def number_pairs(table: LinkedTable) -> Iterator[NumberPair]:
    """Yield the numbers of two entities of one row: one that identifies the row, and one to be asked for.

    No other passage of the table holds the first number, and neither the row nor the first passage the second; neither
    passage names the page of the other.
    """
    stated = [(kind, each) for (kind, _), numbers in stated_numbers(table).items() for each in numbers]
    for n in dict.fromkeys(each.row for _, each in stated):
        of_row = [(kind, each) for kind, each in stated if each.row == n]
        for (kind, known), (target_kind, target) in permutations(of_row, 2):
            others = [*table.rows[n], *(text for link, text in table.passages.items() if link != known.link)]
            shown = [*table.rows[n], table.passages[known.link], table.title, table.section]
            is_ambiguous = known.link == target.link or any(mentions_name(text, known.stated) for text in others)
            if is_ambiguous or any(mentions_name(text, target.stated) for text in shown):
                continue
            if not pages_name_each_other(table, known.link, target.link):
                yield kind, known, target_kind, target


def header_noun(header: str, name: str) -> str:
    """Return what a header calls its entities; `name` where the header is only "Name"."""
    noun = re.sub(r" ?\(s\)$", "", header)
    return name if name and noun == "Name" else noun
