"""`kbbench list`: what is there."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.cli.options import JSON
from kbbench_hf.dataset_folder import MANIFEST
from kbbench_hf.hub.load import MINI, NAMESPACE, find_benchmark


@click.command()
@click.argument("name", required=False)
@JSON
def command(name: str | None, json_output: bool) -> None:
    """List the benchmarks, and what of them is at hand; or everything about the one called NAME.

    Example: kbbench list stark-prime
    """
    names = [name] if name else sorted({*benchmark_names(), *_own()})
    found = [find_benchmark(each) for each in names]
    facts = [
        {
            "dataset": each.dataset,
            "at_hand": _place(each.dataset),
            "title": each.title,
            "answer": each.answer,
            "configs": list(each.configs),
            "splits": list(each.splits),
            "modes": list(each.modes),
            "metrics": dict(each.metrics),
            "prompts": list(each.prompts),
            "parsers": list(each.parsers),
            "licence": each.licence,
            "paper": each.paper,
        }
        for each in found
    ]
    if json_output:
        click.echo(json.dumps(facts[0] if name else facts, indent=2))
        return
    console = Console()
    if name:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        for key, value in facts[0].items():
            if value:
                table.add_row(key.replace("_", " "), escape(_words(value)))
        console.print(table)
        return
    table = Table("dataset", "answer", "headline metrics", "at hand", box=None, header_style="bold", pad_edge=False)
    for each in found:
        metrics = ", ".join(list(each.metrics.values())[:4])
        table.add_row(each.dataset, each.answer, metrics, _place(each.dataset))
    console.print(table)
    click.echo("\nMore of one: kbbench list NAME. To have one at hand: kbbench build NAME")


def _own() -> list[str]:
    """Return the names of the knowledge bases that the user built."""
    folders = [file.parent for file in Path(NAMESPACE).glob(f"*/{MANIFEST}")]
    return [folder.name for folder in folders if folder.name not in benchmark_names()]


def _place(dataset: str) -> str:
    """Return where a dataset is, as far as that is known without the network."""
    if (Path(NAMESPACE) / dataset / MANIFEST).is_file():
        return f"./{NAMESPACE}"
    return "in the package" if (MINI / dataset / MANIFEST).is_file() else ""


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} ({label})" for key, label in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
