"""The part of `kbbench run` that runs retrievers."""

import json
from typing import Any

import click

from kbbench_hf.reports.tables import print_result
from kbbench_hf.runners.retrieval import latency_text, questions, run_reranking, run_retrieval, score_run


def retrieval_command(dataset: str, config: str | None, model: str, base_url: str | None, **options: Any) -> None:
    """Rank, re-rank if asked, score, and print; everything stays in the run's folder."""
    asked = questions(dataset, config, options["split"], options["limit"])
    show = not options["json_output"]
    run = run_retrieval(asked, model, options["out"], top_k=options["top_k"], processes=options["processes"], show=show)
    if run.rank:
        return
    folder, words = run.folder, latency_text(run.latency)
    if options["rerank"]:
        from kbbench_hf.cli.run import language_model, price_of, sampling_of, summary_text

        name = options["rerank"].removeprefix("llm:")
        judge, how = language_model(name, base_url, options)
        how |= {"sampling": sampling_of(options), "structured": options["structured"], "show": show}
        how["price"] = price_of(name, options)
        folder, summary, unread = run_reranking(asked, run.folder, judge, name, depth=options["depth"], **how)
        words = f"{summary_text(summary)}\n{unread:,} answers held no score"
    result = score_run(asked, folder, options["mode"])
    if options["json_output"]:
        click.echo(json.dumps({**result.to_dict(), "run": str(folder)}, indent=2))
        return
    print_result(result, asked.benchmark)
    click.echo(f"{words}\n\n{folder}\nLook at it: kbbench report {folder}")
