"""Subset `table_text`: HybridQA's questions on OTT-QA's tables, each with the row and the passages that it needs.

Most are questions that people wrote on a row and one or two passages that it links to (`hybridqa_evidence`). Where two
passages name each other, the row may not be needed beside them: such questions wait for review.

The others are composed by grammar from numbers that passages state of a table's entities, such as years and
populations. A *comparison* needs four units: two rows and the passage of each one's entity. A row is named by a cell
that no other row has in its column, or by two cells that it alone combines; a search for the question's cells does not
find just the two rows. A *chain* needs three: the passage of one entity of a row, by its number, the row, and the
passage of another entity of it, which is asked for.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.configs import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, UnitPool, counts
from kbbench_hf.building.ska_bench.hybridqa import (
    SOURCE,
    LinkedTable,
    StatedNumber,
    assign_subsets,
    header_noun,
    name_of,
    number_pairs,
    read_questions,
    split_answers,
    stated_numbers,
    title_of,
)
from kbbench_hf.building.ska_bench.hybridqa_evidence import QuestionEvidence, TableWords, find_evidence
from kbbench_hf.building.ska_bench.name_matching import is_found_by_cells, mentions_name, normal_name
from kbbench_hf.building.ska_bench.rejection_twins import empty_columns
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.metrics.typed_answers import answer_type

PER_TABLE, PER_ANSWER = 2, 4
"""The most questions on one table, and with one answer."""
BY_CELLS = 0.30
"""The largest share of questions whose rows a search for the question's cells finds."""
COMPARED, CHAINED = 0.17, 0.05
"""The shares of questions that are composed, of four units and of three: as many as SKA-Bench has with two rows."""
MOST_PAIRS, MOST_NAMES = 20, 4
"""How many pairs of rows of a column are tried, and how many ways of naming a row."""
_REMARKS = re.compile(r"note|comment|remark|reason|description|ref|result", re.IGNORECASE)
_NAME, _YEAR = re.compile(r"[A-Z][a-z]"), re.compile(r"(?:1[89]|20)\d\d$")


