"""The part of `kbbench run` that runs a testbed of SKA-Bench: its configs one by one, then what they say together."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kbbench_hf.benchmarks.ska_configs import configs_of
from kbbench_hf.benchmarks.ska_units import SUBSETS
from kbbench_hf.cli.run import check_failures, language_model, price_of, sampling_of, summary_text, task_of
from kbbench_hf.errors import UsageError
from kbbench_hf.hub.load import find_benchmark, find_dataset
from kbbench_hf.reports.ska_plots import plot_noise, plot_orders, plot_rejection
from kbbench_hf.reports.ska_summary import robustness
from kbbench_hf.reports.tables import interval, number
from kbbench_hf.runners.generative import run_generative

PLOTS = {"noise": plot_noise, "order": plot_orders, "rejection": plot_rejection, "rejection_control": plot_rejection}


def testbed_command(
    dataset: str, config: str | None, name: str, base_url: str | None, options: Mapping[str, Any]
) -> None:
    """Run a testbed. Integration sends nothing: it sorts the finished standard noise runs by the units they need."""
    if config is not None:
        raise UsageError(f"{dataset}/{config} names a config and --testbed several; expected one of the two.")
    subsets = options["subset"].split(",") if options["subset"] else SUBSETS
    built = find_dataset(dataset).configs()
    names = [each for each in configs_of(options["testbed"], subsets) if each in built]
    if not names:
        expected = ", ".join(configs_of(options["testbed"], subsets))
        raise UsageError(
            f"{dataset} holds no config of the testbed {options['testbed']!r} for {', '.join(subsets)}; "
            f"expected one of {expected}. Build it with: kbbench build {dataset}"
        )
    if options["testbed"] == "integration":
        results = {each: _finished(dataset, each, name, options) for each in names}
        _show_integration(results, options["json_output"])
        return
    model, how = language_model(name, base_url, options)
    results = {}
    for each in names:
        asked = task_of(dataset, each, options)
        folder, summary, result = run_generative(
            asked,
            model,
            name,
            mode=options["mode"],
            sampling=sampling_of(options),
            repeats=options["repeats"],
            structured=options["structured"],
            parser=options["parser"],
            price=price_of(name, options),
            **how,
        )
        results[each] = result.to_dict()
        if not options["json_output"]:
            click.echo(f"{each}: {summary_text(summary)}\n{folder}")
        check_failures(summary)
    if getattr(model, "rank", 0):
        return
    if options["json_output"]:
        click.echo(json.dumps(results, indent=2))
        return
    _show(dataset, name, options["testbed"], results)


def _finished(dataset: str, config: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    asked = task_of(dataset, config, options)
    settings = asked.settings(name, sampling_of(options), options["repeats"], options["structured"])
    file = asked.folder(name, settings) / "result.json"
    if not file.is_file():
        raise UsageError(
            f"{file} does not exist: the integration testbed sorts finished runs and sends nothing. "
            f"First: kbbench run {dataset}/{config} --model {name}, with the same options."
        )
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result


def _show(dataset: str, name: str, testbed: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    benchmark, console = find_benchmark(dataset), Console()
    shown = [
        metric
        for metric in benchmark.metrics
        if any(result["scores"][metric]["value"] is not None for result in results.values())
    ]
    first, *others = shown
    table = Table(
        "config", "n", benchmark.metrics[first], "95 % interval", *(benchmark.metrics[each] for each in others)
    )
    table.box, table.header_style = None, "bold"
    for config, result in results.items():
        figures = result["scores"]
        cells = ["-" if figures[each]["value"] is None else number(figures[each]["value"]) for each in shown]
        table.add_row(config, f"{result['counters']['n_examples']:,}", cells[0], _bounds(figures[first]), *cells[1:])
    console.print(table)
    figures_of = {config: result["scores"] for config, result in results.items()}
    for subset, found in robustness(figures_of).items():
        parts = []
        if found.over_budgets and found.over_budgets.relative_drop == found.over_budgets.relative_drop:
            parts.append(f"relative drop over budgets {found.over_budgets.relative_drop:.3f}")
        if found.std_over_orders is not None:
            parts.append(f"standard deviation over orders {found.std_over_orders:.4f}")
        if found.worst_order_drop is not None:
            parts.append(f"worst order loses {found.worst_order_drop:.4f}")
        if parts:
            console.print(f"{subset}: {', '.join(parts)}", highlight=False)
    if testbed in PLOTS:
        file = Path("kbbench-runs") / dataset / f"{testbed}.png"
        PLOTS[testbed]({name: figures_of}).savefig(file, dpi=150)
        console.print(f"{file}", highlight=False)


def _show_integration(results: Mapping[str, Mapping[str, Any]], json_output: bool) -> None:
    buckets = {
        config: {bucket: figures["answer_f1"] for bucket, figures in result["slices"]["n_required"].items()}
        for config, result in results.items()
    }
    if json_output:
        click.echo(json.dumps(buckets, indent=2))
        return
    table = Table("config", "units needed", "n", "F1", "95 % interval", box=None, header_style="bold")
    for config, by_bucket in buckets.items():
        for bucket in sorted(by_bucket, key=lambda each: (len(each), each)):
            figure = by_bucket[bucket]
            value = "-" if figure["value"] is None else number(figure["value"])
            table.add_row(config, bucket, f"{figure['n_scored']:,}", value, _bounds(figure))
    Console().print(table)


def _bounds(figure: Mapping[str, Any]) -> str:
    low, high = figure["ci95"]
    return "-" if low is None or high is None else interval((low, high))
