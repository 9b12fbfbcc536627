"""Rows of the board: published and stored results in order, with rank groups, paired tests and flags.

The pages and the API show them. Ties of the headline score are ordered by system name, then id. Rank groups and
differences are tested only among rows on the same data with the same annotators; published rows are never tested.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Literal

from kbbench_hf.benchmarks import TaskKey, benchmark, importable_names
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.baselines import published_places, published_systems
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.leaderboard.index import Index, StoredRow
from kbbench_hf.leaderboard.owners import Flag
from kbbench_hf.leaderboard.store import N_PARTS, GoldLikeness, Record
from kbbench_hf.metrics.significance import PairedTest, paired_test, rank_groups
from kbbench_hf.scoring.result import PlainScore

MISTAKES = 5
"""Minimum number of a row's answers that are not the gold, for a flag as a copy: correct answers are alike anyway."""
TESTED = 100
"""Number of a board's best stored rows that are tested and grouped, which bounds the work for a board."""

Badge = Literal["re-scored", "own run", "published"]


@dataclass(frozen=True)
class BoardScore:
    """A score with its 95 % interval; the interval is NaN where only the value was published."""

    value: float
    low: float = math.nan
    high: float = math.nan
    digits: int = 4
    """Number of known decimals; of a published score, the printed ones."""

    @classmethod
    def of(cls, plain: PlainScore) -> "BoardScore":
        """Return a score of a `result.json`, where null stands for NaN."""
        value, low, high = (math.nan if each is None else each for each in (plain["value"], *plain["ci95"]))
        return cls(value, low, high)

    def text(self, most: int = 4) -> str:
        """Return the value with its known decimals, `most` at most; an empty string for NaN.

        >>> BoardScore(0.35, digits=2).text(), BoardScore(0.347581).text(most=3), BoardScore(math.nan).text()
        ('0.35', '0.348', '')
        """
        return "" if math.isnan(self.value) else f"{self.value:.{min(most, self.digits)}f}"

    def interval(self, digits: int = 3) -> str:
        """Return the ends of the interval; an empty string where there is none.

        >>> BoardScore(1.0, 0.926, 1.0).interval(), BoardScore(0.35).interval()
        ('0.926–1.000', '')
        """
        return f"{self.low:.{digits}f}–{self.high:.{digits}f}" if math.isfinite(self.high - self.low) else ""


UNKNOWN = BoardScore(math.nan)


@dataclass(frozen=True)
class Row:
    """A row of the board; the API returns its fields by name."""

    id: str
    """The submission's id, or that of the published row."""
    system: str
    scores: Mapping[str, BoardScore]
    """Metric -> score; the API calls it `figures`."""
    badge: Badge
    group: int | None = None
    """Rank group, from 1; its systems do not differ significantly from its first one; None where not tested."""
    gap: float | None = None
    """The headline score minus that of the row above, in the order that is shown; see `with_differences`."""
    gap_digits: int = 4
    """Number of decimals of `gap`: those of the score that has more."""
    above: PairedTest | None = None
    """The paired test of `gap`; None where one of the two has no scores per example."""
    link: str = ""
    licence: str = ""
    """License of the predictions."""
    type: str = ""
    """The kind of system, such as `sparse retriever`; empty where unknown."""
    parameters_b: float | None = None
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    cost_per_1000_usd: float | None = None
    parse_failure_rate: float | None = None
    coverage: float | None = None
    """The share of examples that have a prediction."""
    seen_gap: float | None = None
    """The headline score on examples whose answer occurs in the training split, minus that on the others."""
    submitter: str = ""
    """The user name on the Hub; empty for published rows."""
    flags: tuple[Flag, ...] = ()
    """Notes on its name or its answers; empty for nearly every row."""
    stored: str = ""
    """Time and writer of its first event, `Event.order`; empty for published rows."""
    notes: str = ""
    slices: Mapping[str, Mapping[str, Mapping[str, BoardScore]]] = field(default_factory=dict)
    """Published scores of parts of the examples: slice -> key -> metric -> score."""

    sources: Sequence[tuple[str, str]] = ()
    """Sources of published scores, and their addresses."""
    warnings: Sequence[ScoreWarning] = ()
    revision: str = ""
    """The revision of the data on which it was scored; empty for published rows."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Kind -> identity (JSON) of the annotations that the scores need, which the submitter made."""

    def score(self, metric: str) -> BoardScore:
        """Return the score of a metric, `UNKNOWN` where there is none."""
        return self.scores.get(metric, UNKNOWN)

    @cached_property
    def searched(self) -> str:
        """The text in which a search looks, casefolded; made once, because a board may have thousands of rows."""
        return f"{self.system} {self.type} {self.licence} {self.submitter} {self.notes}".casefold()

    @cached_property
    def annotators(self) -> str:
        """The judges and embedders of the annotations, without their revisions."""
        made_with = map(json.loads, self.annotations.values())
        named = [str(each[what]) for each in made_with for what in ("judge", "embedder") if each.get(what)]
        return ", ".join(sorted({name.partition("@")[0] for name in named}))


