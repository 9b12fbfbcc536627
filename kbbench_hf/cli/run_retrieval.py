"""The part of `kbbench run` that runs retrievers."""

import json
from pathlib import Path
from typing import Any

import click

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.hub.load import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.records import read_predictions
from kbbench_hf.reports.tables import print_result
from kbbench_hf.runners.retrieve import retrieve
from kbbench_hf.runners.run_folder import default_folder
from kbbench_hf.scoring import load_examples, score_examples, write_result


def run_retrieval(dataset: str, config: str | None, model: str, **options: Any) -> None:
    """Rank, score, and print; everything stays in the run's folder."""
    benchmark, examples, revision = load_examples(dataset, config, options["split"])
    examples = Examples(examples.rows[: options["limit"]], examples.context)
    place = {
        "benchmark": benchmark.dataset,
        "config": config or benchmark.configs[0],
        "split": options["split"] or benchmark.default_split,
        "dataset_revision": revision,
    }
    mode = options["mode"] or benchmark.modes[0]
    settings = {**place, "top_k": options["top_k"], "limit": options["limit"]}
    folder: Path = options["out"] or default_folder(dataset, place["config"], place["split"], model, settings)
    run = retrieve(
        examples,
        KnowledgeBase.open(find_dataset(dataset).path),
        model,
        folder,
        about=place,
        top_k=options["top_k"],
        processes=options["processes"],
        show=not options["json_output"],
    )
    if run.rank:
        return
    predictions = read_predictions([folder / "predictions.jsonl"], benchmark, examples)
    result = score_examples(benchmark, examples, predictions, place["config"], place["split"], mode, revision)
    write_result(result, folder)
    if options["json_output"]:
        click.echo(json.dumps({**result.to_dict(), "run": str(folder)}, indent=2))
        return
    print_result(result, benchmark)
    if run.latency.latency_p50_s is not None and run.latency.latency_p95_s is not None:
        p50, p95 = 1000 * run.latency.latency_p50_s, 1000 * run.latency.latency_p95_s
        click.echo(f"latency of one question: p50 {p50:.1f} ms, p95 {p95:.1f} ms (over {run.latency.n_timed})")
    click.echo(f"\n{folder}\nLook at it: kbbench report {folder}")
