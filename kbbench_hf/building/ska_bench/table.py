"""Subset `table`: questions of WikiTableQuestions and TAT-QA within quotas, with near rows around them.

As many questions are taken as keep every quota, so that no surface feature gives answers away. `sources` makes the
subset with `make_instances`.

The selection is greedy, so that one question more or less changes which others are chosen: each revision keeps its own
quotas and order.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import (
    Cells,
    Instance,
    InstanceSet,
    Origin,
    StepCount,
    UnitPool,
    counts,
    write_row,
)
from kbbench_hf.building.ska_bench import tatqa, wikitablequestions
from kbbench_hf.building.ska_bench.name_matching import content_words, is_found_by_cells, mentions, normalize_cell
from kbbench_hf.building.ska_bench.noise import NearRowMaker, key_columns
from kbbench_hf.building.ska_bench.programs import alternatives, leaves_answer
from kbbench_hf.building.ska_bench.source_files import TableSource
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash

STANDARD_TOKENS = 4 * 1024
"""The standard budget, in tokens."""
LARGEST_TOKENS = 24 * 1024
"""The largest budget that a table's rows fill, in tokens."""
PER_TABLE = 4
"""The most questions on one table."""
PER_ANSWER = 12
"""The most questions with one answer, so that a constant guess earns next to nothing."""
LENGTH_CUE, NEWER_LENGTH_CUE = 0.585, 0.59
"""How well the length of a row may tell positives from noise over the subset: the area under the ROC curve.

The second is that of revision 2 of the construction on.
"""
_LONGEST, _USUAL = 160, 25
"""Lengths of rows in tokens: all from the first up count as one; rows longer than the second are long."""

UNSPECIFIC = content_words("total net provided used period year")
"""Words by which accounts differ in the label of one and the same line."""


