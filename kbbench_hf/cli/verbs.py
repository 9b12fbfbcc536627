"""The verbs of the `kbbench` command, each imported when it is called, so that every command starts quickly.

A new verb needs a line in `GROUPS` and a module `cli/<verb>.py` with a function `command`.
"""

import inspect
from importlib import import_module

import click
from click.shell_completion import get_completion_class

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.reports.terminal import waiting

GROUPS = {
    "Start here": {
        "demo": "Score, compare and plot the predictions of small systems; offline, in seconds.",
        "doctor": "Check this installation: packages, datasets, memory, disk.",
    },
    "Evaluate": {
        "run": "Run a model on a benchmark: a retriever, a local LLM, or an LLM behind an API.",
        "score": "Score a predictions file or a run; --check only checks it.",
        "compare": "Compare two or more systems with significance tests.",
        "report": "Write an HTML report of one run or several, or describe a dataset.",
    },
    "Data": {
        "build": "Build a dataset from its authors' release, or from your own tables.",
        "list": "List the benchmarks, or the configs, prompts, metrics and modes of one.",
        "power": "Plan a comparison: how many examples a difference needs.",
        "audit": "Check a dataset for shortcuts with trivial baselines.",
        "review": "Review the examples of a dataset on a local page, and measure agreement.",
        "synthesize": "Generate questions for your knowledge base.",
    },
    "Models": {
        "train": "Train a retriever on the training questions of a benchmark.",
        "annotate": "Compute the topics, embeddings and judge verdicts that some metrics need.",
        "status": "Show how far runs are; pause, resume or slow down a run.",
        "serve": "Serve the leaderboard, or the tools of a knowledge base, on your machine.",
    },
    "Share": {
        "export": "Export a run for trec_eval, ranx, a model card, Every Eval Ever or TRL.",
        "publish": "Publish a dataset, a metric or the leaderboard to the Hugging Face Hub.",
        "submit": "Submit a predictions file to a leaderboard.",
        "leaderboard": "Administer a leaderboard: seed, copy, re-score, check, repair, hide.",
    },
}
"""Section of the help -> verb -> one line of help; `kbbench_hf.cli.<verb>` holds the command."""
VERBS = {verb: line for verbs in GROUPS.values() for verb, line in verbs.items()}
ALIASES = {"export-results": "export.command", "validate": "score.validate"}
"""Other names of verbs, which the help does not list -> the module and name of the command."""
RESUMABLE = ("annotate", "build", "run", "synthesize", "train")
"""Verbs that resume after an interruption."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]  # not list(VERBS): the module of the verb `list` has that name here

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in {*VERBS, *ALIASES}:
            return None
        module, _, attribute = ALIASES.get(name, f"{name}.command").partition(".")
        with waiting("Loading kbbench"):  # the first import after an installation compiles the packages
            command: click.Command = getattr(import_module(f".{module}", __package__), attribute)
        command.name = module if attribute == "command" else attribute
        # \b: click keeps the line breaks of the examples, so that they can be copied.
        command.help = inspect.cleandoc(command.help or "").replace("\n\nExample", "\n\n\b\nExample")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in {"eval", "evaluate"}:
            raise UsageError(
                f"Unknown command {args[0]!r}. To score a file: kbbench score; to run a model: kbbench run"
            )
        if args and args[0] not in {**VERBS, **ALIASES}:
            raise unknown_name("command", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, line in verbs.items()])


def _print_completion(context: click.Context, _option: click.Parameter, shell: str | None) -> None:
    """Print click's completion script of a shell."""
    completion = get_completion_class(shell or "")
    if completion is not None and not context.resilient_parsing:
        click.echo(completion(context.command, {}, "kbbench", "_KBBENCH_COMPLETE").source())
        context.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="kbbench-hf", prog_name="kbbench")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    help="Print the completion script for a shell.",
    callback=_print_completion,
    is_eager=True,
    expose_value=False,
)
@click.option("--debug", is_flag=True, help="Show the stack trace of an error.")
def kbbench(debug: bool) -> None:
    """Evaluate retrievers and language models on knowledge benchmarks. Start with: kbbench demo."""
