"""Whether the length of a unit gives away that it is a positive."""

import numpy as np
from numpy.typing import NDArray


def separation(positives: NDArray[np.int64], noise: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of the best classifier that sees a unit's length alone, at least 0.5.

    It is the chance that a positive is longer (or, if that is rarer, shorter) than a noise unit, ties counting half.
    NaN where one side is empty.

    >>> separation(np.array([5, 5]), np.array([5, 3]))  # of 4 pairs 2 longer, 2 ties: (2 + 1) / 4
    0.75
    """
    if not len(positives) or not len(noise):
        return float("nan")
    ordered = np.sort(noise)
    below, up_to = (np.searchsorted(ordered, positives, side=side).sum() for side in ("left", "right"))
    area = float(below + up_to) / 2 / (len(positives) * len(noise))
    return max(area, 1 - area)
