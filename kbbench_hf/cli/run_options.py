"""The options of `kbbench run` that only some benchmarks have, and the command that shows and takes those it should."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.names import NAME, FilePath, Number, of_benchmark
from kbbench_hf.errors import UsageError


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
        _option(
            "--agent",
            metavar="llm:MODEL",
            help="Let a language model search, walk and select with tools. The ranking of --model, its base, is the "
            "run of --out; the agent's run stands beside it, as OUT-MODEL-HASH.",
        ),
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
        _option(
            "--dry-run",
            is_flag=True,
            default=None,
            help="Show a prompt, tokens, cost and time; with --base-url, one request measures the time.",
        ),
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
GROUPS = (RETRIEVERS, AGENTS, PROMPTS, ASKING, DEMONSTRATIONS, ANNOTATING, TESTBEDS)


def options_of(found: Benchmark) -> list[Options]:
    """Return the options that a benchmark has, beside those that all have."""
    if not found.asking.prompts:
        return [RETRIEVERS, AGENTS, ASKING]
    shots = [DEMONSTRATIONS] if found.asking.with_similar_ids else []
    annotating = [ANNOTATING] if found.scoring.annotations else []
    return [PROMPTS, ASKING, *shots, *annotating, *([TESTBEDS] if found.asking.testbeds else [])]


def sections(groups: Sequence[Options]) -> dict[str, list[click.Option]]:
    """Return options under a title that says whom they are for."""
    found: dict[str, list[click.Option]] = {}
    for group in groups:
        found.setdefault(f"For {group.whom}", []).extend(group.options)
    return found


class RunCommand(click.Command):
    """A command whose options depend on the benchmark that is named; without one, its help shows all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options of others than the named benchmark before any is read."""
        groups: Sequence[Options] = GROUPS
        named = _named(args)
        if named is not None:
            has = options_of(named)
            for group in groups:
                if group not in has:
                    _refuse(group, args, named)
            groups = has
        ctx.meta["groups"] = groups
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the common options, and those that the named benchmark has."""
        own = super().get_params(ctx)
        return [*own, *(option for group in ctx.meta.get("groups", ()) for option in group.options)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under whom they are for."""
        common: dict[str, Sequence[click.Parameter]] = {"Options": super().get_params(ctx)}
        for title, options in {**common, **sections(ctx.meta["groups"])}.items():
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
