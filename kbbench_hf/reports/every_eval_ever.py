"""Every Eval Ever: the record of a scored run and its file of samples, in the layout of the EEE datastore.

Source: schemas and checks of the package every-eval-ever 0.3.0; see `data/every_eval_ever/README.md`.
"""

import hashlib
import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset
from kbbench_hf.benchmarks.answers import AnswerKind
from kbbench_hf.benchmarks.examples import QUESTION_COLUMNS, question_column
from kbbench_hf.errors import DataError, KBBenchError, UsageError, unknown_name
from kbbench_hf.files.datasets import NAMESPACE, Id, Row
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.intervals import CONFIDENCE
from kbbench_hf.scoring.eval_task import load_examples, system_name
from kbbench_hf.scoring.result import PlainResult, PlainScore, annotations_of, finite

Record = dict[str, Any]
SCHEMAS = Path(__file__).parent / "data" / "every_eval_ever"
MOST_RANKED = 20
"""Candidates of a ranking in a sample: every metric repeats them, and a ranking may have a thousand."""
MOST_CHARACTERS = 80
"""Fields of a row up to this length are metadata of its samples, to slice and cluster by."""
_NOT_PORTABLE = re.compile(r'[<>"\\|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|^(data|unknown|\.*)$', re.I)
"""Names that the datastore refuses for folders."""


class Evaluator(NamedTuple):
    """What a run does not record: who evaluated, and what the model is."""

    organization: str = "not stated"
    relationship: str = "other"
    model: str | None = None
    """Its id, DEVELOPER/MODEL; None for the one that the run records."""
    deployment: str = "unknown"
    weights: str = "unknown"


class Texts(NamedTuple):
    """The rows of a scored split, by id, and what answers to them are; or why samples must not have their content."""

    rows: Mapping[Id, Row]
    kind: AnswerKind
    why_withheld: str = ""
    canary: str = ""


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


def _choices() -> dict[str, list[str]]:
    newest = load_schema(schema_versions()[0])
    of_model = newest["$defs"]["model_info"]["properties"]["additional_details"]["properties"]
    fields = {**newest["properties"]["source_metadata"]["properties"], **of_model}
    return {name: field["enum"] for name, field in fields.items() if "enum" in field}


CHOICES = _choices()
"""Field -> the values that the newest schema allows."""


def write_record(
    folder: Path,
    result: PlainResult,
    run: Row,
    scored: datetime,
    evaluator: Evaluator,
    wanted: str,
    conversations: Mapping[Id, Sequence[Mapping[str, Any]]],
) -> tuple[Path, list[str]]:
    """Write the record of a run and its samples into `every_eval_ever` in the run's folder.

    Args:
        folder: the run's folder; `scores.jsonl` and `predictions.jsonl` in it become samples.
        result: what `result.json` holds.
        run: what `run.json` holds; empty for predictions that were made elsewhere.
        scored: when it was scored.
        evaluator: who evaluated.
        wanted: the version of the schema.
        conversations: id -> messages of an agent's run; empty for other runs.

    Returns:
        The file of the record, and notes on what it leaves out.

    Raises:
        UsageError: the result has no scored metric, or its model has no developer.
    """
    scores_file, answers_file = folder / "scores.jsonl", folder / "predictions.jsonl"
    values = _json_lines(scores_file)
    record = eval_record(result, run, scored, evaluator, wanted, values)
    notes = []
    if left := [each for each in result["scores"] if each not in _result_ids(record)]:
        notes.append(f"Left out, as they have no score or no bound in schema {wanted}: {', '.join(left)}.")
    uuid = UUID(bytes=hashlib.sha256(record["evaluation_id"].encode()).digest()[:16], version=4)
    place = "/".join(
        ("data", _folder_name(result["benchmark"]), *_model_folders(record["model_info"]["id"]), str(uuid))
    )
    target = folder / "every_eval_ever" / f"{place}.json"
    if values:
        texts = _texts(result)
        outputs = {row["id"]: row for row in _json_lines(answers_file)}
        samples = [
            json.dumps(sample, ensure_ascii=False, allow_nan=False)
            for sample in _samples(record, values, texts, outputs, conversations, wanted)
        ]
        text = "".join(f"{sample}\n" for sample in samples)
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{place}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(text.encode()).hexdigest(),
            "total_rows": len(samples),
        }
        if texts.why_withheld:
            notes.append(f"The samples have no questions, gold and outputs: {texts.why_withheld}")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target.with_name(f"{uuid}_samples.jsonl"), text)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return target, notes


