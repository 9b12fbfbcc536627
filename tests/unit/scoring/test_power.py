"""Planned power is the power that the test of `compare` has, by simulation and by the exact formula of the t-test."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.cli.power import command
from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.significance import detectable_parts, paired_test
from kbbench_hf.scoring.power import Spread, plan_power

COPY = next(file for file in shipped_answers("mini-text2kg") if file.stem == "copy")
PAIR = ["published:copy", "published:pattern"]


def simulated_hits(rng: np.random.Generator, n: int, difference: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the hits of two systems: the questions that both answer make their scores correlate."""
    easy, a, b = rng.random(n) < 0.3, rng.random(n) < 0.3, rng.random(n) < 0.3 + difference / 0.7
    return (easy | a).astype(float), (easy | b).astype(float)


def test_the_claimed_power_is_the_power_of_the_paired_test() -> None:
    rng = np.random.default_rng(5)
    a, b = simulated_hits(rng, 20_000, 0.15)
    spread = Spread(("a", "b"), len(a), 0.0, *detectable_parts(a - b))
    n, times = spread.examples(0.15), 300
    assert spread.detectable(n) == pytest.approx(0.15, rel=0.01)
    for size, least, most in ((n, 0.8, 0.8), (n // 2, 0.4, 0.55)):
        significant = [paired_test(*simulated_hits(rng, size, 0.15)).p_value <= 0.05 for _ in range(times)]
        error = math.sqrt(0.25 / times)
        assert least - 2 * error < np.mean(significant) < most + 2 * error, size


@pytest.mark.parametrize("difference", [0.02, 0.05, 0.2])
def test_the_number_of_examples_is_that_of_the_exact_power_of_a_paired_t_test(difference: float) -> None:
    values = np.tile([0.5, -0.5], 5000) + 1e-9  # sizes that differ: no continuity correction
    n = Spread(("a", "b"), len(values), 0.0, *detectable_parts(values)).examples(difference)

    def exact(size: int) -> float:
        shift = difference / 0.5 * math.sqrt(size)
        return float(stats.nct.sf(stats.t.ppf(0.975, size - 1), size - 1, shift))

    fewest = next(size for size in range(max(3, n - 20), n + 20) if exact(size) >= 0.8)
    assert abs(n - fewest) <= 2


def test_a_pair_is_measured_as_compare_measures_it(in_tmp: Path) -> None:
    plan = plan_power("mini-text2kg", PAIR)
    spread = plan.usual
    assert (plan.n_available, spread.n, len(plan.spreads)) == (48, 48, 1)
    assert spread.examples(spread.detectable(48)) == 48
    assert spread.detectable(48) == pytest.approx(spread.normal + spread.step)
    lines = COPY.read_text(encoding="utf-8").splitlines(keepends=True)
    (in_tmp / "half.jsonl").write_text("".join(lines), encoding="utf-8")
    again = plan_power("mini-text2kg", [in_tmp / "half.jsonl", "published:pattern"]).usual
    assert again[1:] == spread[1:]
    (in_tmp / "copy.jsonl").write_text("".join(lines), encoding="utf-8")
    alike = plan_power("mini-text2kg", [in_tmp / "copy.jsonl", COPY])  # two systems of one name, with equal scores
    assert {each.systems for each in alike.spreads} == {(str(in_tmp / "copy.jsonl"),), (str(COPY),)}
    assert plan_power("mini-text2kg", PAIR, metric="recall").usual.normal != spread.normal


def test_one_system_stands_for_both_where_the_correlation_is_given() -> None:
    plans = {each: plan_power("mini-text2kg", ["published:copy"], correlation=each).usual for each in (0.0, 0.5)}
    assert plans[0.0].deviation == pytest.approx(plans[0.5].deviation * math.sqrt(2))
    with pytest.raises(UsageError, match="less than 1"):
        plan_power("mini-text2kg", correlation=1.0)
    with pytest.raises(UsageError, match="--against"):
        plan_power("genres-corpora/docred")


def test_hits_of_a_better_system_vary_more_than_those_of_one_that_finds_nearly_nothing(in_tmp: Path) -> None:
    import kbbench_hf

    kbbench_hf.run("mini-stark", "bm25", out=in_tmp / "base", show=False)
    like, better = (
        plan_power("mini-stark", [in_tmp / "base"], difference, correlation=0.5).usual for difference in (0.0, 0.2)
    )
    mean = kbbench_hf.score(in_tmp / "base").scores["hit_at_1"].value
    variances = mean * (1 - mean), (mean + 0.2) * (0.8 - mean)
    expected = math.sqrt(sum(variances) - math.sqrt(math.prod(variances)))
    assert like.deviation < better.deviation == pytest.approx(expected, rel=0.01)


def test_the_command_states_numbers_and_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["mini-text2kg", "--difference", "0.1", "--limit", "5", *(f"--against={each}" for each in PAIR)]
    command.main(given, standalone_mode=False)
    out = " ".join(capsys.readouterr().out.split())
    plan = plan_power("mini-text2kg", PAIR)
    assert f"A difference of 0.1 in F1 needs {plan.usual.examples(0.1)} examples. There are 48" in out
    assert "the split has too few" in out and "5 none" in out and f"48 (all) {plan.usual.detectable(48):.3f}" in out
    assert "Measured with copy and pattern, on 48 examples" in out and f"{plan.usual.deviation:.3f}" in out
    command.main([*given, "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert found["examples_needed"] == plan.usual.examples(0.1) and found["detectable"]["5"] is None


@pytest.mark.parametrize(("limit", "sizes"), [([], [25, 48]), (["--limit=20"], [20, 48]), (["--limit=100"], [48, 100])])
def test_the_sizes_are_those_of_the_table_or_the_limit_and_all(
    limit: list[str], sizes: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["mini-text2kg", *limit, "--json"], standalone_mode=False)
    assert [*json.loads(capsys.readouterr().out)["detectable"]] == list(map(str, sizes))