class TableCandidate:
    """A question with the rows that it can be asked on, and the features that decide whether it is taken.

    Attributes:
        real: all rows but the positive ones that leave the answer as it is: of its own table, then of others.
        found_by_cells: whether a search for the question's words finds just the positive rows.
        fill: share of the standard budget that its rows can fill, when at most half of the noise is made.
    """

    def __init__(self, question: Instance, source: TableSource, real: list[Cells], found_by_cells: bool) -> None:
        self.question, self.source, self.real, self.found_by_cells = question, source, real, found_by_cells
        rows = source.tables[question.group].rows
        self.positives = [rows[n] for n in question.positive_sk]
        self.program = question.program or {}
        self.kind = str(self.program["type"])
        self.key = seeded_hash(f"table|{question.id}")
        self.fill = min(1.0, (count_tokens(self.positives) + 2 * count_tokens(real)) / STANDARD_TOKENS)

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """How many positive rows (first row) and noise rows of its standard context have each length."""
        found = np.array([_histogram(self.positives), _histogram(self.real)])
        mean = max(1.0, float(found[1] @ np.arange(_LONGEST)) / max(1.0, found[1].sum()))
        found[1] *= self.fill * STANDARD_TOKENS / mean / max(1.0, found[1].sum())
        return found

    @cached_property
    def first_option(self) -> int:
        """1 if its answer is the first of two options that it offers, -1 if the second; 0 if it offers none."""
        if self.kind != "compare":
            return 0
        text, answer = normalize_cell(self.question.question), normalize_cell(self.question.answers[0])
        options = sorted(alternatives(self.program), key=lambda where: text.find(str(where[0][-1])))
        return 1 if mentions(answer, str(options[0][0][-1])) else -1

    def noise_rows(self, revision: int) -> dict[str, list[Cells]]:
        """Return donated and near rows by group, those that there are.

        Rows of tables with the same header are donated up to the largest budget, in an order of hashes. Near rows are
        for half of the standard budget, or for what real rows leave of the largest one.
        """
        name, own, donated = self.question.id, set(self.source.tables[self.question.group].rows), list[Cells]()
        rows = [row for row in self.real if row not in own]
        left = LARGEST_TOKENS
        for row in sorted(rows, key=lambda row: seeded_hash(f"table|{name}|{write_row(row)}")):
            if (left := left - _row_tokens(row)) < 0:
                break
            donated.append(row)
        shown = own.union(donated)
        real = [row for row in self.real if row in shown]
        length = count_tokens(real)
        missing = max(LARGEST_TOKENS - length, STANDARD_TOKENS // 2)
        limit = missing // max(1, length // max(1, len(real))) + 40
        near = near_row_maker(self.question, self.source, real, revision).make(limit)
        return {group: rows for group, rows in ((f"{name}#donated", donated), (f"{name}#near", near)) if rows}


def near_row_maker(question: Instance, source: TableSource, others: Sequence[Cells], revision: int) -> NearRowMaker:
    """Return the maker of a question's near rows, from its positive rows and others."""
    rows = source.tables[question.group].rows
    keys, positive = key_columns(rows) if revision > 1 else None, [rows[n] for n in question.positive_sk]
    return NearRowMaker(question.id, question.question, question.program or {}, positive, others, keys)


Candidates = Sequence[TableCandidate]


class Quota(NamedTuple):
    """The largest share of the subset that `counts` may give; a fraction counts as that part of a question."""

    counts: Callable[[TableCandidate], float]
    share: float


QUOTAS = {
    "one row": Quota(lambda each: len(each.positives) == 1, 0.13),
    "lookup by one condition": Quota(lambda each: each.kind == "lookup" and len(each.program["where"]) == 1, 0.145),
    "two rows compared": Quota(lambda each: each.kind in ("compare", "diff"), 0.395),
    "more than four rows": Quota(lambda each: len(each.positives) > 4, 0.27),
    "found by words": Quota(lambda each: each.found_by_cells, 0.28),
    "budget left empty": Quota(lambda each: 1 - each.fill, 0.085),
    "TAT-QA": Quota(lambda each: each.source.source == tatqa.SOURCE, 0.3),
    "first option": Quota(lambda each: each.first_option, 0.01),
    "second option": Quota(lambda each: -each.first_option, 0.01),
}

NEWER_SHARES = {"one row": 0.14, "more than four rows": 0.3, "found by words": 0.31, "budget left empty": 0.12}
NEWER_QUOTAS = {name: each._replace(share=NEWER_SHARES.get(name, each.share)) for name, each in QUOTAS.items()}
"""The quotas from revision 2 of the construction on: fewer questions are clear, and the audit leaves room."""


def make_instances(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of the subset, as many as keep the quotas, and their tables.

    Raises:
        DataError: a file of the two sources is absent or malformed.
    """
    sources = [wikitablequestions.read_tables(folder, revision), tatqa.read_tables(folder)]
    candidates = [each for source in sources for each in make_candidates(source, revision)]
    chosen = select_candidates(candidates, revision)
    instances = []
    sk, headers, origins = dict[str, list[Cells]](), dict[str, Cells](), dict[str, Origin]()
    for each in chosen:
        question, source, table = each.question, each.source.source, each.source.tables[each.question.group]
        noise = each.noise_rows(revision)
        for name, rows in {**noise, question.group: table.rows}.items():
            sk[name], headers[name] = rows, table.header
            origins[name] = source.origin._replace(made=name.endswith("#near"))
        key, groups = question.group.partition("@")[0], tuple(noise)
        instances.append(replace(question, split_key=key, noise_groups=groups, method=f"program:{each.kind}"))
    pool = UnitPool(sk, headers=headers, origins=origins)
    return InstanceSet(instances, {"table": pool}, tuple(_count_steps(sources, candidates, chosen, revision)))


def _count_steps(
    sources: Sequence[TableSource], candidates: Candidates, chosen: Candidates, revision: int
) -> Iterator[StepCount]:
    """Yield how many questions each step left, by source, then the shares that the quotas limit, before and after."""
    for each in sources:
        steps = {
            "asked": each.n_asked,
            "one program fits, and the rows that it reads are known": len(each.questions),
            "chosen, so that every quota is kept": sum(candidate.source is each for candidate in chosen),
        }
        yield from counts("table", each.source.name, steps)
    for name, quota in (QUOTAS if revision < 2 else NEWER_QUOTAS).items():
        before, after = (sum(map(quota.counts, some)) / max(1, len(some)) for some in (candidates, chosen))
        yield StepCount("table", "", f"quota: {name}, at most {quota.share:.1%}", f"{before:.1%}, then {after:.1%}")


def make_candidates(source: TableSource, revision: int = NEWEST) -> Iterator[TableCandidate]:
    """Yield the questions of a source with the rows that they can be asked on, in the order of the source.

    These are the rows of tables with the same header that leave the answer as it is. From revision 2 on a question for
    a total is left out if no needed row is called one.
    """
    alike: defaultdict[Cells, list[str]] = defaultdict(list)
    for name in sorted(source.tables):
        alike[source.tables[name].kind].append(name)
    for question in source.questions:
        table = source.tables[question.group]
        positive = [table.rows[n] for n in question.positive_sk]
        names = dict.fromkeys([question.group, *alike[table.kind]])
        rows = dict.fromkeys(row for name in names for row in source.tables[name].rows)
        program = question.program or {}
        is_unread = leaves_answer(program)
        real = [row for row in rows if row not in positive and is_unread(row)]
        if "reads" in program:  # a row with a label that the question names would do as well as the marked one
            text = normalize_cell(question.question)
            real = [row for row in real if not mentions(text, normalize_cell(row[0]))]
            if revision > 1:
                named = {content_words(row[0]) - UNSPECIFIC for row in positive}
                real = [row for row in real if content_words(row[0]) - UNSPECIFIC not in named]
            if revision > 1 and mentions(text, "total") and not any("total" in row[0].casefold() for row in positive):
                continue  # what the question calls a total is in no row that was marked
        some = real[:100]
        near = near_row_maker(question, source, some, revision).make(60)
        found = is_found_by_cells(question.question, positive, [*some, *near])
        yield TableCandidate(question, source, real, found)


def select_candidates(candidates: Iterable[TableCandidate], revision: int = NEWEST) -> list[TableCandidate]:
    """Return as many candidates as keep every quota and the length cue, in the order of their ids; maybe none.

    The candidate that breaks most is removed until nothing is broken: a quota weighs by how many must go for it, and
    while lengths tell, so do long positive rows and short noise. From revision 2 of the construction on those removed
    that break nothing in the end are taken again, also for one that goes for several.
    """
    kept, removed = _limit_repeats(candidates), list[TableCandidate]()
    quotas, most = (QUOTAS, LENGTH_CUE) if revision < 2 else (NEWER_QUOTAS, NEWER_LENGTH_CUE)
    lengths = np.sum([each.lengths for each in kept], axis=0) if kept else np.zeros((2, _LONGEST))
    while kept:
        over = [(q, sum(map(q.counts, kept)) - q.share * len(kept)) for q in quotas.values()]
        broken = [(quota, min(1.0, excess)) for quota, excess in over if excess > 0]
        tells = length_cue(lengths) > most
        if not broken and not tells:
            break
        beyond = (np.arange(_LONGEST) - _USUAL).clip(-_USUAL, _USUAL)
        weights = tells * 8 * np.array([beyond, -beyond]) / lengths.sum(axis=1, keepdims=True)
        harm = [
            (sum(q.counts(each) * weight for q, weight in broken) + float((each.lengths * weights).sum()), each.key)
            for each in kept
        ]
        removed.append(kept.pop(harm.index(max(harm))))
        lengths -= removed[-1].lengths
    if revision > 1 and kept:
        kept = _refill(kept, removed)
        for each in sorted(kept, key=lambda each: each.key):
            more = _refill([other for other in kept if other is not each], removed)
            kept = more if len(more) > len(kept) else kept
    return sorted(kept, key=lambda each: each.question.id)


def _refill(kept: Candidates, removed: Iterable[TableCandidate]) -> list[TableCandidate]:
    """Return the candidates with those removed ones, one after the other, that keep every quota and the length cue."""
    quotas = NEWER_QUOTAS.values()
    found, counted = [*kept], [sum(map(quota.counts, kept)) for quota in quotas]
    lengths = np.sum([each.lengths for each in kept], axis=0)
    for each in sorted(removed, key=lambda each: (each.found_by_cells, -each.fill, each.key)):
        more = [n + quota.counts(each) for n, quota in zip(counted, quotas, strict=True)]
        fits = all(n <= quota.share * (len(found) + 1) for n, quota in zip(more, quotas, strict=True))
        if fits and each not in found and length_cue(lengths + each.lengths) <= NEWER_LENGTH_CUE:
            found, counted, lengths = [*found, each], more, lengths + each.lengths
    return found


def length_cue(lengths: NDArray[np.float64]) -> float:
    """Return the chance that a positive row is longer than a noise row, given their numbers by length.

    >>> length_cue(np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 2.0]]))  # longer than 2 of 4, as long as the other 2
    0.75
    """
    positive, noise = lengths
    return float((positive * (np.cumsum(noise) - noise / 2)).sum() / max(1e-9, positive.sum() * noise.sum()))


def count_tokens(rows: Iterable[Cells]) -> int:
    """Return the number of tokens of rows, each with the end of its line."""
    return sum(map(_row_tokens, rows))


def _limit_repeats(candidates: Iterable[TableCandidate]) -> list[TableCandidate]:
    """Return the candidates without those too many on one table, of one wording, or with one answer.

    Those that a search for words does not find come first, then those that fill more of the budget.
    """
    tables, answers, wordings, kept = Counter[str](), Counter[Cells](), set[tuple[str, str]](), list[TableCandidate]()
    for each in sorted(candidates, key=lambda each: (each.found_by_cells, -round(each.fill, 1), each.key)):
        question, wording = each.question, (each.question.group, normalize_cell(each.question.question))
        if tables[question.group] < PER_TABLE and answers[question.answers] < PER_ANSWER and wording not in wordings:
            wordings.add(wording)
            tables[question.group] += 1
            answers[question.answers] += 1
            kept.append(each)
    return kept


def _histogram(rows: Sequence[Cells]) -> NDArray[np.float64]:
    """Return how many rows have each length in tokens, from 0 to `_LONGEST` - 1; longer ones count as the last."""
    lengths = [min(_LONGEST - 1, _row_tokens(row)) for row in rows]
    return np.bincount(np.array(lengths, dtype=np.int64), minlength=_LONGEST).astype(np.float64)


@lru_cache(maxsize=1 << 18)
def _row_tokens(row: Cells) -> int:
    """Return the tokens of a row's line with its end."""
    return tokenizer().count(f"{write_row(row)}\n")