def eval_record(
    result: PlainResult, run: Row, scored: datetime, evaluator: Evaluator, wanted: str, values: Sequence[Row] = ()
) -> Record:
    """Return the record of a scored run: every scored metric with its interval, counts and warnings.

    Arguments are those of `write_record`; `values` has the rows of `scores.jsonl`, for standard errors.
    """
    schema = load_schema(wanted)
    scores = {metric: score for metric, score in result["scores"].items() if score["value"] is not None}
    config = schema["properties"]["evaluation_results"]["items"]["properties"]["metric_config"]["properties"]
    if "oneOf" not in config["max_score"]:  # older schemas have no word for a metric without a bound
        scores = {metric: score for metric, score in scores.items() if metric not in _unbounded(result)}
    if not scores:
        raise UsageError("The result has no scored metric; expected at least one. Score the run first.")
    settings = run.get("settings", {})
    system = system_name(settings) or evaluator.model or "unknown"
    model = evaluator.model or str(settings.get("agent") or settings.get("rerank") or system)
    _model_folders(model)
    task = "/".join((result["benchmark"], result["config"], result["split"], result["mode"]))
    record: Record = {
        "schema_version": schema["version"],
        # the same predictions have the same id, however often they are exported
        "evaluation_id": f"{task}/{model.replace('/', '_')}/{result['predictions_sha256'][:16]}",
        "retrieved_timestamp": f"{scored.timestamp():.0f}",
        "source_metadata": {
            "source_name": "kbbench-hf",
            "source_type": "evaluation_run",
            "source_organization_name": evaluator.organization,
            "evaluator_relationship": evaluator.relationship,
        },
        "eval_library": {"name": "kbbench-hf", "version": result["versions"].get("kbbench_hf", version("kbbench-hf"))},
        "model_info": {
            "name": system,
            "id": model,
            "developer": model.partition("/")[0],
            **_engine(settings),
            "additional_details": {"deployment_type": evaluator.deployment, "model_availability": evaluator.weights},
        },
        "evaluation_results": [
            _metric_record(result, metric, score, settings, [row.get(metric) for row in values])
            for metric, score in scores.items()
        ],
    }
    if "started" in run:
        record["evaluation_timestamp"] = run["started"]
    return record


def _metric_record(
    result: PlainResult, metric: str, score: PlainScore, settings: Row, values: Sequence[float | None]
) -> Record:
    bench = benchmark(result["benchmark"])
    counts = {name: str(score[name]) for name in ("n_scored", "n_unscored", "n_missing")}
    warnings = {f"warning:{each['code']}": each["message"] for each in result.get("warnings", [])}
    kind, _, k = metric.partition("_at_")
    unbounded = metric in _unbounded(result)
    sampling = {name: settings.get(name) for name in ("temperature", "top_p", "max_tokens")}
    sampling = {name: value for name, value in sampling.items() if value is not None}
    return {
        "evaluation_result_id": metric,
        "evaluation_name": f"kbbench.{result['benchmark']}.{result['config']}",
        "source_data": {
            "dataset_name": result["benchmark"],
            **(
                {
                    "source_type": "hf_dataset",
                    "hf_repo": f"{NAMESPACE}/{result['benchmark']}",
                    "hf_split": result["split"],
                    "samples_number": result["counters"]["n_examples"],
                }
                if result["benchmark"] in benchmark_names()
                else {"source_type": "other"}
            ),
            "additional_details": {"config": result["config"], "revision": result["dataset_revision"]},
        },
        "metric_config": {
            "evaluation_description": f"{bench.metrics.get(metric, metric)} of {bench.title}, mode {result['mode']}",
            "metric_id": f"kbbench.{metric}",
            "metric_name": bench.metrics.get(metric, metric),
            "metric_kind": kind,
            **({} if unbounded else {"metric_unit": "proportion"}),
            "metric_parameters": {"mode": result["mode"], **({"k": int(k)} if k.isdigit() else {})},
            "lower_is_better": metric in bench.scoring.lower_is_better,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": "Infinity" if unbounded else 1,
            **({"additional_details": made} if (made := annotations_of(result["versions"])) else {}),
        },
        "score_details": {
            "score": score["value"],
            "details": {**counts, **warnings, "predictions_sha256": result["predictions_sha256"]},
            "uncertainty": _uncertainty(score, values),
        },
        **({"generation_config": {"generation_args": sampling}} if sampling else {}),
    }


