"""`kbbench power`: how many examples a difference needs, and what a subset can show."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath, Number, of_benchmark
from kbbench_hf.cli.options import JSON, MODE
from kbbench_hf.reports import terminal

if TYPE_CHECKING:
    from kbbench_hf.scoring.power import PowerPlan

SIZES = (25, 50, 100, 200, 500, 1000, 2000)
"""Numbers of examples in the table, below that of the split."""


@click.command()
@click.argument("name", type=BENCHMARK)
@click.option(
    "--difference",
    type=Number(0, min_open=True),
    help="The difference of two systems that you want to show, e.g. 0.05.",
)
@click.option("--limit", type=click.IntRange(1), help="Number of examples of the subset that you want to run.")
@click.option(
    "--against",
    type=FilePath(path_type=str),
    multiple=True,
    help="Run or predictions of the system to compare with (repeatable); else the systems that come with NAME.",
)
@click.option("--metric", type=NAME, help="Metric; the headline metric by default.")
@click.option(
    "--correlation",
    type=Number(-1, 1, max_open=True),
    help="Assume this correlation of the two systems' scores per example, in place of a measured one.",
)
@click.option("--split", type=of_benchmark(lambda found: found.data.splits), help="Split; the default split if absent.")
@MODE
@JSON
def command(
    name: str, difference: float | None, limit: int | None, against: tuple[str, ...], json_output: bool, **options: Any
) -> None:
    """Print how many examples of NAME[/CONFIG] show a difference of two systems, and what a subset can show.

    It uses the scores per example of finished runs, or of the systems that come with the dataset. Nothing is run.

    Examples:
      kbbench power mini-text2kg --difference 0.05
      kbbench power NAME --limit 200 --against kbbench-runs/NAME/RUN
    """
    from kbbench_hf.benchmarks import benchmark
    from kbbench_hf.reports.tables import label
    from kbbench_hf.scoring.power import plan_power

    with terminal.waiting("Scoring"):
        plan = plan_power(name, against, difference or 0.0, **options)
    of_table = {each for each in SIZES if each < plan.n_available} if limit is None else {limit}
    sizes = sorted({*of_table, plan.n_available})
    if json_output:
        terminal.print_json(plan.to_dict(difference, sizes))
        return
    console, metric, usual = terminal.console(), label(benchmark(plan.task_key.benchmark), plan.metric), plan.usual
    place = plan.task_key
    console.print(f"[bold]{place.benchmark} · {place.config}, {place.split}, mode {place.mode}[/bold]", highlight=False)
    if difference is not None:
        needed = [each.examples(difference) for each in plan.spreads]
        verdict = "the split has enough" if usual.examples(difference) <= plan.n_available else "the split has too few"
        among = f"; from {min(needed):,} to {max(needed):,} for other pairs" if len(needed) > 1 else ""
        console.print(
            f"A difference of {difference:g} in {metric} needs {usual.examples(difference):,} examples{among}. "
            f"There are {plan.n_available:,}: {verdict}.",
            highlight=False,
        )
    shown = ((n, usual.detectable(n)) for n in sizes)
    rows = [
        [f"{n:,}{' (all)' if n == plan.n_available else ''}", f"{least:.3f}" if math.isfinite(least) else "none"]
        for n, least in shown
    ]
    terminal.print_table(console, ["examples", f"smallest difference in {metric} that they show"], rows)
    for line in _assumptions(plan):
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)


def _assumptions(plan: "PowerPlan") -> Iterator[str]:
    """Yield what the numbers rest on, a line each."""
    usual, n_spreads = plan.usual, len(plan.spreads)
    yield "To show: a paired test at 5 % is significant with 80 % probability (normal approximation)."
    deviation = f"the standard deviation of the difference of an example is {usual.deviation:.3f}"
    if len(usual.systems) == 2:
        median = f"the median of {n_spreads} pairs, " if n_spreads > 1 else ""
        correlation = f", the correlation {usual.correlation:.2f}" if math.isfinite(usual.correlation) else ""
        yield f"Measured with {median}{' and '.join(usual.systems)}, on {usual.n:,} examples: {deviation}{correlation}."
    else:
        yield (
            f"From {usual.systems[0]} on {usual.n:,} examples, and an assumed system of the same variance (where all "
            f"scores are 0 or 1, of a mean greater by the difference) and a correlation of {usual.correlation:.2f}: "
            f"{deviation}."
        )
    yield (
        "Your systems are assumed to differ like these, on examples like these. Systems that are more alike need "
        "fewer examples."
    )
