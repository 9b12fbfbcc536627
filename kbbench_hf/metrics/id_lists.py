"""Lists of ids per query in one array, with offsets: rankings and gold of many queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import DataError

Id = str | int
Ids = NDArray[np.int64]
Integer = TypeVar("Integer", bound=np.integer)
Lists = Sequence[Sequence[Id]] | Sequence[Ids] | Ids

_BLOCK = 1 << 14
"""Ids processed together: small enough for the cache of a core."""
_LARGE = 1 << 40


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
