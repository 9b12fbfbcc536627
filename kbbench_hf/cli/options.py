"""Options that several verbs share."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import click

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath, of_benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.scoring.options import LogOptions, ReadOptions

Command = Callable[..., object]

MODE = click.option(
    "--mode",
    type=of_benchmark(lambda found: found.scoring.modes),
    help="Scoring mode; by default the first that 'kbbench list NAME' shows.",
)
JSON = click.option("--json", "json_output", is_flag=True, help="Print the result as JSON only.")
STRICT = click.option("--strict", is_flag=True, help="Exit with code 1 if there is a warning.")
STORE = click.option(
    "--store",
    type=FilePath(),
    default=Path("kbbench-leaderboard"),
    show_default=True,
    help="Folder of the leaderboard.",
)
ACROSS_PROMPTS = click.option(
    "--across-prompts", is_flag=True, help="Also compare runs with different prompts; a warning names the prompts."
)
NOTES = click.option("--notes", is_flag=True, help="Print all warnings and notes, not only the most important three.")
ALL_METRICS = click.option("--all-metrics", is_flag=True, help="Print all metrics, not only the headline metrics.")


def refuse_warnings(warnings: Iterable[ScoreWarning]) -> None:
    """Fail where there are warnings, for `--strict`; notes are none.

    Raises:
        KBBenchError: there are some.
    """
    if codes := [warning.code for warning in warnings if warning.severity == "warning"]:
        raise KBBenchError(
            f"--strict: {len(codes)} warning{'s' if len(codes) > 1 else ''} ({', '.join(codes)}); expected none. "
            "Each is printed above with its remedy.",
            code="strict",
        )


def on_benchmark(command: Command) -> Command:
    """Add --benchmark and --split; a run folder records both."""
    add_split = click.option(
        "--split",
        type=of_benchmark(lambda found: found.data.splits),
        help="Split; by default that of the run, or the benchmark's default split.",
    )
    add_benchmark = click.option(
        "--benchmark",
        type=BENCHMARK,
        metavar="NAME[/CONFIG]",
        help="The dataset, e.g. mini-text2kg; not needed for a run folder, which records it.",
    )
    return add_benchmark(add_split(command))


def _pairs(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, str] | None:
    """Return the pairs of NAME=PATH,NAME=PATH."""
    if text is None:
        return None
    pairs = [each.partition("=") for each in text.split(",")]
    if wrong := next((before + middle + after for before, middle, after in pairs if not (before and after)), None):
        raise click.BadParameter(f"{wrong!r} is not of the form NAME=PATH; expected for example id=qid.")
    return {before.strip(): after.strip() for before, _, after in pairs}


def _separator(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the separator that a word or a character names."""
    return {"none": "", "tab": "\t", "space": " ", "newline": "\n"}.get(text or "-", text)


LOG_OPTIONS: Mapping[str, tuple[str | None, str]] = {
    "value": ("COLUMN,...", "Logs: the scores to compare, the main one first."),
    "id": ("COLUMN", "Logs: the id of the examples."),
    "cluster": ("COLUMN", "Logs: examples with the same value depend on each other, as questions on one document do."),
    "system": ("COLUMN", "Logs: the system, in a file with several."),
    "qrels": ("FILE", "Rankings: the relevant candidates of each query."),
    "across_revisions": (None, "Runs: compare the stored scores of each, made on different revisions of the data."),
    "shared": (None, "Logs: compare the examples that all have, where they differ."),
    "scale": ("LOW,HIGH", "Logs: the range of possible scores, such as 1,5."),
    "lower_is_better": ("METRIC,...", "Logs: the metrics where lower is better; none for none."),
}
"""Field of `LogOptions` -> the form of its value (None for a flag), and its help."""


def with_log_options(command: Command) -> Command:
    """Add the options for logs of other harnesses and tables of scores; the command gets `logs`."""

    @wraps(command)
    def wrapper(**given: Any) -> object:
        of_logs = {name: value for name in LOG_OPTIONS if (value := given.pop(name)) is not None}
        return command(logs=LogOptions(**of_logs), **given)

    for name, (metavar, help_text) in reversed([*LOG_OPTIONS.items()]):
        kind: Mapping[str, Any] = {"type": FilePath(exists=True) if name == "qrels" else NAME, "callback": _of_log}
        flag = f"--{name.replace('_', '-')}"
        option = {"is_flag": True} if metavar is None else {**kind, "metavar": metavar}
        wrapper = click.option(flag, name, help=help_text, **option)(wrapper)
    return wrapper


def _of_log(context: click.Context, option: click.Parameter, given: str | None) -> object:
    """Return the value of an option for logs: names as a list, a scale as its two ends."""
    if given is None or not str(option.metavar).count(","):
        return given
    if option.name != "scale":
        return given.split(",")
    with suppress(ValueError):
        low, high = map(float, given.split(","))
        if -math.inf < low < high < math.inf:
            return low, high
    raise click.BadParameter(f"{given!r} is not of the form LOW,HIGH; expected for example 0,100.")


READ_OPTIONS = ("fields", "where", "join", "separator", "scores", "source", "parser", "duplicates")
"""Fields of `ReadOptions` that are options."""


def with_read_options(command: Command) -> Command:
    """Add the options for reading files (--from, --parser, --map, ...); the command gets `read_options`."""

    @click.option(
        "--map",
        "fields",
        type=NAME,
        metavar="FIELD=PATH,...",
        callback=_pairs,
        help="Map our fields to the columns of the file, e.g. id=qid,answers=pred.entities.",
    )
    @click.option(
        "--where",
        type=NAME,
        metavar="PATH=VALUE,...",
        callback=_pairs,
        help="Read only the rows with this value, e.g. epoch=1.",
    )
    @click.option(
        "--join",
        type=click.Choice(["input", "order"]),
        help="For files without ids: join rows with examples by the text of the input, or by order.",
    )
    @click.option(
        "--sep",
        "separator",
        type=NAME,
        metavar="TEXT",
        callback=_separator,
        help="Separator of lists in text: a character, tab, space or newline; none: the text is one item.",
    )
    @click.option(
        "--scores",
        type=click.Choice(["similarity", "distance", "rank"]),
        help="Order of rankings: highest score first, lowest distance first, or by rank column.",
    )
    @click.option(
        "--from",
        "source",
        type=click.Choice(["answer", "response"]),
        default="answer",
        show_default=True,
        help="Read the parsed predictions, or parse the raw responses again.",
    )
    @click.option(
        "--parser",
        type=of_benchmark(lambda found: found.asking.parsers),
        help="Parse responses with this parser (implies --from response).",
    )
    @click.option(
        "--duplicates",
        type=click.Choice(["error", "last"]),
        default="error",
        show_default=True,
        help="Repeated ids: an error, or the last line counts.",
    )
    @wraps(command)
    def wrapper(**given: Any) -> object:
        read = {name: given.pop(name) for name in READ_OPTIONS}
        if read["parser"]:
            read["source"] = "response"
        return command(read_options=ReadOptions(**read), **given)

    return wrapper
