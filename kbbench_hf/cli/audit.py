"""`kbbench audit`: check a built dataset for shortcuts with trivial baselines."""

from collections.abc import Sequence
from pathlib import Path

import click

from kbbench_hf.benchmarks import audits, benchmark, benchmark_names, find_dataset
from kbbench_hf.cli.options import BENCHMARK, JSON, FilePath, option
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE, built
from kbbench_hf.reports import terminal
from kbbench_hf.reports.tables import number


@click.command()
@click.argument("dataset", type=BENCHMARK)
@option(
    "--closed-book",
    "Answers of a model that saw only the questions: JSON Lines with instance_id and answers.",
    FilePath(exists=True, dir_okay=False),
)
@option("--model models", "Retriever to run for comparison with the baselines (repeatable).", multiple=True)
@JSON
def command(dataset: str, closed_book: Path | None, models: tuple[str, ...], json_output: bool) -> None:
    """Check the built DATASET for shortcuts with trivial baselines (keyword, position, length, random).

    Each baseline has a limit. The table is written into the dataset card; a score above its limit gives exit code 1,
    unless the card accepts it in a list item with a reason: - `kg.first_unit`: the reason in one sentence. So does a
    card without the canary GUID by which leaked examples are found.

    Examples:
      kbbench audit NAME --closed-book answers.jsonl
      kbbench audit my-kb-questions --model bm25 --model graph:bm25
    """
    name = dataset.removeprefix(f"{NAMESPACE}/")
    audit = benchmark(name).data.audit
    if audit is None:
        with_one = ", ".join(each for each in benchmark_names() if benchmark(each).data.audit)
        raise UsageError(f"{name} has no audit; expected one of {with_one}. Name one of these.")
    folder = find_dataset(name)
    if models and benchmark(name).asking.prompts:
        raise UsageError(f"--model is for retrieval benchmarks, and {name} is not one. Leave it out.")
    findings = list(audit(folder, audits.read_closed_book(closed_book) if closed_book else None))
    if models:
        findings = audits.beside_models(findings, benchmark(name).data.default_split, _model_scores(name, models))
    findings = audits.waived(folder, findings)
    if built(name):
        audits.write_into_card(folder, findings)
    if json_output:
        terminal.print_json([each.to_dict() for each in findings])
    else:
        _print_findings(findings)
    audits.refuse_unwaived(findings)
    audits.refuse_without_canary(folder)


def _model_scores(name: str, models: Sequence[str]) -> dict[str, tuple[float, int]]:
    """Return the first metric of each model, and the number of scored examples."""
    from kbbench_hf.runners.run import run

    metric = next(iter(benchmark(name).scoring.metrics))
    scores = ((model, run(name, model).scores[metric]) for model in models)
    return {model: (score.value, score.n_scored) for model, score in scores}


def _print_findings(findings: Sequence[audits.Finding]) -> None:
    """Print a row per baseline and a column per part; scores above their limit are bold and marked."""
    parts = list(dict.fromkeys(each.part for each in findings))
    table = {(each.name, each.part): each for each in findings}
    limits = {each.name: f"{each.limit:.2f}" for each in findings}
    rows = [[name, limits[name], *(_cell(table.get((name, part))) for part in parts)] for name in limits]
    console = terminal.console()
    terminal.print_table(console, ["baseline", "limit", *parts], rows)
    console.print(
        "[dim]! above the limit; w above the limit, accepted on the card. The card describes each baseline.[/dim]"
    )


def _cell(found: audits.Finding | None) -> str:
    if found is None:
        return ""
    score = number(found.value)
    return terminal.Best(f"{score} {'w' if found.waiver else '!'}") if found.is_over else f"{score}  "
