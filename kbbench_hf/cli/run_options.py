"""The options of `kbbench run` that only some benchmarks have, and the command class that selects them."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.names import NAME, FilePath, Number, of_benchmark
from kbbench_hf.errors import UsageError


class Options(NamedTuple):
    """Options that only some benchmarks have: the models or data that they are for, and the options."""

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
            self.fail(f"{value!r} is not a JSON object. Write it like '{{\"top_k\": 20}}'.", param, ctx)
        return found


RETRIEVERS = Options(
    "retrievers",
    [
        _option(
            "--top-k",
            type=click.IntRange(1),
            help="Length of a ranking.  [default: all candidates; 100 if that is over 3 million in all]",
        ),
        _option(
            "--rerank",
            metavar="llm:MODEL",
            help="Re-rank with a language model: llm:MODEL behind --base-url, or local llm:hf:MODEL.",
        ),
        _option("--depth", type=click.IntRange(1), help="Number of candidates to re-rank.  [default: 20]"),
        _option(
            "--rerank-prompt",
            metavar="NAME",
            help="Prompt for re-ranking: clean, or reference (that of the paper).  [default: clean]",
        ),
        _option("--rerank-weight", type=click.FloatRange(0), help="Weight of the base ranking.  [default: 0.1]"),
    ],
)
AGENTS = Options(
    "agents over knowledge bases",
    [
        _option(
            "--agent",
            metavar="llm:MODEL",
            help="Let a language model search the knowledge base with tools. --out is the agent's run; the run of "
            "--model, its base retriever, is next to it as OUT-base.",
        ),
        _option("--max-steps", type=click.IntRange(1), help="Maximum agent steps per question.  [default: 12]"),
        _option(
            "--question-tokens",
            type=click.IntRange(1),
            help="Maximum tokens per question.  [default: 200000]",
        ),
        _option(
            "--protocol",
            type=click.Choice(["tools", "json"]),
            help="Tool calls of the API, or JSON in the text.  [default: tools, if the server supports them]",
        ),
        _option("--tool-choice", metavar="WORD", help="The request field tool_choice; 'required' forces a call."),
        _option("--compact", is_flag=True, default=None, help="Drop the texts of older tool results from requests."),
        _option("--keep-texts", is_flag=True, default=None, help="Store all messages in trajectories.jsonl."),
    ],
)
ASKING = Options(
    "language models",
    [
        _option("--base-url", help="URL of the API (vLLM, TGI, Ollama, any OpenAI-compatible server)."),
        _option("--api-key-env", metavar="NAME", help="Environment variable that holds the API key."),
        _option("--temperature", type=Number(0), help="Sampling temperature.  [default: 0.0]"),
        _option("--top-p", type=Number(0, 1), help="Nucleus sampling: total probability of the tokens to sample from."),
        _option(
            "--max-tokens",
            type=click.IntRange(1),
            help="Maximum tokens of a response; the default depends on the prompt.",
        ),
        _option("--seed", type=int, help="Sampling seed, if the server supports one."),
        _option(
            "--extra-body", type=_JsonObject(), help='Extra JSON fields for the request: {"reasoning_effort": "low"}.'
        ),
        _option(
            "--structured/--no-structured", is_flag=True, default=None, help="Constrain responses to a JSON schema."
        ),
        _option("--concurrency", type=click.IntRange(1), help="Maximum concurrent requests.  [default: 32]"),
        _option("--timeout", type=Number(0.1), help="Timeout of a request in seconds.  [default: 300]"),
        _option("--max-requests", type=click.IntRange(1), help="Stop after this number of requests."),
        _option(
            "--allow-other-server",
            is_flag=True,
            default=None,
            help="Resume with another server or model; the result has a warning.",
        ),
        _option(
            "--one-server", is_flag=True, default=None, help="Stop if the server's fingerprint or provider changes."
        ),
        _option("--bill-to", metavar="ORG", help="Organization to bill (Hugging Face Inference Providers)."),
        _option(
            "--prices", type=FilePath(exists=True, dir_okay=False), help="Your price file, with a date (YAML or JSON)."
        ),
        _option("--max-cost", type=Number(0), help="Stop when this amount is spent; needs --prices."),
        _option(
            "--batch-size",
            type=click.IntRange(1),
            help="Batch size of local models; halved when out of memory.  [default: 16]",
        ),
        _option(
            "--chat-template/--no-chat-template",
            is_flag=True,
            default=None,
            help="Apply the chat template of a local model, or not.",
        ),
        _option(
            "--model-kwargs",
            type=_JsonObject(),
            help='Arguments of from_pretrained for local models: {"dtype": "bfloat16"}.',
        ),
    ],
)
"""For all language models, also those that re-rank or search as agents."""
PROMPTS = Options(
    "language models",
    [
        _option(
            "--prompt",
            "--strategy",
            type=of_benchmark(lambda found: found.asking.prompts),
            help="Prompt; see 'kbbench list BENCHMARK'.",
        ),
        _option(
            "--parser",
            type=of_benchmark(lambda found: found.asking.parsers),
            help="Parser of the responses; see 'kbbench list BENCHMARK'.",
        ),
        _option("--repeat", "repeats", type=click.IntRange(1), help="Number of repeated runs.  [default: 1]"),
        _option(
            "--dry-run",
            is_flag=True,
            default=None,
            help="Print a prompt, tokens, cost and time, and stop; with --base-url, one request measures the time.",
        ),
    ],
)
DEMONSTRATIONS = Options(
    "prompts with demonstrations",
    [
        _option("--shots", type=click.IntRange(0), help="Number of demonstrations in the prompt.  [default: 1]"),
        _option(
            "--demonstrations",
            type=click.Choice(["leak-free", "similar", "random", "none"]),
            help="Selection of demonstrations; 'similar' are those of the paper, some of which contain gold triples "
            "of the test sentence.  [default: leak-free]",
        ),
        _option(
            "--similar-by", metavar="MODEL", help="Select similar demonstrations with this sentence-transformers model."
        ),
    ],
)
ANNOTATING = Options(
    "benchmarks whose metrics need other models",
    [
        _option(
            "--annotate",
            metavar="JUDGE,EMBEDDER",
            help="Also annotate the predictions. The judge is 'surface' (offline baseline), nli:MODEL, hf:MODEL or "
            "llm:MODEL, the embedder a sentence-transformers model.",
        ),
        _option("--thresholds", type=FilePath(exists=True, dir_okay=False), help="The thresholds of the embedder."),
        _option("--judge-base-url", help="URL of the API of an llm:MODEL judge."),
        _option("--judge-api-key-env", metavar="NAME", help="Environment variable that holds its API key."),
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
        _option("--subset", metavar="NAME,...", help="Run only these parts of the testbed."),
    ],
)
GROUPS = (RETRIEVERS, AGENTS, PROMPTS, ASKING, DEMONSTRATIONS, ANNOTATING, TESTBEDS)


def options_of(found: Benchmark) -> list[Options]:
    """Return the options that a benchmark has in addition to the common ones."""
    if not found.asking.prompts:
        return [RETRIEVERS, AGENTS, ASKING]
    shots = [DEMONSTRATIONS] if found.asking.with_similar_ids else []
    annotating = [ANNOTATING] if found.scoring.annotations else []
    return [PROMPTS, ASKING, *shots, *annotating, *([TESTBEDS] if found.asking.testbeds else [])]


def sections(groups: Sequence[Options]) -> dict[str, list[click.Option]]:
    """Return options under a title that names the models or data they are for."""
    found: dict[str, list[click.Option]] = {}
    for group in groups:
        found.setdefault(f"For {group.whom}", []).extend(group.options)
    return found


class RunCommand(click.Command):
    """A command whose options depend on the named benchmark; without one, its help shows all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that the named benchmark does not have, before parsing."""
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
        """Write the options in sections."""
        common: dict[str, Sequence[click.Parameter]] = {"Options": super().get_params(ctx)}
        for title, options in {**common, **sections(ctx.meta["groups"])}.items():
            given = [option for option in options if isinstance(option, click.Option)]  # the usage names arguments
            if rows := [row for option in given if (row := option.get_help_record(ctx))]:
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
    takes = f"evaluates {'language models' if named.asking.prompts else 'retrievers'}"
    fact = "has none" if group in (DEMONSTRATIONS, ANNOTATING, TESTBEDS) else takes
    given = {each.partition("=")[0] for each in args if each.startswith("--")}
    for option in group.options:
        if used := given & {*option.opts, *option.secondary_opts}:
            raise UsageError(f"{used.pop()} is for {group.whom}; {named.dataset} {fact}. Leave it out.")
