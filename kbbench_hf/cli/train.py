"""`kbbench train`: train a retriever on the training questions of a benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbbench_hf.cli.options import BENCHMARK, JSON, NAME, FilePath, Number
from kbbench_hf.reports.terminal import called_as, console, echo, print_table
from kbbench_hf.training.spec import MODES, PRECISIONS

_WHOLE = click.IntRange(1)


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
@click.option("--seed", type=click.IntRange(0), help="Random seed.  [default: 0]")
@click.option("--epochs", type=_WHOLE, help="Number of epochs.  [default: 3]")
@click.option("--batch", type=_WHOLE, help="Questions per batch and process.  [default: 32]")
@click.option("--accumulate", type=_WHOLE, help="Gradient accumulation steps.  [default: 1]")
@click.option("--mini-batch", type=_WHOLE, help="Texts in memory at a time, for larger batches (GradCache).")
@click.option("--learning-rate", type=Number(0), help="Peak learning rate.  [default: 5e-05]")
@click.option("--warmup", type=Number(0, 1), help="Warmup ratio.  [default: 0.1]")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="Precision of training; bf16 (autocast) is for GPUs.  [default: fp32]",
)
@click.option("--text", type=NAME, help="Text of a node, as in dense:MODEL@text=.  [default: as there]")
@click.option("--train-length", type=_WHOLE, help="Maximum tokens of a text in training.  [default: 64]")
@click.option("--length", type=_WHOLE, help="Maximum tokens of a text for the trained model.  [default: 128]")
@click.option("--towers", type=click.IntRange(1, 2), help="2: a separate encoder for questions.  [default: 1]")
@click.option("--dimension", type=_WHOLE, help="colbert: token embedding dimension.")
@click.option("--negatives", type=NAME, help="Retriever that finds hard negatives: bm25, or itself.  [default: bm25]")
@click.option("--n-negatives", type=click.IntRange(0), help="Hard negatives per positive.  [default: 1]")
@click.option(
    "--negatives-depth", type=_WHOLE, help="Sample negatives from the top wrong results, this many.  [default: 20]"
)
@click.option("--refresh", type=_WHOLE, help="Mine negatives again after this number of steps.  [default: 20 for ance]")
@click.option("--first-stage", type=NAME, help="qagnn: retriever of the candidate nodes.  [default: bm25]")
@click.option("--candidates", type=_WHOLE, help="qagnn: number of candidate nodes.  [default: 100]")
@click.option("--graph-size", type=_WHOLE, help="qagnn: maximum nodes of a graph.  [default: 200]")
@click.option(
    "--mode", type=click.Choice(MODES), help="qagnn: one graph for all, or for each candidate.  [default: joint]"
)
@click.option(
    "--layers", type=_WHOLE, help="qagnn: message-passing layers; 0 is the baseline without edges.  [default: 2]"
)
@click.option(
    "--held-out",
    type=Number(0, 1, max_open=True),
    help="plan: share of the shapes of several hops to leave out of training.  [default: 0.2]",
)
@click.option("--mask/--no-mask", default=None, help="Exclude known answers from the negatives.  [default: mask]")
@click.option(
    "--shuffle", is_flag=True, default=None, help="Baseline: train with the answers shuffled between questions."
)
@click.option("--evaluations", type=_WHOLE, help="Number of validation runs.  [default: 3]")
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
        _print(lines)
    echo(f"{trained.facts['seconds']:,.0f} s. Evaluate it:\n{called_as()} run {benchmark} --model {trained.model}")
    return None


def _print(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print the baselines, and the gain of the trained retriever over each."""
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
