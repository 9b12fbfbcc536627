"""`kbbench run`: put a model to a benchmark."""

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.cli.options import JSON, MODE, dataset_and_config
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.hub.load import find_benchmark

MODEL_HELP = """A retriever (bm25, dense:MODEL, multi:MODEL, rrf(a,b), graph:BASE), a local language model (hf:MODEL or
hf:FOLDER), or with --base-url the name of a served one."""


OF_RETRIEVERS = {"top_k", "rerank", "depth"}
OF_PROMPTS = {
    "prompt",
    "parser",
    "testbed",
    "subset",
    "shots",
    "demonstrations",
    "similar_by",
    "repeats",
    "dry_run",
}


@click.command()
@click.argument("benchmark")
@click.option("--model", required=True, help=MODEL_HELP)
@click.option("--split", help="Split; the benchmark's usual one by default.")
@MODE
@click.option("--limit", type=click.IntRange(1), help="Only the first examples.")
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; one under ./kbbench-runs by default.")
@click.option("--processes", type=click.IntRange(1), help="Refuse to run unless this many processes do (torchrun).")
@click.option("--top-k", type=click.IntRange(1), help="Retrievers: candidates kept; 100, or all of up to 1,000.")
@click.option(
    "--rerank", metavar="llm:MODEL", help="Retrievers: re-rank with a language model (served, or llm:hf:MODEL)."
)
@click.option("--depth", type=click.IntRange(1), default=20, show_default=True, help="Candidates to re-rank.")
@click.option("--base-url", help="Language models: the server (TGI, vLLM, OpenAI-compatible).")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@click.option("--prompt", "--strategy", help="The prompt's name; see 'kbbench list BENCHMARK'.")
@click.option("--parser", help="How answers are read.")
@click.option("--testbed", help="SKA-Bench: noise, order, depth, rejection, rejection_control, hardness, integration.")
@click.option("--subset", metavar="NAME,...", help="SKA-Bench: of the testbed, only kg, table, kg_text or table_text.")
@click.option("--shots", type=click.IntRange(0), default=1, show_default=True, help="Demonstrations in the prompt.")
@click.option(
    "--demonstrations",
    type=click.Choice(["similar", "leak-free", "random", "none"]),
    default="similar",
    show_default=True,
    help="Which demonstrations.",
)
@click.option(
    "--similar-by", metavar="MODEL", help="Choose similar demonstrations by this sentence-transformers model."
)
@click.option("--temperature", type=click.FloatRange(0), default=0.0, show_default=True)
@click.option("--top-p", type=click.FloatRange(0, 1))
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer; what the prompt asks for by default.")
@click.option("--seed", type=int, help="Sampling seed, where the server takes one.")
@click.option(
    "--repeat", "repeats", type=click.IntRange(1), default=1, show_default=True, help="Ask everything so often."
)
@click.option("--structured", is_flag=True, help="Ask for JSON by schema, and count what does not follow it.")
@click.option("--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Most requests at once.")
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=300.0, show_default=True, help="Seconds for one request."
)
@click.option("--max-requests", type=click.IntRange(1), help="Stop after so many requests.")
@click.option("--prices", type=click.Path(path_type=Path, exists=True), help="Your dated price file (YAML or JSON).")
@click.option("--max-cost", type=click.FloatRange(0), help="Send nothing more once this is spent; needs --prices.")
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Local models; halved when out of memory.",
)
@click.option("--chat-template/--no-chat-template", default=None, help="Local models: apply the tokenizer's template.")
@click.option("--dry-run", is_flag=True, help="Show a prompt, tokens, cost and time; send nothing.")
@JSON
def command(benchmark: str, model: str, base_url: str | None, **options: Any) -> None:
    """Run MODEL on BENCHMARK (NAME or NAME/CONFIG), resuming where the same run stopped before.

    Examples:
      kbbench run mini-stark --model bm25
      kbbench run mini-text2kg --base-url http://localhost:8000/v1 --model my-model
    """
    dataset, config = dataset_and_config(benchmark)
    if find_benchmark(dataset).answer == "ids":
        _refuse(OF_PROMPTS, f"is for language models; {dataset} is answered by retrievers")
        from kbbench_hf.cli.run_retrieval import retrieval_command

        if base_url and not options["rerank"]:
            raise UsageError(f"{dataset} is answered by a retriever; a served model re-ranks it: --rerank llm:{model}.")
        retrieval_command(dataset, config, model, base_url, **options)
    else:
        _refuse(OF_RETRIEVERS, f"is for retrievers; {dataset} is answered by language models")
        if options["testbed"]:
            from kbbench_hf.cli.run_testbed import testbed_command

            testbed_command(dataset, config, model, base_url, options)
            return
        _run_generative(dataset, config, model, base_url, **options)


def _refuse(options: Set[str], why: str) -> None:
    """Refuse options that would be ignored: a --dry-run that runs is worse than an error."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in options and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option.opts[0]} {why}. Leave it out.")


def language_model(name: str, base_url: str | None, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model of a name, and the options that say how it is asked."""
    if base_url:
        from kbbench_hf.models.endpoint import Endpoint, key_from_environment

        key = key_from_environment(options["api_key_env"])
        how = {name: options[name] for name in ("concurrency", "max_requests", "max_cost")}
        return Endpoint(base_url, name, key, options["timeout"]), how
    if name.startswith("hf:"):
        from kbbench_hf.models.causal_lm import CausalLM

        model = CausalLM(
            name.removeprefix("hf:"),
            batch_size=options["batch_size"],
            chat_template=options["chat_template"],
            processes=options["processes"],
        )
        return model, {}
    raise UsageError(f"{name!r} is no local model; expected hf:MODEL, or --base-url with the server that has it.")


