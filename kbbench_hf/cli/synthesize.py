"""`kbbench synthesize`: generate questions for a built knowledge base from its structure and texts."""

import time
from pathlib import Path

import click

from kbbench_hf.cli.options import BENCHMARK, CONCURRENCY, NAME, FilePath, flag, option
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import echo


def _print_example(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from kbbench_hf.building.synthesis.spec import EXAMPLE

        echo(EXAMPLE.read_text(encoding="utf-8").rstrip("\n"))
        context.exit()


def _refuse_shard(_context: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageError(
            f"--shard {value} is not for synthesize: later steps need the responses to other prompts of earlier ones, "
            "which another process would have. Leave it out, and raise --concurrency."
        )


@click.command()
@click.argument("name", type=BENCHMARK)
@option("--count", "Number of questions.", click.IntRange(1), required=True)
@option("--seed", "The same seed gives the same questions.", default="0")
@option(
    "--spec",
    "YAML file with templates, limits and wordings, or the name of a dataset that has a spec.",
    metavar="FILE|DATASET",
)
@option("--out", "Name of the new dataset; NAME-questions by default.", metavar="NAME2")
@flag("--spec-example", "Print an example spec and exit.", is_eager=True, expose_value=False, callback=_print_example)
@click.option("--shard", type=NAME, hidden=True, expose_value=False, callback=_refuse_shard)
@flag("--dry-run", "Print the number of prompts and their cost; send nothing.")
@option(
    "--prices", "Your price file, with a date (YAML or JSON), for --dry-run.", FilePath(exists=True, dir_okay=False)
)
@CONCURRENCY
def command(
    name: str,
    count: int,
    seed: str,
    spec: str | None,
    out: str | None,
    dry_run: bool,
    prices: Path | None,
    concurrency: int,
) -> None:
    """Generate questions for the knowledge base NAME, without a model, and write them to ./kbbench/NAME2.

    If the spec names models, they write and judge the questions. Their responses are kept in
    ./kbbench-runs/synthesize, and the same command resumes.

    Examples:
      kbbench synthesize mini-stark --count 120
      kbbench run mini-stark-questions --model bm25
    """
    from kbbench_hf.building.synthesis.synthesize import synthesis_costs, synthesize

    if dry_run:
        for model, cost in synthesis_costs(name, count, seed, spec, out, concurrency, prices).items():
            money = "" if cost.cost is None else f", {cost.cost:.2f} {cost.currency} at most"
            echo(f"{model}: {cost.n_prompts:,} prompts, {cost.prompt_tokens:,} tokens{money} ({cost.assumes})")
        return
    started = time.monotonic()
    folder = synthesize(name, count, seed=seed, spec=spec, out=out, concurrency=concurrency)
    numbers = {split: folder.n_rows(split)["queries"] for split in folder.configs()["queries"]}
    for split, n in numbers.items():
        echo(f"  {split}: {n:,} questions")
    took = f"{time.monotonic() - started:.1f} s, revision {folder.revision}"
    echo(f"{folder.path}: {sum(numbers.values()):,} questions in {took}")
