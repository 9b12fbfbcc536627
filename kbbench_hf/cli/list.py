"""`kbbench list`: what is there."""

import json

import click
from rich.console import Console
from rich.table import Table

from kbbench_hf.benchmarks import benchmark, benchmark_names
from kbbench_hf.cli.options import JSON


@click.command()
@click.argument("name", required=False)
@JSON
def command(name: str | None, json_output: bool) -> None:
    """List the benchmarks, or everything about the one called NAME.

    Example: kbbench list stark-prime
    """
    found = [benchmark(each) for each in ([name] if name else benchmark_names())]
    facts = [
        {
            "dataset": each.dataset,
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
        for key, value in facts[0].items():
            console.print(f"[bold]{key:8}[/bold] {_words(value)}", highlight=False)
        return
    table = Table("dataset", "benchmark", "answer", "headline metrics", "modes", box=None, header_style="bold")
    for each in found:
        table.add_row(
            each.dataset, each.title, each.answer, ", ".join(list(each.metrics.values())[:4]), ", ".join(each.modes)
        )
    console.print(table)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} ({label})" for key, label in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
