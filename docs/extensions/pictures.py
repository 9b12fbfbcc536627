"""Pictures of the pages: most are drawn before each build, into `docs/pictures`.

The picture of the README is in git, since websites show it without a build. `python docs/extensions/pictures.py`
draws it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from sphinx.application import Sphinx

from kbbench_hf.benchmarks import benchmark, shipped_answers
from kbbench_hf.benchmarks.base import Benchmark, TaskKey
from kbbench_hf.benchmarks.baselines import published_systems
from kbbench_hf.reports.plots import COLOURS, blank, plot_panels, quiet, styles_of
from kbbench_hf.reports.tables import directed_label
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score

COMPARISON = Path(__file__).parents[1] / "images" / "comparison.png"


def comparison() -> dict[str, Result]:
    """Return the results of the two systems that `kbbench demo` scores on the mini extraction benchmark."""
    return {each.stem: score(each, "mini-text2kg") for each in shipped_answers("mini-text2kg")}


def description(results: Mapping[str, Result]) -> str:
    """Return the F1 of each system with its interval in words, which the picture of the README carries as metadata."""
    values = {name: each.scores["f1"] for name, each in results.items()}
    return "; ".join(f"{name}: F1 {f1.value:.2f} [{f1.ci95[0]:.2f}, {f1.ci95[1]:.2f}]" for name, f1 in values.items())


def draw_comparison(file: Path) -> None:
    """Draw the picture of the README: F1, precision and recall of both systems, small enough for a first screen."""
    results = comparison()
    figure, (axes,) = blank(6.2, 2.1)
    for row, (name, result) in enumerate(results.items()):
        heights = [metric + 0.22 * (row - 0.5) for metric in range(3)]
        scores = [result.scores[metric] for metric in ("f1", "precision", "recall")]
        style = styles_of(list(results))[name]
        axes.hlines(heights, [each.ci95[0] for each in scores], [each.ci95[1] for each in scores], color=style["color"])
        axes.plot([each.value for each in scores], heights, linestyle="", label=f"system '{name}'", **style)
    axes.set_yticks(range(3), ["F1", "precision", "recall"])
    axes.set_ylim(2.5, -0.5)
    axes.set_xlim(0, 1)
    quiet(axes, "x")
    axes.set_title("Triple extraction, mini-text2kg (95 % intervals, 48 sentences)", loc="left", fontsize=10)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    figure.savefig(file, dpi=150)
    with Image.open(file) as drawn:
        texts = PngInfo()
        texts.add_text("Description", description(results))
        drawn.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(file, pnginfo=texts, optimize=True)


def noise(file: Path) -> None:
    """Draw the published answer F1 of SKA-Bench by the tokens of the context, a panel per subset."""
    evaluation = benchmark("ska-bench").showing.published_evaluation
    if evaluation is None:
        raise LookupError("ska-bench has no published evaluation; expected its tables and pictures.")
    (panels,) = [each.pictures["noise"] for each in evaluation() if "noise" in each.pictures]
    plot_panels(panels).savefig(file, metadata={"Date": None})


def state_of_the_art(benchmark: Benchmark, metric: str | None = None) -> dict[str, list[tuple[float, float, str]]]:
    """Return config -> the published scores of the default split and mode, as (date in years, score, system), by date.

    The date is that of the score's source. Second-hand scores and sources without a date are left out.
    """
    metric, found = metric or benchmark.headline, {}
    for config in benchmark.data.configs:
        place = TaskKey(benchmark.dataset, config, benchmark.data.default_split, benchmark.scoring.modes[0])
        scores = [(row.figures[metric], row.system) for row in published_systems(place) if metric in row.figures]
        dated = [
            (int(date[:4]) + (int(date[5:] or 1) - 1) / 12, score.value, name)
            for score, name in scores
            if (date := score.source.date)
        ]
        if dated:
            found[config] = sorted(dated, key=lambda each: each[0])
    return found


def plot_over_time(benchmarks: Sequence[Benchmark], file: Path, metric: str | None = None) -> None:
    """Draw the published scores of benchmarks over time, a panel each, with a line through the best so far.

    The first config with scores is drawn; systems on the line are named.
    """
    from matplotlib.ticker import MaxNLocator

    drawn, columns = blank(3.3 * len(benchmarks), 3.2, len(benchmarks))
    for axes, found in zip(columns, benchmarks, strict=True):
        sign = -1 if (metric or found.headline) in found.scoring.lower_is_better else 1
        scores = next(iter(state_of_the_art(found, metric).values()), [])
        axes.plot([date for date, *_ in scores], [value for _, value, _ in scores], "o", color=COLOURS[5], markersize=4)
        best: list[tuple[float, float, str]] = []
        for each in sorted(scores, key=lambda each: (each[0], -sign * each[1])):
            if not best or sign * each[1] > sign * best[-1][1]:
                best.append(each)
        axes.step([date for date, *_ in best], [value for _, value, _ in best], where="post", color=COLOURS[0])
        for date, value, name in best:
            axes.annotate(name, (date, value), xytext=(3, 4), textcoords="offset points", fontsize=8, color=COLOURS[0])
        axes.set_title(found.title.partition(":")[0], loc="left", fontsize=10)
        axes.margins(x=0.25, y=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(directed_label(found, metric or found.headline))
        quiet(axes, "y")
    drawn.savefig(file, dpi=150, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def over_time(file: Path) -> None:
    """Draw the published Hit@1 of STaRK over time, a panel per knowledge base."""
    plot_over_time([benchmark(f"stark-{name}") for name in ("amazon", "mag", "prime")], file)


PICTURES: dict[str, Callable[[Path], None]] = {"noise.svg": noise, "stark_over_time.svg": over_time}


def draw(app: Sphinx) -> None:
    """Draw all pictures that are not there yet."""
    folder = Path(app.srcdir) / "pictures"
    folder.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        picture(folder / name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw them before the pages are read."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    COMPARISON.parent.mkdir(exist_ok=True)
    draw_comparison(COMPARISON)
