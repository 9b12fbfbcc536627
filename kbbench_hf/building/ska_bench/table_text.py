"""The subset `table_text`: HybridQA's questions on OTT-QA's tables, with the row and the passages that each one needs.

Most are questions that people wrote on a row and one or two passages that it links to (`hybridqa_evidence`); some
compare two rows by what their passages say (`composed_questions`). Where two passages name each other, the row may not
be needed beside them: such questions wait for people to read them.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Pool, Release, counts
from kbbench_hf.building.ska_bench import composed_questions
from kbbench_hf.building.ska_bench.emptied_rows import emptied_in
from kbbench_hf.building.ska_bench.hybridqa_evidence import Found, Sheet, evidence
from kbbench_hf.building.ska_bench.hybridqa_tables import (
    ORIGIN,
    SOURCE,
    Table,
    listed,
    read,
    subset_of,
    title_of,
)
from kbbench_hf.metrics.typed_answers import answer_type

PER_TABLE, PER_ANSWER = 2, 4
"""The most questions on one table, and with one answer."""
BY_WORDS = 0.30
"""The largest share of questions whose rows a search for the question's cells finds."""
COMPARED, CHAINED = 0.17, 0.05
"""The shares of questions that are composed, of four units and of three: as many as SKA-Bench has with two rows."""


def make(folder: Path) -> Release:
    """Return the instances of the subset, and the tables and passages that they are asked on.

    Raises:
        DataError: a file of the source is absent or malformed.
    """
    questions, tables = read(folder)
    subsets = subset_of(questions)
    own = [question for question in questions if subsets[question.table] == "table_text"]
    sheets = {name: Sheet(tables[name]) for name in sorted({question.table for question in own})}
    settled = [each for question in own if (each := evidence(question, sheets[question.table]))]
    asked = _capped(settled)
    taken = {each.table for each in asked}
    found = sorted(
        _with_composed(asked, [sheets[name].table for name in sorted(sheets, key=_hash) if name not in taken])
    )
    release = _release(found, {each.table: tables[each.table] for each in found})
    composed = sum(each.method == "composed" for each in found)
    steps = {
        "asked on its half of the tables": len(own),
        "their row and passages follow from their words": len(settled),
        "chosen: few of one table or answer, few that words alone find": len(found) - composed,
        "composed": composed,
    }
    return release._replace(counts=counts("table_text", SOURCE.name, steps))


def _capped(found: Sequence[Found]) -> list[Found]:
    """Return the questions without those too many of a table or an answer, larger ones first."""
    tables: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    kept = []
    for each in sorted(found, key=lambda each: (-each.size, each.by_words, _hash(each.id))):
        if tables[each.table] < PER_TABLE and answers[each.answer] < PER_ANSWER:
            tables[each.table] += 1
            answers[each.answer] += 1
            kept.append(each)
    return kept


def _with_composed(asked: Sequence[Found], free: Sequence[Table]) -> Iterator[Found]:
    """Yield the questions without those too many that words find, and composed ones on other tables."""
    plain = [each for each in asked if each.is_joined and not each.by_words]
    searched = [each for each in asked if each.is_joined and each.by_words]
    share = 1 - COMPARED - CHAINED
    people = plain + searched[: int(len(plain) * BY_WORDS / (share - BY_WORDS))]
    chained = list(islice(composed_questions.chained(free), int(len(people) * CHAINED / share)))
    left = (table for table in free if table.name not in {each.table for each in chained})
    compared = islice(composed_questions.compared(left), int(len(people) * COMPARED / share))
    yield from (*people, *chained, *compared, *(each for each in asked if not each.is_joined))


def _release(found: Sequence[Found], tables: Mapping[str, Table]) -> Release:
    text = sorted({_passage(table, link) for table in tables.values() for link in table.passages})
    numbers = {cells: n for n, cells in enumerate(text)}
    shown = {name: tuple(sorted({numbers[_passage(t, link)] for link in t.passages})) for name, t in tables.items()}
    answers = {each.id: (each.answer,) if each.aliases else tuple(listed(each.answer)) for each in found}
    instances = [
        Instance(
            id=each.id,
            subset="table_text",
            question=each.question,
            answers=answers[each.id],
            group=each.table,
            answer_type=answer_type(answers[each.id][0]),
            answer_aliases=(each.aliases,) if each.aliases else (),
            split="test" if each.is_joined else "unreviewed",
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
    instances, pool = emptied_in({each.id: each.told_in for each in found}, instances, pool)
    return Release(instances, {"table_text": pool})


def _passage(table: Table, link: str) -> Cells:
    return title_of(link), table.passages[link]


def _hash(name: str) -> str:
    return hashlib.sha256(f"{SEED}|table_text|{name}".encode()).hexdigest()
