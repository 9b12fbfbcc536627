"""Options that several verbs share, handed to them as the value they stand for."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import click

from kbbench_hf.dataset_folder import read_json
from kbbench_hf.records import ReadOptions

Command = Callable[..., Any]

PREDICTIONS = click.argument("predictions", nargs=-1, required=True, type=click.Path(path_type=Path))
MODE = click.option("--mode", help="Scoring mode; the authors' released behaviour (reference) by default.")
JSON = click.option("--json", "json_output", is_flag=True, help="Print the result as JSON, nothing else.")


def on_benchmark(command: Command) -> Command:
    """Add --benchmark and --split; the command gets `dataset`, `config` and `split`.

    A run's folder says itself what it was run on.
    """

    @click.option(
        "--benchmark", metavar="NAME[/CONFIG]", help="The dataset, e.g. mini-text2kg; a run's folder says it."
    )
    @click.option("--split", help="Split; the benchmark's usual one, or the run's, by default.")
    @wraps(command)
    def wrapper(benchmark: str | None, split: str | None, **others: Any) -> Any:
        if benchmark is None:
            benchmark, run_split = _place_of_run(others.get("predictions") or others.get("a"))
            split = split or run_split
        dataset, config = dataset_and_config(benchmark)
        return command(dataset=dataset, config=config, split=split, **others)

    return wrapper


def _place_of_run(predictions: Path | tuple[Path, ...] | None) -> tuple[str, str]:
    """Return `dataset/config` and the split of a run's folder, or of the file in it."""
    first = predictions[0] if isinstance(predictions, tuple) else predictions
    file = first and (first if first.is_dir() else first.parent) / "run.json"
    if not file or not file.is_file():
        raise click.UsageError("Missing option '--benchmark': only a run's folder says itself what it was run on.")
    settings = read_json(file)["settings"]
    return f"{settings['benchmark']}/{settings['config']}", settings["split"]


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
        source: Literal["answer", "response"], parser: str | None, duplicates: Literal["error", "last"], **others: Any
    ) -> Any:
        options = ReadOptions(source="response" if parser else source, parser=parser, duplicates=duplicates)
        return command(read_options=options, **others)

    return wrapper


def dataset_and_config(name: str) -> tuple[str, str | None]:
    """Split `genres-corpora/docred` into dataset and config; `kbbench/` before it is dropped.

    >>> dataset_and_config("kbbench/genres-corpora/docred"), dataset_and_config("mini-stark")
    (('genres-corpora', 'docred'), ('mini-stark', None))
    """
    dataset, _, config = name.removeprefix("kbbench/").partition("/")
    return dataset, config or None
