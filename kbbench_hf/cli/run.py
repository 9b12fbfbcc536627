"""`kbbench run`: put a model to a benchmark. The options are those that the benchmark has."""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath, Number, of_benchmark
from kbbench_hf.cli.options import JSON, MODE
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.reports.terminal import called_as, echo

if TYPE_CHECKING:
    from kbbench_hf.runners.how import How
    from kbbench_hf.runners.outcome import Summary

MODEL_HELP = """A retriever: bm25, dense:MODEL, multi:MODEL, rrf(a,b), graph:BASE, or as published vss:MODEL and
multi_vss:MODEL. What it reads of a node can follow, as in bm25@text=compact,relations=no: text is official, compact,
clean, named, name or text; relations yes or no. Or a local language model (hf:MODEL or hf:FOLDER), or with --base-url
the name of a served one."""


class Options(NamedTuple):
    """Options that only some benchmarks have: whom they are for, and the options."""

    whom: str
    options: Sequence[click.Option]


def _option(*names: str, **what: Any) -> click.Option:
    return click.Option(names, **(what if {"type", "is_flag"} & what.keys() else {"type": NAME, **what}))


class _JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object on the command line."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.fail(f"{value!r} is no JSON object. Write it like '{{\"top_k\": 20}}'.", param, ctx)
        return found


RETRIEVERS = Options(
    "retrievers",
    [
        _option(
            "--top-k",
            type=click.IntRange(1),
            help="Candidates kept; all (up to 3 million in a run), else 100.",
        ),
        _option("--rerank", metavar="llm:MODEL", help="Re-rank with a language model (served, or llm:hf:MODEL)."),
        _option("--depth", type=click.IntRange(1), help="Candidates to re-rank.  [default: 20]"),
        _option("--rerank-prompt", metavar="NAME", help="clean, or reference: as upstream asks.  [default: clean]"),
        _option("--rerank-weight", type=click.FloatRange(0), help="Weight of the first ranking.  [default: 0.1]"),
    ],
)
AGENTS = Options(
    "agents over knowledge bases",
    [
        _option("--agent", metavar="llm:MODEL", help="Let a language model search, walk and select with tools."),
        _option("--max-steps", type=click.IntRange(1), help="Most replies for one question.  [default: 12]"),
        _option(
            "--question-tokens",
            type=click.IntRange(1),
            help="Most tokens for one question.  [default: 200000]",
        ),
        _option(
            "--protocol",
            type=click.Choice(["tools", "json"]),
            help="Calls of tools, or JSON in the text.  [default: tools, where it takes them]",
        ),
        _option("--tool-choice", metavar="WORD", help="Sent with each request; required forces a call."),
        _option("--compact", is_flag=True, default=None, help="Send older results again without their texts."),
        _option("--keep-texts", is_flag=True, default=None, help="Keep all messages in trajectories.jsonl."),
    ],
)
ASKING = Options(
    "language models",
    [
        _option("--base-url", help="The server (TGI, vLLM, OpenAI-compatible)."),
        _option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's key."),
        _option("--temperature", type=Number(0), help="[default: 0.0]"),
        _option("--top-p", type=Number(0, 1)),
        _option("--max-tokens", type=click.IntRange(1), help="Longest answer; what the prompt asks for by default."),
        _option("--seed", type=int, help="Sampling seed, where the server takes one."),
        _option("--extra-body", type=_JsonObject(), help='More of the request, as it is: {"reasoning_effort": "low"}.'),
        _option("--structured/--no-structured", is_flag=True, default=None, help="Ask for JSON by schema."),
        _option("--concurrency", type=click.IntRange(1), help="Most requests at once.  [default: 32]"),
        _option("--timeout", type=Number(0.1), help="Seconds for one request.  [default: 300]"),
        _option("--max-requests", type=click.IntRange(1), help="Stop after so many requests."),
        _option("--allow-other-server", is_flag=True, default=None, help="Let another server go on, and say so."),
        _option("--one-server", is_flag=True, default=None, help="Stop where fingerprint or provider change."),
        _option("--bill-to", metavar="ORG", help="Who pays for Hugging Face's router."),
        _option("--prices", type=FilePath(exists=True, dir_okay=False), help="Your dated price file (YAML or JSON)."),
        _option("--max-cost", type=Number(0), help="Send nothing more once this is spent; needs --prices."),
        _option("--batch-size", type=click.IntRange(1), help="Local models; halved when out of memory.  [default: 16]"),
        _option(
            "--chat-template/--no-chat-template",
            is_flag=True,
            default=None,
            help="Local models: apply the template, or not.",
        ),
        _option(
            "--model-kwargs", type=_JsonObject(), help='Local models: transformers\' options, {"dtype": "bfloat16"}.'
        ),
    ],
)
"""Of every language model, also one that re-ranks or walks."""
PROMPTS = Options(
    "language models",
    [
        _option(
            "--prompt",
            "--strategy",
            type=of_benchmark(lambda found: found.asking.prompts),
            help="The prompt's name; see 'kbbench list BENCHMARK'.",
        ),
        _option("--parser", type=of_benchmark(lambda found: found.asking.parsers), help="How answers are read."),
        _option("--repeat", "repeats", type=click.IntRange(1), help="Ask everything so often.  [default: 1]"),
        _option("--dry-run", is_flag=True, default=None, help="Show a prompt, tokens, cost and time; send nothing."),
    ],
)
DEMONSTRATIONS = Options(
    "prompts with demonstrations",
    [
        _option("--shots", type=click.IntRange(0), help="Demonstrations in the prompt.  [default: 1]"),
        _option(
            "--demonstrations",
            type=click.Choice(["leak-free", "similar", "random", "none"]),
            help="Which demonstrations; 'similar' are the paper's, of which some show what is asked.  "
            "[default: leak-free]",
        ),
        _option(
            "--similar-by", metavar="MODEL", help="Choose similar demonstrations by this sentence-transformers model."
        ),
    ],
)
ANNOTATING = Options(
    "benchmarks whose metrics need other models",
    [
        _option(
            "--annotate",
            metavar="JUDGE,EMBEDDER",
            help="Annotate the answers as well: 'surface' (offline, a baseline), nli:MODEL, hf:MODEL or llm:MODEL "
            "judges, a sentence-transformers model embeds.",
        ),
        _option("--thresholds", type=FilePath(exists=True, dir_okay=False), help="The embedder's own thresholds."),
        _option("--judge-base-url", help="The server of llm:MODEL as the judge."),
        _option("--judge-api-key-env", metavar="NAME", help="The environment variable that holds its key."),
    ],
)
TESTBEDS = Options(
    "benchmarks with testbeds",
    [
        _option(
            "--testbed",
            type=of_benchmark(lambda found: found.asking.testbeds),
            help="Run the configs of a testbed; see 'kbbench list BENCHMARK'.",
        ),
        _option("--subset", metavar="NAME,...", help="Of the testbed, only these parts."),
    ],
)


