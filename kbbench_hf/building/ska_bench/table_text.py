"""Subset `table_text`: HybridQA's questions on OTT-QA's tables, each with the row and the passages that it needs.

Most are questions that people wrote on a row and one or two passages that it links to (`hybridqa_evidence`). Where two
passages name each other, the row may not be needed beside them: such questions wait for review.

The others are composed by grammar from numbers that passages state of a table's entities, such as years and
populations. A *comparison* needs four units: two rows and the passage of each one's entity. A row is named by a cell
that no other row has in its column, or by two cells that it alone combines; a search for the question's cells does not
find just the two rows. A *chain* needs three: the passage of one entity of a row, by its number, the row, and the
passage of another entity of it, which is asked for.

`sources` makes the subset with `make_instances`. One question more or less changes which others are chosen, and the
composed ones: any change needs a new revision.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from pathlib import Path
from types import MappingProxyType

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, UnitPool, counts
from kbbench_hf.building.ska_bench import hybridqa
from kbbench_hf.building.ska_bench.emptied_rows import empty_columns
from kbbench_hf.building.ska_bench.hybridqa import BORN, LinkedTable, NumberKind, StatedNumber, spoken_noun
from kbbench_hf.building.ska_bench.hybridqa_evidence import QuestionEvidence, TableWords, find_evidence
from kbbench_hf.building.ska_bench.name_matching import content_words, is_found_by_cells, mentions_name, normal_name
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.metrics.answers import answer_type

PER_TABLE, PER_ANSWER = 2, 4
"""The most questions on one table, and with one answer; composed ones may be a third and fourth from revision 2 on."""
BY_CELLS = 0.30
"""The largest share of questions whose rows a search for the question's cells finds."""
COMPARED, CHAINED, NEWER_CHAINED = 0.17, 0.05, 0.1
"""The shares of questions that are composed, of four units and of three: as many as SKA-Bench has with two rows.

From revision 2 of the construction on more are chains, because fewer questions by people are clear.
"""
MOST_PAIRS, MOST_NAMES = 20, 4
"""How many pairs of rows of a column are tried (ten times as many from revision 2 on), and ways of naming a row."""
_REMARKS = re.compile(r"note|comment|remark|reason|description|ref|result", re.IGNORECASE)
_UNSPOKEN = re.compile(r"[(&/;+]|, .*,| (?:and|or) |^(?:Unknown|None|No|Yes|TB[AC]|N/A)\b|[.,]$")
"""Cells that are lists or remarks, or say nothing."""
_DAY = re.compile(r"\d.*[A-Z][a-z]{2}|[A-Z][a-z]{2}.* \d")
_TIME = re.compile(r"^(?:date|year|season)$")
_OWN = re.compile(
    r"^(?:high )?(?:school|college|university|team|club|position|nationality|country|party|rank|hometown)$"
)
"""Headers of what belongs to an entity itself, and not to what a row is about."""
Words = Collection[str] | None
"""Common words, by which questions are worded; None where they are worded as in revision 1."""
Compose = Callable[[LinkedTable, Words], Iterator[QuestionEvidence]]
_NAME, _YEAR = re.compile(r"[A-Z][a-z]"), re.compile(r"(?:1[89]|20)\d\d$")


