"""`kbbench list`: what is there."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from kbbench_hf.benchmarks import benchmark, benchmark_names, shipped_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.own_kb.benchmark import has_questions, is_knowledge_base
from kbbench_hf.cli.options import JSON
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import MANIFEST, NAMESPACE, DatasetFolder
from kbbench_hf.reports import terminal


@click.command()
@click.argument("name", required=False)
@click.option("--published", is_flag=True, help="Show what others have published on NAME[/CONFIG], with its sources.")
@JSON
def command(name: str | None, published: bool, json_output: bool) -> None:
    """List the benchmarks, and what of them is at hand; or everything about the one called NAME.

    Example: kbbench list mini-stark
    """
    if published:
        _list_published(name, json_output)
        return
    found = [benchmark(name)] if name else list(_all())
    facts = [
        {
            "dataset": each.dataset,
            "at_hand": _place(each.dataset),
            "title": each.title,
            "answer": each.scoring.answer.field,
            "configs": list(each.data.configs),
            "splits": list(each.data.splits),
            "modes": list(each.scoring.modes),
            "metrics": dict(each.metrics),
            "prompts": list(each.asking.prompts),
            "parsers": list(each.asking.parsers),
            "licence": each.facts.licence,
            "paper": each.facts.paper,
        }
        for each in found
    ]
    if json_output:
        click.echo(json.dumps(facts[0] if name else facts, indent=2))
        return
    console = terminal.console()
    if name:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        for key, value in facts[0].items():
            if value:
                table.add_row(key.replace("_", " "), escape(_words(value)))
        console.print(table)
        return
    rows = [
        [each.dataset, each.scoring.answer.field, ", ".join(list(each.metrics.values())[:4]), _place(each.dataset)]
        for each in found
    ]
    terminal.print_table(console, ["dataset", "answer", "headline metrics", "at hand"], rows, n_words=4)
    for folder in _own():
        if not has_questions(folder):
            click.echo(
                f"{folder.path.name}: a knowledge base without questions; with --queries it is a benchmark, too."
            )
    click.echo("\nMore of one: kbbench list NAME. To have one at hand: kbbench build NAME")


def _list_published(name: str | None, json_output: bool) -> None:
    from kbbench_hf.benchmarks.baselines import published_places
    from kbbench_hf.reports.published import print_published, published_json

    if name is None:
        raise UsageError("--published shows one benchmark's figures; expected its name: kbbench list NAME --published")
    dataset, _, config = name.removeprefix(f"{NAMESPACE}/").partition("/")
    found = benchmark(dataset)
    places = [place for place in published_places() if place.benchmark == found.dataset]
    if config:
        if config not in (known := dict.fromkeys(place.config for place in places)):
            raise unknown_name(f"config of {dataset} with published figures", config, known)
        places = [place for place in places if place.config == config]
    if json_output:
        click.echo(json.dumps(published_json(places), indent=2, ensure_ascii=False))
    elif places:
        print_published(found, places)
    else:
        terminal.echo(f"Nothing is published on {dataset}.")


def _all() -> Iterator[Benchmark]:
    """Yield every benchmark, by name, and the knowledge bases built here; what cannot be used is named on stderr."""
    own = [folder.path.name for folder in _own() if has_questions(folder)]
    for name in sorted([*benchmark_names(), *own]):
        try:
            yield benchmark(name)
        except UsageError as error:
            click.echo(f"! {error}", err=True)


def _own() -> list[DatasetFolder]:
    """Return the knowledge bases that were built here under names of their own."""
    folders = [DatasetFolder(file.parent) for file in sorted(Path(NAMESPACE).glob(f"*/{MANIFEST}"))]
    known = benchmark_names()
    return [folder for folder in folders if folder.path.name not in known and is_knowledge_base(folder)]


def _place(dataset: str) -> str:
    """Return where a dataset is, as far as that is known without the network."""
    if (Path(NAMESPACE) / dataset / MANIFEST).is_file():
        return f"./{NAMESPACE}"
    return "in the package" if shipped_dataset(dataset) else ""


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} ({label})" for key, label in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
