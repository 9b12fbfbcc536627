"""`kbbench report`: an HTML report of one run or several, or tables and a plot of a dataset."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kbbench_hf.benchmarks import PUBLISHED, find_dataset, is_published
from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.cli import options as cli
from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.reports import terminal
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.scoring.options import LogOptions, ReadOptions


@click.command()
@click.argument("what", nargs=-1, required=True, type=cli.FilePath(path_type=str))
@cli.on_benchmark
@cli.MODE
@cli.with_read_options
@cli.with_log_options
@cli.flag("--dataset of_dataset", "Describe the dataset WHAT: its size, lengths, diversity.")
@cli.ACROSS_PROMPTS
@cli.option("--out", "The file to write; for a folder of runs, the folder.", cli.FilePath())
def command(what: tuple[str, ...], of_dataset: bool, out: Path | None, **options: Any) -> None:
    """Write an HTML report of WHAT, a run folder or a predictions file; several systems give one side-by-side page.

    For a folder of runs of a benchmark with testbeds, such as kbbench-runs/mini-ska, it writes the tables and plots of
    the paper for all models in it: HTML, LaTeX, CSV and plots in WHAT/report, or in the folder --out. With --dataset,
    describe the dataset WHAT. Name systems as in 'kbbench compare'.

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
    with terminal.waiting("Writing the report"):
        files = _write(what, out, **options)
    for file in files:
        terminal.echo(str(file))


def _write(
    what: tuple[str, ...],
    out: Path | None,
    benchmark: str | None,
    read_options: ReadOptions,
    logs: LogOptions,
    across_prompts: bool,
    **part: Any,
) -> Sequence[Path]:
    """Write the report of a file, of several systems, of a run folder, or of a folder of runs; return its files."""
    is_one = Path(what[0]).is_file() or (is_published(what[0]) and not {*"*?["} & {*what[0]})
    if len(what) == 1 and is_one and not logs.flags:
        from kbbench_hf.reports.run_page import answers_page
        from kbbench_hf.scoring.score import score

        result = score(what[0], benchmark, options=read_options, **part)
        name = Path(what[0]).name.removeprefix(PUBLISHED).removesuffix(".gz").removesuffix(".jsonl")
        file = out or Path(f"{name}.html")
        write_text(file, answers_page(what[0], result, read_options))
        return [file]
    if len(what) > 1 or is_published(what[0]) or (logs.flags and not benchmark):
        from kbbench_hf.reports.run_page import side_by_side_page
        from kbbench_hf.scoring.results_table import results_table

        names = (benchmark,) if benchmark else ()
        how: Any = {"options": read_options, "across_prompts": across_prompts, "logs": logs, **part}
        block, *others = results_table(what, names, **how)
        if others:
            raise UsageError(
                f"These systems ran on {len(others) + 1} benchmarks; expected one. Choose it with --benchmark, or use "
                "'kbbench compare' for several."
            )
        file = out or Path("side-by-side.html")
        write_text(file, side_by_side_page(block, read_options))
        return [file]
    folder = Path(what[0])
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a run folder or a file; expected the folder that 'kbbench run' printed. "
            "For a dataset, add --dataset."
        )
    if not (folder / RUN).is_file() and next(folder.rglob(RUN), None):
        from kbbench_hf.reports.score_table import write_evaluation
        from kbbench_hf.scoring.stored_runs import read_runs

        return write_evaluation(read_runs(folder, **part), out or folder / "report")
    from kbbench_hf.reports.run_page import run_page

    file = out or folder / "report.html"
    write_text(file, run_page(folder))
    return [file]


def _describe(name: str, out: Path | None) -> None:
    """Print the statistics of a dataset, and plot its lengths."""
    from kbbench_hf.reports.plots import check_picture, plot_lengths

    described = benchmark_of(name)
    if described.showing.statistics is None:
        raise UsageError(
            f"{name} has no statistics; expected a dataset of 'kbbench list' or one that you built. Name another."
        )
    file = out or Path(f"{name}-lengths.png")
    check_picture(file)
    statistics = described.showing.statistics(find_dataset(name))
    console = terminal.console()
    for title, rows in statistics.tables.items():
        if rows:
            columns = statistics.columns.get(title, [""] * (len(rows[0]) - 1))
            terminal.print_table(console, [title, *columns], rows)
            terminal.echo()
    plot_lengths(statistics, described.title, file)
    terminal.echo(str(file))