def _uncertainty(score: PlainScore, values: Sequence[float | None]) -> Record:
    """Return the interval, and the standard error where the score is the plain mean of the values."""
    found: Record = {"num_samples": score["n_scored"]}
    low, high = score["ci95"]
    if low is not None and high is not None:
        method = "as kbbench_hf.metrics.intervals"
        found["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": CONFIDENCE, "method": method}
    given = [value for value in values if value is not None]
    if len(given) > 1 and math.isclose(math.fsum(given) / len(given), score["value"] or 0, abs_tol=1e-9):
        deviation = statistics.stdev(given)
        found["standard_deviation"] = deviation
        found["standard_error"] = {"value": deviation / math.sqrt(len(given)), "method": "analytic"}
    return found


def _samples(
    record: Record,
    values: Sequence[Row],
    texts: Texts,
    outputs: Mapping[Id, Row],
    conversations: Mapping[Id, Sequence[Mapping[str, Any]]],
    wanted: str,
) -> list[Record]:
    """Return a sample of each example and metric; examples that a metric leaves out have none."""
    version_of_samples = load_schema(wanted, "instance_level_eval")["version"]
    results = {each["evaluation_result_id"]: each for each in record["evaluation_results"]}
    samples = []
    for row in values:
        example_id = row["id"]
        content = _content(texts, example_id, outputs.get(example_id, {}), conversations.get(example_id, ()))
        for metric, each in results.items():
            if (value := finite(math.nan if row.get(metric) is None else row[metric])) is None:
                continue
            best = 0 if each["metric_config"]["lower_is_better"] else each["metric_config"]["max_score"]
            turns = {"num_turns": content["n_turns"], "tool_calls_count": content["n_calls"]}
            samples.append(
                {
                    "schema_version": version_of_samples,
                    "evaluation_id": record["evaluation_id"],
                    "model_id": record["model_info"]["id"],
                    "evaluation_name": each["evaluation_name"],
                    "evaluation_result_id": metric,
                    "sample_id": str(example_id),
                    **content["fields"],
                    "evaluation": {"score": value, "is_correct": value == best, **turns},
                }
            )
    return samples


def _content(texts: Texts, example_id: Id, answer: Row, messages: Sequence[Mapping[str, Any]]) -> Record:
    """Return what the samples of one example share, and its turns and tool calls."""
    row = texts.rows.get(example_id, {})
    raw = str(row.get(question_column(row), ""))
    kind, gold = texts.kind, row.get(texts.kind.gold or texts.kind.field)
    reference = kind.words(kind.read({kind.field: gold})) if gold else []
    hashed = json.dumps({"raw": raw, "reference": reference}, sort_keys=True, separators=(",", ":"))
    fields: Record = {"sample_hash": hashlib.sha256(hashed.encode()).hexdigest()} if row else {}
    metadata = {name: str(value) for name, value in row.items() if isinstance(value, str | int)}
    metadata = {name: text for name, text in metadata.items() if len(text) <= MOST_CHARACTERS}
    if texts.why_withheld:
        raw, reference, metadata, answer = "", [], {}, {}
        messages = [{"role": message["role"]} for message in messages]
    fields["input"] = {"raw": raw, "reference": reference}
    if texts.canary:
        metadata["canary"] = texts.canary
    if metadata:
        fields["metadata"] = {name: text for name, text in metadata.items() if name not in ("id", *QUESTION_COLUMNS)}
    parsed = answer.get(kind.field)
    shown = None if parsed is None else json.dumps(parsed[:MOST_RANKED] if kind.ranked else parsed, ensure_ascii=False)
    if messages:
        turns = [_turn(number, message) for number, message in enumerate(messages)]
        fields |= {"interaction_type": "agentic", "messages": turns}
    else:
        output = answer.get("response") or shown
        fields |= {"interaction_type": "single_turn", "output": {"raw": [] if output is None else [output]}}
    spoken = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    source = "messages[turn_idx].tool_calls" if messages else "output.raw"
    attributed = {"turn_idx": spoken[-1] if spoken else 0, "source": source, "extracted_value": shown}
    method = {"extraction_method": "custom", "is_terminal": True}
    fields["answer_attribution"] = [] if shown is None else [{**attributed, **method}]
    if answer.get("error") is not None:
        fields["error"] = str(answer["error"])
    return {
        "fields": fields,
        "n_turns": len(spoken) or 1,
        "n_calls": sum(len(message.get("tool_calls") or ()) for message in messages),
    }


