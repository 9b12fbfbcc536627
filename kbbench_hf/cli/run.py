"""`kbbench run`: run a model on a benchmark; the options depend on the benchmark."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.options import ALL_METRICS, BENCHMARK, JSON, NOTES, option
from kbbench_hf.cli.run_options import RunCommand, submit_shards, take_slurm, without_slurm
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.shards import ShardEnd
from kbbench_hf.model_specs import KINDS, is_retriever
from kbbench_hf.reports.terminal import called_as, echo, print_json

if TYPE_CHECKING:
    from kbbench_hf.runners.run_options import RunOptions
    from kbbench_hf.runners.run_summary import RunSummary

MODEL_HELP = """A retriever: bm25, dense:MODEL, late:MODEL, multi:MODEL, rrf(a,b), weighted(a,b), graph:BASE or
plan:rules; trained ones: plan:DIR, qagnn:DIR or fuse:DIR; published ones: vss:MODEL and multi_vss:MODEL. Options
choose the node text that it reads, as in bm25@text=compact,relations=no: text is official, compact, clean, named,
name or text; relations is yes or no. A search engine: search:URL. Or a local language model: hf:MODEL, hf:FOLDER or
hf:FILE.gguf. Or with --base-url the name of a model behind an API; not needed if the API has only one; for a
retriever, its embedding model is there."""


@click.command(cls=RunCommand)
@click.argument("benchmark", type=BENCHMARK)
@option("--model", f"{MODEL_HELP}  [required without --base-url]")
@ALL_METRICS
@NOTES
@JSON
def command(
    benchmark: str, model: str | None, all_metrics: bool, notes: bool, json_output: bool, **options: Any
) -> None:
    """Run MODEL on BENCHMARK (NAME or NAME/CONFIG); the same command resumes an interrupted run.

    Name the benchmark before --help to see its options only.

    Examples:
      kbbench run mini-stark --model bm25
      kbbench run mini-stark --model bm25 --agent llm:my-model --base-url http://localhost:8000/v1
      kbbench run mini-text2kg --base-url http://localhost:8000/v1 --model my-model
    """
    options = {name: value for name, value in options.items() if value is not None}
    found = benchmark_of(benchmark.removeprefix("kbbench/").partition("/")[0])
    if model is None and options.get("base_url") and found.asking.prompts:
        model = _served_model(cast("RunOptions", options))
    if model is None:
        kinds = (
            "hf:MODEL, or --base-url with the server that has the model" if found.asking.prompts else f"one of: {KINDS}"
        )
        raise UsageError(f"Missing option '--model'. Write {kinds}. See: kbbench run --help")
    second = options.get("rerank") or options.get("agent")
    if options.get("base_url") and not found.asking.prompts and not second and not is_retriever(model):
        raise UsageError(
            f"{found.dataset} needs a retriever; {model} can re-rank its results (--model bm25 --rerank "
            f"llm:{model}) or search as an agent (--model bm25 --agent llm:{model})."
        )
    slurm = take_slurm(options, dry="dry_run" in options)
    dry, testbed, subset = (options.pop(name, None) for name in ("dry_run", "testbed", "subset"))
    if slurm:
        if not (out := options.get("out")):
            raise UsageError("--slurm needs --out FOLDER, a folder on the disk that the machines share. Add it.")
        arguments = ["run", *without_slurm(click.get_current_context().meta["arguments"])]
        from kbbench_hf.runners.run import check_started

        check_started(out, benchmark, model, **options)
        is_collected = (out / "result.json").is_file()
        submit_shards(slurm, arguments, out, is_collected=is_collected, dry=bool(dry), json_output=json_output)
        return
    if subset and not testbed:
        raise UsageError("--subset needs --testbed NAME. Add it, or leave --subset out.")
    if dry and not found.asking.prompts:
        raise UsageError(f"--dry-run is for language models; {found.dataset} evaluates retrievers. Leave it out.")
    if dry:
        _print_estimate(benchmark, model, cast("RunOptions", options), json_output)
        return
    if testbed:
        wanted = (testbed, subset.split(",") if subset else None)
        _run_testbed(found, benchmark, model, wanted, cast("RunOptions", options), json_output)
        return
    from kbbench_hf.reports.tables import print_result
    from kbbench_hf.runners.run import finished_run

    try:
        done = finished_run(benchmark, model, **options)
    except ShardEnd as end:
        if json_output:
            print_json({"shard": options["shard"], "run": str(end.folder)})
        else:
            echo(str(end))
        return
    if _is_first():
        if json_output:
            summary = {"summary": done.summary.to_json()} if done.summary and found.asking.prompts else {}
            print_json({**done.result.to_dict(), "run": str(done.folder), **summary})
        else:
            print_result(done.result, found, all_metrics=all_metrics, notes=notes)
            view = f"{called_as()} report {shlex.quote(str(done.folder))}"
            echo(f"{done.words()}\n\n{done.folder}\nView the report: {view}")
    if done.stopped is not None:
        raise done.stopped
    check_failures(done.summary)


def _served_model(options: "RunOptions") -> str:
    """Return the only model of the server, and print its name on stderr; UsageError unless it has exactly one."""
    from kbbench_hf.llm.endpoint import Endpoint
    from kbbench_hf.runners.run_options import language_model
    from kbbench_hf.runners.server_probe import served_model

    model = served_model(cast(Endpoint, language_model("", options)))
    click.echo(f"{options['base_url']} serves the model {model}.", err=True)
    return model


def check_failures(*summaries: "RunSummary | None") -> None:
    """Raise KBBenchError if failed requests can be sent again, or if no prompt of any run has a response.

    Refusals and prompts that do not fit the context are final. Some are a result of the run; if all are, nothing was
    measured. None stands for a run without requests.
    """
    found = [summary for summary in summaries if summary is not None]
    if failed := sum(summary.n_open for summary in found):
        raise KBBenchError(
            f"{failed:,} of {sum(summary.n_prompts for summary in found):,} requests failed and are scored as missing. "
            "Run the same command again to resend them."
        )
    failed = sum(summary.n_failed for summary in found)
    if failed and not any(summary.n_answered for summary in found):
        kinds = ", ".join(dict.fromkeys(kind for summary in found for kind in summary.errors))
        raise KBBenchError(
            f"All {failed:,} requests failed ({kinds}) and are scored as missing. Expected at least one response. "
            "These failures are final: follow the warnings, and run again in a new folder (--out)."
        )


def _is_first() -> bool:
    """Whether this process has rank 0; of several processes, only that one prints."""
    return os.environ.get("RANK", "0") == "0"


def _run_testbed(
    found: Benchmark,
    name: str,
    model: str,
    wanted: tuple[str, Sequence[str] | None],
    options: "RunOptions",
    json_output: bool,
) -> None:
    """Run the configs of a testbed, or print the table of their finished runs if the testbed sends no requests.

    Raises:
        KBBenchError: configs are not finished, after all others ran; or `check_failures` raises it.
    """
    from kbbench_hf.runners.testbed import finished_results, run_configs, testbed_configs

    if "/" in name.removeprefix("kbbench/"):
        raise UsageError(f"{name} names one config and --testbed several; expected one of the two. Leave one out.")
    chosen, configs = testbed_configs(found, *wanted)
    if chosen.table is not None:
        from kbbench_hf.reports.score_table import print_table, table_to_json

        table = chosen.table(finished_results(found, configs, model, options))
        if json_output:
            print_json(table_to_json(table))
        else:
            print_table(table)
        return
    results, unfinished, open_ones = {}, {}, list[str]()
    summaries: list[RunSummary | None] = []
    for config, done in run_configs(found, configs, model, options):
        if isinstance(done, ShardEnd):
            open_ones.append(config)
            words = str(done)
        elif isinstance(done, KBBenchError):
            unfinished[config] = words = f"not run: {done}"
        else:
            results[config] = done.result.to_dict()
            words = f"{done.words()}\n{done.folder}"
            summaries.append(done.summary)
            if done.stopped is not None or (done.summary and done.summary.n_open):
                unfinished[config] = str(done.stopped or f"{done.summary and done.summary.n_open} requests failed")
        if _is_first() and not json_output:
            click.echo(f"{config}: {words}")
    ends = _is_first() and not open_ones
    if ends and json_output:
        print_json(results)
    elif ends and results:
        from kbbench_hf.reports.score_table import print_testbed

        print_testbed(found, model, wanted[0], results, options.get("out") or Path("kbbench-runs") / found.dataset)
    if unfinished:
        reasons = "; ".join(f"{config}: {why}" for config, why in unfinished.items())
        raise KBBenchError(
            f"{len(unfinished)} of {len(configs)} configs are not finished: {reasons}. Run the same "
            "command again to resume."
        )
    check_failures(*summaries)


def _print_estimate(name: str, model: str, options: "RunOptions", json_output: bool) -> None:
    """Print a prompt, and the tokens, cost and time of a run."""
    from kbbench_hf.runners.run import estimate_run

    prompt, found = estimate_run(name, model, **options)
    if json_output:
        print_json(found.to_json())
        return
    for message in prompt.messages:
        click.echo(f"[{message['role']}]\n{message['content']}\n")
    cost = f"at most {found.cost:.4f} {found.currency}" if found.cost is not None else "unknown (no --prices)"
    click.echo(
        f"{found.n_prompts:,} prompts, about {found.prompt_tokens:,} tokens in, "
        f"at most {found.most_completion_tokens:,} out\n"
        f"cost {cost}\ntime {found.time}\nassuming {found.assumes}\n{found.sent}"
    )