def board(index: Index, task_key: TaskKey) -> list[Row]:
    """Return the rows of a task, best first by the headline metric; rows without a finite headline score are last.

    Equal scores are ordered by system name, then id. The index is updated first. Empty where nothing was stored or
    published.
    """
    index.update()
    bench = benchmark(task_key.benchmark)
    stored = index.rows(task_key, any_mode=True)
    flagged = flags(index.doubts(), stored) if stored else {}
    rows = [_stored(each, bench.headline) for each in stored if each.record.mode == task_key.mode]
    rows = [replace(row, flags=flagged[row.id]) if row.id in flagged else row for row in rows]
    if len({row.revision for row in rows}) > 1:
        rows = [replace(row, warnings=[*row.warnings, _other_data(row, rows)]) for row in rows]
    rows += [_published(each) for each in published_systems(task_key)]
    metric = headline(bench, rows)
    sign = 1 if metric in bench.scoring.lower_is_better else -1
    order = {row.id: sign * row.score(metric).value if _has(row, metric) else math.inf for row in rows}
    rows.sort(key=lambda row: (order[row.id], row.system, row.id))
    return _with_groups(rows, index, bench, metric)


def with_differences(
    rows: Sequence[Row], task_key: TaskKey, metric: str, index: Index, most: int = TESTED
) -> list[Row]:
    """Return rows in their order, each with its difference to the row above; the first one has none.

    The first `most` rows are tested, too, if both rows have scores per example on the same data, and the same
    annotators.
    """
    pairs = list(pairwise(rows))
    wanted = {(upper.id, lower.id) for upper, lower in pairs[: most - 1] if _testable(upper, lower, metric)}
    with_gaps = list(rows[:1])
    ids = sorted({each for pair in wanted for each in pair})
    with _tests(ids, index, benchmark(task_key.benchmark), metric) as test:
        for upper, lower in pairs:
            both = _has(upper, metric) and _has(lower, metric)
            ends = (upper.scores[metric], lower.scores[metric]) if both else ()
            gap = ends[1].value - ends[0].value if ends else None
            digits = max((each.digits for each in ends), default=4)
            pair = upper.id, lower.id
            with_gaps.append(replace(lower, gap=gap, gap_digits=digits, above=test(*pair) if pair in wanted else None))
    return with_gaps


def places(index: Index) -> list[TaskKey]:
    """Return the task keys with stored or published rows; benchmarks, configs, splits and modes in their own order.

    The default split of a benchmark comes first. Stored rows of a benchmark that is not installed are left out.
    """
    known = {name: benchmark(name) for name in importable_names()}
    stored = set(index.places())
    for name, config, split, mode in published_places():
        if name in known and config in known[name].data.configs:
            task_key = TaskKey(name, config, split, mode or known[name].scoring.modes[0])
            stored.update([task_key] if published_systems(task_key) else [])
    names = list(known)

    def order(task_key: TaskKey) -> tuple[int, ...]:
        of = known[task_key.benchmark]
        return (
            names.index(task_key.benchmark),
            of.data.configs.index(task_key.config),
            -1 if task_key.split == of.data.default_split else of.data.splits.index(task_key.split),
            of.scoring.modes.index(task_key.mode),
        )

    return sorted((task_key for task_key in stored if task_key.benchmark in known), key=order)


