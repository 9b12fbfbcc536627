"""`kbbench score`: predictions in, figures with intervals out."""

import json
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.cli.names import NAME, FilePath
from kbbench_hf.cli.options import (
    ALL_METRICS,
    JSON,
    MODE,
    NOTES,
    PREDICTIONS,
    STRICT,
    on_benchmark,
    read_how,
    refuse_warnings,
)
from kbbench_hf.reports.published import print_beside
from kbbench_hf.reports.tables import print_result
from kbbench_hf.scoring.options import ReadOptions
from kbbench_hf.scoring.result import write_result
from kbbench_hf.scoring.score import score


@click.command()
@PREDICTIONS
@on_benchmark
@MODE
@read_how
@click.option("--slices", type=NAME, metavar="NAME,...", help="Show these slices; 'all' for every one.")
@click.option("--out", type=FilePath(), help="Write result.json and scores.jsonl into this folder.")
@ALL_METRICS
@NOTES
@STRICT
@JSON
def command(
    predictions: tuple[Path, ...],
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    read_options: ReadOptions,
    slices: str | None,
    out: Path | None,
    all_metrics: bool,
    notes: bool,
    strict: bool,
    json_output: bool,
) -> None:
    """Score PREDICTIONS: files of any format that is read, a folder of them, a run's folder, or a dataset on the Hub.

    Read are JSON Lines, JSON, csv and tsv, Parquet, TREC runs, logs of lm-evaluation-harness and inspect_ai, and
    folders of datasets, packed with gzip, zstandard or zip or not; each is recognised by its content.

    An example without a prediction counts as worst, and a warning says so; validate finds it beforehand.

    Example: kbbench score answers.jsonl --benchmark mini-text2kg
    """
    result = score(predictions, benchmark, split=split, mode=mode, options=read_options)
    if out:
        write_result(result, out)
    if json_output:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        print_result(result, benchmark_of(result.benchmark), slices, all_metrics=all_metrics, notes=notes)
        print_beside(result, benchmark_of(result.benchmark))
    if strict:
        refuse_warnings(result.warnings)
