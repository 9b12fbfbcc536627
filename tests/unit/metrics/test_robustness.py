import csv
import math
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.robustness import curve, population_std, worst_order_drop


def test_a_curve_goes_from_the_smallest_budget_to_the_largest() -> None:
    found = curve({4096: 0.5, 1024: 0.8, 12288: 0.6})
    assert found.budgets == (1024, 4096, 12288) and found.values == (0.8, 0.5, 0.6)
    assert found.relative_drop == pytest.approx(0.25)  # (0.8 - 0.6) / 0.8


def test_a_curve_from_zero_has_no_relative_drop() -> None:
    found = curve({1: 0.0, 2: 0.5})
    assert math.isnan(found.relative_drop)
    with pytest.raises(UsageError, match="without budgets"):
        curve({})


def test_published_standard_deviations_are_those_of_a_population(shared: Path) -> None:
    with (shared / "expected" / "ska_expected.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "T7"]
    groups: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        groups.setdefault((row["subset"], row["model"]), {})[row["setting"]] = float(row["value"])
    assert len(groups) == 8
    for group in groups.values():
        published = group.pop("std")
        assert round(population_std(list(group.values())), 2) == pytest.approx(published, abs=0.0051)
    assert population_std(np.array([0.5])) == 0


def test_the_worst_order_is_compared_with_the_reference() -> None:
    assert worst_order_drop({"prefix": 0.9, "random": 0.5}) == 0
    with pytest.raises(UsageError, match="No order 'original'"):
        worst_order_drop({"prefix": 0.9}, "original")
