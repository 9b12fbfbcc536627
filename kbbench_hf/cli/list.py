"""`kbbench list`: what is there."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from kbbench_hf.benchmarks import benchmark, benchmark_names, own_names, shipped_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.own_kb.benchmark import has_questions
from kbbench_hf.cli.names import BENCHMARK
from kbbench_hf.cli.options import JSON
from kbbench_hf.errors import KBBenchError, UsageError, unknown_name
from kbbench_hf.files.datasets import MANIFEST, NAMESPACE, Row
from kbbench_hf.reports import terminal


@click.command()
@click.argument("name", required=False, type=BENCHMARK)
@click.option("--published", is_flag=True, help="Show what others have published on NAME[/CONFIG], with its sources.")
@JSON
def command(name: str | None, published: bool, json_output: bool) -> None:
    """List the benchmarks, and what of them is at hand; or everything about the one called NAME.

    Example: kbbench list mini-stark
    """
    if published:
        _list_published(name, json_output)
        return
    facts = [_facts(benchmark(name))] if name else list(_all())
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
        [
            each["dataset"],
            each.get("answer", ""),
            ", ".join(list(each["metrics"].values())[:4]) or each["title"],
            each["at_hand"],
        ]
        for each in facts
    ]
    terminal.print_table(console, ["dataset", "answer", "headline metrics", "at hand"], rows, n_words=4)
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


def _all() -> Iterator[Row]:
    """Yield the facts of every benchmark and own knowledge base, by name; what cannot be used is named on stderr."""
    for name in sorted([*benchmark_names(), *own_names()]):
        try:
            yield _facts(benchmark(name)) if has_questions(name) else _bare_facts(name)
        except KBBenchError as error:
            terminal.echo(f"! {error}", err=True)
        except Exception as error:  # whatever a damaged folder brings about, or somebody else's package raises
            what = f"{type(error).__name__}: {error}"
            terminal.echo(f"! {name} cannot be read: {what}. Build it again, or mend what plugs it in.", err=True)


def _bare_facts(name: str) -> Row:
    """Return what there is to say of a knowledge base that was built without questions, and so is no benchmark."""
    return {"dataset": name, "at_hand": _place(name), "title": "no questions", "metrics": {}}


def _facts(of: Benchmark) -> Row:
    return {
        "dataset": of.dataset,
        "at_hand": _place(of.dataset),
        "title": of.title,
        "answer": of.scoring.answer.field,
        "configs": list(of.data.configs),
        "splits": list(of.data.splits),
        "modes": list(of.scoring.modes),
        "metrics": dict(of.metrics),
        "prompts": list(of.asking.prompts),
        "parsers": list(of.asking.parsers),
        "licence": of.facts.licence,
        "paper": of.facts.paper,
    }


def _place(dataset: str) -> str:
    """Return where a dataset is, as far as that is known without the network."""
    if (Path(NAMESPACE) / dataset / MANIFEST).is_file():
        return f"./{NAMESPACE}"
    return "in the package" if shipped_dataset(dataset) else ""


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} ({label})" for key, label in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