def headline(of: Benchmark, rows: Sequence[Row]) -> str:
    """Return the metric that orders a board: the first metric of the benchmark that a row has, else its headline."""
    return next((metric for metric in of.metrics if any(_has(row, metric) for row in rows)), of.headline)


def _has(row: Row, metric: str) -> bool:
    return math.isfinite(row.score(metric).value)


def _with_groups(rows: Sequence[Row], index: Index, of: Benchmark, metric: str) -> list[Row]:
    """Return rows with the rank groups of the best stored ones that can be tested against the first stored one."""
    stored = [row for row in rows if row.badge != "published" and _has(row, metric)]
    tested = [row.id for row in stored if _testable(stored[0], row, metric)][:TESTED]
    with _tests(tested, index, of, metric) as test:
        groups = dict(zip(tested, rank_groups(tested, lambda a, b: test(a, b).p_value), strict=True))
    return [replace(row, group=groups[row.id]) if row.id in groups else row for row in rows]


def _testable(one: Row, other: Row, metric: str) -> bool:
    """Whether two rows have scores per example, on the same data and with the same judges and embedders."""
    stored = "published" not in (one.badge, other.badge)
    alike = one.annotations == other.annotations and one.revision == other.revision
    return stored and alike and _has(one, metric) and _has(other, metric)


@contextmanager
def _tests(ids: Sequence[str], index: Index, of: Benchmark, metric: str) -> Iterator[Callable[[str, str], PairedTest]]:
    """Yield a function that returns the paired test of two of these submissions.

    A pair is tested once: at the end, new tests are stored in the index. If the metric is a mean over groups, the tests
    use the same groups.
    """
    known = index.tests(metric, ids) if ids else {}
    made: dict[tuple[str, str], PairedTest] = {}
    values = cache(lambda row: index.store.values(row, metric))
    slices = cache(index.store.slices)

    def test(a: str, b: str) -> PairedTest:
        if (a, b) not in known:
            groups = slices(a).get(of.scoring.group_by) if of.scoring.group_by else None
            known[a, b] = made[a, b] = paired_test(values(a), values(b), groups)
        return known[a, b]

    yield test
    if made:
        index.keep_tests(metric, made)


def _other_data(row: Row, rows: Sequence[Row]) -> ScoreWarning:
    n = sum(other.revision != row.revision for other in rows)
    message = f"Scored on data revision {row.revision[:8]}; {n:,} rows here are on other revisions and not comparable."
    return ScoreWarning("revision", message, "Score all systems on one revision of the data.")


def _published(row: PublishedRow) -> Row:
    slices = {name: {key: _published_scores(part) for key, part in keys.items()} for name, keys in row.slices.items()}
    sources = [(f"{each} ({each.kind})", each.url) for each in row.sources]
    return Row(
        row.id,
        row.system,
        _published_scores(row.figures),
        "published",
        type=row.system_type,
        parameters_b=row.parameters_b,
        sources=sources,
        notes=row.note,
        slices=slices,
    )


def _published_scores(published: Mapping[str, PublishedScore]) -> dict[str, BoardScore]:
    return {metric: BoardScore(each.value, digits=each.digits) for metric, each in published.items()}


