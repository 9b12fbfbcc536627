"""Every Eval Ever: the record of a scored run and its file of samples, in the layout of the EEE datastore.

Source: schemas and checks of the package every-eval-ever 0.3.0; see `data/every_eval_ever/README.md`.

`kbbench export --as eee` uses it. Records are sent to a public datastore: texts of private data, or of data whose
license forbids it, are never in them. Ids of records must stay, so that an export replaces an earlier one.
"""

import hashlib
import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset
from kbbench_hf.benchmarks.answers import AnswerKind
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.examples import question_column
from kbbench_hf.errors import KBBenchError, UsageError, unknown_name
from kbbench_hf.files import file_sha256
from kbbench_hf.files.datasets import NAMESPACE, Id, Row
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.aggregate import CONFIDENCE
from kbbench_hf.scoring.eval_task import load_examples, system_name
from kbbench_hf.scoring.result import PlainResult, PlainScore, annotations_of, stored_rows

Record = dict[str, Any]
SCHEMAS = Path(__file__).parent / "data" / "every_eval_ever"
UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}
"""Fields of a model that the schema requires and no run records."""
SAMPLING = ("temperature", "top_p", "max_tokens")
MOST_RANKED = 20
"""Candidates of a ranking in a sample: every metric repeats them, and a ranking may have a thousand."""
MOST_CHARACTERS = 80
"""Fields of a row up to this length are metadata of its samples, to slice and cluster by."""
_NOT_PORTABLE = re.compile(r'[<>"\\|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|^(data|unknown|\.*)$', re.I)
"""Names that the datastore refuses for folders."""


Messages = Sequence[Mapping[str, Any]]
"""The conversation of an agent."""


class RecordOptions(NamedTuple):
    """The version of the schema, and what a run does not record: who evaluated, and what the model is."""

    schema: str
    organization: str = "not stated"
    relationship: str = "other"
    model: str | None = None
    """Its id, DEVELOPER/MODEL; None for the one that the run records."""


class Texts(NamedTuple):
    """The rows of a scored split, by id, and its canary; `why_withheld` says why samples must not have the texts."""

    rows: Mapping[Id, Row]
    canary: str = ""
    why_withheld: str = ""


def schema_versions() -> list[str]:
    """Return the versions of the schemas that come with the package, newest first.

    >>> schema_versions()[0] == load_schema(schema_versions()[0])["version"]
    True
    """
    return sorted((folder.name for folder in SCHEMAS.iterdir() if folder.is_dir()), reverse=True)


@cache
def load_schema(wanted: str, name: str = "eval") -> Record:
    """Return a JSON schema: `eval` of records, or `instance_level_eval` of samples.

    Raises:
        UsageError: the package does not have this version.
    """
    if wanted not in schema_versions():
        raise unknown_name("version of the Every Eval Ever schema", wanted, schema_versions())
    schema: Record = json.loads((SCHEMAS / wanted / f"{name}.schema.json").read_text(encoding="utf-8"))
    return schema


_SOURCE = load_schema(schema_versions()[0])["properties"]["source_metadata"]["properties"]
RELATIONSHIPS: list[str] = _SOURCE["evaluator_relationship"]["enum"]


