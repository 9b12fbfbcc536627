"""Pictures of the pages, drawn by the package itself before each build, into `docs/pictures`."""

from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx

from kbbench_hf.benchmarks import benchmark, shipped_answers
from kbbench_hf.reports.plots import plot_panels, plot_scores
from kbbench_hf.scoring.score import score


def two_systems(file: Path) -> None:
    """Draw the two systems of the small extraction benchmark, as `kbbench demo` does."""
    found = benchmark("mini-text2kg")
    results = {each.stem: score(each, found.dataset) for each in shipped_answers(found.dataset)}
    plot_scores([(found, results)], file, metrics=7)


def noise(file: Path) -> None:
    """Draw the published answer F1 of SKA-Bench by the tokens of the context, a panel per subset."""
    evaluation = benchmark("ska-bench").showing.published_evaluation
    if evaluation is None:
        raise LookupError("ska-bench has no published evaluation; expected its tables and pictures.")
    (panels,) = [each.pictures["noise"] for each in evaluation() if "noise" in each.pictures]
    plot_panels(panels).savefig(file, metadata={"Date": None})


PICTURES: dict[str, Callable[[Path], None]] = {"two-systems.png": two_systems, "noise.svg": noise}


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
