"""Hit@k, Recall@k, Precision@k, MRR, MAP, nDCG and R-precision from the ranks of the gold candidates.

There are two modes. `reference` has the definitions of STaRK's published scores: its evaluator calls torchmetrics'
retrieval functions, here as they were before release 1.7.4. `standard` has trec_eval's definitions with our rule for
ties. They differ in two measures:

- `map_at_k` divides by the gold found in the first k in `reference`, by all gold in `standard`;
- `ndcg` shares the gain of a tie among its members in `reference`; in `standard` ties are broken by id.

Among equal scores the lowest id is first in both modes; trec_eval puts the alphabetically last id first (of 9, 10 and
100 the 9). Without equal scores its values are ours, for example for the files of `kbbench export --as trec`.

Differs from upstream: scores of zero or below count like any others (torchmetrics since 1.7.4 treats such candidates
as not retrieved); every measure uses the same ranks (upstream sorts again for each, with other orders of ties); scores
are compared unrounded (upstream rounds to float32); an unknown measure is an error (upstream repeats the last one).

A query without gold among the candidates scores 0 in both modes, as upstream.

`benchmarks.retrieval` and the module `ranking` call `measure` and `lower_bounds` on the ranks of `ranks`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.metrics.ranks import GoldRanks, Ids, Ranks

Mode = Literal["reference", "standard"]
Values = NDArray[np.float64]

MODES: tuple[Mode, ...] = ("reference", "standard")
DEFAULT_KS = (1, 3, 5, 10, 20, 50, 100)


def metric_names(ks: Iterable[int] = DEFAULT_KS) -> list[str]:
    """Return the names of all measures, those with a cutoff once for each k.

    Raises:
        UsageError: a cutoff is below 1 or no integer.

    >>> metric_names([5])
    ['hit_at_5', 'recall_at_5', 'precision_at_5', 'ndcg_at_5', 'map_at_5', 'mrr', 'map', 'ndcg', 'r_precision']
    """
    cutoffs = list(dict.fromkeys(_cutoff(k) for k in ks))
    return [f"{family}_at_{k}" for family in _AT_K for k in cutoffs] + list(_WITHOUT_K)


def measure(ranks: GoldRanks, metrics: Sequence[str], mode: Mode = "reference") -> dict[str, Values]:
    """Return one value per query for each metric, shape (n,); NaN if the rankings do not determine it.

    A value is not determined if gold is in a tail of unknown order and the value depends on that order.

    Raises:
        UsageError: a metric or mode is unknown, or a cutoff is below 1.

    >>> from kbbench_hf.metrics.ranks import IdLists
    >>> from kbbench_hf.metrics.ranks import locate, rank
    >>> ranks = locate(rank(IdLists.of([[4, 2, 9]])), IdLists.of([[2, 7]]))
    >>> {name: float(value[0]) for name, value in measure(ranks, ["mrr", "recall_at_2", "map"]).items()}
    {'mrr': 0.5, 'recall_at_2': 0.5, 'map': 0.25}
    """
    least = lower_bounds(ranks, metrics, mode)
    if ranks.worst is ranks.ranks:
        return least
    most = _measure(ranks, ranks.ranks, metrics, mode)
    return {name: np.where(most[name] == value, value, np.nan) for name, value in least.items()}


def lower_bounds(ranks: GoldRanks, metrics: Sequence[str], mode: Mode = "reference") -> dict[str, Values]:
    """Return for each metric the lowest value of any order of the tail: that of `measure` if it is determined.

    Each has shape (n,). A mean without the undetermined queries would leave out failures; a mean of these values cannot
    be too high.
    """
    return _measure(ranks, ranks.worst, metrics, mode)


def graded_ndcg(levels: Sequence[tuple[float, GoldRanks]], k: float, mode: Mode = "reference") -> tuple[Values, Values]:
    """Return nDCG with linear gain, as trec_eval has it: one value per query, NaN where it is open; and lower bounds.

    Each level is a gain and the ranks of the gold that has it on top of the levels before: gold of grade 3 is in the
    levels 1, 2 and 3 of a gain of 1 each. The cumulative gain is the sum over levels, as is that of the ideal order.
    """
    name = f"ndcg_at_{k}"
    ideals = [gain * _cumulative_discounts(int(ranks.n_gold.max(initial=0)), k)[ranks.n_gold] for gain, ranks in levels]
    best = np.sum(ideals, axis=0)
    of_levels = [(measure(ranks, [name], mode)[name], lower_bounds(ranks, [name], mode)[name]) for _, ranks in levels]
    values, least = (
        np.sum([pair[part] * ideal for pair, ideal in zip(of_levels, ideals, strict=True)], axis=0) for part in (0, 1)
    )
    return _ratio(values, best), _ratio(least, best)


def _measure(gold: GoldRanks, ranks: Ranks, metrics: Sequence[str], mode: Mode) -> dict[str, Values]:
    if mode not in MODES:
        raise unknown_name("mode of ranking", mode, MODES)
    lists = _RankLists(ranks, gold.ranks, gold.offsets, gold.tie_first, gold.tie_last)
    return {name: _resolve(name, mode)(lists) for name in metrics}


@dataclass(frozen=True)
class _RankLists:
    """Ranks of the gold of n queries, ascending within each, in one possible order of the tail."""

    ranks: Ranks
    best: Ranks
    """The best possible ranks decide which gold counts as found; one more can lower a mean over found gold."""
    offsets: Ids
    tie_first: Ranks | None
    tie_last: Ranks | None

    @cached_property
    def n_gold(self) -> Ids:
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> Ids:
        return np.repeat(np.arange(len(self.offsets) - 1), self.n_gold)

    @cached_property
    def discounts(self) -> Values:
        """The gain of each gold in the cumulative gain: 1 / log2(1 + rank)."""
        gains: Values = 1 / np.log2(1 + self.ranks)
        return gains

    @cached_property
    def place(self) -> Ids:
        """1 for the best-ranked gold of its query, 2 for the next, ..."""
        return np.arange(len(self.ranks)) - np.repeat(self.offsets[:-1], self.n_gold) + 1

    def sums(self, values: Ranks | NDArray[np.bool_]) -> Values:
        """Add up values over the gold of each query."""
        totals: Values = np.bincount(self.rows, values, minlength=len(self.offsets) - 1).astype(np.float64, copy=False)
        return totals

    def within(self, k: float) -> Values:
        """Count the gold of each query at rank k or better."""
        return self.sums(self.ranks <= k)


def _ratio(numerator: Values, denominator: Values | Ids | float) -> Values:
    """Divide; nothing over nothing is 0."""
    result: Values = numerator / np.maximum(denominator, 1e-300)
    return result


def _mrr(gold: _RankLists) -> Values:
    best = np.full(len(gold.n_gold), np.inf)
    some = gold.n_gold > 0
    best[some] = gold.ranks[gold.offsets[:-1][some]]
    return 1 / best


def _average_precision(gold: _RankLists, k: float = np.inf, of_found: bool = False) -> Values:
    precisions = np.where(gold.ranks <= k, gold.place / gold.ranks, 0.0)
    return _ratio(gold.sums(precisions), gold.sums(gold.best <= k) if of_found else gold.n_gold)


def _ndcg(gold: _RankLists, k: float = np.inf, share_ties: bool = True) -> Values:
    """Return nDCG with binary gain; members of a tie share the mean discount of its ranks with `share_ties`."""
    gains = np.where(gold.ranks <= k, gold.discounts, 0.0)
    if share_ties and gold.tie_first is not None and gold.tie_last is not None:
        tied = gold.tie_first < gold.tie_last
        first, last = gold.tie_first[tied].astype(np.int64), gold.tie_last[tied].astype(np.int64)
        discounts = _cumulative_discounts(int(last.max()), k)
        gains[tied] = (discounts[last] - discounts[first - 1]) / (last - first + 1)
    ideal = _cumulative_discounts(int(gold.n_gold.max(initial=0)), k)
    return _ratio(gold.sums(gains), ideal[gold.n_gold])


def _cumulative_discounts(n: int, k: float) -> Values:
    """Return the sums of the first 0, 1, ..., n discounts 1 / log2(1 + rank), none beyond rank k."""
    ranks = np.arange(1, n + 1)
    return np.concatenate(([0.0], np.cumsum(np.where(ranks <= k, 1 / np.log2(1 + ranks), 0.0))))


def _r_precision(gold: _RankLists) -> Values:
    return _ratio(gold.sums(gold.ranks <= gold.n_gold[gold.rows]), gold.n_gold)


_AtK = Mapping[str, Callable[[_RankLists, float], Values]]
_WithoutK = Mapping[str, Callable[[_RankLists], Values]]
_AT_K: _AtK = {
    "hit": lambda gold, k: (gold.within(k) > 0).astype(np.float64),
    "recall": lambda gold, k: _ratio(gold.within(k), gold.n_gold),
    "precision": lambda gold, k: gold.within(k) / k,
    "ndcg": _ndcg,
    "map": partial(_average_precision, of_found=True),
}
_WITHOUT_K: _WithoutK = {"mrr": _mrr, "map": _average_precision, "ndcg": _ndcg, "r_precision": _r_precision}
_BY_ID = partial(_ndcg, share_ties=False)
_STANDARD_AT_K: _AtK = {**_AT_K, "ndcg": _BY_ID, "map": _average_precision}
_STANDARD_WITHOUT_K: _WithoutK = {**_WITHOUT_K, "ndcg": _BY_ID}


def _resolve(name: str, mode: Mode) -> Callable[[_RankLists], Values]:
    """Return the function of a metric in a mode; UsageError for an unknown name or a cutoff below 1."""
    at_k, without_k = (_AT_K, _WITHOUT_K) if mode == "reference" else (_STANDARD_AT_K, _STANDARD_WITHOUT_K)
    if name in without_k:
        return without_k[name]
    family, at, k = name.partition("_at_")
    if family not in at_k or not at or not k.lstrip("-").isdecimal():
        raise unknown_name("metric", name, [*without_k, *(f"{known}_at_k" for known in at_k)])
    function, cutoff = at_k[family], _cutoff(int(k))
    return lambda gold: function(gold, cutoff)


def _cutoff(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise UsageError(f"{k!r} is not a cutoff; expected an integer of 1 or more. Correct k.")
    return int(k)
