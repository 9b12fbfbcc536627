"""`kbbench list`: the benchmarks, or the configs, metrics, modes, prompts and slices of one."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kbbench_hf import runners
from kbbench_hf.benchmarks import benchmark, benchmark_names, has_questions, own_names, shipped_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.options import BENCHMARK, JSON, flag
from kbbench_hf.errors import KBBenchError, UsageError, unknown_name
from kbbench_hf.files.datasets import MANIFEST, NAMESPACE, Row
from kbbench_hf.reports import terminal

_TASKS = {"ids": "retrieval", "triples": "triple extraction", "answers": "question answering"}
"""Field of a prediction -> task."""
_HEADINGS = {"answer": "task", "headline": "main metrics"}


@click.command()
@click.argument("name", required=False, type=BENCHMARK)
@flag("--published", "List the published results on NAME[/CONFIG], with sources.")
@flag("--lm-eval", "Print the --include_path of our tasks for lm-evaluation-harness.")
@JSON
def command(name: str | None, published: bool, lm_eval: bool, json_output: bool) -> None:
    """List the benchmarks; or the configs, metrics, modes, prompts, parsers, testbeds and slices of NAME.

    Example: kbbench list mini-stark
    """
    if lm_eval:
        if name or published or json_output:
            raise UsageError("--lm-eval prints a folder; expected no other argument. Leave the others out.")
        terminal.echo(str(Path(runners.__file__).parent / "lm_eval_tasks"))
        return
    if published:
        _list_published(name, json_output)
        return
    facts = [_benchmark_facts(benchmark(name))] if name else list(_all_facts())
    if json_output:
        terminal.print_json(facts[0] if name else facts)
        return
    console = terminal.console()
    if name:
        _print_facts(console, benchmark(name), facts[0])
        return
    rows = []
    for each in facts:
        answer, metrics = each.get("answer", ""), ", ".join(each.get("headline", [])[:4])
        task, place = _TASKS.get(answer, answer), each["installed"] or "not built"
        rows.append([each["dataset"], task, metrics or each["title"], place])
    terminal.print_table(console, ["dataset", "task", "main metrics", "installed"], rows, n_words=4)
    click.echo("\nDetails of one: kbbench list NAME. To install one: kbbench build NAME")


def _print_facts(console: Console, of: Benchmark, facts: Row) -> None:
    """Print the facts of a benchmark: a line for each, and a line for each metric and each part with a description."""
    from kbbench_hf.reports.tables import EXPANSIONS, label

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    meant = {metric: f", {words}" for metric, words in EXPANSIONS.items()}
    described = {**facts["descriptions"], "metrics": {m: f"{label(of, m)}{meant.get(m, '')}" for m in of.metrics}}
    if facts["answer"] in _TASKS:
        facts["answer"] = f"{_TASKS[facts['answer']]}; a prediction has the field {facts['answer']}"
    facts["installed"] = facts["installed"] or f"not built; to install it: kbbench build {facts['dataset']}"
    for key, value in facts.items():
        heading = _HEADINGS.get(key, key)
        if lines := described.get(key):
            table.add_row(heading)
            for each in value:
                table.add_row(f"  [not bold]{escape(each)}[/not bold]", escape(lines.get(each, "")))
        elif value and key != "descriptions":
            table.add_row(heading, escape(", ".join(value) if isinstance(value, list) else str(value)))
    console.print(table)


def _list_published(name: str | None, json_output: bool) -> None:
    """Print the published results on a benchmark, or on one of its configs."""
    from kbbench_hf.benchmarks.baselines import published_places
    from kbbench_hf.reports.published import print_published, published_json

    if name is None:
        raise UsageError("--published needs the name of a benchmark. Write: kbbench list NAME --published")
    dataset, _, config = name.removeprefix(f"{NAMESPACE}/").partition("/")
    found = benchmark(dataset)
    places = [task_key for task_key in published_places() if task_key.benchmark == found.dataset]
    if config:
        if config not in (known := dict.fromkeys(task_key.config for task_key in places)):
            raise unknown_name(f"config of {dataset} with published scores", config, known)
        places = [task_key for task_key in places if task_key.config == config]
    if json_output:
        terminal.print_json(published_json(places), ensure_ascii=False)
    elif places:
        print_published(found, places)
    else:
        terminal.echo(f"Nothing is published on {dataset}.")


def _all_facts() -> Iterator[Row]:
    """Yield the facts of every benchmark and user dataset, by name; print those that fail on stderr."""
    for name in sorted([*benchmark_names(), *own_names()]):
        try:
            if has_questions(name):
                yield _benchmark_facts(benchmark(name))
            else:  # a knowledge base that is no benchmark
                yield {"dataset": name, "installed": _installed_in(name), "title": "no questions", "metrics": {}}
        except KBBenchError as error:
            terminal.echo(f"! {error}", err=True)
        except Exception as error:  # a damaged folder, or an error in a plugin package
            what = f"{type(error).__name__}: {error}"
            terminal.echo(
                f"! {name} cannot be read: {what}. Build it again, or fix the package that provides it.", err=True
            )


def _benchmark_facts(of: Benchmark) -> Row:
    """Return the facts of a benchmark, whose keys are those of `--json` and the headings of the table."""
    lines = tomllib.loads(of.showing.names.read_text(encoding="utf-8")) if of.showing.names else {}
    return {
        "dataset": of.dataset,
        "installed": _installed_in(of.dataset),
        "title": of.title,
        "answer": of.scoring.answer.field,
        "configs": list(of.data.configs),
        "splits": list(of.data.splits),
        "metrics": dict(of.metrics),
        "headline": [of.metrics[metric] for metric in of.headline_metrics(of.metrics)],
        "modes": list(of.scoring.modes),
        "prompts": list(of.asking.prompts),
        "parsers": list(of.asking.parsers),
        "testbeds": [
            name for name, testbed in of.asking.testbeds.items() if {*testbed.configs(None)} & {*of.data.configs}
        ],
        "subsets": list(of.asking.parts),
        "slices": list(lines.get("slices", {})),
        "descriptions": lines,
        "license": of.facts.license,
        "paper": of.facts.paper,
    }


def _installed_in(dataset: str) -> str:
    """Return where a dataset is installed, or an empty string; sends no request."""
    if (Path(NAMESPACE) / dataset / MANIFEST).is_file():
        return f"./{NAMESPACE}"
    return "built in" if shipped_dataset(dataset) else ""