def make_instances(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of the subset, and the tables and passages that they are asked on.

    Raises:
        DataError: a file of the source is absent or malformed.
    """
    questions, tables = read_questions(folder)
    subsets = assign_subsets(questions)
    own = [question for question in questions if subsets[question.table] == "table_text"]
    names = sorted({question.table for question in own}, key=lambda name: seeded_hash(f"table_text|{name}"))
    words = {name: TableWords(tables[name]) for name in names}
    settled = [each for question in own if (each := find_evidence(question, words[question.table]))]
    people = _limit_repeats(settled)
    taken = {each.table for each in people}
    found = sorted(_add_composed(people, [tables[name] for name in names if name not in taken]))
    n_composed = sum(each.method == "composed" for each in found)
    steps = {
        "asked on its half of the tables": len(own),
        "their row and passages follow from their words": len(settled),
        "chosen: few of one table or answer, few that words alone find": len(found) - n_composed,
        "composed": n_composed,
    }
    instances, pool = _convert(found, {each.table: tables[each.table] for each in found})
    return InstanceSet(instances, {"table_text": pool}, counts("table_text", SOURCE.name, steps))


def _limit_repeats(found: Sequence[QuestionEvidence]) -> list[QuestionEvidence]:
    """Return the questions without those too many of a table or an answer, larger ones first."""
    tables, answers = Counter[str](), Counter[str]()
    kept = []

    def order(each: QuestionEvidence) -> tuple[int, bool, bytes]:
        return -len(each.rows) - len(each.links), each.found_by_cells, seeded_hash(f"table_text|{each.id}")

    for each in sorted(found, key=order):
        if tables[each.table] < PER_TABLE and answers[each.answer] < PER_ANSWER:
            tables[each.table] += 1
            answers[each.answer] += 1
            kept.append(each)
    return kept


def _add_composed(people: Sequence[QuestionEvidence], free: Sequence[LinkedTable]) -> Iterator[QuestionEvidence]:
    """Yield the questions without those too many that words find, and composed ones on other tables."""
    hard = [each for each in people if each.is_joined and not each.found_by_cells]
    easy = [each for each in people if each.is_joined and each.found_by_cells]
    share = 1 - COMPARED - CHAINED
    clear = hard + easy[: int(len(hard) * BY_CELLS / (share - BY_CELLS))]
    chains = list(islice(compose_chains(free), int(len(clear) * CHAINED / share)))
    taken = {each.table for each in chains}
    left = (table for table in free if table.name not in taken)
    comparisons = islice(compose_comparisons(left), int(len(clear) * COMPARED / share))
    yield from (*clear, *chains, *comparisons, *(each for each in people if not each.is_joined))


def _convert(found: Sequence[QuestionEvidence], tables: Mapping[str, LinkedTable]) -> tuple[list[Instance], UnitPool]:
    """Return the questions as instances, and the pool of their tables, with emptied rows."""
    linked = {name: {link: (title_of(link), t.passages[link]) for link in t.passages} for name, t in tables.items()}
    text = sorted({passage for passages in linked.values() for passage in passages.values()})
    numbers = {passage: n for n, passage in enumerate(text)}
    instances = []
    for each in found:
        passages = linked[each.table]
        answers = (each.answer,) if each.aliases else tuple(split_answers(each.answer))
        instances.append(
            Instance(
                id=each.id,
                subset="table_text",
                question=each.question,
                answers=answers,
                group=each.table,
                answer_type=answer_type(answers[0]),
                answer_aliases=(each.aliases,) if each.aliases else (),
                split="test" if each.is_joined else "unreviewed",
                split_key=each.table,
                title=tables[each.table].title,
                positive_sk=each.rows,
                positive_text=tuple(sorted(numbers[passages[link]] for link in each.links)),
                own_text=tuple(sorted({numbers[passage] for passage in passages.values()})),
                method=each.method,
                **SOURCE.fields(each.id.partition("-")[2]),
            )
        )
    pool = UnitPool(
        {name: list(table.rows) for name, table in tables.items()},
        text,
        {name: table.header for name, table in tables.items()},
        origins=dict.fromkeys(tables, SOURCE.origin),
        text_origins=[SOURCE.origin] * len(text),
    )
    return empty_columns({each.id: each.answer_columns for each in found}, instances, pool)


def compose_comparisons(tables: Iterable[LinkedTable]) -> Iterator[QuestionEvidence]:
    """Yield at most one comparison on each table."""
    return _one_per_table(tables, _comparisons)


def compose_chains(tables: Iterable[LinkedTable]) -> Iterator[QuestionEvidence]:
    """Yield at most one chain on each table."""
    return _one_per_table(tables, _chains)


def _one_per_table(
    tables: Iterable[LinkedTable], compose: Callable[[LinkedTable], Iterator[QuestionEvidence]]
) -> Iterator[QuestionEvidence]:
    for table in tables:
        if found := list(compose(table)):
            yield min(found, key=lambda each: seeded_hash(f"composed|{each.question}"))


def _comparisons(table: LinkedTable) -> Iterator[QuestionEvidence]:
    for (kind, column), numbers in stated_numbers(table).items():
        for one, other in islice(combinations(numbers, 2), MOST_PAIRS):
            most = max(one.number, other.number)
            if one.link == other.link or abs(one.number - other.number) <= most * kind.least:
                continue
            winner = one if kind.wins(one.number, other.number) == one.number else other
            answer, both = table.rows[winner.row][column], [table.rows[each.row] for each in (one, other)]
            rest = [cells for n, cells in enumerate(table.rows) if n not in (one.row, other.row)]
            what = header_noun(table.header[column], kind.noun)
            for first, second in product(_row_names(table, one), _row_names(table, other)):
                question = f"{kind.compares}: the {what} where {first}, or the one where {second}"
                made = _compose(table, question, answer, (one, other), (title_of(winner.link), name_of(winner.link)))
                if not mentions_name(made.question, answer) and not is_found_by_cells(made.question, both, rest):
                    columns = (n for n, cell in enumerate(table.rows[winner.row]) if mentions_name(cell, answer))
                    yield made._replace(answer_columns=tuple(columns))


def _chains(table: LinkedTable) -> Iterator[QuestionEvidence]:
    for kind, known, target_kind, target in number_pairs(table):
        wanted = target_kind.asks.format(header_noun(table.header[target.column], target_kind.noun))
        condition = f"the {header_noun(table.header[known.column], kind.noun)} {kind.says.format(known.stated)}"
        made = _compose(table, f"{wanted} in whose row {condition}", target.stated, (known, target), ())
        yield made._replace(answer_columns=(target.column,))


def _compose(
    table: LinkedTable, question: str, answer: str, numbers: Sequence[StatedNumber], aliases: Cells
) -> QuestionEvidence:
    rows, links = tuple(dict.fromkeys(each.row for each in numbers)), tuple(each.link for each in numbers)
    name = "-".join(map(str, ["hybridqa", table.name, *rows]))
    text = f'In the table "{table.title}", {question}?'
    return QuestionEvidence(name, text, answer, aliases, table.name, rows, links, (), "composed")


def _row_names(table: LinkedTable, number: StatedNumber) -> list[str]:
    """Return conditions that identify a row: "School is Tampa", or two that other rows meet as well, but not both.

    Cells that the passage of its entity mentions identify nothing: the row would not be needed.
    """
    fit = [
        (n, cell)
        for n, cell in enumerate(table.rows[number.row])
        if n != number.column and _is_fit(table, n, cell) and not mentions_name(table.passages[number.link], cell)
    ]
    holding = {
        n: {m for m, cells in enumerate(table.rows) if normal_name(cells[n]) == normal_name(cell)} for n, cell in fit
    }
    conditions = {n: f"{table.header[n]} is {cell}" for n, cell in fit}
    names = [conditions[n] for n, cell in fit if len(holding[n]) == 1 and _NAME.match(cell)]
    names += [
        f"{conditions[one]} and {conditions[other]}"
        for one, other in combinations(conditions, 2)
        if len(holding[one]) > 1 < len(holding[other]) and len(holding[one] & holding[other]) == 1
    ]
    return sorted(names, key=lambda name: seeded_hash(f"composed|{name}"))[:MOST_NAMES]


def _is_fit(table: LinkedTable, column: int, cell: str) -> bool:
    """Return whether a cell may name its row: a short name or a year, under a header that occurs once."""
    header = table.header[column]
    is_header_clear = bool(header) and table.header.count(header) == 1 and not _REMARKS.search(header)
    return is_header_clear and 1 < len(cell) <= 40 and bool(_NAME.match(cell) or _YEAR.match(cell))
