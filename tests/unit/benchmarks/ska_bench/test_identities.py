"""The published figures, and the identities that they and any results file must satisfy."""

import pytest

from kbbench_hf.benchmarks.ska_bench.testbeds import configs
from kbbench_hf.metrics.robustness import curve
from tests.unit.benchmarks.ska_bench.identities import INSTANCES, Figure, broken_identities, read


def test_all_published_identities_hold() -> None:
    figures = read()
    assert broken_identities(figures, INSTANCES) == []
    assert len({figure.system for figure in figures} - {"data"}) == 8
    assert next(each.value for each in figures if each[:2] == ("noise_kg_4k", "GPT-4o")) == 0.7342


def test_scored_figures_name_configs_that_exist() -> None:
    for figure in read():
        if figure.metric == "answer_f1" or (figure.metric == "rejection_rate" and figure.config != "rejection"):
            assert figure.config in configs()


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


def test_a_figure_that_stands_twice_has_to_be_the_same() -> None:
    figures = [Figure("noise_kg_4k", "mine", "answer_f1", value) for value in (0.5, 0.5, 0.6)]
    assert broken_identities(figures[:2]) == []
    assert broken_identities(figures) == ["mine: noise_kg_4k has two figures for answer_f1, 0.5 and 0.6"]


def test_results_without_the_figures_of_an_identity_break_none() -> None:
    assert broken_identities([Figure("order_kg_random", "mine", "answer_f1", 0.5)]) == []
