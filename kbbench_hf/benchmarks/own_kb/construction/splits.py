"""Splits that share neither an answer set nor a topic set."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from zlib import crc32

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kbbench_hf.errors import DataError

MOST_IN_ONE_GROUP = 0.5


def shared_out(
    keys: Sequence[Sequence[Hashable]], shares: Mapping[str, float], seed: str, strict: bool = False
) -> list[str]:
    """Return the split of each question; questions that have a key in common are in one split.

    Groups, the largest first, go to the split that is furthest below its share.

    >>> shared_out([["a"], ["b"], ["a", "c"], ["d"]], {"train": 0.5, "test": 0.5}, "0")
    ['train', 'test', 'train', 'test']

    Raises:
        DataError: with `strict`, more than half of the questions hang together.
    """
    groups = _groups(keys)
    if strict and groups and max(map(len, groups)) > MOST_IN_ONE_GROUP * len(keys):
        raise DataError(
            f"{max(map(len, groups))} of {len(keys)} questions hang together by their answers, so that one split would "
            "hold them all; expected at most half. Leave strict out of the spec, or ask for fewer questions."
        )
    order = sorted(groups, key=lambda group: (-len(group), crc32(f"{seed}/{group[0]}".encode())))
    whole, counts = sum(shares.values()), dict.fromkeys(shares, 0)
    found = [""] * len(keys)
    for group in order:
        split = max(shares, key=lambda name: shares[name] / whole * len(keys) - counts[name])
        counts[split] += len(group)
        for place in group:
            found[place] = split
    return found


def _groups(keys: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Return the places of the questions that hang together, each group ascending."""
    numbers: dict[Hashable, int] = {}
    pairs = [(place, numbers.setdefault(key, len(numbers))) for place, each in enumerate(keys) for key in each]
    n = len(keys) + len(numbers)
    rows, columns = [place for place, _ in pairs], [len(keys) + number for _, number in pairs]
    _, labels = connected_components(coo_array(([1] * len(pairs), (rows, columns)), shape=(n, n)), directed=False)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(labels[: len(keys)].tolist()):
        groups[label].append(place)
    return list(groups.values())
