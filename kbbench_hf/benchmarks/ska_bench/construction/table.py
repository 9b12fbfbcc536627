"""The subset `table`: questions of WikiTableQuestions and TAT-QA in fixed proportions, with near rows around them."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.construction import tatqa, wikitablequestions
from kbbench_hf.benchmarks.ska_bench.construction.near_rows import near_rows
from kbbench_hf.benchmarks.ska_bench.construction.table_questions import TableQuestion, Tables
from kbbench_hf.benchmarks.ska_bench.construction.tokens import tokenizer
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.table_programs import alternatives, freedom, normal
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Origin, Pool, Release, write_row

STANDARD, LONGEST = 4 * 1024, 24 * 1024
"""The standard budget and the largest one, in tokens."""
PER_TABLE = 4
"""The most questions on one table."""
MOST_ALIKE = 12
"""The most questions with one answer, so that a constant guess earns next to nothing."""


class Candidate(NamedTuple):
    """A question with the rows that it can be asked on, and what decides whether it is taken."""

    question: TableQuestion
    source: Tables
    real: list[Cells]
    """All rows but the positive ones that leave the answer as it is: of its own table, then of the donors."""
    fill: float
    """How much of the standard budget its rows can fill, when at most half of the noise is made."""
    found_by_words: bool
    """Whether the positive rows are just those that hold the rarest of the cells that the question names."""

    @property
    def positives(self) -> list[Cells]:
        """The rows that the program reads."""
        rows = self.source.tables[self.question.table].rows
        return [rows[n] for n in self.question.positive]

    @property
    def kind(self) -> str:
        """The type of its program."""
        return str(self.question.program["type"])


class Quota(NamedTuple):
    """The largest share of a subset that may be as `counts` says; a fraction counts as that part of a question."""

    counts: Callable[[Candidate], float]
    share: float


QUOTAS = {
    "one row": Quota(lambda each: len(each.question.positive) == 1, 0.145),
    "lookup by one condition": Quota(
        lambda each: each.kind == "lookup" and len(each.question.program["where"]) == 1, 0.145
    ),
    "two rows compared": Quota(lambda each: each.kind in ("compare", "diff"), 0.395),
    "more than four rows": Quota(lambda each: len(each.question.positive) > 4, 0.27),
    "found by words": Quota(lambda each: each.found_by_words, 0.29),
    "read off by words": Quota(lambda each: each.found_by_words and each.kind not in ("compare", "diff"), 0.18),
    "budget left empty": Quota(lambda each: 1 - each.fill, 0.085),
    "TAT-QA": Quota(lambda each: each.source.source == tatqa.SOURCE, 0.3),
}


def make(folder: Path) -> Release:
    """Return the instances of the subset, as many as the sources carry under `QUOTAS`, and their tables.

    Raises:
        DataError: a file of the two sources is absent or malformed.
    """
    sources = [wikitablequestions.read(folder), tatqa.read(folder)]
    chosen = select([each for source in sources for each in candidates(source)])
    sk: dict[str, list[Cells]] = {}
    headers: dict[str, Cells] = {}
    origins: dict[str, Origin] = {}
    instances = []
    for each in chosen:
        question, source = each.question, each.source.source
        table, real = each.source.tables[question.table], Origin(source.name, source.licence)
        donated, near = f"{question.id}#donated", f"{question.id}#near"
        groups = {name: rows for name, rows in ((donated, _donated(each)), (near, _near(each))) if rows}
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
    return Release(instances, {"table": Pool(sk, headers=headers, origins=origins)})


def _donated(candidate: Candidate) -> list[Cells]:
    """Return rows of tables with the same header, up to the largest budget, in an order of hashes."""
    own = set(candidate.source.tables[candidate.question.table].rows)
    left, taken = LONGEST, []
    for row in sorted((row for row in candidate.real if row not in own), key=lambda row: _key(candidate, row)):
        if (left := left - _tokens([row])) < 0:
            break
        taken.append(row)
    return taken


def _near(candidate: Candidate) -> list[Cells]:
    """Return near rows for half of the standard budget, or for what real rows leave of the largest one."""
    question, real = candidate.question, candidate.real
    length = _tokens(real)
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
    length = _tokens(positive) + 2 * _tokens(real)
    some = real[:100]
    near = near_rows(question.id, question.question, question.program, positive, some, 60)
    by_words = found_by_words(question.question, positive, [*some, *near])
    return Candidate(question, source, real, min(1.0, length / STANDARD), by_words)


def found_by_words(question: str, positives: Sequence[Cells], noise: Iterable[Cells]) -> bool:
    """Say whether the rows whose named cells weigh most, a rare one more than a frequent one, are the positive ones.

    That is what a reader finds who only searches for the question's words: no knowledge of the table is tested. The
    weight of a row is the sum of its cells' or the largest of them; one of the two is enough.

    >>> found_by_words("how old is ann?", [("Ann", "12")], [("Bo", "11"), ("Cy", "10")])
    True
    >>> found_by_words("how many are over 10?", [("Ann", "12"), ("Bo", "11")], [("Cy", "10")])
    False
    """
    asked = normal(question)
    rows = [*dict.fromkeys(positives), *dict.fromkeys(row for row in noise if row not in positives)]
    named = [{cell for cell in map(normal, row) if len(cell) > 1 and mentions(asked, cell)} for row in rows]
    frequency = Counter(cell for cells in named for cell in cells)
    weights = {cell: math.log((1 + len(rows)) / n) for cell, n in frequency.items()}
    for weigh in (sum, max):
        scores = [weigh([weights[cell] for cell in cells] or [0.0]) for cells in named]
        best = {n for n, score in enumerate(scores) if score >= max(scores) - 1e-9}
        if max(scores) > 0 and best == set(range(len(positives))):
            return True
    return False


def select(found: Sequence[Candidate]) -> list[Candidate]:
    """Return as many candidates as keep every quota, in the order of their ids.

    From too full a kind the candidates go that break most quotas, in an order of hashes.
    """
    kept = _capped(sorted(found, key=lambda each: (each.found_by_words, -each.fill, _hash(each.question.id))))
    while True:
        over = {name: sum(map(quota.counts, kept)) - quota.share * len(kept) for name, quota in QUOTAS.items()}
        broken = [QUOTAS[name] for name, excess in over.items() if excess > 0]
        if not broken:
            break
        worst = QUOTAS[max(over, key=lambda name: over[name])]
        out = max(
            (each for each in kept if worst.counts(each)),
            key=lambda each: (sum(quota.counts(each) for quota in broken), _hash(each.question.id)),
        )
        kept.remove(out)
    return sorted(_balanced(kept), key=lambda each: each.question.id)


def _capped(found: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without those too many on one table, of one wording, or with one answer."""
    tables: Counter[str] = Counter()
    answers: Counter[Cells] = Counter()
    wordings: set[tuple[str, str]] = set()
    kept = []
    for each in found:
        question = each.question
        wording = (question.table, normal(question.question))
        if tables[question.table] < PER_TABLE and answers[question.answers] < MOST_ALIKE and wording not in wordings:
            wordings.add(wording)
            tables[question.table] += 1
            answers[question.answers] += 1
            kept.append(each)
    return kept