@lru_cache(maxsize=1 << 15)  # the index returns the same object until an event changes the submission
def _stored(row: StoredRow, headline: str) -> Row:
    record, result = row.record, row.headline
    counters = result["counters"]
    n = counters["n_examples"] or 1
    seen = [result["seen"].get(key, {}).get(headline, {}).get("value") for key in ("true", "false")]
    about = asdict(record.system)
    return Row(
        id=record.id,
        system=about.pop("name"),
        scores={metric: BoardScore.of(score) for metric, score in result["scores"].items()},
        badge="own run" if record.origin == "own" else "re-scored",
        parse_failure_rate=counters.get("n_parse_failures", 0) / n,
        coverage=1 - counters.get("n_missing", 0) / n,
        seen_gap=None if None in seen else seen[0] - seen[1],
        submitter=record.submitter,
        stored=row.stored,
        revision=record.dataset_revision,
        warnings=[ScoreWarning.of(each) for each in result.get("warnings", [])],
        annotations=result.get("annotations", {}),
        **about,
    )


def flags(in_doubt: Mapping[str, Sequence[Flag]], rows: Sequence[StoredRow]) -> dict[str, tuple[Flag, ...]]:
    """Return id -> flags of the rows of a task, of rows with flags only.

    Args:
        in_doubt: the flags of the names of all rows of all boards, from `Index.doubts`.
        rows: the rows in all modes of the task, oldest first, from `Index.rows`.
    """
    by_row: dict[str, list[Flag]] = defaultdict(list)
    records = {row.record.id: row.record for row in rows}
    for name, record in records.items():
        by_row[name] += in_doubt.get(name, ())
        if record.gold and record.gold.suspicious() and record.origin == "submitted":
            by_row[name].append(Flag("gold", _gold_reason(record.gold)))
    by_trust = sorted(rows, key=lambda row: row.record.id in in_doubt)  # a row with a flagged name is the copy
    for copy, (of, whole) in copies(by_trust).items():
        how = "Its answers are" if whole else "All but a few of its answers, including wrong ones, are"
        reason = f"{how} those of {records[of].system.name!r} by {records[of].submitter}."
        by_row[copy].append(Flag("copy", reason, of))
    return {row: tuple(of_row) for row, of_row in by_row.items() if of_row}


def _gold_reason(likeness: GoldLikeness) -> str:
    if 2 * likeness.padded > likeness.n:
        return f"All of {likeness.n:,} answers contain the whole gold, most of them with something else."
    return f"{likeness.exact:,} of {likeness.n:,} answers are exactly the gold."


def copies(rows: Sequence[StoredRow]) -> dict[str, tuple[str, bool]]:
    """Return id -> id of an earlier row of which it is a copy, and whether all answers are the same.

    The rows of a task are given in order of precedence. A copy has the same answers, wrong ones included; if it is of
    another submitter, the answers of one part in sixteen may differ. Submissions of one user under one system name are
    not copies: the same answers may be submitted with other annotations.
    """
    first: dict[tuple[int, int, str], Record] = {}
    copies_by_row: dict[str, tuple[str, bool]] = {}
    for record, parts, n_mistakes in ((row.record, row.headline["parts"], _n_mistakes(row)) for row in rows):
        keys = [(len(parts), n, part) for n, part in enumerate(parts)]
        earlier = {first[key].id: first[key] for key in keys if key in first}
        if earlier and record.origin == "submitted" and n_mistakes >= MISTAKES:
            [(other, n_shared)] = Counter(first[key].id for key in keys if key in first).most_common(1)
            whole, theirs = n_shared == len(keys), earlier[other].submitter != record.submitter
            nearly = theirs and len(keys) >= N_PARTS and len(keys) - n_shared <= len(keys) // N_PARTS
            if (whole and (theirs or earlier[other].system.name != record.system.name)) or nearly:
                copies_by_row[record.id] = other, whole
        for key in keys:
            first.setdefault(key, record)
    return copies_by_row


def _n_mistakes(row: StoredRow) -> int:
    """Return how many answers are not the gold; the number of examples where that was not counted."""
    gold = row.record.gold
    return gold.n - gold.exact if gold else int(row.headline["counters"].get("n_examples", 0))
