"""`kbbench synthesize`: generate questions for a built knowledge base from its structure and texts."""

import time
from pathlib import Path
from typing import Any

import click

from kbbench_hf.cli.options import BENCHMARK, CONCURRENCY, FilePath, flag, option
from kbbench_hf.cli.run_options import SLURM, submit_shards, take_slurm
from kbbench_hf.files.shards import ShardEnd
from kbbench_hf.reports.terminal import echo


def _print_example(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from kbbench_hf.building.synthesis.spec import EXAMPLE

        echo(EXAMPLE.read_text(encoding="utf-8").rstrip("\n"))
        context.exit()


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
@flag("--dry-run", "Print the number of prompts and their cost; send nothing. With --slurm, print the scripts.")
@option(
    "--prices", "Your price file, with a date (YAML or JSON), for --dry-run.", FilePath(exists=True, dir_okay=False)
)
@CONCURRENCY
@option("--shard", "Send only the requests of shard K of N; 'slurm' is K/N of a job array.", metavar="K/N")
@flag("--collect", "Send nothing, and write the questions of what the shards have journaled.")
@flag("--allow-other-server", "Resume with a model on another server.")
def command(
    name: str,
    count: int,
    seed: str,
    spec: str | None,
    out: str | None,
    dry_run: bool,
    prices: Path | None,
    concurrency: int,
    allow_other_server: bool,
    **shards: Any,
) -> None:
    """Generate questions for the knowledge base NAME, without a model, and write them to ./kbbench/NAME2.

    If the spec names models, they write and judge the questions. Their responses are kept in
    ./kbbench-runs/synthesize, and the same command resumes. Machines that share this folder divide the requests:
    start the same command on each with --shard 1/N to N/N. The last one to end writes the questions.

    Examples:
      kbbench synthesize mini-stark --count 120
      kbbench run mini-stark-questions --model bm25
    """
    from kbbench_hf.building.synthesis.synthesize import is_collected, open_responses, synthesis_costs, synthesize

    if slurm := take_slurm(shards, dry=dry_run):
        given = {"count": count, "seed": seed, "spec": spec, "out": out, "concurrency": concurrency}
        arguments = [f"--{option}={value}" for option, value in given.items() if value is not None]
        arguments += ["--allow-other-server"] * allow_other_server
        folder = open_responses(name, count, seed, spec, out)
        submit_shards(slurm, ["synthesize", name, *arguments], folder, is_collected=is_collected(folder), dry=dry_run)
        return
    if dry_run:
        for model, cost in synthesis_costs(name, count, seed, spec, out, concurrency, prices).items():
            money = "" if cost.cost is None else f", {cost.cost:.2f} {cost.currency} at most"
            echo(f"{model}: {cost.n_prompts:,} prompts, {cost.prompt_tokens:,} tokens{money} ({cost.assumes})")
        return
    started = time.monotonic()
    try:
        how = {"concurrency": concurrency, "allow_other_server": allow_other_server, **shards}
        made = synthesize(name, count, seed=seed, spec=spec, out=out, **how)
    except ShardEnd as end:
        echo(str(end))
        return
    numbers = {split: made.n_rows(split)["queries"] for split in made.configs()["queries"]}
    for split, n in numbers.items():
        echo(f"  {split}: {n:,} questions")
    took = f"{time.monotonic() - started:.1f} s, revision {made.revision}"
    echo(f"{made.path}: {sum(numbers.values()):,} questions in {took}")


command.params.extend(SLURM.options)
