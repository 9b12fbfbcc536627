"""`kbbench validate`: would these predictions be accepted?"""

import json
from dataclasses import replace
from pathlib import Path

import click

from kbbench_hf.cli.names import FilePath
from kbbench_hf.cli.options import JSON, PREDICTIONS, on_benchmark, read_how
from kbbench_hf.reports import terminal
from kbbench_hf.reports.tables import print_warnings
from kbbench_hf.scoring.asked import asked_of
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions, write_predictions


@click.command()
@PREDICTIONS
@on_benchmark
@read_how
@click.option("--partial", is_flag=True, help="Accept a file that lacks predictions, as score does, with a warning.")
@click.option("--out", type=FilePath(), help="Write the answers, as they were read, as JSON Lines.")
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
    """Check PREDICTIONS without scoring them: every problem with its line, and how to mend it.

    With --out, files of any format that is read become JSON Lines, which the leaderboard takes.

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
    if out is not None:
        write_predictions(read, examples, found.scoring.answer.field, out)
    if json_output:
        click.echo(json.dumps({**counts, "warnings": [note.to_dict() for note in read.notes]}))
    else:
        terminal.echo(
            f"Valid: {counts['n_predictions']:,} of {counts['n_examples']:,} examples answered, "
            f"{read.n_duplicates:,} repeated ids, {len(read.parse_failures):,} responses without an answer."
        )
        print_warnings(terminal.console(), read.notes)
