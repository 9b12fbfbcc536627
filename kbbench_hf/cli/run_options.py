"""Options of `kbbench run`, generated from `RunOptions`; its command class; submission of shards to Slurm.

`kbbench synthesize` uses the part on Slurm. A new option is a field of `RunOptions`, and needs no line here.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import click

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.options import NAME, FilePath, Number, of_benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import echo, print_json
from kbbench_hf.runners.run_options import OPTIONS, Group, Option, RunOptions


class Options(NamedTuple):
    """A group of options that only some benchmarks have; `whom` names the models or data that they are for."""

    whom: str
    options: Sequence[click.Option]


class _JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object on the command line."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            parsed = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            self.fail(f"{value!r} is not a JSON object. Write it like '{{\"top_k\": 20}}'.", param, ctx)
        return parsed


_KNOWN_NAMES: Mapping[str, Callable[[Benchmark], Iterable[str]]] = {
    "split": lambda found: found.data.splits,
    "mode": lambda found: found.scoring.modes,
    "prompt": lambda found: found.asking.prompts,
    "parser": lambda found: found.asking.parsers,
    "testbed": lambda found: found.asking.testbeds,
}
"""Option -> function from the benchmark to the names that shell completion offers."""


def _option_type(name: str, option: Option, hint: Any) -> click.ParamType[Any]:
    """Return the click type of an option of `RunOptions`, by its annotation."""
    kinds = {get_origin(each) or each for each in get_args(hint) or (hint,)} - {NoneType}
    if name in _KNOWN_NAMES:
        return of_benchmark(_KNOWN_NAMES[name])
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    if Mapping in kinds or get_origin(hint) is Mapping:
        return _JsonObject()
    if Path in kinds:
        return FilePath() if name == "out" else FilePath(exists=True, dir_okay=False)
    if int in kinds:
        return click.INT if option.least is None else click.IntRange(int(option.least))
    return Number(option.least, option.most) if float in kinds else NAME


def click_option(name: str) -> click.Option:
    """Return the command-line form of an option of `RunOptions`."""
    option, hint = OPTIONS[name], get_args(RunOptions.__annotations__[name])[0]
    flag = option.flag or f"--{name.replace('_', '-')}"
    names = [*(flag.split("/") if name == "prompt" else [flag]), name]
    shown = option.help if option.default is None else f"{option.help}  [default: {option.default}]"
    if bool in (hint, *get_args(hint)):
        return click.Option(names, is_flag=True, default=None, help=shown)
    return click.Option(names, type=_option_type(name, option, hint), metavar=option.metavar, help=shown)


def _options_of_groups(*groups: Group) -> list[click.Option]:
    """Return the command-line forms of the options of some groups; `flag=""` marks those for Python only."""
    return [click_option(name) for name, option in OPTIONS.items() if option.group in groups and option.flag != ""]


_retrieval = _options_of_groups("retriever", "rerank", "agent")
_first_agent_option = [option.name for option in _retrieval].index("agent")
RETRIEVERS = Options("retrievers", _retrieval[:_first_agent_option])
AGENTS = Options("agents over knowledge bases", _retrieval[_first_agent_option:])
ASKING = Options("language models", _options_of_groups("request"))
"""For all language models, also those that re-rank or search as agents."""
PROMPTS = Options("language models", _options_of_groups("prompt"))


def _flag_option(name: str, help: str) -> click.Option:
    return click.Option([name], is_flag=True, default=None, help=help)


def _value_option(name: str, help: str, metavar: str | None = None, type: click.ParamType[Any] = NAME) -> click.Option:
    return click.Option([name], type=type, metavar=metavar, help=help)


DRY_RUN = _flag_option(
    "--dry-run",
    "Print a prompt, tokens, cost and time, and stop; with --base-url, one request measures the time. With "
    "--slurm, print the scripts of the jobs.",
)
SLURM = Options(
    "Slurm",
    [
        _flag_option("--slurm", "Submit shards that have not ended as an array job, and a job that collects them."),
        _value_option("--array", "Number of shards; N%M runs M at once.  [default: 1]", "N"),
        _value_option("--partition", "Partition of the jobs."),
        _value_option("--time", "Time limit of a task, such as 4:00:00; then it starts again."),
        _value_option("--slurm-args", "More options of sbatch: '-G 1 -A lab'."),
    ],
)
DEMONSTRATIONS = Options("prompts with demonstrations", _options_of_groups("demonstrations"))
ANNOTATING = Options("benchmarks whose metrics need other models", _options_of_groups("annotation"))
_testbed = of_benchmark(_KNOWN_NAMES["testbed"])
TESTBEDS = Options(
    "benchmarks with testbeds",
    [
        _value_option("--testbed", "Run the configs of a testbed; see 'kbbench list BENCHMARK'.", type=_testbed),
        _value_option("--subset", "Run only these parts of the testbed.", "NAME,..."),
    ],
)
GROUPS = (RETRIEVERS, AGENTS, PROMPTS, ASKING, DEMONSTRATIONS, ANNOTATING, TESTBEDS, SLURM)
"""All groups, in the order of the help without a benchmark."""


def options_of(found: Benchmark) -> list[Options]:
    """Return the groups of options that a benchmark has in addition to the common options, in the order of the help."""
    if not found.asking.prompts:
        return [RETRIEVERS, AGENTS, ASKING, SLURM]
    shots = [DEMONSTRATIONS] if found.asking.with_similar_ids else []
    annotating = [ANNOTATING] if found.scoring.annotations else []
    return [PROMPTS, ASKING, *shots, *annotating, *([TESTBEDS] if found.asking.testbeds else []), SLURM]


def sections(groups: Sequence[Options]) -> dict[str, list[click.Option]]:
    """Return title -> options, for the sections of the help; groups with one title are joined."""
    found: dict[str, list[click.Option]] = {}
    for group in groups:
        found.setdefault(f"For {group.whom}", []).extend(group.options)
    return found


class RunCommand(click.Command):
    """A command whose options depend on the named benchmark; without one, its help shows all."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        after_model = 1 + next(place for place, each in enumerate(self.params) if each.name == "model")
        self.params[after_model:after_model] = [*_options_of_groups("run"), DRY_RUN]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; options that the named benchmark does not have are refused first, with the reason."""
        groups: Sequence[Options] = GROUPS
        named = _named_benchmark(args)
        if named is not None:
            has = options_of(named)
            for group in groups:
                if group not in has:
                    _refuse_group(group, args, named)
            groups = has
        ctx.meta.update(groups=groups, arguments=list(args))
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


def without_slurm(args: Iterable[str]) -> list[str]:
    """Return the arguments without the options of Slurm and --dry-run."""
    flags = {option.opts[0]: option.is_flag for option in (*SLURM.options, DRY_RUN)}
    rest, kept = iter(args), []
    for each in rest:
        name, equals, _ = each.partition("=")
        if name not in flags:
            kept.append(each)
        elif not flags[name] and not equals:
            next(rest, None)
    return kept


def submit_shards(
    slurm: Mapping[str, Any],
    arguments: Sequence[str],
    out: Path,
    *,
    is_collected: bool,
    dry: bool,
    json_output: bool = False,
) -> None:
    """Submit the open shards of a verb and the job that collects them to Slurm; if `dry`, print their scripts.

    Args:
        slurm: the given options, from `take_slurm`.
        arguments: the command of one task, without the options of Slurm.
        out: the folder that the shards share.
        is_collected: whether the shards were collected before; if then none is open, nothing is submitted.
        dry: whether to print the scripts.
        json_output: whether to print the ids of the jobs as JSON.
    """
    from kbbench_hf.runners.slurm import SlurmRun

    given = "".join(f"--{name}={shlex.quote(slurm[name])} " for name in ("partition", "time") if name in slurm)
    command = [sys.executable, "-m", "kbbench_hf.cli", *arguments]
    run = SlurmRun(command, out, slurm.get("array", "1"), given + slurm.get("slurm_args", ""), is_collected)
    shards = run.open_shards()
    if dry:
        click.echo("\n".join([*([run.array_script()] if shards else []), run.collecting_script()]), nl=False)
        return
    jobs = [] if run.is_collected and not shards else run.submit()
    if json_output:
        print_json({"jobs": jobs, "shards": shards, "run": str(out)})
    elif jobs:
        first = f"job {jobs[0]} for {len(shards)} of {run.n_shards} shards, and " if shards else ""
        echo(f"Submitted {first}job {jobs[-1]}, which collects {out}. Logs: {run.logs}")
        echo("If shards do not end, the same command submits these again.")
    else:
        echo(f"{out} is finished: nothing is left to do, and nothing is submitted.")


def take_slurm(options: dict[str, Any], *, dry: bool) -> dict[str, Any]:
    """Remove the options of Slurm from the options of a verb, and return the given ones by name.

    Raises:
        UsageError: --slurm is missing, there are options that jobs set or cannot have, or `dry` is with a shard.
    """
    names = [str(each.name) for each in SLURM.options]
    slurm = {name: value for name in names if (value := options.pop(name, None)) is not None}
    if slurm and "slurm" not in slurm:
        raise UsageError(f"--{next(iter(slurm)).replace('_', '-')} is for --slurm. Add --slurm, or leave it out.")
    for name in ("shard", "collect", "processes", "testbed", "annotate") if slurm else ():
        if options.get(name):
            later = "; annotate in the same command without --slurm when the run is collected" * (name == "annotate")
            raise UsageError(f"--{name} is not for --slurm, which runs shards and collects them. Leave it out{later}.")
    for name in ("shard", "collect") if dry else ():
        if options.get(name):
            raise UsageError(f"--{name} is not for --dry-run, which is of all shards together. Leave one of them out.")
    return slurm


def _named_benchmark(args: Sequence[str]) -> Benchmark | None:
    """Return the benchmark that the first argument without a dash names; None if it names none."""
    try:
        return benchmark_of(next((each for each in args if not each.startswith("-")), "").partition("/")[0])
    except UsageError:
        return None


def _refuse_group(group: Options, args: Sequence[str], named: Benchmark) -> None:
    """Raise UsageError if an option of this group is given, because the benchmark would ignore it."""
    takes = f"evaluates {'language models' if named.asking.prompts else 'retrievers'}"
    fact = "has none" if group in (DEMONSTRATIONS, ANNOTATING, TESTBEDS) else takes
    given = {each.partition("=")[0] for each in args if each.startswith("--")}
    for option in group.options:
        if used := given & {*option.opts, *option.secondary_opts}:
            raise UsageError(f"{used.pop()} is for {group.whom}; {named.dataset} {fact}. Leave it out.")
