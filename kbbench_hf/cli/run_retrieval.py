"""The part of `kbbench run` that runs retrievers."""

import json
from typing import Any

import click

from kbbench_hf.errors import unknown_name
from kbbench_hf.hub.load import find_benchmark
from kbbench_hf.reports.tables import print_result
from kbbench_hf.runners.retrieval import latency_text, questions, run_reranking, run_retrieval, score_run


def retrieval_command(dataset: str, config: str | None, model: str, base_url: str | None, **options: Any) -> None:
    """Rank, re-rank if asked, score, and print; everything stays in the run's folder."""
    from kbbench_hf.cli.run import check_failures, language_model, price_of, sampling_of, summary_text

    modes = find_benchmark(dataset).modes
    if options["mode"] not in (None, *modes):  # said before anything is ranked
        raise unknown_name(f"mode of {dataset}", options["mode"], modes)
    asked = questions(dataset, config, options["split"], options["limit"])
    name = (options["rerank"] or "").removeprefix("llm:")
    if name:
        price = price_of(name, options)
        judge, how = language_model(name, base_url, options)
    run = run_retrieval(asked, model, options["out"], top_k=options["top_k"], processes=options["processes"])
    if run.rank:
        return
    folder, words = run.folder, latency_text(run.latency)
    if name:
        how |= {"sampling": sampling_of(options), "structured": options["structured"], "price": price}
        folder, summary, unread = run_reranking(asked, run.folder, judge, name, depth=options["depth"], **how)
        words = f"{summary_text(summary)}\n{unread:,} answers held no score"
    result = score_run(asked, folder, options["mode"])
    if options["json_output"]:
        click.echo(json.dumps({**result.to_dict(), "run": str(folder)}, indent=2))
    else:
        print_result(result, asked.benchmark)
        click.echo(f"{words}\n\n{folder}\nLook at it: kbbench report {folder}")
    if name:
        check_failures(summary)
