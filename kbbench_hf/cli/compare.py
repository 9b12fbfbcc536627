"""`kbbench compare`: significance tests of two systems, or a results table of any number."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbbench_hf.benchmarks import PUBLISHED
from kbbench_hf.cli import options as cli
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import waiting
from kbbench_hf.scoring.options import LogOptions, ReadOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbbench_hf.scoring.comparison import Comparison
    from kbbench_hf.scoring.results_table import Block

FORMATS = ("latex", "markdown", "csv", "html")


@click.command()
@click.argument("systems", nargs=-1, required=True, type=cli.FilePath(path_type=str))
@cli.on_benchmark
@cli.MODE
@cli.with_read_options
@cli.with_log_options
@cli.option("--slices", "Two systems: also compare them in these slices; 'all' for every slice.", metavar="NAME,...")
@cli.option("--table table_format", "Print a results table of all systems in this format.", click.Choice(FORMATS))
@cli.option("--metrics", "Metrics to show; three or more systems are ranked by the first.", metavar="NAME,...")
@cli.flag("--percent", "Show the scores of the table in percent.")
@cli.option("--plot", "Plot the systems into a .png, .svg or .pdf file.", cli.FilePath())
@cli.ACROSS_PROMPTS
@cli.ALL_METRICS
@cli.NOTES
@cli.STRICT
@cli.JSON
def command(
    systems: tuple[str, ...],
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    read_options: ReadOptions,
    logs: LogOptions,
    slices: str | None,
    table_format: str | None,
    metrics: str | None,
    percent: bool,
    plot: Path | None,
    across_prompts: bool,
    all_metrics: bool,
    notes: bool,
    strict: bool,
    json_output: bool,
) -> None:
    """Compare SYSTEMS on the same examples with significance tests: predictions, runs, published results, any logs.

    You can name a file (new=answers.jsonl). published:NAME is a published system, with its predictions if they are
    available locally, else with its scores; NAME may be a pattern. Two systems with predictions are compared in
    detail; more systems, or --table, give one table. --benchmark takes several names, separated by commas.

    Without a benchmark, SYSTEMS are logs of lm-evaluation-harness, inspect_ai, lighteval or promptfoo, rankings with
    --qrels, or tables with a score for each example.

    Examples:
      kbbench compare mine.jsonl theirs.jsonl --benchmark mini-text2kg
      kbbench compare new=mine.jsonl 'published:*' --benchmark mini-text2kg --table latex
      kbbench compare a.eval b.eval --cluster document
      kbbench compare a.csv b.csv --value correct --id question_id
    """
    from kbbench_hf.scoring.results_table import logged_results, named_system, results_table

    patterns = any(each.startswith(PUBLISHED) for each in systems)
    named = benchmark.split(",") if benchmark else []
    logs = replace(logs, slices=slices.split(",") if slices else ())
    with waiting("Reading"):
        results = logged_results(systems, named, read_options, logs)
    if results is None and len(systems) < 2 and not patterns:
        raise UsageError(
            f"Only one system is named: {systems[0]}. Expected two or more. Add a file, a run folder or 'published:*'."
        )
    of_benchmark = mode or split or read_options.parser or read_options.fields
    if results is not None and of_benchmark and not logs.across_revisions:
        raise UsageError(
            "--mode, --split, --parser and --map are for predictions of a benchmark, and none is named; expected "
            "--benchmark NAME. For logs with scores: --value, --id and --where."
        )
    chosen = metrics.split(",") if metrics else None
    wants_table = table_format or percent or len(results or systems) != 2 or patterns

    shared: dict[str, Any] = {"split": split, "mode": mode, "options": read_options, "across_prompts": across_prompts}
    if not wants_table:
        from kbbench_hf.reports.results_table import print_comparison
        from kbbench_hf.scoring.comparison import compare

        files = [str(named_system(each)[1]) for each in systems]
        names = tuple(each.removesuffix(f"={file}") for each, file in zip(systems, files, strict=True))
        names = tuple(each.log.name for each in results if each.log) if results else names
        first, second = results or files
        with waiting("Comparing"):
            comparison = compare(first, second, benchmark, **shared)
        definition = comparison.a.definition
        wanted = [*comparison.tests] if all_metrics else definition.metric_names(chosen) if chosen else None
        if json_output:
            click.echo(json.dumps(comparison.to_dict(wanted), indent=2))
        else:
            print_comparison(comparison, (names[0], names[1]), definition, slices, wanted, notes=notes)
        warnings = list(comparison.warnings)
        if plot:
            short = dict.fromkeys(named_system(each)[0] for each in results or systems)
            _plot([_comparison_block(comparison, tuple(short) if len(short) > 1 else names, wanted)], plot, comparison)
    else:
        from kbbench_hf.reports.results_table import FORMATS, print_results_table

        if slices and not results:
            raise UsageError(
                f"--slices {slices} is for two systems with predictions; a table has no slices. Leave it out."
            )
        with waiting("Comparing"):
            blocks = results_table(results or systems, named, metrics=chosen, **shared)
        if plot:
            _plot(blocks, plot)
        if json_output:
            click.echo(json.dumps([block.to_dict() for block in blocks], indent=2))
        elif table_format:
            click.echo(FORMATS[table_format](blocks, percent=percent), nl=False)
        else:
            print_results_table(blocks, percent=percent, notes=notes)
        warnings = [each for block in blocks for each in block.warnings]
    if strict:
        cli.refuse_warnings(warnings)


def _comparison_block(comparison: "Comparison", names: "Sequence[str]", metrics: "Sequence[str] | None") -> "Block":
    """Return two compared systems as a block of a results table, for the plot."""
    from kbbench_hf.scoring.results_table import Block, SystemScore

    systems = [SystemScore(name, result) for name, result in zip(names, (comparison.a, comparison.b), strict=True)]
    return Block(comparison.a.task_key, list(comparison.shown(metrics)), systems, [], {}, comparison.warnings)


def _plot(blocks: "Sequence[Block]", file: Path, comparison: "Comparison | None" = None) -> None:
    """Plot each block; with several blocks, the benchmark's name is added to the file name.

    `comparison` is that of the only block. Two systems with predictions are compared here if it is missing.
    """
    from kbbench_hf.reports.plots import plot_results
    from kbbench_hf.scoring.comparison import compare

    for block in blocks:
        results = [each.result for each in block.systems if each.result]
        if comparison is None and len(results) == len(block.systems) == 2:
            comparison = compare(results[0], results[1], across_prompts=True)
        named = file if len(blocks) == 1 else file.with_stem(f"{file.stem}-{block.task_key.benchmark}")
        plot_results(block, named, comparison)
        comparison = None
        click.echo(f"plot: {named}", err=True)
