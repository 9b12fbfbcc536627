"""The `kbbench` command: a table of verbs, each imported when it is called."""

import os
import sys
import traceback
from importlib import import_module

import click

import kbbench_hf
from kbbench_hf.errors import KBBenchError, unknown_name

VERBS = {
    "demo": "Score, compare and plot the stored answers of small systems; offline, in seconds.",
    "list": "List the benchmarks, or the configs, metrics and modes of one.",
    "build": "Build a dataset from its authors' release, or from your own tables.",
    "run": "Run a model on a benchmark: a retriever, a local language model, or a served one.",
    "annotate": "Make what GenRES's measures need of models: topics, embeddings, verdicts.",
    "score": "Score a predictions file.",
    "compare": "Test whether two predictions files differ.",
    "report": "Write a run as one page, or describe a dataset.",
    "validate": "Check a predictions file without scoring it.",
    "submit": "Check, score and store a predictions file in a leaderboard.",
    "leaderboard": "Look after a leaderboard's store: seed, re-score, audit, check.",
    "serve": "Serve the leaderboard on your own machine.",
    "publish": "Publish a dataset, a metric or the leaderboard to the Hub.",
    "export-results": "Write a run's figures in the Hub's own format.",
    "doctor": "Check this installation: packages, data, memory, disk.",
}
"""Verb -> one line of help; `kbbench_hf.cli.<verb>` holds the command."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"kbbench_hf.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS:
            raise unknown_name("command", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(kbbench_hf.__version__, prog_name="kbbench")
@click.option("--debug", is_flag=True, help="Show the stack trace of an error.")
def kbbench(debug: bool) -> None:
    """Knowledge benchmarks: STaRK, Text2KGBench, SKA-Bench and GenRES. Start with: kbbench demo."""


def main() -> None:
    """Run the command line; exit codes: 0, 1 failed, 2 usage, 65 bad data, 75 busy, 130 interrupted."""
    try:
        sys.exit(kbbench.main(standalone_mode=False) or 0)
    except KBBenchError as error:
        code, message = error.exit_code, str(error)
    except click.ClickException as error:
        code, message = error.exit_code, error.format_message()
    except (click.Abort, KeyboardInterrupt):
        code, message = 130, "Interrupted."
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    if "--debug" in sys.argv:
        traceback.print_exc()
    click.echo(f"kbbench: {message}", err=True)
    sys.exit(code)