def price_of(name: str, options: Mapping[str, Any]) -> Any:
    """Return the price of a model from the user's file; None without one."""
    from kbbench_hf.runners.cost import read_price

    if options["max_cost"] is not None and not options["prices"]:
        raise UsageError("--max-cost needs --prices: prices are read from your own dated file, never guessed.")
    return read_price(options["prices"], name) if options["prices"] else None


def sampling_of(options: Mapping[str, Any]) -> Any:
    """Return how a model samples."""
    from kbbench_hf.runners.jobs import Sampling

    return Sampling(options["temperature"], options["top_p"], options["max_tokens"], options["seed"])


def task_of(dataset: str, config: str | None, options: Mapping[str, Any]) -> Any:
    """Return what a run would ask."""
    from kbbench_hf.runners.generative import task

    seed = {} if options["seed"] is None else {"seed": options["seed"]}
    return task(
        dataset,
        config,
        options["split"],
        prompt=options["prompt"],
        options=PromptOptions(options["shots"], options["demonstrations"], **seed),
        limit=options["limit"],
        similar_by=options["similar_by"],
    )


def _run_generative(dataset: str, config: str | None, name: str, base_url: str | None, **options: Any) -> None:
    from kbbench_hf.reports.tables import print_result
    from kbbench_hf.runners.generative import run_generative

    asked = task_of(dataset, config, options)
    price = price_of(name, options)
    if options["dry_run"]:
        _print_estimate(asked, price, options["max_tokens"], options["concurrency"], options["json_output"])
        return
    model, how = language_model(name, base_url, options)
    folder, summary, result = run_generative(
        asked,
        model,
        name,
        options["out"],
        mode=options["mode"],
        sampling=sampling_of(options),
        repeats=options["repeats"],
        structured=options["structured"],
        parser=options["parser"],
        price=price,
        **how,
    )
    if getattr(model, "rank", 0):
        return
    if options["json_output"]:
        click.echo(json.dumps({**result.to_dict(), "run": str(folder), "summary": summary.to_json()}, indent=2))
    else:
        print_result(result, asked.benchmark)
        click.echo(f"{summary_text(summary)}\n\n{folder}\nLook at it: kbbench report {folder}")
    check_failures(summary)


def summary_text(summary: Any) -> str:
    """Return what became of a run and what it cost, in two lines."""
    cost, latency = "price unknown", ""
    if summary.cost is not None:
        cost = f"{summary.cost:.4f} {summary.currency} (prices of {summary.prices_as_of})"
    if summary.latency_p50_s is not None:
        latency = f"; latency p50 {summary.latency_p50_s:.2f} s, p95 {summary.latency_p95_s:.2f} s"
    errors = f" ({', '.join(f'{kind} {count:,}' for kind, count in summary.errors.items())})" if summary.errors else ""
    changed = "\nThe served model changed during the run: the canary prompt was answered in several ways."
    return (
        f"{summary.n_answered:,} answered, {summary.n_failed:,} failed{errors}, "
        f"{100 * summary.parse_failure_rate:.1f} % unparsed, {summary.n_cut_off:,} cut off\n"
        f"{summary.n_requests:,} requests, {summary.prompt_tokens:,} tokens in, {summary.completion_tokens:,} out, "
        f"{cost}{latency}{changed if summary.served_model_changed else ''}"
    )


def check_failures(summary: Any) -> None:
    """Raise where requests failed that may yet be answered; a refusal is an outcome, and settled."""
    from kbbench_hf.models.replies import Failure

    failed = sum(n for kind, n in summary.errors.items() if not Failure(kind, transient=False).settled)
    if failed:
        raise KBBenchError(
            f"{failed:,} of {summary.n_prompts:,} requests failed and are scored as missing. "
            "Start the same run again to send them again."
        )


def _print_estimate(asked: Any, price: Any, max_tokens: int | None, concurrency: int, json_output: bool) -> None:
    from kbbench_hf.runners.cost import estimate

    prompts = list(asked.prompts().values())
    found = estimate(
        [prompt.messages for prompt in prompts],
        [max_tokens or prompt.max_tokens for prompt in prompts],
        price=price,
        concurrency=concurrency,
    )
    if json_output:
        click.echo(json.dumps(found.to_json(), indent=2))
        return
    for message in prompts[0].messages:
        click.echo(f"[{message['role']}]\n{message['content']}\n")
    cost = f"at most {found.cost:.4f} {found.currency}" if found.cost is not None else "unknown (no --prices)"
    click.echo(
        f"{found.n_prompts:,} prompts, about {found.prompt_tokens:,} tokens in, "
        f"at most {found.most_completion_tokens:,} out\n"
        f"cost {cost}, about {found.seconds / 60:.0f} min\nassuming {found.assumes}\nNothing was sent."
    )
