"""Types of names, paths and numbers on the command line, with shell completion."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from kbbench_hf.benchmarks import benchmark, benchmark_names, is_published, name_of_path, own_names
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files import user_path


class FilePath(click.Path):
    """A path; an empty one, which would mean the current folder, is refused."""

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
    """Return the type of a name that belongs to the benchmark of the same command line."""

    def known(context: click.Context, _begun: str) -> Iterable[str]:
        # While an option lacks its value, click has not yet given the arguments their names.
        given = context.params.get("benchmark") or context.params.get("name") or context.args[0]
        return names(benchmark(given.removeprefix("kbbench/").partition("/")[0]))

    return Name(known)


def _places(_context: click.Context, begun: str) -> Iterable[str]:
    dataset, slash, _ = begun.partition("/")
    if slash:
        return [f"{dataset}/{config}" for config in benchmark(dataset).data.configs]
    return [*benchmark_names(), *own_names()]


class _BenchmarkName(Name):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return name_of_path(super().convert(value, param, ctx))


BENCHMARK = _BenchmarkName(_places)
"""NAME or NAME/CONFIG, or the folder of a dataset."""
DATASET = Name(_places)
"""Name of a dataset, which need not exist."""
NAME = Name()
"""A name without completion."""
