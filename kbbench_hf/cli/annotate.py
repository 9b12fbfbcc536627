"""`kbbench annotate`: make, once, what metrics need of other models."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from kbbench_hf.benchmarks.base import AnnotationRules, Examples
from kbbench_hf.cli.names import NAME, FilePath, Number
from kbbench_hf.cli.options import JSON, on_benchmark, read_how
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.scoring.predictions import ReadOptions

if TYPE_CHECKING:
    from kbbench_hf.models.embedders import SentenceEmbedder
    from kbbench_hf.runners.judge import AnyJudge
    from kbbench_hf.scoring.score import Asked

_FILE = FilePath()
_JUDGE = "nli:MODEL, stored:FILE, hf:MODEL, or with --base-url the name of a served model."


@click.command()
@click.argument("predictions", required=False, type=_FILE)
@on_benchmark
@read_how
@click.option(
    "--embedder", type=NAME, metavar="MODEL", help="Embed elements with this sentence-transformers model (US, CS)."
)
@click.option("--thresholds", type=_FILE, help="The embedder's thresholds, as --calibrate wrote them.")
@click.option("--stored-cosines", type=_FILE, help="A release's cosines, in place of an embedder (CS).")
@click.option("--topics", is_flag=True, help="Topics of texts and triples (TS); trains a topic model the first time.")
@click.option("--corpus", type=_FILE, help="Train the topic model on this file, a text a line.")
@click.option("--fact-judge", type=NAME, metavar="JUDGE", help=f"Judge facts (FS): {_JUDGE}")
@click.option("--split-judge", type=NAME, metavar="JUDGE", help="Judge granularity (GS): the same.")
@click.option("--base-url", type=NAME, help="The server of the judges' model.")
@click.option("--api-key-env", type=NAME, metavar="NAME", help="The environment variable that holds the server's key.")
@click.option(
    "--structured/--no-structured", default=None, help="Ask judges for JSON by schema.  [default: where a server can]"
)
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer of a judge, its thought included.")
@click.option("--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Most requests at once.")
@click.option("--timeout", type=Number(0.1), default=300.0, show_default=True, help="Seconds for a request.")
@click.option("--max-requests", type=click.IntRange(1), help="Stop after so many requests.")
@click.option("--allow-other-server", is_flag=True, help="Let another server or model go on judging.")
@click.option("--batch-size", type=click.IntRange(1), default=16, show_default=True, help="Local models.")
@click.option("--out", type=_FILE, help="The annotations' folder; beside the predictions by default.")
@click.option("--topic-models", type=_FILE, default=Path("kbbench/topic-models"), show_default=True)
@click.option(
    "--calibrate", type=_FILE, metavar="RELEASE", help="Find the embedder's thresholds on a release's outputs."
)
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
    """Annotate PREDICTIONS (a run's folder or a file), so that they can be scored without any model.

    What is there already and was made alike is kept; an interrupted judge goes on where it stopped.

    Example:
      kbbench annotate runs/mine --benchmark mini-genres --topics
      --embedder sentence-transformers/all-MiniLM-L6-v2
      --fact-judge nli:cross-encoder/nli-deberta-v3-base
    """
    from kbbench_hf.scoring.score import asked_of

    asked = asked_of([predictions] if predictions else [], benchmark, split=split)
    found, rules = asked.benchmark, asked.benchmark.scoring.annotations
    if rules is None:
        raise UsageError(f"{found.dataset} is scored without annotations; there is nothing to make. Score it.")
    options["show"] = not json_output
    if calibrate is not None:
        done = _calibrate(rules, calibrate, asked.examples, options)
    elif predictions is None:
        raise UsageError("No predictions; expected a run's folder or a predictions file. Name it, or use --calibrate.")
    else:
        done = _annotate(predictions, asked, rules, read_options, options)
    click.echo(
        json.dumps(done, indent=2) if json_output else "\n".join(f"{name}: {what}" for name, what in done.items())
    )
    verdicts = [each for what in done.values() if isinstance(what, dict) for each in what.items()]
    if failed := sum(n for status, n in verdicts if "failed" in status):
        raise KBBenchError(f"{failed} items have no verdict: requests failed. Run the same again to ask for them.")


def _annotate(predictions: Path, asked: "Asked", rules: AnnotationRules, how: ReadOptions, options: Row) -> Row:
    from kbbench_hf.benchmarks import find_dataset
    from kbbench_hf.benchmarks.annotations import annotations_folder
    from kbbench_hf.files.formats import prediction_files
    from kbbench_hf.models.thresholds import thresholds_of
    from kbbench_hf.runners.annotate import annotate_embeddings, annotate_stored_cosines, annotate_topics
    from kbbench_hf.runners.judge import annotate_verdicts
    from kbbench_hf.scoring.predictions import read_predictions

    if not any(options[name] for name in ("embedder", "stored_cosines", "topics", "fact_judge", "split_judge")):
        raise UsageError("Nothing to annotate; expected some of --embedder, --topics, --fact-judge, --split-judge.")
    benchmark, examples, (_, config, *_), *_ = asked
    answers = read_predictions([predictions], benchmark, examples, how).answers
    folder, show = options["out"] or annotations_folder(prediction_files([predictions])[0]), options["show"]
    report: Row = {"annotations": str(folder)}
    if options["topics"]:
        corpus = _lines(options["corpus"]) or rules.corpus(find_dataset(benchmark.dataset), config)
        annotate_topics(examples, answers, folder, corpus, rules.n_topics(config), options["topic_models"], show=show)
        report["topics"] = f"trained on {len(corpus):,} texts"
    if options["embedder"]:
        embedder = _embedder(options)
        thresholds = thresholds_of(embedder.name, options["thresholds"])
        n = annotate_embeddings(rules, examples, answers, folder, embedder, thresholds, show=show)
        report["embeddings"] = f"{n:,} elements encoded"
    if options["stored_cosines"]:
        report["cosines"] = f"{annotate_stored_cosines(examples, folder, options['stored_cosines']):,} documents"
    for kind, name in (("factualness", options["fact_judge"]), ("granularity", options["split_judge"])):
        if name:
            judge = _judge(name, kind, options)
            report[kind] = dict(annotate_verdicts(examples, answers, folder, kind, judge, show=show))
    return report


def _calibrate(rules: AnnotationRules, release: Path, examples: Examples, options: Row) -> Row:
    from kbbench_hf.models.thresholds import write_thresholds
    from kbbench_hf.runners.calibrate import calibrate_embedder

    if not (options["embedder"] and options["thresholds"]):
        raise UsageError("--calibrate needs --embedder, and --thresholds: the file to write.")
    embedder = _embedder(options)
    work = options["thresholds"].with_suffix(".work")
    thresholds, found = calibrate_embedder(rules, release, examples, embedder, work, show=options["show"])
    write_thresholds(options["thresholds"], embedder.name, thresholds)
    return {metric: calibration._asdict() for metric, calibration in found.items()}


def _judge(name: str, kind: str, options: Row) -> "AnyJudge":
    from kbbench_hf.runners.jobs import Sampling
    from kbbench_hf.runners.judge import ChatJudge, judge_by_name
    from kbbench_hf.runners.run import How, asking_options, language_model

    if not options["base_url"] and not name.startswith("hf:"):
        return judge_by_name(name, kind)
    names = ("base_url", "api_key_env", "timeout", "concurrency", "max_requests", "batch_size", "allow_other_server")
    how = cast(How, {each: options[each] for each in names})
    model = language_model(name, how)
    sampling = Sampling(max_tokens=options["max_tokens"])
    return ChatJudge(model, sampling, options["structured"], asking_options(name, model, how))


def _embedder(options: Row) -> "SentenceEmbedder":
    from kbbench_hf.models.embedders import SentenceEmbedder

    return SentenceEmbedder(options["embedder"], batch=options["batch_size"])


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    if not file.is_file():
        raise UsageError(f"{file} does not exist; expected a corpus, a text a line. Check the path.")
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
