"""Plots: a row per score, its interval as a line, and nothing drawn where nothing was scored."""

from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.charts import Statistics
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore, Source
from kbbench_hf.benchmarks.text2kgbench.benchmark import MINI
from kbbench_hf.reports.plots import plot_lengths, plot_results, plot_scores, styles_of
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.results_table import SystemScore, results_table
from kbbench_hf.scoring.score import score


def test_systems_side_by_side_say_which_way_is_better_and_are_told_apart_without_colour(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: drawn.append(self))
    systems = {file.stem: score(file, "mini-text2kg") for file in shipped_answers("mini-text2kg")}
    plot_scores([(MINI, systems)], tmp_path / "scores.png", metrics=5)
    (axes,) = drawn[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["F1 ↑", "P ↑", "R ↑", "OC ↑", "SH ↓"]
    assert [line.get_label() for line in axes.lines] == ["copy", "pattern"]
    assert len({line.get_marker() for line in axes.lines}) == 2
    headline = ["f1", "precision", "recall", "ontology_conformance", "subject_hallucination"]
    for place, (result, line, bars) in enumerate(zip(systems.values(), axes.lines, axes.collections, strict=True)):
        scores = [result.scores[metric] for metric in headline]
        assert line.get_xdata().tolist() == [score.value for score in scores]
        assert line.get_ydata().tolist() == pytest.approx([row + (place - 0.5) * 0.22 for row in range(5)])
        assert [tuple(each[:, 0]) for each in bars.get_segments()] == [score.ci95 for score in scores]
    assert axes.get_title(loc="left") == "Text2KGBench, mini (n = 48)"


def test_more_systems_than_colours_begin_again_and_64_are_told_apart(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: drawn.append(self))
    result = score(shipped_answers("mini-text2kg")[0], "mini-text2kg")
    plot_scores([(MINI, {f"system {n}": result for n in range(10)})], tmp_path / "scores.png", metrics=1)
    looks = [(line.get_color(), line.get_marker()) for line in drawn[0].axes[0].lines]
    assert len({*looks[:8]}) == len({color for color, _ in looks}) == len({marker for _, marker in looks}) == 8
    assert looks[8:] == looks[:2]
    styles = styles_of([f"system {n}" for n in range(65)])
    pairs = [(each["color"], each["marker"]) for each in styles.values()]
    assert len({*pairs[:64]}) == 64 and pairs[64] == pairs[0]
    assert [pairs[n] for n in range(8)] == looks[:8]


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    """The figures that are saved."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: figures.append(self))
    return figures


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([0] * 40, {0: 40}),
        ([7], {7: 1}),
        ([12_345] * 3, {12_345: 3}),
        ([1, 1, 5], {1: 2, 5: 1}),
        ([0, 1], {0: 1, 1: 1}),
        ([900, 901, 903, 903], {900: 1, 901: 1, 903: 2}),
    ],
)
def test_a_histogram_has_one_bar_for_each_value_and_integer_ticks(tmp_path, drawn, values, bars):
    plot_lengths(Statistics({}, {"words per sentence": values}, unit="sentences"), "mine", tmp_path / "x.png")
    (axes,) = drawn[0].axes
    shown = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.patches if bar.get_height()}
    assert shown == bars
    assert all(bar.get_width() <= 1 for bar in axes.patches)
    assert axes.get_xlim()[1] - axes.get_xlim()[0] >= 2 or len(bars) > 1
    assert axes.get_ylabel() == "sentences"
    assert all(float(tick).is_integer() for tick in (*axes.get_xticks(), *axes.get_yticks()))


def test_a_histogram_of_nothing_says_so(tmp_path, drawn):
    plot_lengths(
        Statistics({}, {"words per query": [], "answers per query": [2]}, unit="queries"), "mine", tmp_path / "x.png"
    )
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["no queries"]


def test_two_systems_have_a_forest_plot_with_the_tests_of_the_comparison(tmp_path, drawn):
    (block,) = results_table(shipped_answers("mini-text2kg"), ["mini-text2kg"])
    found = compare(*(each.result for each in block.systems))
    plot_results(block, tmp_path / "x.png", found)
    scores, differences, rates, rate_differences = drawn[0].axes
    assert [each.get_text() for each in scores.get_yticklabels()] == ["F1 ↑", "P ↑", "R ↑", "OC ↑"]
    assert [each.get_text() for each in rates.get_yticklabels()] == ["SH ↓", "RH ↓", "OH ↓"]
    assert drawn[0].get_suptitle() == "Text2KGBench, mini: test split, mode reference, n = 48"
    for axes, metrics in ((differences, ["f1", "precision"]), (rate_differences, ["subject_hallucination"])):
        assert axes.lines[0].get_xdata()[0] == 0  # the zero line
        assert axes.get_xlim()[0] == -axes.get_xlim()[1]
        for metric, point, line in zip(metrics, axes.lines[1:], axes.collections, strict=False):
            test = found.shown(block.metrics)[metric]
            assert point.get_xdata()[0] == test.test.difference
            assert line.get_segments()[0][:, 0].tolist() == list(test.test.ci95)
            assert (point.get_markerfacecolor() == "black") == test.significant


@pytest.mark.parametrize("n_own", [1, 8])
def test_published_systems_are_hollow_and_have_no_interval(tmp_path, drawn, n_own):
    own = [f"{number}={file}" for number, file in enumerate(list(shipped_answers("mini-text2kg")) * 4)]
    (block,) = results_table(own[:n_own], ["mini-text2kg"], metrics=["f1"])
    score = PublishedScore(0.25, 2, Source("s", "table", "Paper", "Table 1", "", ""), "row")
    paper = SystemScore("paper", published=PublishedRow(block.task_key, "paper", {"f1": score}))
    plot_results(replace(block, systems=[*block.systems, paper]), tmp_path / "x.png")
    (axes,) = drawn[0].axes
    assert len(axes.collections) == n_own
    *filled, last = axes.lines
    assert last.get_xdata()[0] == 0.25 and last.get_markerfacecolor() == "white"
    assert all(line.get_markerfacecolor() == line.get_color() for line in filled)
    assert (last.get_color() != filled[0].get_color()) and last.get_marker() not in {
        line.get_marker() for line in filled
    }


@pytest.mark.parametrize("n", [3, 9])
def test_many_systems_share_one_scale_per_family_of_metrics(tmp_path, drawn, n):
    copy, pattern = shipped_answers("mini-text2kg")
    systems = [f"{number}={copy if number % 2 else pattern}" for number in range(n)]
    metrics = ["f1", "precision", "subject_hallucination"]
    (block,) = results_table(systems, ["mini-text2kg"], metrics=metrics)
    plot_results(block, tmp_path / "x.pdf")
    axes = drawn[0].axes
    figures = {metric: [each.figure(metric) for each in block.systems] for metric in metrics}
    family = metrics[:2] if n <= 8 else metrics[:1]
    points = [(metric, at, each) for at in range(n) for metric in family for each in [figures[metric][at]] if each]
    places = [family.index(metric) + (at - (n - 1) / 2) * 0.8 / n if n <= 8 else at for metric, at, _ in points]
    assert [line.get_xdata()[0] for line in axes[0].lines] == [each.value for *_, each in points]
    assert [line.get_ydata()[0] for line in axes[0].lines] == pytest.approx(places)
    assert [tuple(bar.get_segments()[0][:, 0]) for bar in axes[0].collections] == [each.ci95 for *_, each in points]
    if n <= 8:
        assert len(axes) == 2 and drawn[0].get_figwidth() < 3.5
        assert len({line.get_marker() for line in axes[0].lines}) == n
    else:
        assert axes[0].get_xlim() == axes[1].get_xlim() != axes[2].get_xlim()
        assert [each.get_text() for each in axes[0].get_yticklabels()] == [each.name for each in block.systems]
