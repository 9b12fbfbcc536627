"""`kbbench train`: train a retriever on the training questions of a benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbbench_hf.cli.options import BENCHMARK, JSON, NAME, FilePath, Number, with_fields
from kbbench_hf.reports.terminal import called_as, console, echo, print_table
from kbbench_hf.training.spec import MODES, PRECISIONS, TrainSpec

_COUNTS = (
    *("epochs", "batch", "accumulate", "mini_batch", "train_length", "length", "dimension", "negatives_depth"),
    *("refresh", "candidates", "graph_size", "layers", "evaluations"),
)
_CLICK: dict[str, dict[str, Any]] = {
    "seed": {"type": click.IntRange(0)},
    "learning_rate": {"type": Number(0)},
    "warmup": {"type": Number(0, 1)},
    "precision": {"type": click.Choice(PRECISIONS)},
    "towers": {"type": click.IntRange(1, 2)},
    "n_negatives": {"type": click.IntRange(0)},
    "mask": {"flags": ["--mask/--no-mask"]},
    "mode": {"type": click.Choice(MODES)},
    "held_out": {"type": Number(0, 1, max_open=True)},
    **{name: {"type": click.IntRange(1)} for name in _COUNTS},
}
"""Field of `TrainSpec` -> its click option; a number must be listed here, or click passes it as text."""


@click.command()
@click.argument("benchmark", type=BENCHMARK)
@click.option("--method", type=NAME, required=True, help="Training method: dpr, ance, colbert, qagnn, fuse or plan.")
@click.option(
    "--base",
    type=NAME,
    required=True,
    help="Encoder on the Hub or in a folder; for fuse, 'weighted(a,b)'; for plan, a causal language model, or 'tiny', "
    "a new one.",
)
@click.option("--out", type=FilePath(), help="Output folder.  [default: kbbench-models/BENCHMARK/METHOD-SEED]")
@with_fields(TrainSpec, _CLICK)
@click.option("--controls", is_flag=True, help="Also train and evaluate baselines and ablations, about 5 trainings.")
@JSON
def command(
    benchmark: str, method: str, base: str, out: Path | None, controls: bool, json_output: bool, **how: Any
) -> None:
    """Train a retriever on the training questions of BENCHMARK; the validation questions select the checkpoint.

    The same command resumes an interrupted training. Evaluate the trained folder with `kbbench run`;
    sentence-transformers loads an encoder's folder too. Test questions are not used.

    Several processes: torchrun --nproc_per_node N -m kbbench_hf.cli train ...

    Example: kbbench train my-kb --method dpr --base sentence-transformers/all-MiniLM-L6-v2
    """
    from kbbench_hf.runners.process_group import group
    from kbbench_hf.training.train import controls as of_training
    from kbbench_hf.training.train import train

    given = {name: value for name, value in how.items() if value is not None}
    trained = train(benchmark, method, base, out, **given)
    lines = [line._asdict() for line in of_training(trained)] if controls else []
    if group().rank:
        return None  # only rank 0 prints
    if json_output:
        beside = {"controls": lines} if controls else {}
        return click.echo(
            json.dumps({"folder": str(trained.folder), "model": trained.model, **trained.facts, **beside})
        )
    curve = ", ".join(f"{each['mrr']:.4f} at step {each['step']:,.0f}" for each in trained.facts["curve"])
    echo(f"Validation MRR {curve}; selected: step {trained.facts['chosen_step']:,}.")
    for gain in trained.facts["gains"]:
        echo(f"MRR {gain['mrr']:+.4f} [{gain['ci95'][0]:+.3f}, {gain['ci95'][1]:+.3f}] over {gain['over']}.")
    for warning in trained.facts.get("warnings", ()):
        echo(f"Warning: {warning}", err=True)
    if trained.facts["ceilings"]:
        shares = ", ".join(f"{share:.1%} of {split}" for split, share in trained.facts["ceilings"].items())
        echo(f"Questions with an answer in their graph: {shares}.")
    if exact := trained.facts.get("exact_match"):
        echo(f"Plan exact match: {', '.join(f'{share:.1%} of {part}' for part, share in exact.items())}.")
    if controls:
        _print_controls(lines)
    echo(f"{trained.facts['seconds']:,.0f} s. Evaluate it:\n{called_as()} run {benchmark} --model {trained.model}")
    return None


def _print_controls(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print the baselines and ablations, and the gain of the trained retriever over each."""
    rows = [
        [
            f"{line['system']}, {len(line['seeds'])} seeds" if len(line["seeds"]) > 1 else line["system"],
            line["part"],
            f"{line['n']:,}",
            f"{line['mrr']:.4f}",
            f"{min(line['seeds']):.4f} to {max(line['seeds']):.4f}" if len(line["seeds"]) > 1 else "",
            f"{line['gain']:+.4f}" if line["gain"] else "",
            f"[{line['ci95'][0]:+.3f}, {line['ci95'][1]:+.3f}]" if line["gain"] else "",
        ]
        for line in lines
    ]
    heads = ["validation", "answers", "n", "MRR", "seeds", "gain", "95 % interval"]
    print_table(console(), heads, rows, n_words=2)