def options_of(found: Benchmark) -> list[Options]:
    """Return the options that a benchmark has, beside those that all have."""
    if not found.asking.prompts:
        return [RETRIEVERS, AGENTS, ASKING]
    shots = [DEMONSTRATIONS] if found.asking.with_similar_ids else []
    annotating = [ANNOTATING] if found.scoring.annotations else []
    return [PROMPTS, ASKING, *shots, *annotating, *([TESTBEDS] if found.asking.testbeds else [])]


class _Command(click.Command):
    """A command whose options depend on the benchmark that is named; without one, its help shows all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        groups, named = [RETRIEVERS, AGENTS, PROMPTS, ASKING, DEMONSTRATIONS, ANNOTATING, TESTBEDS], _named(args)
        if named is not None:
            has = options_of(named)
            for group in groups:
                if group not in has:
                    _refuse(group, args, named)
            groups = has
        ctx.meta["groups"] = groups
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own, *(option for group in ctx.meta.get("groups", ()) for option in group.options)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {"Options": super().get_params(ctx)}
        for group in ctx.meta["groups"]:
            title = f"For {group.whom}"
            sections[title] = [*sections.get(title, ()), *group.options]
        for title, options in sections.items():
            if rows := [row for option in options if (row := option.get_help_record(ctx))]:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _named(args: Sequence[str]) -> Benchmark | None:
    """Return the benchmark that the first argument without a dash names, if it does."""
    try:
        return benchmark_of(next((each for each in args if not each.startswith("-")), "").partition("/")[0])
    except UsageError:
        return None


def _refuse(group: Options, args: Sequence[str], named: Benchmark) -> None:
    """Refuse options that would be ignored: a --dry-run that runs is worse than an error."""
    answered = f"is answered by {'language models' if named.asking.prompts else 'retrievers'}"
    fact = "has none" if group in (DEMONSTRATIONS, ANNOTATING, TESTBEDS) else answered
    given = {each.partition("=")[0] for each in args if each.startswith("--")}
    for option in group.options:
        if used := given & {*option.opts, *option.secondary_opts}:
            raise UsageError(f"{used.pop()} is for {group.whom}; {named.dataset} {fact}. Leave it out.")


@click.command(cls=_Command)
@click.argument("benchmark", type=BENCHMARK)
@click.option("--model", type=NAME, required=True, help=MODEL_HELP)
@click.option(
    "--split", type=of_benchmark(lambda found: found.data.splits), help="Split; the benchmark's usual one by default."
)
@MODE
@click.option("--limit", type=click.IntRange(1), help="Only the first examples.")
@click.option("--out", type=FilePath(), help="The run's folder; one under ./kbbench-runs by default.")
@click.option("--processes", type=click.IntRange(1), help="Refuse to run unless this many processes do (torchrun).")
@JSON
def command(benchmark: str, model: str, json_output: bool, **options: Any) -> None:
    """Run MODEL on BENCHMARK (NAME or NAME/CONFIG), resuming where the same run stopped before.

    With a benchmark's name, --help shows the options that it has.

    Examples:
      kbbench run mini-stark --model bm25
      kbbench run mini-stark --model bm25 --agent llm:my-model --base-url http://localhost:8000/v1
      kbbench run mini-text2kg --base-url http://localhost:8000/v1 --model my-model
    """
    how = {name: value for name, value in options.items() if value is not None}
    found = benchmark_of(benchmark.removeprefix("kbbench/").partition("/")[0])
    if how.get("base_url") and not found.asking.prompts and not (how.get("rerank") or how.get("agent")):
        raise UsageError(
            f"{found.dataset} is answered by a retriever; a served model re-ranks it: --rerank llm:{model}, or walks "
            f"from it: --agent llm:{model}."
        )
    dry, testbed, subset = (how.pop(name, None) for name in ("dry_run", "testbed", "subset"))
    if subset and not testbed:
        raise UsageError("--subset chooses parts of a testbed; name one with --testbed.")
    if dry:
        _print_estimate(benchmark, model, cast("How", how), json_output)
        return
    if testbed:
        wanted = (testbed, subset.split(",") if subset else None)
        _run_testbed(found, benchmark, model, wanted, cast("How", how), json_output)
        return
    from kbbench_hf.reports.tables import print_result
    from kbbench_hf.runners.run import finished_run

    done = finished_run(benchmark, model, **how)
    if _is_first():
        if json_output:
            summary = {"summary": done.summary.to_json()} if done.summary and found.asking.prompts else {}
            click.echo(json.dumps({**done.result.to_dict(), "run": str(done.folder), **summary}, indent=2))
        else:
            print_result(done.result, found)
            echo(f"{done.words()}\n\n{done.folder}\nLook at it: {called_as()} report {shlex.quote(str(done.folder))}")
    if done.stopped is not None:
        raise done.stopped
    check_failures(done.summary)


def check_failures(summary: "Summary | None") -> None:
    """Raise where requests failed that may yet be answered; a refusal is an outcome, and settled."""
    if summary and (failed := summary.n_open):
        raise KBBenchError(
            f"{failed:,} of {summary.n_prompts:,} requests failed and are scored as missing. "
            "Start the same run again to send them again."
        )


def _is_first() -> bool:
    """Whether this process is the first of its group, the one that prints."""
    return os.environ.get("RANK", "0") == "0"


def _run_testbed(
    found: Benchmark, name: str, model: str, wanted: tuple[str, Sequence[str] | None], how: "How", json_output: bool
) -> None:
    """Run a testbed, or, where it sends nothing, sort the finished runs of its configs."""
    from kbbench_hf.runners.testbed import finished_results, run_configs, testbed_configs

    if "/" in name.removeprefix("kbbench/"):
        raise UsageError(f"{name} names a config and --testbed several; expected one of the two.")
    chosen, configs = testbed_configs(found, *wanted)
    if chosen.table is not None:
        from kbbench_hf.reports.figure_table import plain, print_table

        table = chosen.table(finished_results(found, configs, model, how))
        if json_output:
            click.echo(json.dumps(plain(table), indent=2))
        else:
            print_table(table)
        return
    results, unfinished = {}, {}
    for config, done in run_configs(found, configs, model, how):
        if isinstance(done, KBBenchError):
            unfinished[config] = words = f"not run: {done}"
        else:
            results[config] = done.result.to_dict()
            words = f"{done.words()}\n{done.folder}"
            if done.stopped is not None or (done.summary and done.summary.n_open):
                unfinished[config] = str(done.stopped or f"{done.summary and done.summary.n_open} requests failed")
        if _is_first() and not json_output:
            click.echo(f"{config}: {words}")
    if _is_first():
        _print_configs(found, model, wanted[0], how, results, json_output)
    if unfinished:
        reasons = "; ".join(f"{config}: {why}" for config, why in unfinished.items())
        raise KBBenchError(
            f"{len(unfinished)} of {len(configs)} configs are not finished: {reasons}. Start the same again to go on."
        )


def _print_configs(
    found: Benchmark, model: str, testbed: str, how: "How", results: dict[str, Any], json_output: bool
) -> None:
    if json_output:
        click.echo(json.dumps(results, indent=2))
        return
    from kbbench_hf.reports.testbed import print_testbed

    folder = how.get("out") or Path("kbbench-runs") / found.dataset
    if results:
        print_testbed(found, model, testbed, results, folder)


def _print_estimate(name: str, model: str, how: "How", json_output: bool) -> None:
    from kbbench_hf.runners.run import estimate_run

    prompt, found = estimate_run(name, model, **how)
    if json_output:
        click.echo(json.dumps(found.to_json(), indent=2))
        return
    for message in prompt.messages:
        click.echo(f"[{message['role']}]\n{message['content']}\n")
    cost = f"at most {found.cost:.4f} {found.currency}" if found.cost is not None else "unknown (no --prices)"
    click.echo(
        f"{found.n_prompts:,} prompts, about {found.prompt_tokens:,} tokens in, "
        f"at most {found.most_completion_tokens:,} out\n"
        f"cost {cost}, about {found.seconds / 60:.0f} min\nassuming {found.assumes}\nNothing was sent."
    )
