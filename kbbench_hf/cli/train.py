"""`kbbench train`: train a retriever on a benchmark's training questions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath, Number
from kbbench_hf.cli.options import JSON
from kbbench_hf.reports.terminal import called_as, console, echo, print_table
from kbbench_hf.training.spec import MODES, PRECISIONS

_WHOLE = click.IntRange(1)


@click.command()
@click.argument("benchmark", type=BENCHMARK)
@click.option("--method", type=NAME, required=True, help="dpr, ance, colbert, qagnn or fuse.")
@click.option(
    "--base", type=NAME, required=True, help="An encoder on the Hub or in a folder; to fuse, 'weighted(a,b)'."
)
@click.option("--out", type=FilePath(), help="[default: kbbench-models/BENCHMARK/METHOD-SEED]")
@click.option("--seed", type=click.IntRange(0), help="[default: 0]")
@click.option("--epochs", type=_WHOLE, help="How often each question and answer is seen.  [default: 3]")
@click.option("--batch", type=_WHOLE, help="Questions for a step of each process.  [default: 32]")
@click.option("--accumulate", type=_WHOLE, help="Batches whose gradients make one step.  [default: 1]")
@click.option("--mini-batch", type=_WHOLE, help="Texts in memory at a time, for batches larger than it (GradCache).")
@click.option("--learning-rate", type=Number(0), help="[default: 5e-05]")
@click.option("--warmup", type=Number(0, 1), help="Share of the steps in which the rate rises.  [default: 0.1]")
@click.option("--precision", type=click.Choice(PRECISIONS), help="bf16 by autocast: for GPUs.  [default: fp32]")
@click.option("--text", type=NAME, help="What stands for a node, as in dense:MODEL@text=.  [default: as there]")
@click.option("--train-length", type=_WHOLE, help="Tokens of a text in training.  [default: 64]")
@click.option("--length", type=_WHOLE, help="Tokens of a text for the trained model.  [default: 128]")
@click.option("--towers", type=click.IntRange(1, 2), help="2: questions have an encoder of their own.  [default: 1]")
@click.option("--dimension", type=_WHOLE, help="colbert: numbers for a token, by a learned projection.")
@click.option("--negatives", type=NAME, help="Whose mistakes are hard negatives: bm25, itself.  [default: bm25]")
@click.option("--n-negatives", type=click.IntRange(0), help="Of these beside each answer.  [default: 1]")
@click.option("--negatives-depth", type=_WHOLE, help="Drawn from so many of its best mistakes.  [default: 20]")
@click.option("--refresh", type=_WHOLE, help="Mine anew after so many steps.  [default: 20 for ance]")
@click.option("--first-stage", type=NAME, help="qagnn: whose best nodes are in a question's graph.  [default: bm25]")
@click.option("--candidates", type=_WHOLE, help="qagnn: how many of these.  [default: 100]")
@click.option("--graph-size", type=_WHOLE, help="qagnn: nodes of a graph.  [default: 200]")
@click.option(
    "--mode", type=click.Choice(MODES), help="qagnn: one graph for all, or for each candidate.  [default: joint]"
)
@click.option("--layers", type=_WHOLE, help="qagnn: how often messages are passed; 0 is its control.  [default: 2]")
@click.option("--mask/--no-mask", default=None, help="Keep known answers from being negatives.  [default: mask]")
@click.option("--shuffle", is_flag=True, default=None, help="A control: teach each question another one's answers.")
@click.option("--evaluations", type=_WHOLE, help="How often validation questions are ranked.  [default: 3]")
@click.option("--controls", is_flag=True, help="Train and rank what it is to be read beside: 5 trainings or so.")
@JSON
def command(
    benchmark: str, method: str, base: str, out: Path | None, controls: bool, json_output: bool, **how: Any
) -> None:
    """Train a retriever on BENCHMARK's training questions; its validation questions choose the step that is kept.

    The same command goes on where it was stopped. The folder that it writes ranks with `kbbench run`; an encoder's is
    loaded by sentence-transformers too. Test questions are not looked at.

    Several processes: torchrun --nproc_per_node N -m kbbench_hf.cli train ...

    Example: kbbench train my-kb --method dpr --base sentence-transformers/all-MiniLM-L6-v2
    """
    from kbbench_hf.runners.machines import group
    from kbbench_hf.training.controls import controls as of_training
    from kbbench_hf.training.train import train

    given = {name: value for name, value in how.items() if value is not None}
    trained = train(benchmark, method, base, out, **given)
    lines = [line._asdict() for line in of_training(trained)] if controls else []
    if group().rank:
        return None  # of several processes the first speaks
    if json_output:
        beside = {"controls": lines} if controls else {}
        return click.echo(
            json.dumps({"folder": str(trained.folder), "model": trained.model, **trained.facts, **beside})
        )
    curve = ", ".join(f"{each['mrr']:.4f} at step {each['step']:,.0f}" for each in trained.facts["curve"])
    echo(f"Validation MRR {curve}; kept: step {trained.facts['chosen_step']:,}.")
    for gain in trained.facts["gains"]:
        echo(f"MRR {gain['mrr']:+.4f} [{gain['ci95'][0]:+.3f}, {gain['ci95'][1]:+.3f}] over {gain['over']}.")
    if trained.facts["ceilings"]:
        shares = ", ".join(f"{share:.1%} of {split}" for split, share in trained.facts["ceilings"].items())
        echo(f"Questions with an answer in their graph: {shares}.")
    if controls:
        _print(lines)
    echo(f"{trained.facts['seconds']:,.0f} s. Rank with it:\n{called_as()} run {benchmark} --model {trained.model}")
    return None


def _print(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print the controls, on which questions the trained retriever is how far above them."""
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
    heads = ["validation", "answers", "n", "MRR", "seeds", "trained above it", "95 % interval"]
    print_table(console(), heads, rows, n_words=2)
