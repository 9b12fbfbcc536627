"""`kbbench demo`: score, compare and plot on the built-in benchmarks."""

import json
import shutil
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark, shipped_answers
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files.writing import write_text
from kbbench_hf.reports.plots import plot_scores
from kbbench_hf.reports.results_table import print_comparison
from kbbench_hf.reports.terminal import called_as, echo, waiting
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score

OUT = Path("kbbench-demo")
NEXT = """
List the benchmarks:
  {kbbench} list
Run a model, with slices and latency:
  {kbbench} run mini-stark --model bm25
Compare the two runs above, and write a report:
  {kbbench} compare {runs}/bm25 {runs}/graph-bm25 --slices template
  {kbbench} report {runs}/graph-bm25
Score your own predictions (this file has those of the second system above; edit a line and score again):
  {kbbench} score {answers} --benchmark mini-text2kg
Complete names and options in the shell, here bash:
  source <({kbbench} --completion bash)"""
"""Commands to paste."""


@click.command()
def command() -> None:
    """Score, compare and plot small systems on the built-in benchmarks; writes ./kbbench-demo/.

    Example: kbbench demo
    """
    OUT.mkdir(exist_ok=True)
    shutil.rmtree(OUT / "runs", ignore_errors=True)  # runs of another version of the package must not be resumed
    panels = [_extraction(), _retrieval()]
    plain = {shown.dataset: {name: each.to_dict() for name, each in systems.items()} for shown, systems in panels}
    write_text(OUT / "result.json", json.dumps(plain, indent=2) + "\n")
    plot_scores(panels, OUT / "scores.png", metrics=7)
    answers = OUT / "answers.jsonl"
    write_text(answers, shipped_answers("mini-text2kg")[1].read_text(encoding="utf-8"))
    echo(f"Written: {OUT / 'result.json'}, {OUT / 'scores.png'}, {answers}")
    echo(NEXT.format(kbbench=called_as(), runs=OUT / "runs", answers=answers))


def _extraction() -> tuple[Benchmark, dict[str, Result]]:
    """Score the predictions of two systems in the package, and compare them."""
    bench = benchmark("mini-text2kg")
    with waiting("Scoring two systems on mini-text2kg"):
        systems = {file.stem: score(file, bench.dataset) for file in shipped_answers(bench.dataset)}
    return _print_and_return(bench, systems)


def _retrieval() -> tuple[Benchmark, dict[str, Result]]:
    """Run two retrievers, BM25 and BM25 with graph re-ranking, and compare them."""
    from kbbench_hf.runners.run import run

    bench = benchmark("mini-stark")
    folders = {model: OUT / "runs" / model.replace(":", "-") for model in ("bm25", "graph:bm25")}
    with waiting("Running two retrievers on mini-stark"):
        systems = {model: run(bench.dataset, model, out=out, show=False) for model, out in folders.items()}
    return _print_and_return(bench, systems)


def _print_and_return(benchmark: Benchmark, systems: dict[str, Result]) -> tuple[Benchmark, dict[str, Result]]:
    """Print the comparison of two systems, and return them for the plot."""
    (first, a), (second, b) = systems.items()
    print_comparison(compare(a, b), (first, second), benchmark)
    echo()
    return benchmark, systems
