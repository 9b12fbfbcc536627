"""The subset `table`: questions of WikiTableQuestions and TAT-QA in fixed proportions, with near rows around them."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.table_programs import freedom, normal
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Count, Instance, Origin, Pool, Release, counts, write_row
from kbbench_hf.building.ska_bench import tatqa, wikitablequestions
from kbbench_hf.building.ska_bench.near_rows import near_rows
from kbbench_hf.building.ska_bench.table_questions import TableQuestion, Tables
from kbbench_hf.building.ska_bench.table_selection import (
    QUOTAS,
    STANDARD,
    Candidate,
    found_by_words,
    select,
    tokens,
)

LONGEST = 24 * 1024
"""The largest budget that a table's rows fill, in tokens."""


def make(folder: Path) -> Release:
    """Return the instances of the subset, as many as keep the quotas of `table_selection`, and their tables.

    Raises:
        DataError: a file of the two sources is absent or malformed.
    """
    sources = [wikitablequestions.read(folder), tatqa.read(folder)]
    settled = [each for source in sources for each in candidates(source)]
    chosen = select(settled)
    sk: dict[str, list[Cells]] = {}
    headers: dict[str, Cells] = {}
    origins: dict[str, Origin] = {}
    instances = []
    for each in chosen:
        question, source = each.question, each.source.source
        table, real = each.source.tables[question.table], Origin(source.name, source.licence)
        donated, near = f"{question.id}#donated", f"{question.id}#near"
        lent = _donated(each)
        groups = {name: rows for name, rows in ((donated, lent), (near, _near(each, set(lent)))) if rows}
        noise_groups, groups[question.table] = tuple(groups), table.rows
        sk |= groups
        headers |= dict.fromkeys(groups, table.header)
        origins |= {**dict.fromkeys(groups, real), **({near: real._replace(made=True)} if near in groups else {})}
        instances.append(
            Instance(
                id=question.id,
                subset="table",
                question=question.question,
                answers=question.answers,
                group=question.table,
                answer_type=question.answer_type,
                answer_aliases=question.aliases,
                split_key=question.table.partition("@")[0],
                positive_sk=question.positive,
                noise_groups=noise_groups,
                program=question.program,
                method=f"program:{each.kind}",
                source=source.name,
                source_id=question.id.partition("-")[2],
                commit=source.commit,
                licence=source.licence,
            )
        )
    pool = Pool(sk, headers=headers, origins=origins)
    return Release(instances, {"table": pool}, tuple(_counted(sources, settled, chosen)))


def _counted(sources: Sequence[Tables], settled: Sequence[Candidate], chosen: Sequence[Candidate]) -> Iterator[Count]:
    """Yield what the sources carry, and the shares that the quotas limit, before and after the choice."""
    for each in sources:
        steps = {
            "asked": each.n_asked,
            "one program fits, and the rows that it reads are known": len(each.questions),
            "chosen, so that every quota is kept": sum(candidate.source is each for candidate in chosen),
        }
        yield from counts("table", each.source.name, steps)
    for name, quota in QUOTAS.items():
        before, after = (sum(map(quota.counts, some)) / max(1, len(some)) for some in (settled, chosen))
        yield Count("table", "", f"quota: {name}, at most {quota.share:.1%}", f"{before:.1%}, then {after:.1%}")


def _donated(candidate: Candidate) -> list[Cells]:
    """Return rows of tables with the same header, up to the largest budget, in an order of hashes."""
    own = set(candidate.source.tables[candidate.question.table].rows)
    left, taken = LONGEST, []
    for row in sorted((row for row in candidate.real if row not in own), key=lambda row: _key(candidate, row)):
        if (left := left - tokens([row])) < 0:
            break
        taken.append(row)
    return taken


def _near(candidate: Candidate, donated: set[Cells]) -> list[Cells]:
    """Return near rows for half of the standard budget, or for what real rows leave of the largest one."""
    question, source = candidate.question, candidate.source
    own = set(source.tables[question.table].rows)
    real = [row for row in candidate.real if row in own or row in donated]
    length = tokens(real)
    enough = max(LONGEST - length, STANDARD // 2) // max(1, length // max(1, len(real))) + 40
    return near_rows(question.id, question.question, question.program, candidate.positives, real, enough)


def candidates(source: Tables) -> list[Candidate]:
    """Return the questions of a source with the rows that they can be asked on."""
    alike: defaultdict[Cells, list[str]] = defaultdict(list)
    for name in sorted(source.tables):
        alike[source.tables[name].kind].append(name)
    return [_candidate(question, source, alike) for question in source.questions]


def _candidate(question: TableQuestion, source: Tables, alike: dict[Cells, list[str]]) -> Candidate:
    table = source.tables[question.table]
    donors = [name for name in alike[table.kind] if name != question.table]
    positive = [table.rows[n] for n in question.positive]
    rows = dict.fromkeys(row for name in (question.table, *donors) for row in source.tables[name].rows)
    is_free = freedom(question.program)
    real = [row for row in rows if row not in positive and is_free(row)]
    if "reads" in question.program:  # a row with a label that the question names would do as well as the marked one
        asked = normal(question.question)
        real = [row for row in real if not mentions(asked, normal(row[0]))]
    some = real[:100]
    near = near_rows(question.id, question.question, question.program, positive, some, 60)
    by_words = found_by_words(question.question, positive, [*some, *near])
    return Candidate(question, source, real, by_words)


def _key(candidate: Candidate, row: Cells) -> str:
    return hashlib.sha256(f"{SEED}|table|{candidate.question.id}|{write_row(row)}".encode()).hexdigest()
