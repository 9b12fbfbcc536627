"""`kbbench export`: a run's figures, or its rankings, in a format that other systems read."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from kbbench_hf.benchmarks.answers import IDS
from kbbench_hf.cli.names import NAME, FilePath
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.writing import write_text
from kbbench_hf.hub.connection import check_name
from kbbench_hf.hub.publish import open_pull_request
from kbbench_hf.reports.every_eval_ever import RELATIONSHIPS, eval_record
from kbbench_hf.reports.hub_records import eval_results_yaml
from kbbench_hf.reports.ranking_files import RANKING_FILES
from kbbench_hf.reports.terminal import echo
from kbbench_hf.scoring.asked import RUN, asked_of, system_of
from kbbench_hf.scoring.predictions import read_predictions
from kbbench_hf.scoring.result import read_result

TRAJECTORIES = "trajectories"


@click.command()
@click.argument("run", type=FilePath(exists=True))
@click.option(
    "--as",
    "target",
    type=click.Choice(["hub", "eee", *RANKING_FILES, TRAJECTORIES]),
    default="hub",
    show_default=True,
    help="hub: .eval_results of a model on the Hub; eee: the JSON of Every Eval Ever; trec (for trec_eval and "
    "ir_measures too), ranx: rankings and gold; trajectories: an agent's conversations, to train on with TRL.",
)
@click.option("--all", "of_all", is_flag=True, help="trajectories: also where the first selected node is no answer.")
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
    run: Path,
    target: str,
    of_all: bool,
    source_url: str | None,
    pull_request: str | None,
    organization: str,
    relationship: str,
) -> None:
    """Write the figures of RUN, a run folder or a result.json, for another system, beside it.

    With trec or ranx, its rankings and the gold, with scores that say the rank: equal ones would be ordered by rules
    that differ from evaluator to evaluator. Their figures on these files are ours of mode standard.

    With trajectories, the conversations of an agent on the training split, as messages with calls of tools.

    Examples:
      kbbench export runs/my-run --as trec
      kbbench export runs/my-run --as hub --pull-request my-org/my-model
      kbbench export runs/my-run --as eee --organization my-org
    """
    if pull_request:
        check_name(pull_request)
    if target in RANKING_FILES:
        _export_rankings(run, target)
        return
    if target == TRAJECTORIES:
        _export_trajectories(run, successes=not of_all)
        return
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


def _export_rankings(run: Path, target: str) -> None:
    """Write the rankings of a retriever's run, and the gold, into a folder named after the format."""
    asked = asked_of([run])
    if asked.benchmark.scoring.answer is not IDS:
        raise UsageError(
            f"{run} answers {asked.place.benchmark} with {asked.benchmark.scoring.answer.field}; expected rankings. "
            "Export it with --as hub or --as eee."
        )
    read = read_predictions([run if run.is_dir() else run.parent], asked.benchmark, asked.examples)
    pairs = zip(asked.examples.rows, read.answers, strict=True)
    rankings = {row["id"]: answer for row, answer in pairs if answer}
    gold = {row["id"]: row["answer_ids"] for row in asked.examples.rows}
    folder = (run if run.is_dir() else run.parent) / target
    files = RANKING_FILES[target](rankings, gold, str(system_of(read_json(folder.parent / RUN)["settings"])))
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        write_text(folder / name, content)
        echo(f"{folder / name}")
    if missing := len(gold) - len(rankings):
        echo(f"{missing:,} of {len(gold):,} queries have no candidates; count them as 0 (trec_eval -c).")


def _export_trajectories(run: Path, *, successes: bool) -> None:
    """Write the conversations of an agent's run to `training.jsonl`."""
    from kbbench_hf.runners.replay import training_lines

    folder = run if run.is_dir() else run.parent
    lines = list(training_lines(folder, successes=successes))
    if not lines:
        raise UsageError(f"In no conversation of {folder} is the first selected node an answer. Take --all, or none.")
    write_text(folder / "training.jsonl", "".join(lines))
    echo(f"{folder / 'training.jsonl'}  ({len(lines):,} conversations)")
