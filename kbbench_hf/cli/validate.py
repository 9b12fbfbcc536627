"""`kbbench validate`: another name of `kbbench score --check`."""

from dataclasses import replace
from pathlib import Path

import click

from kbbench_hf.cli.names import FilePath
from kbbench_hf.cli.options import JSON, PARTIAL, PREDICTIONS, on_benchmark, with_read_options
from kbbench_hf.cli.score import check_predictions
from kbbench_hf.scoring.options import ReadOptions


@click.command()
@PREDICTIONS
@on_benchmark
@with_read_options
@PARTIAL
@click.option("--out", type=FilePath(), help="Write the predictions as JSON Lines into this file.")
@JSON
def command(
    predictions: tuple[Path, ...],
    benchmark: str | None,
    split: str | None,
    read_options: ReadOptions,
    partial: bool,
    out: Path | None,
    json_output: bool,
) -> None:
    """Check PREDICTIONS without scoring them, as `kbbench score --check` does; --out is its --write.

    Example: kbbench validate answers.jsonl --benchmark mini-text2kg
    """
    check_predictions(predictions, benchmark, split, replace(read_options, partial=partial), out, json_output)
