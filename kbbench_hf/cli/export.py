"""`kbbench export`: a run's figures in a format that other systems read."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from kbbench_hf.cli.names import NAME, FilePath
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.writing import write_text
from kbbench_hf.hub.connection import check_name
from kbbench_hf.hub.publish import open_pull_request
from kbbench_hf.reports.every_eval_ever import RELATIONSHIPS, eval_record
from kbbench_hf.reports.hub_records import eval_results_yaml
from kbbench_hf.reports.terminal import echo
from kbbench_hf.scoring.result import read_result
from kbbench_hf.scoring.score import RUN


@click.command()
@click.argument("run", type=FilePath(exists=True))
@click.option(
    "--as",
    "target",
    type=click.Choice(["hub", "eee"]),
    default="hub",
    show_default=True,
    help="hub: .eval_results of a model on the Hub; eee: the JSON of Every Eval Ever.",
)
@click.option("--source-url", type=NAME, help="hub: where the run can be looked at.")
@click.option(
    "--pull-request", type=NAME, metavar="MODEL", help="hub: open a pull request that adds the results to this model."
)
@click.option("--organization", type=NAME, default="not stated", help="eee: who ran it.", show_default=True)
@click.option(
    "--relationship",
    type=click.Choice(RELATIONSHIPS),
    default="other",
    show_default=True,
    help="eee: what these are to the model's makers.",
)
def command(
    run: Path, target: str, source_url: str | None, pull_request: str | None, organization: str, relationship: str
) -> None:
    """Write the figures of RUN, a run folder or a result.json, for another system, beside it.

    Examples:
      kbbench export runs/my-run --as hub --pull-request my-org/my-model
      kbbench export runs/my-run --as eee --organization my-org
    """
    if pull_request:
        check_name(pull_request)
    file = run / "result.json" if run.is_dir() else run
    if not file.is_file():
        raise UsageError(
            f"{run} has no result.json; expected a scored run. Score it first: kbbench score ... --out {run}"
        )
    result = read_result(file)
    scored = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    if target == "eee":
        of_run = read_json(file.parent / RUN) if (file.parent / RUN).is_file() else {}
        examples = file.parent / "scores.jsonl"
        record = eval_record(
            result, of_run, scored, organization, relationship, examples if examples.is_file() else None
        )
        place = file.parent / "every_eval_ever.json"
        write_text(place, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        echo(f"{place}")
        return
    text = eval_results_yaml(result, scored.date().isoformat(), source_url)
    place = file.parent / ".eval_results" / f"{result['benchmark']}.yaml"
    place.parent.mkdir(exist_ok=True)
    write_text(place, text)
    echo(f"{place}")
    if pull_request:
        echo(open_pull_request(pull_request, result["benchmark"], text))
