"""`kbbench annotate`: compute the topics, embeddings and verdicts that metrics need."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from kbbench_hf.benchmarks import is_published
from kbbench_hf.benchmarks.annotated import AnnotationRules
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.baselines import answers_of
from kbbench_hf.cli.options import (
    API_KEY_ENV,
    CONCURRENCY,
    JSON,
    FilePath,
    Number,
    flag,
    on_benchmark,
    option,
    with_read_options,
)
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files import shown_name
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.shards import ShardEnd
from kbbench_hf.scoring.options import ReadOptions

if TYPE_CHECKING:
    from kbbench_hf.runners.run_options import RunOptions
    from kbbench_hf.scoring.eval_task import EvalTask

_FILE = FilePath()
JUDGING = (
    "base_url", "api_key_env", "structured", "max_tokens", "concurrency", "timeout", "max_requests",
    "allow_other_server", "batch_size", "shard", "collect",
)  # fmt: skip
"""Options for the requests to a judge."""
_JUDGE = "surface, nli:MODEL, stored:FILE, hf:MODEL, or with --base-url the name of a model behind an API."


@click.command()
@click.argument("predictions", required=False, type=_FILE)
@on_benchmark
@with_read_options
@option("--embedder", "Sentence-transformers model for the embeddings (US, CS).", metavar="MODEL")
@option("--thresholds", "The thresholds of the embedder, written by --calibrate.", _FILE)
@option("--stored-cosines", "Stored cosines of a release, instead of an embedder (CS).", _FILE)
@flag("--topics", "Compute topics of texts and triples (TS); trains topic models the first time.")
@option("--corpus", "Train the topic models on this file: one text per line, or a JSON list.", _FILE)
@option(
    "--topic-seed topic_seeds",
    "Seed of a topic model (repeatable); TS is the mean over the seeds.  [default: 0 to 4]",
    click.IntRange(0),
    multiple=True,
    metavar="N",
)
@option("--fact-judge", f"Judge of factualness (FS): {_JUDGE}", metavar="JUDGE")
@option("--split-judge", "Judge of granularity (GS): the same choices.", metavar="JUDGE")
@option("--base-url", "URL of the API that has the judge model.")
@API_KEY_ENV
@click.option(
    "--structured/--no-structured",
    default=None,
    help="Constrain verdicts to a JSON schema.  [default: if the server supports it]",
)
@option("--max-tokens", "Maximum tokens of a verdict, reasoning included.", click.IntRange(1))
@CONCURRENCY
@option("--timeout", "Timeout of a request in seconds.", Number(0.1), default=300.0)
@option("--max-requests", "Stop after this number of requests.", click.IntRange(1))
@flag("--allow-other-server", "Resume with another server or model.")
@option("--shard", "Judge only shard K of N; 'slurm' is K/N of a job array.", metavar="K/N")
@flag("--collect", "Send nothing; annotate with what the shards have judged.", default=None)
@option("--batch-size", "Batch size of local models.", click.IntRange(1), default=16)
@option("--out", "Folder of the annotations; by default next to the predictions.", _FILE)
@option("--topic-models", "Folder of the trained topic models.", _FILE, default=Path("kbbench/topic-models"))
@option("--calibrations", "Folder with the calibrations of judges.", _FILE, default=Path("kbbench/judges"))
@option(
    "--calibrate",
    "Fit the thresholds of the embedder, and measure judge agreement, on the outputs of a release.",
    _FILE,
    metavar="RELEASE",
)
@option("--sample", "Number of triples to calibrate a judge on; 0 for all.", click.IntRange(0), default=2000)
@JSON
def command(
    predictions: Path | None,
    benchmark: str | None,
    split: str | None,
    read_options: ReadOptions,
    calibrate: Path | None,
    json_output: bool,
    **options: Any,
) -> None:
    """Annotate PREDICTIONS (a run folder, a file or published:NAME), so that `kbbench score` needs no model.

    Existing annotations with the same settings are kept; an interrupted judge resumes. Without options, the judge of
    factualness and granularity is `surface`, a baseline without a model: it uses the form of the triples and the words
    that they share with the text. Scores are printed with the agreement of their judge with the released verdicts.

    Examples:
      kbbench annotate runs/mine --benchmark mini-genres --topics --fact-judge nli:cross-encoder/nli-deberta-v3-base
      kbbench annotate runs/mine --benchmark mini-genres --embedder sentence-transformers/all-MiniLM-L6-v2
      kbbench annotate --calibrate RELEASE --benchmark genres-corpora/docred --fact-judge surface
    """
    from kbbench_hf.runners.annotators import annotation_rules, n_failed
    from kbbench_hf.scoring.eval_task import resolve_task

    task = resolve_task([predictions] if predictions else [], benchmark, split=split)
    rules = annotation_rules(task)
    if predictions is not None and is_published(predictions):
        predictions = answers_of(str(predictions), task.task_key)
        read_options = ReadOptions(source=read_options.source, parser=read_options.parser)
    options |= {"show": not json_output, "json_output": json_output}
    if calibrate is not None:
        if options["shard"] or options["collect"]:
            raise UsageError("--shard and --collect are for predictions; --calibrate is not divided. Leave them out.")
        done = _calibrate(rules, calibrate, task, options)
    elif predictions is None:
        raise UsageError("No predictions; expected a run folder or a predictions file. Name it, or use --calibrate.")
    else:
        try:
            done = _annotate(predictions, task, read_options, options)
        except ShardEnd as end:
            done = {"shard": str(end)}
    click.echo(
        json.dumps(done, indent=2) if json_output else "\n".join(f"{name}: {what}" for name, what in done.items())
    )
    if calibrate is None and (failed := n_failed(done)):
        raise KBBenchError(
            f"{failed} items have no verdict because requests failed. Run the same command again to resend them."
        )


def _annotate(predictions: Path, task: "EvalTask", how: ReadOptions, options: Row) -> Row:
    """Annotate predictions, and score a run that has a result again; return kind -> what was done, for the output."""
    from kbbench_hf.files import annotations_folder
    from kbbench_hf.files.formats import prediction_files
    from kbbench_hf.judges.surface import SURFACE
    from kbbench_hf.runners.annotators import Annotators, annotate_predictions
    from kbbench_hf.scoring.predictions import read_predictions
    from kbbench_hf.scoring.result import write_result
    from kbbench_hf.scoring.score import score

    kinds = ("fact_judge", "split_judge", "embedder", "thresholds", "stored_cosines", "topics", "corpus")
    seeds = ("topic_seeds",) if options["topic_seeds"] else ()
    chosen = {name: options[name] for name in (*kinds, *seeds, "topic_models", "calibrations")}
    if not (annotators := Annotators(**chosen, judging=_judge_options(options))):
        annotators = replace(annotators, fact_judge=SURFACE, split_judge=SURFACE)
    file = prediction_files([predictions])[0]
    if not (options["out"] or file.is_file() or file.is_dir()):
        raise UsageError(
            f"{shown_name(file)} is a pipe, and annotations are stored next to the predictions; expected a file or a "
            "run's folder. Write it to a file first."
        )
    answers = read_predictions([predictions], task.benchmark, task.examples, how).answers
    folder = options["out"] or annotations_folder(file)
    made = annotate_predictions(task, answers, folder, annotators, show=options["show"])
    if predictions.is_dir() and not options["out"] and (predictions / "result.json").is_file():
        write_result(score(predictions), predictions)
    return made


def _calibrate(rules: AnnotationRules, release: Path, task: "EvalTask", options: Row) -> Row:
    """Calibrate the embedder and the judges on a release; return kind -> agreement, for the output."""
    from kbbench_hf.runners.annotators import judge_of
    from kbbench_hf.runners.calibration import calibrate_judge

    named = {"factualness": options["fact_judge"], "granularity": options["split_judge"]}
    of_task = task.task_key.config, _judge_options(options)
    judges = {kind: judge_of(name, kind, *of_task) for kind, name in named.items() if name}
    if not (judges or (options["embedder"] and options["thresholds"])):
        raise UsageError(
            "--calibrate needs --fact-judge, --split-judge, or --embedder with --thresholds FILE. Add one of them."
        )
    done: Row = {}
    if options["embedder"]:
        done |= _calibrate_embedder(rules, release, task.examples, options)
    for kind, judge in judges.items():
        how = {"sample": options["sample"] or None, "show": options["show"]}
        measured = calibrate_judge(rules, release, task.examples, kind, judge, options["calibrations"], **how)
        done[kind] = measured.to_dict() if options["json_output"] else f"{named[kind]}\n{measured.table()}"
    return done


def _calibrate_embedder(rules: AnnotationRules, release: Path, examples: Examples, options: Row) -> Row:
    """Fit and write the thresholds of the embedder; return metric -> calibration. A `.work` folder lets it resume."""
    from kbbench_hf.judges.thresholds import write_thresholds
    from kbbench_hf.retrieval.embedders import SentenceEmbedder
    from kbbench_hf.runners.calibration import calibrate_embedder

    if not options["thresholds"]:
        raise UsageError("--calibrate with --embedder needs --thresholds FILE, the file to write. Add it.")
    embedder = SentenceEmbedder(options["embedder"], batch=options["batch_size"])
    work = options["thresholds"].with_suffix(".work")
    thresholds, calibrations = calibrate_embedder(rules, release, examples, embedder, work, show=options["show"])
    write_thresholds(options["thresholds"], embedder.name, thresholds)
    return {metric: calibration._asdict() for metric, calibration in calibrations.items()}


def _judge_options(options: Row) -> "RunOptions":
    """Return the given options for requests to a judge."""
    return cast("RunOptions", {name: options[name] for name in JUDGING if options[name] is not None})