def write_record(
    folder: Path,
    result: PlainResult,
    run: Row,
    scored: datetime,
    options: RecordOptions,
    conversations: Mapping[Id, Messages],
) -> tuple[Path, list[str]]:
    """Write the record of a run and its samples into `every_eval_ever` in the run's folder.

    Args:
        folder: the run's folder; `scores.jsonl` and `predictions.jsonl` in it become samples.
        result: what `result.json` holds.
        run: what `run.json` holds; empty for predictions that were made elsewhere.
        scored: when it was scored.
        options: what the run does not record.
        conversations: id -> messages of an agent; empty for other runs.

    Returns:
        The file of the record, and notes on what it leaves out.

    Raises:
        UsageError: the result has no scored metric, or its model has no developer.
    """
    values = stored_rows(folder / "scores.jsonl")
    record = eval_record(result, run, scored, options, values)
    written, notes = [each["evaluation_result_id"] for each in record["evaluation_results"]], list[str]()
    if left := [metric for metric in result["scores"] if metric not in written]:
        notes.append(f"Left out, as they have no score or no bound in schema {options.schema}: {', '.join(left)}.")
    uuid = UUID(bytes=hashlib.sha256(record["evaluation_id"].encode()).digest()[:16], version=4)
    developer, name = _model_folders(record["model_info"]["id"])
    place = f"data/{result['benchmark']}/{developer}/{name}/{uuid}"
    target = folder / "every_eval_ever" / f"{place}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    texts, outputs = _texts(result), {row["id"]: row for row in stored_rows(folder / "predictions.jsonl")}
    kind, lines = benchmark(result["benchmark"]).scoring.answer, list[str]()
    for row in values:
        content = _content(texts, kind, row["id"], outputs.get(row["id"], {}), conversations.get(row["id"], ()))
        samples = _samples(record, row, content, load_schema(options.schema, "instance_level_eval")["version"])
        lines += [json.dumps(sample, ensure_ascii=False, allow_nan=False) + "\n" for sample in samples]
    if lines:
        write_text(target.with_name(f"{uuid}_samples.jsonl"), "".join(lines))
        detail = {"format": "jsonl", "file_path": f"{place}_samples.jsonl", "hash_algorithm": "sha256"}
        detail["checksum"] = file_sha256(target.with_name(f"{uuid}_samples.jsonl"))
        record["detailed_evaluation_results"] = {**detail, "total_rows": len(lines)}
    if lines and texts.why_withheld:
        notes.append(f"The samples have no questions, gold and outputs: {texts.why_withheld}")
    write_text(target, json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return target, notes


def eval_record(
    result: PlainResult, run: Row, scored: datetime, options: RecordOptions, values: Sequence[Row] = ()
) -> Record:
    """Return the record of a scored run: every scored metric with its interval, counts and warnings.

    Arguments are those of `write_record`; `values` has the rows of `scores.jsonl`, for standard errors.
    """
    schema, bench = load_schema(options.schema), benchmark(result["benchmark"])
    scores = {metric: score for metric, score in result["scores"].items() if score["value"] is not None}
    config = schema["properties"]["evaluation_results"]["items"]["properties"]["metric_config"]["properties"]
    if "oneOf" not in config["max_score"]:  # older schemas have no word for a metric without a bound
        scores = {metric: score for metric, score in scores.items() if metric not in bench.scoring.unbounded}
    if not scores:
        raise UsageError("The result has no scored metric; expected at least one. Score the run first.")
    settings = run.get("settings", {})
    system = system_name(settings) or options.model or "unknown"
    model = options.model or str(settings.get("agent") or settings.get("rerank") or system).removeprefix("cross:")
    task = "/".join((result["benchmark"], result["config"], result["split"], result["mode"], *_model_folders(model)))
    source = {"source_name": "kbbench-hf", "source_type": "evaluation_run"}
    source |= {"source_organization_name": options.organization, "evaluator_relationship": options.relationship}
    info = {"name": system, "id": model, "developer": model.partition("/")[0], "additional_details": UNKNOWN}
    columns = {metric: [row.get(metric) for row in values] for metric in scores}
    return {
        "schema_version": schema["version"],
        # the same predictions have the same id, however often they are exported
        "evaluation_id": f"{task}/{result['predictions_sha256'][:16]}",
        "retrieved_timestamp": f"{scored.timestamp():.0f}",
        **({"evaluation_timestamp": run["started"]} if "started" in run else {}),
        "source_metadata": source,
        "eval_library": {"name": "kbbench-hf", "version": result["versions"].get("kbbench_hf", version("kbbench-hf"))},
        "model_info": {**info, **_engine(settings)},
        "evaluation_results": [_metric_record(result, bench, name, settings, each) for name, each in columns.items()],
    }


def _metric_record(
    result: PlainResult, bench: Benchmark, metric: str, settings: Row, values: Sequence[float | None]
) -> Record:
    """Return the result of one metric in the form of the schema; `values` has one per example."""
    score, label = result["scores"][metric], bench.metrics.get(metric, metric)
    details = {name: str(score[name]) for name in ("n_scored", "n_unscored", "n_missing")}
    details |= {f"warning:{each['code']}": each["message"] for each in result.get("warnings", [])}
    details["predictions_sha256"] = result["predictions_sha256"]
    source: Record = {"dataset_name": bench.dataset, "source_type": "other"}
    source["additional_details"] = {"config": result["config"], "revision": result["dataset_revision"]}
    if bench.dataset in benchmark_names():
        source |= {"source_type": "hf_dataset", "hf_repo": f"{NAMESPACE}/{bench.dataset}", "hf_split": result["split"]}
        source["samples_number"] = result["counters"]["n_examples"]
    kind, _, k = metric.partition("_at_")
    unbounded = metric in bench.scoring.unbounded
    sampling = {name: settings[name] for name in SAMPLING if settings.get(name) is not None}
    return {
        "evaluation_result_id": metric,
        "evaluation_name": f"{NAMESPACE}.{bench.dataset}.{result['config']}",
        "source_data": source,
        "metric_config": {
            "evaluation_description": f"{label} of {bench.title}, mode {result['mode']}",
            "metric_id": f"{NAMESPACE}.{metric}",
            "metric_name": label,
            "metric_kind": kind,
            "metric_unit": "units" if unbounded else "proportion",
            "metric_parameters": {"mode": result["mode"], **({"k": int(k)} if k.isdigit() else {})},
            "lower_is_better": metric in bench.scoring.lower_is_better,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": "Infinity" if unbounded else 1,
            "additional_details": annotations_of(result["versions"]),
        },
        "score_details": {"score": score["value"], "details": details, "uncertainty": _uncertainty(score, values)},
        "generation_config": {"generation_args": sampling},
    }


def _uncertainty(score: PlainScore, values: Sequence[float | None]) -> Record:
    """Return the interval, and the standard error where the score is the plain mean of the values."""
    uncertainty: Record = {"num_samples": score["n_scored"]}
    low, high = score["ci95"]
    if low is not None and high is not None:
        uncertainty["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": CONFIDENCE}
    given = [value for value in values if value is not None]
    if len(given) > 1 and math.isclose(math.fsum(given) / len(given), score["value"] or 0, abs_tol=1e-9):
        deviation = statistics.stdev(given)
        error = {"value": deviation / len(given) ** 0.5, "method": "analytic"}
        uncertainty |= {"standard_deviation": deviation, "standard_error": error}
    return uncertainty


def _samples(record: Record, values: Row, content: Record, schema_version: str) -> Iterator[Record]:
    """Yield the sample of each metric that has a value for an example."""
    for each in record["evaluation_results"]:
        config, value = each["metric_config"], values.get(each["evaluation_result_id"])
        best = config["min_score"] if config["lower_is_better"] else config["max_score"]
        if value is not None:
            yield {
                "schema_version": schema_version,
                "evaluation_id": record["evaluation_id"],
                "model_id": record["model_info"]["id"],
                "evaluation_name": each["evaluation_name"],
                "evaluation_result_id": each["evaluation_result_id"],
                "sample_id": str(values["id"]),
                **content,
                "evaluation": {"score": value, "is_correct": value == best},
            }


def _content(texts: Texts, kind: AnswerKind, example: Id, answer: Row, messages: Messages) -> Record:
    """Return what the samples of one example share: its texts, unless they are withheld, and the answer."""
    row = texts.rows.get(example, {})
    raw, gold = str(row.get(question_column(row), "")), row.get(kind.gold or kind.field)
    reference = kind.words(kind.read({kind.field: gold})) if gold else []
    hashed = json.dumps({"raw": raw, "reference": reference}, sort_keys=True, separators=(",", ":"))
    metadata = {name: str(value) for name, value in row.items() if isinstance(value, str | int)}
    metadata = {name: text for name, text in metadata.items() if len(text) <= MOST_CHARACTERS and text != raw}
    if texts.why_withheld:
        raw, reference, metadata, answer = "", [], {}, {}
        messages = [{"role": message["role"]} for message in messages]
    parsed = answer.get(kind.field)
    if parsed is not None and kind.ranked:
        parsed = parsed[:MOST_RANKED]
    shown = None if parsed is None else json.dumps(parsed, ensure_ascii=False)
    output = answer.get("response") or shown
    attributed: Record = {"turn_idx": max(0, len(messages) - 1), "source": "messages" if messages else "output.raw"}
    attributed |= {"extracted_value": shown, "extraction_method": "custom", "is_terminal": True}
    content: Record = {
        "input": {"raw": raw, "reference": reference},
        "metadata": {**metadata, **({"canary": texts.canary} if texts.canary else {})},
        "interaction_type": "agentic" if messages else "single_turn",
        "answer_attribution": [] if shown is None else [attributed],
        "sample_hash": hashlib.sha256(hashed.encode()).hexdigest() if row else None,
    }
    if messages:
        return {**content, "messages": [_turn(number, message) for number, message in enumerate(messages)]}
    return {**content, "output": {"raw": [] if output is None else [output]}}


def _turn(number: int, message: Mapping[str, Any]) -> Record:
    """Return a message of a conversation; the arguments of a call are its JSON text."""
    calls = [
        {"id": each["id"], "name": each["function"]["name"], "arguments": {"json": each["function"]["arguments"]}}
        for each in message.get("tool_calls", ())
    ]
    answered = [message["tool_call_id"]] if "tool_call_id" in message else None
    turn = {"turn_idx": number, "role": message["role"], "content": message.get("content")}
    return {**turn, "tool_calls": calls or None, "tool_call_id": answered}


def _texts(result: PlainResult) -> Texts:
    """Return the rows of the split that was scored, and whether their texts may be published.

    They are withheld if the dataset is private, of another revision, not installed, or not redistributable.
    """
    try:
        task = load_examples(result["benchmark"], result["config"], result["split"], result["mode"])
        folder = find_dataset(result["benchmark"])
    except KBBenchError as error:
        return Texts({}, why_withheld=str(error))
    if task.revision != result["dataset_revision"]:
        return Texts({}, why_withheld="the installed dataset is another revision than the one that was scored.")
    private = result["benchmark"] not in benchmark_names() or folder.is_private
    why = "" if task.benchmark.facts.redistributable else "the license of the dataset does not allow it."
    rows = {row["id"]: row for row in task.examples.rows}
    return Texts(rows, folder.canary, "the dataset is private." if private else why)


def _model_folders(model: str) -> tuple[str, str]:
    """Return the folders of a model in the datastore, as its validator derives them of the id.

    Raises:
        UsageError: the id has no developer, or is no portable name.

    >>> _model_folders("openai/azure/gpt-4o:free")
    ('openai', 'azure_gpt-4o_free')
    """
    developer, *parts = model.replace(":", "_").split("/")
    if not parts or not all(each and not _NOT_PORTABLE.search(each) for each in (developer, *parts)):
        raise UsageError(
            f"The model {model!r} has no folder in the datastore of Every Eval Ever; expected DEVELOPER/MODEL, in "
            f"letters, digits, dots and dashes. Add --model DEVELOPER/{parts[-1] if parts else model}."
        )
    return developer, "_".join(parts)


def _engine(settings: Row) -> Record:
    """Return the field `inference_engine` if the settings have the kind of the server; else empty."""
    server = settings.get("server") or {}
    if not isinstance(server, dict) or "kind" not in server:
        return {}
    return {"inference_engine": {"name": str(server["kind"]), "version": str(server.get("version", "unknown"))}}
