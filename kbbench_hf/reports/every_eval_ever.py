"""A result as a record of Every Eval Ever, the shared database of evaluation results.

Format: eval.schema.json of evaleval/every_eval_ever at 0666632, version 0.2.1.
"""

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.files import file_sha256
from kbbench_hf.files.datasets import NAMESPACE, Row
from kbbench_hf.metrics.intervals import CONFIDENCE
from kbbench_hf.scoring.eval_task import system_name
from kbbench_hf.scoring.result import PlainFigure, PlainResult

SCHEMA_VERSION = "0.2.1"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
Record = dict[str, object]


def eval_record(
    result: PlainResult,
    run: Row,
    scored: datetime,
    organization: str,
    relationship: str,
    examples: Path | None = None,
) -> Record:
    """Return the record of a scored run: every scored figure between 0 and 1, with its interval, counts and warnings.

    Args:
        result: what `result.json` holds.
        run: what `run.json` holds; empty for predictions that were made elsewhere.
        scored: when it was scored.
        organization: who evaluated.
        relationship: what these are to those who made the model.
        examples: the values of each example, `scores.jsonl`.

    Raises:
        UsageError: the result has no figure that was scored.
    """
    unbounded = benchmark(result["benchmark"]).scoring.unbounded  # the format wants the best that a score can be
    figures = {
        metric: figure
        for metric, figure in result["scores"].items()
        if figure["value"] is not None and metric not in unbounded
    }
    if not figures:
        raise UsageError("The result has no scored metric; expected at least one. Score the run first.")
    settings = run.get("settings", {})
    system = system_name(settings) or "unknown"
    record: Record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{result['benchmark']}/{system.replace('/', '_')}/{scored.timestamp():.0f}",
        "retrieved_timestamp": f"{scored.timestamp():.0f}",
        "source_metadata": {
            "source_name": "kbbench-hf",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": relationship,
        },
        "eval_library": {"name": "kbbench-hf", "version": result["versions"].get("kbbench_hf", version("kbbench-hf"))},
        "model_info": {
            "name": system,
            "id": str(settings.get("agent") or settings.get("rerank") or system),
            **_engine(run),
        },
        "evaluation_results": [_metric_record(result, metric, figure, settings) for metric, figure in figures.items()],
    }
    if "started" in run:
        record["evaluation_timestamp"] = run["started"]
    if examples is not None:
        with examples.open(encoding="utf-8") as lines:
            n_rows = sum(1 for _ in lines)
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": examples.name,
            "hash_algorithm": "sha256",
            "checksum": file_sha256(examples),
            "total_rows": n_rows,
        }
    return record


def _metric_record(result: PlainResult, metric: str, figure: PlainFigure, settings: Mapping[str, object]) -> Record:
    found = benchmark(result["benchmark"])
    low, high = figure["ci95"]
    uncertainty: Record = {"num_samples": figure["n_scored"]}
    if low is not None and high is not None:
        uncertainty["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": CONFIDENCE}
    counts = {name: str(figure[name]) for name in ("n_scored", "n_unscored", "n_missing")}
    warnings = {f"warning:{each['code']}": each["message"] for each in result.get("warnings", [])}
    sampling = {name: settings.get(name) for name in ("temperature", "top_p", "max_tokens")}
    sampling = {name: value for name, value in sampling.items() if value is not None}
    return {
        "evaluation_name": f"{result['benchmark']}.{metric}",
        "source_data": {
            "dataset_name": result["benchmark"],
            "source_type": "hf_dataset",
            "hf_repo": f"{NAMESPACE}/{result['benchmark']}",
            "hf_split": result["split"],
            "samples_number": result["counters"]["n_examples"],
            "additional_details": {"config": result["config"], "revision": result["dataset_revision"]},
        },
        "metric_config": {
            "evaluation_description": f"{found.metrics.get(metric, metric)} of {found.title}, mode {result['mode']}",
            "lower_is_better": metric in found.scoring.lower_is_better,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 1,
        },
        "score_details": {
            "score": figure["value"],
            "details": {**counts, **warnings, "predictions_sha256": result["predictions_sha256"]},
            "uncertainty": uncertainty,
        },
        **({"generation_config": {"generation_args": sampling}} if sampling else {}),
    }


def _engine(run: Row) -> Record:
    """Return the server that answered, where one did and said what it is."""
    server = run.get("settings", {}).get("server") or {}
    if not isinstance(server, dict) or "kind" not in server:
        return {}
    known = {"name": server["kind"], "version": server.get("version", "unknown")}
    return {"inference_engine": {name: str(value) for name, value in known.items()}}
