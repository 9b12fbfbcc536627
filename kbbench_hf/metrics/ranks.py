"""Ranks of gold candidates from lists of ids and their scores: the only input of the ranking measures.

There is one order: score descending, then candidate id ascending, integers as integers. Sign, scale and the order of a
dictionary therefore never change a value. `metrics.ranking` measures its ranks; the knowledge base's graph uses
`distinct`. Published scores depend on the order of ties.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import DataError, UsageError, unknown_name

Id = str | int
Ids = NDArray[np.int64]
Integer = TypeVar("Integer", bound=np.integer)
Lists = Sequence[Sequence[Id]] | Sequence[Ids] | Ids

_BLOCK = 1 << 14
"""Ids processed together: small enough for the cache of a core."""
_LARGE = 1 << 40
"""Larger ids are numbered first, so that keys of a list and an id fit into 64 bits."""


@dataclass(frozen=True)
class IdLists:
    """One list of ids per query: list i is `ids[offsets[i]:offsets[i + 1]]`.

    `ids` is (total,), not negative; `offsets` is (n + 1,). A query without ids has an empty list.
    """

    ids: Ids
    offsets: Ids
    names: Sequence[Id] | None = None
    """The user's name of each id, if the ids are numbers from `number_ids`."""

    @classmethod
    def of(cls, lists: Lists) -> "IdLists":
        """Return lists of integers, or the rows of an (n, k) array padded with -1, as `IdLists`.

        Raises:
            DataError: an id is negative or not an integer.

        >>> IdLists.of([[3, 1], []]).offsets.tolist()
        [0, 2, 2]
        """
        if isinstance(lists, np.ndarray) and lists.ndim == 2 and lists.dtype.kind in "iu":
            keep = lists != -1 if lists.dtype.kind == "i" else np.ones(lists.shape, dtype=bool)
            lengths, ids = keep.sum(axis=1), lists[keep].astype(np.int64)
        else:
            lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
            ids = _integers(lists)
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        made = cls(ids, offsets)
        if len(ids) and ids.min() < 0:
            row = made.row_of(int(ids.argmin()))
            raise DataError(f"List {row} holds the id {ids.min()}; ids are not negative. Correct the list.")
        return made

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ids:
        """The length of each list."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Ids:
        """The list of each id."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def blocks(self) -> Iterator[tuple[int, int, Ids]]:
        """Yield the first list, the end and the ids of each run of lists that fits in the cache of a core."""
        cuts = np.searchsorted(self.offsets, np.arange(0, len(self.ids), _BLOCK), side="right") - 1
        cuts = distinct(np.append(cuts, len(self)))
        for first, last in pairwise(cuts.tolist()):
            yield first, last, self.ids[self.offsets[first] : self.offsets[last]]

    def name(self, number: int) -> Id:
        """Return the user's name of an id."""
        return int(number) if self.names is None else self.names[number]

    def row_of(self, position: int) -> int:
        """Return the list that holds the id at a position of `ids`."""
        return int(np.searchsorted(self.offsets, position, side="right")) - 1


def number_ids(*groups: Sequence[Sequence[Id]]) -> tuple[IdLists, ...]:
    """Return groups of lists (rankings, gold) with ids of any kind as `IdLists` over the same integers.

    Small integers stay as they are. Strings and larger integers are numbered in their sort order, which keeps the order
    of ties.

    Raises:
        DataError: integers and strings are mixed, or an id is negative or neither.

    >>> ranked, gold = number_ids([["b", "a"]], [["a"]])
    >>> ranked.ids.tolist(), gold.ids.tolist()
    ([1, 0], [0])
    """
    names = {name for lists in groups for row in lists for name in row}
    kinds = {type(name) for name in names}
    if str in kinds and len(kinds) > 1:
        other = next(kind.__name__ for kind in kinds if kind is not str)
        raise DataError(f"Ids mix str and {other}; expected one kind in rankings and gold. Convert one of them.")
    integers = [name for name in names if isinstance(name, int)]
    if str not in kinds and not (kinds == {int} and min(integers) >= 0 and max(integers) > _LARGE):
        return tuple(IdLists.of(lists) for lists in groups)
    in_order = sorted(names)
    numbers = {name: number for number, name in enumerate(in_order)}
    numbered = (IdLists.of([[numbers[name] for name in row] for row in lists]) for lists in groups)
    return tuple(replace(lists, names=in_order) for lists in numbered)


