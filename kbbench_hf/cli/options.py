"""Options that several verbs share: paths, names with completion, and the options for reading files and logs.

The names, values and defaults of options are public. The options for files are generated from `scoring.options`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from kbbench_hf.benchmarks import benchmark, benchmark_names, is_published, name_of_path, own_names
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import KBBenchError
from kbbench_hf.files import user_path
from kbbench_hf.scoring.options import LogOptions, ReadOptions


class FilePath(click.Path):
    """A path, with `~` expanded; an empty one, which would mean the current folder, is refused."""

    def __init__(self, *, path_type: type[Path | str] = Path, **settings: bool) -> None:
        super().__init__(path_type=path_type, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("'' is not a path. Is a shell variable empty? The current folder is '.'.", param, ctx)
        path: Any = super().convert(value, param, ctx)
        return path if is_published(path) else str(user_path(path)) if self.type is str else user_path(path)


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Name(click.types.StringParamType):
    """A name; `known` returns the names for shell completion."""

    def __init__(self, known: Callable[[click.Context, str], Iterable[str]] = lambda _context, _begun: ()) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name."""
        if value == "":
            self.fail("'' is not a name. Is a shell variable empty?", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the known names with this prefix; none on errors, which would garble the prompt."""
        with suppress(Exception):
            return [CompletionItem(each) for each in self.known(ctx, incomplete) if each.startswith(incomplete)]
        return []


def of_benchmark(names: Callable[[Benchmark], Iterable[str]]) -> Name:
    """Return the type of a name, such as a split, that completes from the benchmark on the same command line."""

    def known(context: click.Context, _begun: str) -> Iterable[str]:
        # While an option lacks its value, click has not yet given the arguments their names.
        given = context.params.get("benchmark") or context.params.get("name") or context.args[0]
        return names(benchmark(given.removeprefix("kbbench/").partition("/")[0]))

    return Name(known)


def _datasets_or_configs(_context: click.Context, begun: str) -> Iterable[str]:
    """Return the names of all datasets; after a slash, NAME/CONFIG for each config of the named one."""
    dataset, slash, _ = begun.partition("/")
    if slash:
        return [f"{dataset}/{config}" for config in benchmark(dataset).data.configs]
    return [*benchmark_names(), *own_names()]


class _BenchmarkName(Name):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return name_of_path(super().convert(value, param, ctx))


BENCHMARK = _BenchmarkName(_datasets_or_configs)
"""NAME or NAME/CONFIG, or the folder of a dataset, which becomes its name."""
DATASET = Name(_datasets_or_configs)
"""Name of a dataset, which need not exist."""
NAME = Name()
"""A name without completion."""


Command = Callable[..., object]


def option(names: str, help: str, type: Any = NAME, **settings: Any) -> Callable[[Any], Any]:
    """Return a decorator for an option with a value, a name unless `type` is another; its default is in the help."""
    return click.option(*names.split(), type=type, help=help, show_default="default" in settings, **settings)


def flag(names: str, help: str, **settings: Any) -> Callable[[Any], Any]:
    """Return a decorator for an option without a value."""
    return click.option(*names.split(), is_flag=True, help=help, **settings)


def with_fields(settings: type, of_click: Mapping[str, Mapping[str, Any]]) -> Callable[[Any], Any]:
    """Return a decorator that adds an option for each field `name: Annotated[type, help]` of a class of settings.

    The option is a flag for a bool, a choice for a `Literal`, else a name. `of_click` has other arguments of
    `click.option` by field, and `flags` in place of `--name-with-hyphens`. An option that is not given is None; the
    default of the field is only shown in the help.
    """

    def add_options(command: Any) -> Any:
        hints = {name: hint for name, hint in settings.__annotations__.items() if hasattr(hint, "__metadata__")}
        for name, (kind, help_text) in reversed([(name, get_args(hint)) for name, hint in hints.items()]):
            values, default = get_args(kind) if get_origin(kind) is Literal else (), getattr(settings, name, None)
            usual = {"is_flag": True} if kind is bool else {"type": click.Choice(values) if values else NAME}
            shown = "" if default is None or kind is bool else f"  [default: {default}]"
            chosen = {"flags": [f"--{name.replace('_', '-')}"], "default": None, **usual, **of_click.get(name, {})}
            command = click.option(*chosen.pop("flags"), name, help=help_text + shown, **chosen)(command)
        return command

    return add_options


MODE = option(
    "--mode",
    "Scoring mode; by default the first that 'kbbench list NAME' shows.",
    of_benchmark(lambda found: found.scoring.modes),
)
JSON = flag("--json json_output", "Print the result as JSON only.")
STRICT = flag("--strict", "Exit with code 1 if there is a warning.")
STORE = option("--store", "Folder of the leaderboard.", FilePath(), default=Path("kbbench-leaderboard"))
ACROSS_PROMPTS = flag("--across-prompts", "Also compare runs with different prompts; a warning names the prompts.")
NOTES = flag("--notes", "Print all warnings and notes, not only the most important three.")
ALL_METRICS = flag("--all-metrics", "Print all metrics, not only the headline metrics.")
CONCURRENCY = option("--concurrency", "Maximum concurrent requests.", click.IntRange(1), default=32)
API_KEY_ENV = option("--api-key-env", "Environment variable that holds the API key.", metavar="NAME")


def refuse_warnings(warnings: Iterable[ScoreWarning]) -> None:
    """Raise an error for `--strict` if there are warnings; those of severity "note" do not count.

    Raises:
        KBBenchError: there is a warning.
    """
    if codes := [warning.code for warning in warnings if warning.severity == "warning"]:
        raise KBBenchError(
            f"--strict: {len(codes)} warning{'s' if len(codes) > 1 else ''} ({', '.join(codes)}); expected none. "
            "Each is printed above with its remedy.",
            code="strict",
        )


def on_benchmark(command: Command) -> Command:
    """Add the options --benchmark and --split to a command; it gets None for both where a run folder records them."""
    splits = of_benchmark(lambda found: found.data.splits)
    add_split = option("--split", "Split; by default that of the run, or the benchmark's default split.", splits)
    what = "The dataset, e.g. mini-text2kg; not needed for a run folder, which records it."
    return option("--benchmark", what, BENCHMARK, metavar="NAME[/CONFIG]")(add_split(command))  # type: ignore[no-any-return]


def _parse_pairs(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, str] | None:
    """Return name -> path, from NAME=PATH,NAME=PATH."""
    if text is None:
        return None
    pairs = [each.partition("=") for each in text.split(",")]
    for name, equals, path in pairs:
        if not (name and path):
            wrong = name + equals + path
            raise click.BadParameter(f"{wrong!r} is not of the form NAME=PATH; expected for example id=qid.")
    return {name.strip(): path.strip() for name, _, path in pairs}


def _parse_separator(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the separator for a word such as "tab"; other texts are separators themselves."""
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
        settings: dict[str, Any] = {"is_flag": True}
        if metavar is not None:
            kind = FilePath(exists=True) if name == "qrels" else NAME
            settings = {"type": kind, "callback": _parse_log_value, "metavar": metavar}
        wrapper = click.option(f"--{name.replace('_', '-')}", name, help=help_text, **settings)(wrapper)
    return wrapper


def _parse_log_value(context: click.Context, option: click.Parameter, given: str | None) -> object:
    """Return the value of an option for logs: names with commas as a list, a scale as its two ends."""
    if given is None or not str(option.metavar).count(","):
        return given
    if option.name != "scale":
        return given.split(",")
    with suppress(ValueError):
        low, high = map(float, given.split(","))
        if -math.inf < low < high < math.inf:
            return low, high
    raise click.BadParameter(f"{given!r} is not of the form LOW,HIGH; expected for example 0,100.")


READ_OPTIONS = {
    "fields": ("--map", "Map our fields to the columns of the file, e.g. id=qid,answers=pred.entities."),
    "where": ("--where", "Read only the rows with this value, e.g. epoch=1."),
    "join": ("--join", "For files without ids: join rows with examples by the text of the input, or by order."),
    "separator": (
        "--sep",
        "Separator of lists in text: a character, tab, space or newline; none: the text is one item.",
    ),
    "scores": ("--scores", "Order of rankings: highest score first, lowest distance first, or by rank column."),
    "source": ("--from", "Read the parsed predictions, or parse the raw responses again."),
    "parser": ("--parser", "Parse responses with this parser (implies --from response)."),
    "duplicates": ("--duplicates", "Repeated ids: an error, or the last line counts."),
}
"""Field of `ReadOptions` -> its option and help; the values and the default of a `Literal` are those of the field."""
_READ_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "fields": {"metavar": "FIELD=PATH,...", "callback": _parse_pairs},
    "where": {"metavar": "PATH=VALUE,...", "callback": _parse_pairs},
    "separator": {"metavar": "TEXT", "callback": _parse_separator},
    "parser": {"type": of_benchmark(lambda found: found.asking.parsers)},
}


def with_read_options(command: Command) -> Command:
    """Add the options for reading files (--from, --parser, --map, ...); the command gets `read_options`."""

    @wraps(command)
    def wrapper(**given: Any) -> object:
        read = {name: given.pop(name) for name in READ_OPTIONS}
        if read["parser"]:
            read["source"] = "response"
        return command(read_options=ReadOptions(**read), **given)

    for name, (option_name, help_text) in reversed(READ_OPTIONS.items()):
        settings, hint = dict(_READ_SETTINGS.get(name, {})), ReadOptions.__annotations__[name]
        # a Literal, also in a union with None
        if values := next((get_args(each) for each in (hint, *get_args(hint)) if get_origin(each) is Literal), ()):
            default = getattr(ReadOptions, name)
            settings |= {"type": click.Choice(values), **({"default": default} if default else {})}
        wrapper = option(f"{option_name} {name}", help_text, **settings)(wrapper)
    return wrapper