def _balanced(found: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates with as many whose answer is the first of two options as the second."""
    sides: defaultdict[bool, list[Candidate]] = defaultdict(list)
    rest: list[Candidate] = []
    for each in sorted(found, key=lambda each: _hash(each.question.id)):
        place = _place(each)
        (rest if place is None else sides[place]).append(each)
    both = min(len(sides[True]), len(sides[False]))
    return rest + [each for side in (True, False) for each in sides[side][: math.ceil(both * 1.2)]]


def _place(candidate: Candidate) -> bool | None:
    """Say whether the answer of a question that offers two options is the first of them; None of other questions."""
    if candidate.kind != "compare":
        return None
    asked, answer = normal(candidate.question.question), normal(candidate.question.answers[0])
    options = sorted(alternatives(candidate.question.program), key=lambda where: asked.find(str(where[0][-1])))
    return mentions(answer, str(options[0][0][-1]))


def _key(candidate: Candidate, row: Cells) -> str:
    return _hash(f"{candidate.question.id}|{write_row(row)}")


def _tokens(rows: Sequence[Cells]) -> int:
    return sum(map(_row_tokens, rows))


@lru_cache(maxsize=1 << 18)
def _row_tokens(row: Cells) -> int:
    return tokenizer().count(f"{write_row(row)}\n")


def _hash(name: str) -> str:
    return hashlib.sha256(f"{SEED}|table|{name}".encode()).hexdigest()
