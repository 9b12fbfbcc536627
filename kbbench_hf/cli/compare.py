"""`kbbench compare`: are two systems different, and where?"""

import json
from pathlib import Path

import click

from kbbench_hf.cli.options import JSON, MODE, on_benchmark, read_how
from kbbench_hf.comparison import compare
from kbbench_hf.hub.load import find_benchmark
from kbbench_hf.records import ReadOptions
from kbbench_hf.reports.tables import print_comparison
from kbbench_hf.scoring import score


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@on_benchmark
@MODE
@read_how
@click.option("--slices", metavar="NAME,...", help="Show the differences in these slices too; 'all' for every one.")
@JSON
def command(
    a: Path,
    b: Path,
    dataset: str,
    config: str | None,
    split: str | None,
    mode: str | None,
    read_options: ReadOptions,
    slices: str | None,
    json_output: bool,
) -> None:
    """Test whether predictions A and B differ: paired randomisation test, wins, ties and losses.

    Example: kbbench compare mine.jsonl theirs.jsonl --benchmark mini-text2kg
    """
    results = [score(path, dataset, config=config, split=split, mode=mode, options=read_options) for path in (a, b)]
    comparison = compare(*results)
    if json_output:
        click.echo(json.dumps(comparison.to_dict(), indent=2))
    else:
        print_comparison(comparison, (str(a), str(b)), find_benchmark(dataset), slices)
