"""Pictures: a row per figure, its interval as a line, and nothing drawn where nothing was scored."""

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.text2kgbench.benchmark import MINI
from kbbench_hf.reports.plots import plot_figures, plot_scores, plot_slice
from kbbench_hf.scoring.score import score


def figure(value: float | None, low: float | None = None, high: float | None = None, n: int = 5) -> dict[str, object]:
    return {"value": value, "ci95": [low, high], "n_scored": n, "n_unscored": 0, "n_missing": 0}


def test_each_figure_is_a_point_with_its_interval_and_an_unscored_one_is_a_row_without():
    axes = plot_figures({"F1": figure(0.5, 0.4, 0.7), "DC": figure(None), "P": figure(0.25)}).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["F1", "DC", "P"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines] == [(0.5, 0), (0.25, 2)]
    (interval,) = axes.collections
    assert interval.get_segments()[0].tolist() == [[0.4, 0.0], [0.7, 0.0]]
    assert axes.get_xlim() == (-0.02, 1.02)


def test_figures_beyond_one_choose_their_own_scale():
    assert plot_figures({"triples": figure(12.5, 11.0, 14.0)}).axes[0].get_xlim()[1] > 12.5


def test_a_slice_says_what_is_drawn_and_of_how_many():
    axes = plot_slice({"1_movie": figure(0.5, 0.4, 0.6, n=1_840)}, "F1", "answer_type").axes[0]
    assert axes.get_title(loc="left") == "F1 by answer type"
    assert axes.get_yticklabels()[0].get_text() == "1_movie (n = 1,840)"


def test_systems_side_by_side_say_which_way_is_better_and_are_told_apart_without_colour(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: drawn.append(self))
    systems = {file.stem: score(file, "mini-text2kg") for file in shipped_answers("mini-text2kg")}
    plot_scores([(MINI, systems)], tmp_path / "scores.png", metrics=5)
    (axes,) = drawn[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["F1 ↑", "P ↑", "R ↑", "OC ↑", "SH ↓"]
    assert [line.get_label() for line in axes.lines] == ["copy", "pattern"]
    assert len({line.get_marker() for line in axes.lines}) == 2
    assert axes.get_title(loc="left") == "Text2KGBench, mini (n = 48)"
