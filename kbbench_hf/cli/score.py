"""`kbbench score`: score predictions, or only check them (`--check`, which `kbbench validate` does too)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.cli import options as cli
from kbbench_hf.errors import UsageError
from kbbench_hf.reports import terminal
from kbbench_hf.reports.published import print_nearest_published
from kbbench_hf.reports.tables import print_result, print_warnings
from kbbench_hf.scoring.options import ReadOptions
from kbbench_hf.scoring.result import write_result
from kbbench_hf.scoring.score import score

PREDICTIONS = click.argument("predictions", nargs=-1, required=True, type=cli.FilePath())
PARTIAL = click.option("--partial", is_flag=True, help="--check: accept missing predictions.")


@click.command()
@PREDICTIONS
@cli.on_benchmark
@cli.MODE
@cli.with_read_options
@cli.option("--slices", "Also show the scores of these slices; 'all' for every one.", metavar="NAME,...")
@cli.option("--out", "Write result.json and scores.jsonl into this folder.", cli.FilePath())
@cli.flag("--check", "Only check the predictions, and print every problem with its line.")
@cli.option("--write", "--check: write the predictions as JSON Lines.", cli.FilePath(), metavar="FILE")
@PARTIAL
@cli.ALL_METRICS
@cli.NOTES
@cli.STRICT
@cli.JSON
def command(
    predictions: tuple[Path, ...],
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    read_options: ReadOptions,
    slices: str | None,
    out: Path | None,
    check: bool,
    write: Path | None,
    partial: bool,
    all_metrics: bool,
    notes: bool,
    strict: bool,
    json_output: bool,
) -> None:
    """Score PREDICTIONS: a file, several files, a folder of files, a run folder, or a dataset on the Hub.

    Formats: JSON Lines, JSON, CSV, TSV, Parquet, TREC runs, logs of lm-evaluation-harness and inspect_ai, and saved
    datasets, also compressed with gzip, zstandard or zip. The format is detected from the content.

    An example without a prediction counts as wrong, and a warning gives their number. --check finds them beforehand.

    Examples:
      kbbench score answers.jsonl --benchmark mini-text2kg
      kbbench score answers.csv --benchmark mini-text2kg --check --write answers.jsonl
    """
    if check:
        given = {"--mode": mode, "--slices": slices, "--out": out, "--all-metrics": all_metrics}
        if unused := [name for name, value in given.items() if value]:
            hint = " To write the predictions, use --write FILE." if out else ""
            raise UsageError(f"--check scores nothing; expected no {', '.join(unused)}. Leave it out.{hint}")
        _check_predictions(
            predictions, benchmark, split, replace(read_options, partial=partial), write, json_output, strict=strict
        )
        return
    if write or partial:
        raise UsageError(f"{'--write' if write else '--partial'} needs --check. Add --check, or leave it out.")
    with terminal.waiting("Scoring"):
        result = score(predictions, benchmark, split=split, mode=mode, options=read_options)
    if out:
        write_result(result, out)
    if json_output:
        terminal.print_json(result.to_dict())
    else:
        print_result(result, benchmark_of(result.benchmark), slices, all_metrics=all_metrics, notes=notes)
        print_nearest_published(result, benchmark_of(result.benchmark))
    if strict:
        cli.refuse_warnings(result.warnings)


@click.command()
@PREDICTIONS
@cli.on_benchmark
@cli.with_read_options
@PARTIAL
@cli.option("--out", "Write the predictions as JSON Lines into this file.", cli.FilePath())
@cli.JSON
def validate(read_options: ReadOptions, partial: bool, out: Path | None, **given: Any) -> None:
    """Check PREDICTIONS without scoring them, as `kbbench score --check` does; --out is its --write.

    Example: kbbench validate answers.jsonl --benchmark mini-text2kg
    """
    _check_predictions(read_options=replace(read_options, partial=partial), write=out, **given)


def _check_predictions(
    predictions: Sequence[Path],
    benchmark: str | None,
    split: str | None,
    read_options: ReadOptions,
    write: Path | None,
    json_output: bool,
    *,
    strict: bool = False,
) -> None:
    """Print the counts of valid predictions, and write the predictions as JSON Lines to `write`, if given.

    Raises:
        DataError: they cannot be scored; the message lists every problem with its line.
    """
    from kbbench_hf.scoring.eval_task import resolve_task
    from kbbench_hf.scoring.predictions import read_predictions, write_predictions

    resolved, examples, *_ = resolve_task(predictions, benchmark, split=split)
    read = read_predictions(predictions, resolved, examples, read_options)
    counts = {
        "n_examples": len(examples.rows),
        "n_predictions": len(examples.rows) - read.n_missing,
        "n_missing": read.n_missing,
        "n_duplicates": read.n_duplicates,
        "n_parse_failures": len(read.parse_failures),
    }
    if write is not None:
        write_predictions(read, examples, resolved.scoring.answer.field, write)
    if json_output:
        terminal.print_json({**counts, "warnings": [note.to_dict() for note in read.notes]}, indent=None)
    else:
        terminal.echo(
            f"Valid: {counts['n_predictions']:,} of {counts['n_examples']:,} examples have predictions, "
            f"{read.n_duplicates:,} repeated ids, {len(read.parse_failures):,} unparsable responses."
        )
        print_warnings(terminal.console(), read.notes)
    if strict:
        cli.refuse_warnings(read.notes)
