"""The part of `kbbench run` that runs retrievers."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.hub.load import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.records import read_predictions
from kbbench_hf.reports.tables import print_result
from kbbench_hf.runners.retrieve import DOCUMENTS, retrieve
from kbbench_hf.runners.run_folder import RUN, add_to_run, default_folder, open_run
from kbbench_hf.scoring import load_examples, score_examples, write_result


def run_retrieval(dataset: str, config: str | None, model: str, base_url: str | None, **options: Any) -> None:
    """Rank, re-rank if asked, score, and print; everything stays in the run's folder."""
    benchmark, examples, revision = load_examples(dataset, config, options["split"])
    examples = Examples(examples.rows[: options["limit"]], examples.context)
    place = {
        "benchmark": benchmark.dataset,
        "config": config or benchmark.configs[0],
        "split": options["split"] or benchmark.default_split,
        "dataset_revision": revision,
    }
    mode, show = options["mode"] or benchmark.modes[0], not options["json_output"]
    settings = {**place, "top_k": options["top_k"], "limit": options["limit"]}
    folder: Path = options["out"] or default_folder(dataset, place["config"], place["split"], model, settings)
    kb = KnowledgeBase.open(find_dataset(dataset).path)
    run = retrieve(
        examples, kb, model, folder, about=place, top_k=options["top_k"], processes=options["processes"], show=show
    )
    if run.rank:
        return
    words = ""
    if run.latency.latency_p50_s is not None and run.latency.latency_p95_s is not None:
        p50, p95 = 1000 * run.latency.latency_p50_s, 1000 * run.latency.latency_p95_s
        words = f"latency of one question: p50 {p50:.1f} ms, p95 {p95:.1f} ms (over {run.latency.n_timed})"
    if options["rerank"]:
        folder, words = _rerank(examples, kb, folder, base_url, options)
    predictions = read_predictions([folder / "predictions.jsonl"], benchmark, examples)
    result = score_examples(benchmark, examples, predictions, place["config"], place["split"], mode, revision)
    write_result(result, folder)
    if options["json_output"]:
        click.echo(json.dumps({**result.to_dict(), "run": str(folder)}, indent=2))
        return
    print_result(result, benchmark)
    click.echo(f"{words}\n\n{folder}\nLook at it: kbbench report {folder}")


def _rerank(
    examples: Examples, kb: KnowledgeBase, first: Path, base_url: str | None, options: Mapping[str, Any]
) -> tuple[Path, str]:
    """Re-rank the run in `first`; return the folder of the new one, beside it, and what it cost in words."""
    from kbbench_hf.cli.run import language_model, summary_line
    from kbbench_hf.runners.cost import read_price
    from kbbench_hf.runners.jobs import Sampling
    from kbbench_hf.runners.rerank import n_unread, rerank

    name = options["rerank"].removeprefix("llm:")
    price = read_price(options["prices"], name) if options["prices"] else None
    before = json.loads((first / RUN).read_text(encoding="utf-8"))["settings"]
    documents = DOCUMENTS.get(before["benchmark"], "clean")
    settings = {**before, "rerank": name, "depth": options["depth"], "documents": f"{documents}_relations"}
    label = re.sub(r"[^\w.]+", "-", name)
    folder = first.with_name(f"{first.name}-{label}-{options['depth']}")
    open_run(folder, settings, {})
    model, how = language_model(name, base_url, options)
    done = rerank(
        examples,
        kb,
        first,
        model,
        folder,
        depth=options["depth"],
        rendering=settings["documents"],
        sampling=Sampling(options["temperature"], options["top_p"], options["max_tokens"], options["seed"]),
        structured=options["structured"],
        price=price,
        show=not options["json_output"],
        **how,
    )
    add_to_run(folder, model=model.name, summary=done.summary.to_json(), n_unread=n_unread(done))
    return folder, f"{summary_line(done.summary)}\n{n_unread(done):,} answers held no score"
