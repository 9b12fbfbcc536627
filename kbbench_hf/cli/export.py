"""`kbbench export`: write a run in formats of other tools, or a knowledge base as plain files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbbench_hf.benchmarks import name_of_path
from kbbench_hf.benchmarks.answers import IDS
from kbbench_hf.benchmarks.retrieval import grades_of
from kbbench_hf.cli.options import FilePath, flag, option
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import MANIFEST, read_json
from kbbench_hf.files.writing import write_text
from kbbench_hf.hub.publish import open_pull_request
from kbbench_hf.hub.repository import check_name
from kbbench_hf.reports.every_eval_ever import RELATIONSHIPS, RecordOptions, schema_versions, write_record
from kbbench_hf.reports.exports import RANKING_FILES, eval_results_yaml
from kbbench_hf.reports.terminal import called_as, echo
from kbbench_hf.scoring.eval_task import RUN, resolve_task, system_name
from kbbench_hf.scoring.predictions import read_predictions
from kbbench_hf.scoring.result import PlainResult, read_result

if TYPE_CHECKING:
    from kbbench_hf.runners.run_options import RunOptions

TRAJECTORIES, GRAPH_FILES = "trajectories", "graph-files"


@click.command()
@click.argument("run", type=FilePath())
@option(
    "--as target",
    "hub: .eval_results of a model on the Hub; eee: record of Every Eval Ever; trec: run and qrels for trec_eval "
    "and ir_measures; ranx: run and qrels for ranx; trajectories: conversations of an agent, to train on with TRL; "
    "graph-files: a knowledge base as JSON Lines and TSV.",
    click.Choice(["hub", "eee", *RANKING_FILES, TRAJECTORIES, GRAPH_FILES]),
    default="hub",
)
@option(
    "--into",
    "Load the knowledge base RUN, a dataset, into pgvector:URL, chroma:URL or qdrant:URL; a folder is a URL, too.",
    metavar="ENGINE:URL",
)
@option("--base-url", "--into: URL of the API of the embedding model.")
@option("--api-key-env", "--into: environment variable that holds the key of that API.", metavar="NAME")
@option("--out", "graph-files: new output folder.  [default: RUN-graph-files]", FilePath())
@flag("--all of_all", "trajectories: also write conversations whose first selected node is not a gold answer.")
@option("--source-url", "hub: URL of the run.")
@option("--pull-request", "hub: open a pull request that adds the results to this model.", metavar="MODEL")
@option("--organization", "eee: organization that ran the evaluation.", default="not stated")
@option(
    "--relationship",
    "eee: relationship of the evaluator to the model developer.",
    click.Choice(RELATIONSHIPS),
    default="other",
)
@option(
    "--model",
    "eee: id of the model (DEVELOPER/MODEL), if the run has no such id; --into: dense:MODEL, which makes the vectors.",
)
@option("--schema", "eee: version of the schema.  [default: the newest]", metavar="VERSION")
def command(
    run: Path,
    target: str,
    into: str | None,
    base_url: str | None,
    api_key_env: str | None,
    out: Path | None,
    of_all: bool,
    source_url: str | None,
    pull_request: str | None,
    organization: str,
    relationship: str,
    model: str | None,
    schema: str | None,
) -> None:
    """Write the scores of RUN, a run folder or a result.json, in the format of another tool, next to the run.

    --as trec and --as ranx write the rankings and the gold. Scores in these files decrease with the rank, because
    evaluators break ties in different ways; the metrics on them equal those of mode standard.

    --as trajectories writes the conversations of an agent on the training split, as messages with tool calls.

    --as graph-files writes a knowledge base as files, for agents that write programs. RUN is the name of a dataset.
    The gold answers are in a folder of their own, private.

    --into loads the candidates of a dataset into a search engine, as documents and vectors; the same command resumes.

    --as eee writes a record and its samples into RUN/every_eval_ever/data, in the layout of the datastore.

    Examples:
      kbbench export runs/my-run --as trec
      kbbench export runs/my-run --as hub --pull-request my-org/my-model
      kbbench export runs/my-run --as eee --organization my-org --model my-org/my-model
      kbbench export mini-stark --as graph-files
      kbbench export mini-stark --into qdrant:http://localhost:6333 --model dense:sentence-transformers/all-MiniLM-L6-v2
    """
    if into is not None:
        if out or target != "hub":
            raise UsageError("--into loads a search engine, and --as and --out write files. Leave one of them out.")
        _load_into(run, into, model, {"base_url": base_url, "api_key_env": api_key_env})
        return
    if base_url or api_key_env:
        raise UsageError("--base-url and --api-key-env are for --into ENGINE:URL. Add it, or leave them out.")
    if target == GRAPH_FILES:
        _export_graph(run, out)
        return
    if out is not None:
        raise UsageError(f"--out {out} is for --as {GRAPH_FILES}; --as {target} writes next to the run. Leave it out.")
    if not run.exists():
        raise UsageError(
            f"{run} does not exist; expected a run folder or a result.json. Is it a dataset? --as {GRAPH_FILES}"
        )
    if pull_request:
        check_name(pull_request)
    file = run / "result.json" if run.is_dir() else run
    if target in RANKING_FILES:
        _export_rankings(run, file.parent, target)
        return
    if target == TRAJECTORIES:
        _export_trajectories(file.parent, successes=not of_all)
        return
    if not file.is_file():
        raise UsageError(
            f"{run} has no result.json; expected a scored run. Score it first: kbbench score ... --out {run}"
        )
    result = read_result(file)
    scored = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    if target == "eee":
        options = RecordOptions(schema or schema_versions()[0], organization, relationship, model)
        _export_record(file.parent, result, scored, options)
        return
    text = eval_results_yaml(result, scored.date().isoformat(), source_url)
    place = file.parent / ".eval_results" / f"{result['benchmark']}.yaml"
    place.parent.mkdir(exist_ok=True)
    write_text(place, text)
    echo(f"{place}")
    if pull_request:
        echo(open_pull_request(pull_request, result["benchmark"], text))


def _export_graph(dataset: Path, out: Path | None) -> None:
    """Write the knowledge base and the questions of a dataset as plain files."""
    from kbbench_hf.reports.graph_files import write_graph_files

    name = _dataset_name(dataset)
    folder = out or Path(f"{Path(name).name}-{GRAPH_FILES}")
    echo("\n".join([f"{folder}", *(f"  {line}" for line in write_graph_files(name, folder))]))


def _dataset_name(dataset: Path) -> str:
    """Return the name of a dataset that is given by name or folder."""
    return name_of_path(str(dataset.resolve())) if (dataset / MANIFEST).is_file() else str(dataset)


def _load_into(dataset: Path, into: str, model: str | None, server: "RunOptions") -> None:
    """Load the documents and vectors of a dataset into a search engine."""
    from kbbench_hf.retrieval.ir_tools import load_documents
    from kbbench_hf.runners.progress import progress
    from kbbench_hf.runners.retrieval_run import default_cache
    from kbbench_hf.runners.run_options import served_embedder

    if model is None:
        raise UsageError("--into loads vectors; expected the model that makes them. Add --model dense:MODEL.")
    name = _dataset_name(dataset)
    embedder = served_embedder(model, server, second_stage=False)
    table, n = load_documents(name, into, model, cache=default_cache(), progress=progress, embedder=embedder)
    echo(f"{n:,} documents with vectors of {model} are in {into.partition(':')[0]}, table {table}\n")
    run = f'{called_as()} run {name} --model "search:URL({model})"'
    echo(f"Start a server of your search, as in examples/search_engines, and run it: {run}")


def _export_record(folder: Path, result: PlainResult, scored: datetime, options: RecordOptions) -> None:
    """Write the Every Eval Ever record of a run, with the conversations of an agent."""
    from kbbench_hf.runners.agent import replay

    run = read_json(folder / RUN) if (folder / RUN).is_file() else {}
    is_agent = "agent" in run.get("settings", {})
    conversations = {each.walk.id: each.messages for each in replay(folder)} if is_agent else {}
    place, notes = write_record(folder, result, run, scored, options, conversations)
    echo("\n".join([str(place), *notes]))


def _export_rankings(run: Path, folder: Path, target: str) -> None:
    """Write the rankings of a retriever's run, and the gold, into a folder named after the format."""
    task = resolve_task([run])
    if task.benchmark.scoring.answer is not IDS:
        raise UsageError(
            f"{run} holds {task.benchmark.scoring.answer.field} for {task.task_key.benchmark}; expected rankings. "
            "Use --as hub or --as eee."
        )
    read = read_predictions([folder], task.benchmark, task.examples)
    pairs = zip(task.examples.rows, read.answers, strict=True)
    rankings = {row["id"]: answer for row, answer in pairs if answer}
    gold = {row["id"]: grades_of(row) for row in task.examples.rows}
    files = RANKING_FILES[target](rankings, gold, str(system_name(read_json(folder / RUN)["settings"])))
    (folder / target).mkdir(exist_ok=True)
    for name, content in files.items():
        write_text(folder / target / name, content)
        echo(f"{folder / target / name}")
    if missing := len(gold) - len(rankings):
        echo(f"{missing:,} of {len(gold):,} queries have no ranking; count them as 0 (trec_eval -c).")


def _export_trajectories(folder: Path, *, successes: bool) -> None:
    """Write the conversations of an agent's run to `training.jsonl`."""
    from kbbench_hf.runners.agent import training_lines

    lines = list(training_lines(folder, successes=successes))
    if not lines:
        raise UsageError(
            f"{folder} has no conversation whose first selected node is a gold answer. Use --all for the others."
        )
    write_text(folder / "training.jsonl", "".join(lines))
    echo(f"{folder / 'training.jsonl'}  ({len(lines):,} conversations)")
