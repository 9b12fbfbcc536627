"""`kbbench validate`: would these predictions be accepted?"""

import json
from dataclasses import replace
from pathlib import Path

import click

from kbbench_hf.cli.options import JSON, PREDICTIONS, on_benchmark, read_how
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions
from kbbench_hf.scoring.score import asked_of


@click.command()
@PREDICTIONS
@on_benchmark
@read_how
@click.option("--partial", is_flag=True, help="Accept a file that lacks predictions.")
@JSON
def command(
    predictions: tuple[Path, ...],
    benchmark: str | None,
    split: str | None,
    read_options: ReadOptions,
    partial: bool,
    json_output: bool,
) -> None:
    """Check PREDICTIONS without scoring them: every problem with its line, and how to mend it.

    Example: kbbench validate answers.jsonl --benchmark mini-text2kg
    """
    found, examples, *_ = asked_of(predictions, benchmark, split=split)
    read = read_predictions(predictions, found, examples, replace(read_options, partial=partial))
    counts = {
        "n_examples": len(examples.rows),
        "n_predictions": len(examples.rows) - read.n_missing,
        "n_missing": read.n_missing,
        "n_duplicates": read.n_duplicates,
        "n_parse_failures": len(read.parse_failures),
    }
    if json_output:
        click.echo(json.dumps(counts))
    else:
        click.echo(
            f"Valid: {counts['n_predictions']:,} of {counts['n_examples']:,} examples answered, "
            f"{read.n_duplicates:,} repeated ids, {len(read.parse_failures):,} responses without an answer."
        )
