"""The table of verbs, each imported when it is called."""

import inspect
from importlib import import_module

import click
from click.shell_completion import get_completion_class

from kbbench_hf.errors import unknown_name

VERBS = {
    "demo": "Score, compare and plot the stored answers of small systems; offline, in seconds.",
    "list": "List the benchmarks, or the configs, metrics and modes of one.",
    "build": "Build a dataset from its authors' release, or from your own tables.",
    "synthesize": "Make questions for a knowledge base from its own structure and texts.",
    "run": "Run a model on a benchmark: a retriever, a local language model, or a served one.",
    "train": "Train a retriever on a benchmark's training questions.",
    "annotate": "Make what metrics need of other models: topics, embeddings, verdicts.",
    "audit": "Try to answer a dataset without understanding it, each way against its limit.",
    "review": "Judge instances by keyboard on a local page, and see how far two people agree.",
    "score": "Score a predictions file.",
    "compare": "Test whether two predictions files differ.",
    "report": "Write a run as one page, or describe a dataset.",
    "validate": "Check a predictions file without scoring it.",
    "submit": "Check, score and store a predictions file in a leaderboard.",
    "leaderboard": "Look after a leaderboard's store: seed, re-score, audit, check.",
    "serve": "Serve the leaderboard, or a knowledge base's tools to agents, on your own machine.",
    "publish": "Publish a dataset, a metric or the leaderboard to the Hub.",
    "export": "Write a run's figures for other systems: the Hub, Every Eval Ever.",
    "doctor": "Check this installation: packages, data, memory, disk.",
}
"""Verb -> one line of help; `kbbench_hf.cli.<verb>` holds the command."""
FORMER = {"export-results": "export"}
"""Names that verbs had before."""
RESUMABLE = ("annotate", "build", "run", "synthesize", "train")
"""Verbs that go on where they were interrupted."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]  # not list(VERBS): the module of the verb `list` has that name here

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = FORMER.get(name, name)
        if name not in VERBS:
            return None
        command: click.Command = import_module(f".{name.replace('-', '_')}", __package__).command
        command.name = name
        # \b: an example stands on lines of its own, to be copied.
        command.help = inspect.cleandoc(command.help or "").replace("\n\nExample", "\n\n\b\nExample")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in {**VERBS, **FORMER}:
            raise unknown_name("command", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*VERBS.items()])


def _print_completion(context: click.Context, _option: click.Parameter, shell: str | None) -> None:
    """Print click's script of a shell, which asks this command for every word that could come next."""
    completion = get_completion_class(shell or "")
    if completion is not None and not context.resilient_parsing:
        click.echo(completion(context.command, {}, "kbbench", "_KBBENCH_COMPLETE").source())
        context.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="kbbench-hf", prog_name="kbbench")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    help="Print the script that completes commands in a shell.",
    callback=_print_completion,
    is_eager=True,
    expose_value=False,
)
@click.option("--debug", is_flag=True, help="Show the stack trace of an error.")
def kbbench(debug: bool) -> None:
    """Knowledge benchmarks, to load, run, score and compare. Start with: kbbench demo."""
