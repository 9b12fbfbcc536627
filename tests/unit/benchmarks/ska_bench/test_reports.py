"""Pictures and summaries of SKA-Bench runs, from the published figures and from made ones."""

import io
from typing import Any

import pytest

from kbbench_hf.benchmarks.charts import ShownScore
from kbbench_hf.benchmarks.ska_bench.testbeds import (
    configs,
    configs_of,
    depth_panels,
    integration_table,
    noise_panels,
    order_panels,
    rejection_panels,
    summarize_robustness,
)
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.plots import plot_panels
from tests.unit.benchmarks.ska_bench.identities import read


def published() -> dict[str, dict[str, Any]]:
    systems: dict[str, dict[str, Any]] = {}
    for config, system, metric, value in read():
        if metric in ("answer_f1", "rejection_rate"):
            figures = systems.setdefault(system, {}).setdefault(config, {})
            figures[metric] = {"value": value, "ci95": [value - 0.05, min(1.0, value + 0.05)]}
    return systems


def test_the_published_curves_are_drawn_one_panel_per_subset_with_a_band_each() -> None:
    figure = plot_panels(noise_panels(published()))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["KG", "Table", "KG + Text", "Table + Text"]
    assert [len(axes.lines) for axes in figure.axes] == [8] * 4
    assert [len(axes.collections) for axes in figure.axes] == [8] * 4
    assert figure.axes[0].lines[0].get_xdata().tolist() == [1024, 4096, 12288, 24576]
    assert {axes.get_ylim() for axes in figure.axes} == {(-0.02, 1.02)}  # the whole scale of F1
    figure.savefig(io.BytesIO(), format="png")


def test_orders_stand_side_by_side_and_tables_have_their_own() -> None:
    figure = plot_panels(order_panels(published()))
    assert [len(axes.lines) for axes in figure.axes] == [3 * 8, 4 * 8, 3 * 8, 4 * 8]
    figure.savefig(io.BytesIO(), format="png")


def test_depths_are_drawn_from_the_least_noise_to_the_most() -> None:
    values = {100: 0.2, 0: 0.9, 50: 0.5}
    scores = {f"depth_kg_{depth}": {"answer_f1": {"value": v, "ci95": [v, v]}} for depth, v in values.items()}
    drawn = depth_panels({"mine": {**scores, "noise_kg_4k": scores["depth_kg_0"]}})
    [panel] = drawn.panels
    assert [(point.x, point.y) for point in panel.series["mine"]] == [(0.0, 0.9), (50.0, 0.5), (100.0, 0.2)]
    assert drawn.ticks == {float(depth): f"{depth} %" for depth in (0, 25, 50, 75, 100)} and drawn.joined


def test_scores_by_units_needed_have_a_column_for_each_number_of_units() -> None:
    score = {"value": 0.5, "ci95": [0.4, 0.6], "n_scored": 9}
    needed = {"2": {"answer_f1": score}, ">4": {"answer_f1": {**score, "value": None}}}
    table = integration_table({"noise_kg_4k": {"slices": {"n_required": needed}}, "noise_table_4k": {"slices": {}}})
    assert [words for _, words in table.columns] == ["1", "2", "3", "4", ">4"]
    shown = ShownScore(0.5, (0.4, 0.6), None, 9, False)
    assert table.rows == {"noise_kg_4k": [None, shown, None, None, None], "noise_table_4k": [None] * 5}


def test_each_subset_has_its_settings_at_its_standard_budget() -> None:
    orders = {"kg": "prefix random suffix", "table_text": "original prefix random suffix"}
    sizes = {"kg": "1k 4k 12k 24k", "table_text": "4k 12k 24k"}
    for subset, budget in (("kg", 4096), ("table_text", 12288)):
        found = {name.removesuffix(subset): each for name, each in configs().items() if each.subset == subset}
        names = [f"noise_{subset}_{size}" for size in [*sizes[subset].split(), *"32k 64k 128k 256k 512k 1m".split()]]
        names += [f"order_{subset}_{each}" for each in orders[subset].split()]
        names += [f"depth_{subset}_{each}" for each in (0, 25, 50, 75, 100)]
        names += ["rejection_", "rejection_control_", "rejection_noise_"]
        names += [f"hardness_{subset}_{each}" for each in ("hard", "easy") if subset == "kg"]
        assert list(found) == [*names, "unreviewed_"]
        fixed = [each for each in found.values() if each.testbed not in ("noise", "hardness")]
        assert {each.budget for each in fixed} == {budget}
        depths = {each.setting: each.depth for each in found.values() if each.depth is not None}
        assert depths == {"prefix": 0, "suffix": 1} | {f"depth_{d}": d / 100 for d in (0, 25, 50, 75, 100)}
        assert [each.setting for each in found.values() if each.long] == [found[names[0]].setting] * 6
    assert configs()["hardness_kg_hard"].hops == (1, 2) and configs()["hardness_kg_easy"].hops == (4, 255)
    assert configs()["noise_table_1k"].setting == "original" and configs()["noise_kg_1k"].setting == "random"


def test_configs_are_those_of_a_testbed_and_its_subsets() -> None:
    assert configs_of("order", ["table"]) == [
        f"order_table_{each}" for each in ("original", "prefix", "random", "suffix")
    ]
    with pytest.raises(UsageError, match="subset 'tables'"):
        configs_of("integration", ["tables"])


def test_rejection_is_drawn_against_its_control() -> None:
    def rates(rejected: float, accepted: float) -> dict[str, Any]:
        names = {"rejection_rate": rejected, "acceptance_rate": accepted}
        return {"rejection_control_kg": {k: {"value": v, "ci95": [None, None]} for k, v in names.items()}}

    figure = plot_panels(rejection_panels({"always no": rates(1, 0), "careful": rates(0.9, 0.8)}))
    [axes] = figure.axes
    assert [line.get_ydata()[0] for line in axes.lines[:2]] == [1, 0.9]
    figure.savefig(io.BytesIO(), format="png")


def test_without_results_there_is_nothing_to_draw() -> None:
    for panels in (noise_panels, order_panels, rejection_panels):
        with pytest.raises(UsageError, match="nothing to draw"):
            plot_panels(panels({"mine": {}}))


def test_robustness_of_a_published_system() -> None:
    scores = published()["Llama3.1-8B"]
    kg, table, _, table_text = summarize_robustness(scores)
    # table 4, KG: 55.07, 58.19, 65.85; mean 59.7033; squares 21.47, 2.29, 37.78; sqrt(61.54 / 3) = 4.529
    drop, orders = "relative drop over budgets 0.373", "standard deviation over orders 0.0453, worst order loses 0.0312"
    assert kg == f"kg: {drop}, {orders}"
    assert table.endswith("worst order loses 0.0405")  # 0.2352 - 0.1947
    assert table_text.startswith("table_text: relative drop over budgets 0.588,")  # (30.27 - 12.48) / 30.27
    assert summarize_robustness({}) == []
    only_prefix = {"order_kg_prefix": scores["order_kg_prefix"]}  # nothing to compare with
    assert summarize_robustness(only_prefix) == ["kg: standard deviation over orders 0.0000"]
