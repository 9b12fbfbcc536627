"""`kbbench compare`: are two systems different, and where?"""

import json
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.cli.options import JSON, MODE, STRICT, on_benchmark, read_how, refuse_warnings
from kbbench_hf.reports.comparison import print_comparison
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.predictions import ReadOptions


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@on_benchmark
@MODE
@read_how
@click.option("--slices", metavar="NAME,...", help="Show the differences in these slices too; 'all' for every one.")
@STRICT
@JSON
def command(
    a: Path,
    b: Path,
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    read_options: ReadOptions,
    slices: str | None,
    strict: bool,
    json_output: bool,
) -> None:
    """Test whether predictions A and B differ: paired randomisation test, wins, ties and losses.

    Example: kbbench compare mine.jsonl theirs.jsonl --benchmark mini-text2kg
    """
    comparison = compare(a, b, benchmark, split=split, mode=mode, options=read_options)
    if json_output:
        click.echo(json.dumps(comparison.to_dict(), indent=2))
    else:
        print_comparison(comparison, (str(a), str(b)), benchmark_of(comparison.a.benchmark), slices)
    if strict:
        refuse_warnings(comparison.warnings)
