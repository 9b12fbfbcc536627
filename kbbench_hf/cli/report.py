"""`kbbench report`: a run as a page, or a dataset as tables and a picture."""

from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark, find_dataset
from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.reports import terminal


@click.command()
@click.argument("what")
@click.option(
    "--dataset",
    "of_dataset",
    is_flag=True,
    help="WHAT is a dataset with a knowledge base: its size, lengths, diversity.",
)
@click.option("--out", type=click.Path(path_type=Path), help="The file to write.")
def command(what: str, of_dataset: bool, out: Path | None) -> None:
    """Write the report of the run in folder WHAT as one HTML file, or with --dataset describe the dataset WHAT.

    Examples:
      kbbench report kbbench-runs/mini-stark/queries-test-bm25-1a2b3c4d
      kbbench report mini-stark --dataset
    """
    if of_dataset:
        _describe(what, out)
        return
    folder = Path(what)
    if not folder.is_dir():
        raise UsageError(f"{what} is no run folder; expected what 'kbbench run' printed. Of a dataset: add --dataset.")
    from kbbench_hf.reports.run_page import run_page

    file = out or folder / "report.html"
    write_text(file, run_page(folder))
    terminal.echo(str(file))


def _describe(name: str, out: Path | None) -> None:
    from kbbench_hf.reports.plots import plot_lengths

    found = benchmark(name)
    if found.showing.statistics is None:
        raise UsageError(
            f"{name} has no statistics to show; expected a dataset with a knowledge base, or one of your own."
        )
    statistics = found.showing.statistics(find_dataset(name))
    console = terminal.console()
    for title, rows in statistics.tables.items():
        if rows:
            terminal.print_table(console, [title, *[""] * (len(rows[0]) - 1)], rows)
            terminal.echo()
    file = out or Path(f"{name}-lengths.png")
    plot_lengths(statistics.lengths, found.title, file)
    terminal.echo(str(file))
