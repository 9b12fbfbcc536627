"""`kbbench report`: a run or several as a page, or a dataset as tables and a picture."""

from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.baselines import PREFIX, is_published
from kbbench_hf.cli.names import FilePath
from kbbench_hf.cli.options import MODE, on_benchmark, read_how
from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.reports import terminal
from kbbench_hf.scoring.asked import RUN
from kbbench_hf.scoring.options import ReadOptions


@click.command()
@click.argument("what", nargs=-1, required=True, type=FilePath(path_type=str))
@on_benchmark
@MODE
@read_how
@click.option(
    "--dataset",
    "of_dataset",
    is_flag=True,
    help="WHAT is a dataset: its size, lengths, diversity.",
)
@click.option("--out", type=FilePath(), help="The file to write; of a folder of runs, the folder.")
def command(
    what: tuple[str, ...],
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    read_options: ReadOptions,
    of_dataset: bool,
    out: Path | None,
) -> None:
    """Write the report of WHAT, a run's folder or a file, as one HTML file; of several, one page side by side.

    Of a folder of runs of a benchmark with testbeds, kbbench-runs/NAME say: the tables and figures of its paper over
    all models that were run, as a page, LaTeX, CSV and plots, in WHAT/report or the folder --out. With --dataset,
    describe the dataset WHAT. Systems are named as for 'kbbench compare'.

    Examples:
      kbbench report kbbench-runs/mini-stark/queries-test-bm25-1a2b3c4d
      kbbench report answers.jsonl --benchmark mini-text2kg
      kbbench report run-a run-b 'published:*' --out side-by-side.html
      kbbench report kbbench-runs/mini-ska
      kbbench report mini-stark --dataset
    """
    if of_dataset:
        for name in what:
            _describe(name, out)
        return
    if len(what) == 1 and (Path(what[0]).is_file() or (is_published(what[0]) and not {*"*?["} & {*what[0]})):
        from kbbench_hf.reports.run_page import answers_page
        from kbbench_hf.scoring.score import score

        result = score(what[0], benchmark, split=split, mode=mode, options=read_options)
        name = Path(what[0]).name.removeprefix(PREFIX).removesuffix(".gz").removesuffix(".jsonl")
        file = out or Path(f"{name}.html")
        write_text(file, answers_page(what[0], result, read_options))
        terminal.echo(str(file))
        return
    if len(what) > 1 or is_published(what[0]):
        from kbbench_hf.reports.side_by_side_page import side_by_side_page
        from kbbench_hf.scoring.results_table import results_table

        names = (benchmark,) if benchmark else ()
        block, *others = results_table(what, names, split=split, mode=mode, options=read_options)
        if others:
            raise UsageError(
                f"These ran on {len(others) + 1} benchmarks; expected one. Name it with --benchmark, or see them side "
                "by side with 'kbbench compare'."
            )
        file = out or Path("side-by-side.html")
        write_text(file, side_by_side_page(block, read_options))
        terminal.echo(str(file))
        return
    folder = Path(what[0])
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no run folder, nor a file; expected what 'kbbench run' printed. A dataset: add --dataset."
        )
    if not (folder / RUN).is_file() and next(folder.rglob(RUN), None):
        from kbbench_hf.reports.evaluation_report import write_evaluation
        from kbbench_hf.scoring.stored_runs import read_runs

        for file in write_evaluation(read_runs(folder, split, mode), out or folder / "report"):
            terminal.echo(str(file))
        return
    from kbbench_hf.reports.run_page import run_page

    file = out or folder / "report.html"
    write_text(file, run_page(folder))
    terminal.echo(str(file))


def _describe(name: str, out: Path | None) -> None:
    from kbbench_hf.reports.plots import check_picture, plot_lengths

    found = benchmark_of(name)
    if found.showing.statistics is None:
        raise UsageError(
            f"{name} has no statistics to show; expected a dataset that 'kbbench list' has, or one of your own."
        )
    file = out or Path(f"{name}-lengths.png")
    check_picture(file)
    statistics = found.showing.statistics(find_dataset(name))
    console = terminal.console()
    for title, rows in statistics.tables.items():
        if rows:
            columns = statistics.columns.get(title, [""] * (len(rows[0]) - 1))
            terminal.print_table(console, [title, *columns], rows)
            terminal.echo()
    plot_lengths(statistics, found.title, file)
    terminal.echo(str(file))
