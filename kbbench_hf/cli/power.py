"""`kbbench power`: how many examples a difference needs, and what a subset can show."""

import math
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from kbbench_hf.cli.options import BENCHMARK, JSON, MODE, FilePath, Number, of_benchmark, option
from kbbench_hf.reports import terminal

if TYPE_CHECKING:
    from kbbench_hf.scoring.power import PowerPlan

SIZES = (25, 50, 100, 200, 500, 1000, 2000)
"""Numbers of examples in the table, below that of the split."""


@click.command()
@click.argument("name", type=BENCHMARK)
@option("--difference", "The difference that you want to show, e.g. 0.05.", Number(0, min_open=True))
@option("--limit", "Number of examples of the subset that you want to run.", click.IntRange(1))
@option("--against", "Run or predictions to compare with (repeatable).", FilePath(path_type=str), multiple=True)
@option("--metric", "Metric; the headline metric by default.")
@option("--correlation", "Assume this correlation of the two systems' scores.", Number(-1, 1, max_open=True))
@option("--split", "Split; the default split if absent.", of_benchmark(lambda found: found.data.splits))
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
    n_all, usual, place = plan.n_available, plan.usual, plan.task_key
    sizes = sorted({*(SIZES if limit is None else (limit,)), n_all})
    sizes = [n for n in sizes if n <= n_all or limit]
    if json_output:
        terminal.print_json(plan.to_dict(difference, sizes))
        return
    console, metric = terminal.console(), label(benchmark(place.benchmark), plan.metric)
    lines = [f"{place.benchmark} · {place.config}, {place.split}, mode {place.mode}"]
    if difference is not None:
        needed = [each.examples(difference) for each in plan.spreads]
        among = f"; from {min(needed):,} to {max(needed):,} for other pairs" if len(needed) > 1 else ""
        n, verdict = usual.examples(difference), "enough" if usual.examples(difference) <= n_all else "too few"
        needs = f"A difference of {difference:g} in {metric} needs {n:,} examples{among}."
        lines += [needs, f"There are {n_all:,}: the split has {verdict}."]
    console.print(escape("\n".join(lines)), highlight=False)
    least = {f"{n:,}{' (all)' if n == n_all else ''}": f"{usual.detectable(n):.3f}" for n in sizes}
    rows = [[n, shown.replace("nan", "none")] for n, shown in least.items()]
    terminal.print_table(console, ["examples", f"smallest difference in {metric} that they show"], rows)
    console.print(f"[dim]{escape(_assumptions(plan))}[/dim]", highlight=False)


def _assumptions(plan: "PowerPlan") -> str:
    """Return the assumptions behind the numbers, in sentences."""
    usual, n_spreads = plan.usual, len(plan.spreads)
    if len(usual.systems) == 2:
        median = f"the median of {n_spreads} pairs, " if n_spreads > 1 else ""
        measured = f"Measured with {median}{' and '.join(usual.systems)}"
    else:
        measured = f"Measured with {usual.systems[0]} and an assumed system of its variance (hits: of a greater mean)"
    word = "the" if len(usual.systems) == 2 else "with an assumed"
    correlation = f", {word} correlation {usual.correlation:.2f}" if math.isfinite(usual.correlation) else ""
    return (
        "To show: a paired test at 5 % is significant with 80 % probability (normal approximation).\n"
        f"{measured}, on {usual.n:,} examples: the standard deviation of the difference of an example is "
        f"{usual.deviation:.3f}{correlation}.\nYour systems are assumed to differ like these, on examples like these. "
        "Systems that are more alike need fewer examples."
    )
