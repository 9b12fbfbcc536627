"""The published figures, and the identities that they and any results file must satisfy."""

import csv
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.configs import configs
from kbbench_hf.metrics.robustness import curve
from tests.unit.benchmarks.ska_bench.identities import FILE, INSTANCES, Figure, broken_identities, read


def test_all_published_identities_hold() -> None:
    figures = read()
    assert broken_identities(figures, INSTANCES) == []
    assert len({figure.system for figure in figures} - {"data"}) == 8


def test_every_expected_value_is_there_as_a_fraction(shared: Path) -> None:
    with (shared / "expected" / "ska_expected.csv").open(encoding="utf-8") as source:
        expected = list(csv.DictReader(source))
    assert len(expected) == len(read()) == 372
    for row, figure in zip(expected, read(), strict=True):
        scale = 100 if row["metric"] in ("macro_f1", "rejection_rate", "percent", "std_ddof0") else 1
        assert figure.value * scale == pytest.approx(float(row["value"]), abs=1e-9)
        assert row["model"] in ("-", figure.system)


def test_scored_figures_name_configs_that_exist() -> None:
    for figure in read():
        if figure.metric == "answer_f1" or (figure.metric == "rejection_rate" and figure.config != "rejection"):
            assert figure.config in configs()


def test_every_row_has_a_source() -> None:
    with FILE.open(encoding="utf-8") as source:
        assert all(row["source"].startswith("SKA-Bench (arXiv 2507.17178), Table ") for row in csv.DictReader(source))


def test_the_sizes_of_the_subsets_add_up_to_921() -> None:
    sizes = {figure.config: figure.value for figure in read() if figure.metric == "n"}
    assert sizes == {f"instances_{subset}": n for subset, n in INSTANCES.items()} and sum(sizes.values()) == 921


def test_shares_of_noise_by_hop_add_up() -> None:
    shares = [figure for figure in read() if figure.metric.startswith("share_of_noise_at_")]
    for config in ("instances_kg", "instances_kg_text"):  # 100.01 and 100.00 in print
        assert sum(figure.value for figure in shares if figure.config == config) == pytest.approx(1, abs=1.01e-4)


def test_the_published_decline_is_relative() -> None:
    values = {
        f.config: f.value for f in read() if f.system == "Llama3.1-8B" and f.config.startswith("noise_table_text")
    }
    budgets = {4: values["noise_table_text_4k"], 12: values["noise_table_text_12k"], 24: values["noise_table_text_24k"]}
    assert round(curve(budgets).relative_drop, 4) == 0.5877


@pytest.mark.parametrize(
    ("config", "metric", "words"),
    [
        ("order_kg_random", "answer_f1", "order_kg_random and noise_kg_4k"),
        ("noise_kg_text_12k", "answer_f1", "order_kg_text_random and noise_kg_text_12k"),
        ("noise_kg_4k", "answer_f1", "two figures"),
        ("rejection", "rejection_rate", "rejection: 0.7997 is not"),
        ("rejection_table", "rejection_rate", "no share of 295"),
        ("hardness_kg", "std_over_hardness", "hardness_kg"),
    ],
)
def test_each_broken_identity_is_named(config: str, metric: str, words: str) -> None:
    figures = read()
    place = next(n for n, f in enumerate(figures) if f[:3] == (config, "GPT-4o", metric))
    figures[place] = Figure(config, "GPT-4o", metric, figures[place].value + 0.0015)
    broken = broken_identities(figures, INSTANCES)
    assert any(words in each and each.startswith("GPT-4o") for each in broken), broken


def test_results_without_the_figures_of_an_identity_break_none() -> None:
    assert broken_identities([Figure("order_kg_random", "mine", "answer_f1", 0.5)]) == []