def _integers(lists: Lists) -> Ids:
    """Return the ids of all lists in one array.

    Raises:
        DataError: an id is no integer.
    """
    if all(isinstance(row, np.ndarray) for row in lists):
        flat = np.concatenate(lists) if len(lists) else np.empty(0, dtype=np.int64)
    else:
        flat = np.asarray(list(chain.from_iterable(lists)))
    if len(flat) == 0:
        return np.empty(0, dtype=np.int64)
    if flat.dtype.kind not in "iu" or flat.ndim != 1:
        wrong = next(
            (name for name in chain.from_iterable(lists) if not isinstance(name, int | np.integer) or name is True),
            flat.flat[0],
        )
        raise DataError(f"{wrong!r} is not an id; expected integers (or strings throughout). Correct the list.")
    return flat.astype(np.int64, copy=False)


def distinct(values: NDArray[Integer]) -> NDArray[Integer]:
    """Return the distinct numbers, ascending; a million in a twentieth of the time of `np.unique`, which hashes."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


Ranks = NDArray[np.float64]
Missing = Literal["tail", "zero"]

_FILTER_BITS = 20
"""Size of the filter that excludes ids that cannot be gold: 2**20 flags, one megabyte."""
_MIX_ID, _MIX_ROW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class RankedLists:
    """The ranked candidates of each query, best first, each id once; made by `rank`."""

    lists: IdLists
    tied: NDArray[np.bool_] | None
    """For each entry, whether its score equals that of the entry before it in the same list; None without ties."""


def rank(lists: IdLists, scores: NDArray[np.number] | None = None) -> RankedLists:
    """Return candidates by score descending, then id ascending; without scores, in the order given.

    Args:
        lists: the retrieved candidates of each query.
        scores: one per id, shape (total,); higher is better.

    Raises:
        DataError: a score is NaN or infinite, a list names an id twice, or the shapes differ.

    >>> rank(IdLists.of([[7, 2, 5]]), np.array([1.0, 3.0, 3.0])).lists.ids.tolist()
    [2, 5, 7]
    """
    _refuse_duplicates(lists)
    if scores is None:
        return RankedLists(lists, None)
    scores = np.asarray(scores)
    if scores.shape != lists.ids.shape:
        raise DataError(f"{scores.size} scores for {lists.ids.size} ids; expected one score per id. Give both in step.")
    if not np.isfinite(scores).all():
        position = int(np.flatnonzero(~np.isfinite(scores))[0])
        row = lists.row_of(position)
        raise DataError(
            f"Ranking {row} gives id {lists.name(lists.ids[position])!r} the score {scores[position]}; expected finite "
            "numbers. Drop such candidates or give them a score below the others."
        )
    ids = lists.ids
    starts = np.zeros(len(ids), dtype=bool)
    starts[lists.offsets[:-1][lists.lengths > 0]] = True
    falls = scores[:-1] > scores[1:]
    level = (scores[:-1] == scores[1:]) & (ids[:-1] < ids[1:])
    if not (falls | level | starts[1:]).all():
        order = np.lexsort((ids, -scores.astype(np.float64), lists.rows))
        ids, scores = ids[order], scores[order]
    tied = ~starts
    tied[1:] &= scores[1:] == scores[:-1]
    return RankedLists(IdLists(ids, lists.offsets, lists.names), tied if tied.any() else None)


def _refuse_duplicates(lists: IdLists) -> None:
    """Raise DataError where a list names an id twice."""
    lengths = lists.lengths
    if len(lists.ids) and (lengths == lengths[0]).all():  # the common case: sorting short rows is fastest
        in_order = np.sort(lists.ids.reshape(len(lists), -1), axis=1)
        repeated = in_order[:, 1:] == in_order[:, :-1]
        if repeated.any():
            row, place = np.argwhere(repeated)[0]
            raise _duplicate(lists, int(row), int(in_order[row, place]))
        return
    span = _span(len(lists), lists.ids)
    for first, last, ids in lists.blocks():
        keys = np.sort(ids + np.repeat(np.arange(first, last) * span, lengths[first:last]))
        same = keys[1:] == keys[:-1]
        if same.any():
            raise _duplicate(lists, *divmod(int(keys[same.argmax()]), span))


def _duplicate(lists: IdLists, row: int, number: int) -> DataError:
    name = lists.name(number)
    return DataError(f"Ranking {row} lists id {name!r} twice; expected every candidate once. Keep the better rank.")


def _span(n_lists: int, *ids: Ids) -> int:
    """Return a number above all ids, so that list * span + id is one key for each pair.

    Raises:
        DataError: the keys do not fit into 64 bits.
    """
    span = 1 + max((int(part.max()) for part in ids if len(part)), default=0)
    if span > np.iinfo(np.int64).max // max(n_lists, 1):
        raise DataError(
            f"Id {span - 1} is too large for {n_lists} queries; expected numbers of candidates. Number the candidates."
        )
    return span


@dataclass(frozen=True)
class GoldRanks:
    """Ranks of the gold of each query: the input of all measures.

    The ranks of query i are `ranks[offsets[i]:offsets[i + 1]]`, from 1, ascending, infinite for gold that was not
    retrieved. Gold of unknown rank has its best possible rank in `ranks` and its worst in `worst`.
    """

    ranks: Ranks
    offsets: Ids
    worst: Ranks
    """The same array as `ranks` if every rank is known."""
    tie_first: Ranks | None
    """First rank of the tie of each gold candidate, its own rank outside ties; None without ties."""
    tie_last: Ranks | None

    @property
    def n_gold(self) -> Ids:
        """Number of gold candidates of each query."""
        return np.diff(self.offsets)

    @property
    def n_tied(self) -> int:
        """Number of gold candidates that share their score with another candidate."""
        return 0 if self.tie_first is None or self.tie_last is None else int((self.tie_first < self.tie_last).sum())


def locate(
    rankings: RankedLists,
    gold: IdLists,
    *,
    missing: Missing | None = "zero",
    candidates: Ids | None = None,
    n_candidates: int | None = None,
) -> GoldRanks:
    """Return the ranks of the gold of every query.

    Repeated gold counts once. An empty ranking retrieves nothing, for any value of `missing`.

    Args:
        rankings: the ranked candidates of n queries.
        gold: the relevant candidates of the same n queries.
        missing: rank of gold that is not in the ranking. "zero": none, it was not retrieved. "tail": after the ranking,
            in order of id, as upstream appends all other candidates with one score. None: after the ranking, which was
            cut off, in an unknown order; this also applies to "tail" without `candidates`. A value that depends on an
            unknown order is not determined.
        candidates: the ids of all candidates. Gold that is not among them is dropped.
        n_candidates: the number of candidates, if their ids are not known.

    Raises:
        DataError: a ranking holds an id that is no candidate, or more ids than there are candidates.
        UsageError: as many rankings as gold lists were expected, or `missing` is unknown.

    >>> ranks = locate(rank(IdLists.of([[4, 2, 9]])), IdLists.of([[2, 7]]), missing="tail", n_candidates=10)
    >>> ranks.ranks.tolist(), ranks.worst.tolist()
    ([2.0, 4.0], [2.0, 10.0])
    """
    if missing not in ("tail", "zero", None):
        raise unknown_name("rule for missing candidates", missing, ("tail", "zero"))
    if len(rankings.lists) != len(gold):
        raise UsageError(f"{len(rankings.lists)} rankings for {len(gold)} gold lists; expected one for each.")
    n = len(gold)
    span = _span(n, rankings.lists.ids, gold.ids)
    keys = distinct(gold.rows * span + gold.ids)
    if candidates is not None:
        candidates = distinct(candidates)
        _refuse_strangers(rankings.lists, candidates)
        keys = keys[_member(keys % span, candidates)]
        n_candidates = len(candidates)
    lengths = rankings.lists.lengths
    if n_candidates is not None and len(lengths) and lengths.max() > n_candidates:
        raise DataError(
            f"Ranking {lengths.argmax()} has {lengths.max()} ids for {n_candidates} candidates; expected no more ids "
            "than candidates. Correct `n_candidates`."
        )
    positions, found = _find(rankings.lists, keys, span)
    rows, ids = np.divmod(keys, span)
    ranks = np.full(len(keys), np.inf)
    ranks[found] = positions - rankings.lists.offsets[rows[found]] + 1
    offsets = np.searchsorted(rows, np.arange(n + 1))
    worst, first, last = ranks, ranks, ranks
    if rankings.tied is not None:
        first, last = ranks.copy(), ranks.copy()
        first[found], last[found] = _tie_bounds(rankings.tied, positions, ranks[found])
    open_ = np.isinf(ranks) & (lengths[rows] > 0)
    if missing != "zero" and open_.any():
        if missing == "tail" and candidates is not None:
            ranks[open_] = _tail_ranks(rankings.lists, candidates, rows[open_], ids[open_])
            first, last = np.where(open_, lengths[rows] + 1.0, first), np.where(open_, float(len(candidates)), last)
        else:
            ranks, worst = _tail_bounds(ranks, open_, rows, lengths, n_candidates)
            first, last = np.where(open_, ranks, first), np.where(open_, ranks, last)
    order = np.lexsort((ranks, rows))
    has_ties = bool((first < last).any())
    return GoldRanks(
        ranks[order],
        offsets,
        ranks[order] if worst is ranks else worst[order],
        first[order] if has_ties else None,
        last[order] if has_ties else None,
    )


def _find(lists: IdLists, keys: Ids, span: int) -> tuple[Ids, Ids]:
    """Return the positions of gold in `lists.ids`, and the index of each in the sorted `keys`.

    Almost no retrieved candidate is gold. Therefore a filter of one hash per (query, id) pair excludes most of them
    block by block; the others are compared exactly.
    """
    if not len(keys) or not len(lists.ids):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    flags = np.zeros(1 << _FILTER_BITS, dtype=bool)
    rows, ids = np.divmod(keys, span)
    flags[_hash(ids, rows)] = True
    lengths = lists.lengths
    positions = np.concatenate(
        [
            lists.offsets[first] + np.flatnonzero(flags[_hash(block, np.arange(first, last), lengths[first:last])])
            for first, last, block in lists.blocks()
        ]
    )
    rows = np.searchsorted(lists.offsets, positions, side="right") - 1
    wanted = rows * span + lists.ids[positions]
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    exact = keys[places] == wanted
    positions, places = positions[exact], places[exact]
    order = np.argsort(places)
    return positions[order], places[order]


def _hash(ids: Ids, rows: Ids, lengths: Ids | None = None) -> NDArray[np.uint64]:
    """Return a number below 2**_FILTER_BITS for each (row, id) pair; `lengths` repeats the rows."""
    salt = rows.astype(np.uint64) * _MIX_ROW
    mixed = ids.astype(np.uint64)
    mixed += salt if lengths is None else np.repeat(salt, lengths)
    mixed *= _MIX_ID
    mixed >>= np.uint64(64 - _FILTER_BITS)
    return mixed


def _tie_bounds(tied: NDArray[np.bool_], positions: Ids, ranks: Ranks) -> tuple[Ranks, Ranks]:
    """Return the first and last rank of the tie at each position; `tied` marks ties with the entry before."""
    heads = np.flatnonzero(~tied)
    group = np.searchsorted(heads, positions, side="right") - 1
    ends = np.append(heads[1:], len(tied)) - 1
    return ranks - (positions - heads[group]), ranks + (ends[group] - positions)


def _tail_ranks(lists: IdLists, candidates: Ids, rows: Ids, ids: Ids) -> Ranks:
    """Return the rank of each unranked gold id when all unranked candidates follow the ranking in order of id."""
    ranks = (np.searchsorted(candidates, ids) + 1).astype(np.float64)
    for row in distinct(rows):
        ranked = np.sort(lists.ids[lists.offsets[row] : lists.offsets[row + 1]])
        here = rows == row
        ranks[here] += len(ranked) - np.searchsorted(ranked, ids[here])
    return ranks


def _tail_bounds(
    ranks: Ranks, open_: NDArray[np.bool_], rows: Ids, lengths: Ids, n_candidates: int | None
) -> tuple[Ranks, Ranks]:
    """Return the best and worst ranks that gold in a tail of unknown order can have."""
    counts = np.bincount(rows[open_], minlength=len(lengths))
    place = np.arange(int(open_.sum())) - (np.cumsum(counts) - counts)[rows[open_]]
    best, worst = ranks.copy(), ranks.copy()
    best[open_] = lengths[rows[open_]] + 1 + place
    if n_candidates is not None:
        tail = n_candidates - lengths
        if (counts > tail).any():
            row = int(np.flatnonzero(counts > tail)[0])
            raise DataError(
                f"Query {row} has {counts[row]} gold candidates outside its ranking, where only {tail[row]} are left; "
                "expected gold among the candidates. Correct `n_candidates`."
            )
        worst[open_] = (n_candidates - counts + 1)[rows[open_]] + place
    return best, worst


def _member(ids: Ids, candidates: Ids) -> NDArray[np.bool_]:
    """Return which ids are among the sorted candidates."""
    places = np.minimum(np.searchsorted(candidates, ids), len(candidates) - 1)
    member: NDArray[np.bool_] = candidates[places] == ids if len(candidates) else np.zeros(len(ids), dtype=bool)
    return member


def _refuse_strangers(lists: IdLists, candidates: Ids) -> None:
    """Raise DataError where a ranking has an id that is no candidate."""
    strange = np.flatnonzero(~_member(lists.ids, candidates))
    if len(strange):
        row = lists.row_of(strange[0])
        raise DataError(
            f"Ranking {row} holds id {lists.name(lists.ids[strange[0]])!r}, which is not a candidate ({len(strange)} "
            "such in all). Was it made on another knowledge base?"
        )
