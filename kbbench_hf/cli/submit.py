"""`kbbench submit`: submit a predictions file to a leaderboard."""

import getpass
from pathlib import Path
from typing import Any

import click

from kbbench_hf.benchmarks.judge_agreement import self_judged_warnings
from kbbench_hf.cli.options import MODE, STORE, FilePath, on_benchmark, option
from kbbench_hf.errors import UsageError
from kbbench_hf.files import is_pipe
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview_of, store_preview
from kbbench_hf.reports.terminal import echo
from kbbench_hf.scoring.eval_task import load_examples, resolve_task, run_settings
from kbbench_hf.scoring.score import add_annotations, find_annotations
from kbbench_hf.scoring.warnings import stored_warnings


@click.command()
@click.argument("predictions", type=FilePath(exists=True, allow_dash=True))
@on_benchmark
@MODE
@option("--name", "Display name on the leaderboard.", required=True)
@click.option("--link", default="", help="URL of the paper or model card.")
@click.option("--license", "--licence", "licence", default="", help="License of the predictions.")
@option("--parameters parameters_b", "Model size in billion parameters.", float)
@click.option("--notes", default="", help="Remarks on the system.")
@option("--submitter", "Your name; by default the user name on this machine.")
@STORE
def command(
    predictions: Path,
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    submitter: str | None,
    store: Path,
    **system: Any,
) -> None:
    """Check, score and store PREDICTIONS in a leaderboard; submitting the same file twice stores it once.

    PREDICTIONS is a file or a run folder. A run is stored in the mode in which it was scored. Annotations in the same
    folder are stored too.

    Example: kbbench submit answers.jsonl --benchmark mini-text2kg --name "my system"
    """
    if is_pipe(predictions):
        raise UsageError(
            f"{predictions} is standard input or a pipe; expected a file or a run folder, which can be stored. "
            "Write a file first: kbbench validate - --benchmark NAME --out answers.jsonl"
        )
    task = resolve_task([predictions], benchmark, split=split, mode=mode)
    file = predictions / "predictions.jsonl" if predictions.is_dir() else predictions
    if not file.exists():
        raise UsageError(
            f"{predictions} has no {file.name}; expected a run folder or a predictions file. Check the path."
        )
    beside = find_annotations(file) if task.benchmark.scoring.annotations else None
    annotations = sorted(beside.glob("*.parquet")) if beside else []
    run = run_settings([predictions])
    of_run = stored_warnings(run.get("warnings", []))
    if annotations:
        of_run += self_judged_warnings(str(run.get("model", "")), add_annotations(task, beside).examples)
    read = preview_of(load_examples(*task.task_key), file, annotations, of_run)
    receipt = store_preview(Store(store), read, System(**system), submitter or getpass.getuser())
    what = "Changed" if receipt.edited else "Already stored" if receipt.existed else "Stored"
    echo(f"{what}: {receipt.id} in {store}")