def make_instances(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of the subset, and the tables and passages that they are asked on.

    Raises:
        DataError: a file of the source is absent or malformed.
    """
    questions, tables = hybridqa.read_questions(folder, revision)
    subsets = hybridqa.assign_subsets(questions)
    own = [question for question in questions if subsets[question.table] == "table_text"]
    names = sorted({question.table for question in own}, key=lambda name: seeded_hash(f"table_text|{name}"))
    words = {name: TableWords(tables[name]) for name in names}
    settled = [each for question in own if (each := find_evidence(question, words[question.table], revision))]
    people = _limit_repeats(settled)
    n_asked = Counter(each.table for each in people)
    common, most = None, {name: int(not n_asked[name]) for name in names}
    if revision > 1:
        common, most = hybridqa.common_words(tables.values()), {name: PER_TABLE + 2 - n_asked[name] for name in names}
    free = [tables[name] for name in names if most[name] > 0]
    found = sorted(_add_composed(people, free, common, most))
    n_composed = sum(each.method == "composed" for each in found)
    steps = {
        "asked on its half of the tables": len(own),
        "their row and passages follow from their words": len(settled),
        "chosen: few of one table or answer, few that words alone find": len(found) - n_composed,
        "composed": n_composed,
    }
    instances, pool = _convert(found, {each.table: tables[each.table] for each in found})
    return InstanceSet(instances, {"table_text": pool}, counts("table_text", hybridqa.SOURCE.name, steps))


def _limit_repeats(found: Sequence[QuestionEvidence]) -> list[QuestionEvidence]:
    """Return the questions without those too many of a table or an answer; those that need most units come first."""
    tables, answers, kept = Counter[str](), Counter[str](), list[QuestionEvidence]()
    hashed = sorted(found, key=lambda each: seeded_hash(f"table_text|{each.id}"))
    for each in sorted(hashed, key=lambda each: (-len(each.rows) - len(each.links), each.found_by_cells)):
        if tables[each.table] < PER_TABLE and answers[each.answer] < PER_ANSWER:
            tables[each.table] += 1
            answers[each.answer] += 1
            kept.append(each)
    return kept


def _add_composed(
    people: Sequence[QuestionEvidence], free: Sequence[LinkedTable], common: Words, most: Mapping[str, int]
) -> Iterator[QuestionEvidence]:
    """Yield the questions without those too many that words find, and composed ones on other tables."""
    hard = [each for each in people if each.is_joined and not each.found_by_cells]
    easy = [each for each in people if each.is_joined and each.found_by_cells]
    chained = CHAINED if common is None else NEWER_CHAINED
    share = 1 - COMPARED - chained
    clear = hard + easy[: int(len(hard) * BY_CELLS / (share - BY_CELLS))]
    chain_questions = list(islice(compose(chains, free, common, most), int(len(clear) * chained / share)))
    taken = {each.table for each in chain_questions}
    left = (table for table in free if table.name not in taken)
    composed = [*chain_questions, *islice(compose(comparisons, left, common, most), int(len(clear) * COMPARED / share))]
    if common is not None:  # of what there is, not of what there might be
        n_hard = len(hard) + len(composed)
        clear = clear[: len(hard) + int(n_hard * BY_CELLS / (1 - BY_CELLS))]
    yield from (*clear, *composed, *(each for each in people if not each.is_joined))


def _convert(found: Sequence[QuestionEvidence], tables: Mapping[str, LinkedTable]) -> tuple[list[Instance], UnitPool]:
    """Return the questions as instances, and the pool of their tables, with emptied rows."""
    linked = {
        name: {link: (hybridqa.title_of(link), t.passages[link]) for link in t.passages} for name, t in tables.items()
    }
    text = sorted({passage for passages in linked.values() for passage in passages.values()})
    numbers = {passage: n for n, passage in enumerate(text)}
    instances = []
    for each in found:
        passages = linked[each.table]
        answers = (each.answer,) if each.aliases else tuple(hybridqa.split_answers(each.answer))
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
                **hybridqa.SOURCE.fields(each.id.partition("-")[2]),
            )
        )
    pool = UnitPool(
        {name: list(table.rows) for name, table in tables.items()},
        text,
        {name: table.header for name, table in tables.items()},
        origins=dict.fromkeys(tables, hybridqa.SOURCE.origin),
        text_origins=[hybridqa.SOURCE.origin] * len(text),
    )
    return empty_columns({each.id: each.answer_columns for each in found}, instances, pool)


def _fits(table: LinkedTable, numbers: Sequence[StatedNumber], kinds: Sequence[NumberKind]) -> bool:
    """Return whether two numbers may be asked for: no column states such numbers, and the pages fit the table.

    A page that has no word of the table or of its row is about a namesake.
    """
    frame = content_words(" ".join([table.title, table.section, *table.header]))
    for each in numbers:
        others = [cell for n, cell in enumerate(table.rows[each.row]) if n != each.column]
        known = frame | content_words(" ".join(others))
        if not known & (content_words(table.passages[each.link]) - content_words(hybridqa.name_of(each.link))):
            return False
    return not any(re.search(kind.headers, header, re.IGNORECASE) for kind in kinds for header in table.header)


def compose(
    method: Compose, tables: Iterable[LinkedTable], common: Words = None, most: Mapping[str, int] = MappingProxyType({})
) -> Iterator[QuestionEvidence]:
    """Yield `comparisons` or `chains`, one on each table, then others, on other rows, of tables with more in `most`.

    They are worded by `common_words`; as revision 1 of the construction words them where there are none.
    """
    seconds = []
    for table in tables:
        chosen: list[QuestionEvidence] = []
        for each in sorted(method(table, common), key=lambda each: seeded_hash(f"composed|{each.question}")):
            if len(chosen) < most.get(table.name, 1) and not any({*each.rows} & {*other.rows} for other in chosen):
                chosen.append(each)
        yield from chosen[:1]
        seconds += chosen[1:]
    yield from seconds


def comparisons(table: LinkedTable, common: Words) -> Iterator[QuestionEvidence]:
    """Yield questions that compare the numbers of two rows."""
    for (kind, column), numbers in hybridqa.stated_numbers(table).items():
        for one, other in islice(combinations(numbers, 2), MOST_PAIRS if common is None else 10 * MOST_PAIRS):
            most = max(one.number, other.number)
            if one.link == other.link or abs(one.number - other.number) <= most * kind.least:
                continue
            winner = one if kind.wins(one.number, other.number) == one.number else other
            answer, both = table.rows[winner.row][column], [table.rows[each.row] for each in (one, other)]
            rest = [cells for n, cells in enumerate(table.rows) if n not in (one.row, other.row)]
            what = hybridqa.header_noun(table.header[column], kind.noun)
            if common is not None:
                what = spoken_noun(table.header[column], kind, common)
                if not what or not _fits(table, (one, other), [kind]):
                    continue
            for first, second in product(*(_row_names(table, each, common, kind) for each in (one, other))):
                question = f"{kind.compares}: the {what} where {first}, or the one where {second}?"
                question = f'In the table "{table.title}", {question}'
                if common is not None:
                    question = f"{kind.compares.capitalize()}, the {what} {first} or the one {second}?"
                names = (hybridqa.title_of(winner.link), hybridqa.name_of(winner.link))
                made = _compose(table, question, answer, (one, other), names)
                if not mentions_name(made.question, answer) and not is_found_by_cells(made.question, both, rest):
                    columns = (n for n, cell in enumerate(table.rows[winner.row]) if mentions_name(cell, answer))
                    yield made._replace(answer_columns=tuple(columns))


def chains(table: LinkedTable, common: Words) -> Iterator[QuestionEvidence]:
    """Yield questions that ask for a number by another one of the same row."""
    for kind, known, target_kind, target in hybridqa.number_pairs(table):
        header, known_header = table.header[target.column], table.header[known.column]
        if common is not None:
            what, given = spoken_noun(header, target_kind, common), spoken_noun(known_header, kind, common)
            is_clear = what and given and (kind is not target_kind or kind is BORN)
            if not is_clear or not _fits(table, (known, target), (kind, target_kind)):
                continue
            bearer = f"{given} {kind.bears.format(known.stated)}"
            question = f"What is the {target_kind.attribute} of the {what} listed with the {bearer}?"
        else:
            wanted = target_kind.asks.format(hybridqa.header_noun(header, target_kind.noun))
            condition = f"the {hybridqa.header_noun(known_header, kind.noun)} {kind.says.format(known.stated)}"
            question = f'In the table "{table.title}", {wanted} in whose row {condition}?'
        made = _compose(table, question, target.stated, (known, target), ())
        yield made._replace(answer_columns=(target.column,))


def _compose(
    table: LinkedTable, question: str, answer: str, numbers: Sequence[StatedNumber], aliases: Cells
) -> QuestionEvidence:
    """Return a composed question on the rows and pages of some numbers, without `answer_columns`."""
    rows, links = tuple(dict.fromkeys(each.row for each in numbers)), tuple(each.link for each in numbers)
    name = "-".join(map(str, ["hybridqa", table.name, *rows]))
    return QuestionEvidence(name, question, answer, aliases, table.name, rows, links, (), "composed")


def _row_names(table: LinkedTable, number: StatedNumber, common: Words, kind: NumberKind) -> list[str]:
    """Return a few conditions that identify a row: "School is Tampa", or two that only this row combines.

    Cells that the passage of its entity mentions identify nothing: the row would not be needed.
    """
    fit = [
        (n, cell)
        for n, cell in enumerate(table.rows[number.row])
        if n != number.column and _is_fit(table, n, cell) and not mentions_name(table.passages[number.link], cell)
    ]
    holding = {n: {m for m, r in enumerate(table.rows) if normal_name(r[n]) == normal_name(c)} for n, c in fit}
    if common is not None:
        for n, cell in fit:  # "Miller culture (of the Hopewell tradition)" is listed with Miller culture, too
            holding[n] |= {m for m, row in enumerate(table.rows) if row[n].startswith(f"{cell} (")}
        return _spoken_names(table, fit, holding, common, is_person=kind is BORN)
    conditions = {n: f"{table.header[n]} is {cell}" for n, cell in fit}
    names = [conditions[n] for n, cell in fit if len(holding[n]) == 1 and _NAME.match(cell)]
    names += [
        f"{conditions[one]} and {conditions[other]}"
        for one, other in combinations(conditions, 2)
        if min(len(holding[one]), len(holding[other])) > 1 and len(holding[one] & holding[other]) == 1
    ]
    return sorted(names, key=lambda name: seeded_hash(f"composed|{name}"))[:MOST_NAMES]


def _spoken_names(
    table: LinkedTable,
    fit: Sequence[tuple[int, str]],
    holding: Mapping[int, set[int]],
    common: Collection[str],
    *,
    is_person: bool,
) -> list[str]:
    """Return conditions that identify a row, as `_row_names` does, worded as people say them.

    Up to twice as many. Cells that are lists, remarks or days are not used, nor headers that are not of common words.
    """
    nouns = {n: hybridqa.spoken_header(table.header[n], common) for n, _ in fit}
    fit = [(n, cell) for n, cell in fit if nouns[n].islower() and not _UNSPOKEN.search(cell)]
    fit = [(n, cell) for n, cell in fit if _TIME.search(nouns[n]) or not _DAY.search(cell)]
    names = []
    for some in [*((each,) for each in fit), *combinations(fit, 2)]:
        held = [holding[n] for n, _ in some]
        if len(set.intersection(*held)) > 1 or (len(some) == 2 and min(map(len, held)) == 1):
            continue
        if is_person and all(_OWN.search(nouns[n]) for n, _ in some):
            names.append(" and ".join(f"whose {nouns[n]} is {cell}" for n, cell in some))
            continue
        times = [f"for {cell}" for n, cell in some if _TIME.search(nouns[n])]
        others = [f"{cell} as the {nouns[n]}" for n, cell in some if not _TIME.search(nouns[n])]
        if len(times) < 2:
            names.append(" ".join(["listed", *times, *(["with " + " and ".join(others)] if others else [])]))
    return sorted(names, key=lambda name: seeded_hash(f"composed|{name}"))[: 2 * MOST_NAMES]


def _is_fit(table: LinkedTable, column: int, cell: str) -> bool:
    """Return whether a cell may name its row: a short name or a year, under a header that occurs once."""
    header = table.header[column]
    is_clear = bool(header) and table.header.count(header) == 1 and not _REMARKS.search(header)
    return is_clear and 1 < len(cell) <= 40 and bool(_NAME.match(cell) or _YEAR.match(cell))