def _turn(number: int, message: Mapping[str, Any]) -> Record:
    """Return a message of a conversation; arguments of calls are texts."""
    turn: Record = {"turn_idx": number, "role": message["role"], "content": message.get("content")}
    if calls := message.get("tool_calls"):
        turn["tool_calls"] = [
            {
                "id": str(call.get("id", number)),
                "name": call["function"]["name"],
                "arguments": _arguments(call["function"]["arguments"]),
            }
            for call in calls
        ]
    if "tool_call_id" in message:
        turn["tool_call_id"] = [message["tool_call_id"]]
    return turn


def _arguments(text: str) -> dict[str, str]:
    """Return the arguments of a call as texts; the whole text where it is no object."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return {"arguments": text}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


def _texts(result: PlainResult) -> Texts:
    """Return the rows of the split that was scored, and whether their content may be handed on."""
    kind = benchmark(result["benchmark"]).scoring.answer
    try:
        task = load_examples(result["benchmark"], result["config"], result["split"], result["mode"])
    except KBBenchError as error:
        return Texts({}, kind, str(error))
    rows = {row["id"]: row for row in task.examples.rows}
    if task.revision != result["dataset_revision"]:
        return Texts({}, kind, "the installed dataset is another revision than the one that was scored.")
    if not task.benchmark.facts.redistributable:
        return Texts(rows, kind, "the license of the dataset does not allow it.")
    if result["benchmark"] not in benchmark_names() or find_dataset(result["benchmark"]).is_private:
        return Texts(rows, kind, "the dataset is private.")
    return Texts(rows, kind, canary=find_dataset(result["benchmark"]).canary)


def _model_folders(model: str) -> tuple[str, str]:
    """Return the folders of a model in the datastore, as its validator derives them of the id.

    Raises:
        UsageError: the id has no developer, or is no portable name.

    >>> _model_folders("openai/azure/gpt-4o:free")
    ('openai', 'azure_gpt-4o_free')
    """
    developer, slash, name = model.partition("/")
    if not slash or "" in name.split("/"):
        raise UsageError(
            f"The model {model!r} has no developer; expected DEVELOPER/MODEL, as Every Eval Ever files records by it. "
            f"Add --model DEVELOPER/{model.strip('/').rpartition('/')[2]}."
        )
    return _folder_name(developer), _folder_name(name)


def _folder_name(identity: str) -> str:
    name = "_".join(identity.replace(":", "_").split("/"))
    if _NOT_PORTABLE.search(name):
        raise UsageError(
            f"{identity!r} cannot name a folder of the Every Eval Ever datastore; expected letters, digits, dots and "
            "dashes. Add --model DEVELOPER/MODEL."
        )
    return name


def _unbounded(result: PlainResult) -> frozenset[str]:
    return benchmark(result["benchmark"]).scoring.unbounded


def _result_ids(record: Record) -> set[str]:
    return {each["evaluation_result_id"] for each in record["evaluation_results"]}


def _engine(settings: Row) -> Record:
    """Return the server that answered, where one did and said what it is."""
    server = settings.get("server") or {}
    if not isinstance(server, dict) or "kind" not in server:
        return {}
    return {"inference_engine": {"name": str(server["kind"]), "version": str(server.get("version", "unknown"))}}


def _json_lines(file: Path) -> list[Row]:
    """Return the rows of a file of the run's folder; none where there is no such file."""
    if not file.is_file():
        return []
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        raise DataError(
            f"{file} is damaged; expected JSON Lines. Score the run again: kbbench score {file.parent}"
        ) from None
