"""Options that several verbs share, handed to them as the value they stand for."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Literal

import click

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import KBBenchError
from kbbench_hf.scoring.predictions import ReadOptions

Command = Callable[..., object]

PREDICTIONS = click.argument("predictions", nargs=-1, required=True, type=click.Path(path_type=Path))
MODE = click.option("--mode", help="Scoring mode; the authors' released behaviour (reference) by default.")
JSON = click.option("--json", "json_output", is_flag=True, help="Print the result as JSON, nothing else.")
STRICT = click.option("--strict", is_flag=True, help="Fail with exit code 1 where a warning stands beside the figures.")


def refuse_warnings(warnings: Iterable[ScoreWarning]) -> None:
    """Fail where there are warnings, for `--strict`; notes are none.

    Raises:
        KBBenchError: there are some.
    """
    if codes := [warning.code for warning in warnings if warning.severity == "warning"]:
        raise KBBenchError(
            f"--strict: {len(codes)} warning{'s' if len(codes) > 1 else ''} ({', '.join(codes)}); expected none. "
            "They stand beside the figures, each with what to do.",
            code="strict",
        )


def on_benchmark(command: Command) -> Command:
    """Add --benchmark and --split; a run's folder says itself what it was run on."""
    add_split = click.option("--split", help="Split; the benchmark's usual one, or the run's, by default.")
    add_benchmark = click.option(
        "--benchmark", metavar="NAME[/CONFIG]", help="The dataset, e.g. mini-text2kg; a run's folder says it."
    )
    return add_benchmark(add_split(command))


def read_how(command: Command) -> Command:
    """Add --from, --parser and --duplicates; the command gets `read_options`."""

    @click.option(
        "--from",
        "source",
        type=click.Choice(["answer", "response"]),
        default="answer",
        show_default=True,
        help="Read the parsed answer, or parse the raw response again.",
    )
    @click.option("--parser", help="Parse responses with this parser (implies --from response).")
    @click.option(
        "--duplicates",
        type=click.Choice(["error", "last"]),
        default="error",
        show_default=True,
        help="What a repeated id means: an error, or that the last line counts.",
    )
    @wraps(command)
    def wrapper(
        source: Literal["answer", "response"],
        parser: str | None,
        duplicates: Literal["error", "last"],
        **others: object,
    ) -> object:
        options = ReadOptions(source="response" if parser else source, parser=parser, duplicates=duplicates)
        return command(read_options=options, **others)

    return wrapper
