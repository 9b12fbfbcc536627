"""`kbbench demo`: everything once, on what the package carries."""

import json
import shutil
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark, shipped_answers
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files.writing import write_text
from kbbench_hf.reports.comparison import print_comparison
from kbbench_hf.reports.plots import plot_scores
from kbbench_hf.reports.terminal import called_as, echo
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score

OUT = Path("kbbench-demo")
NEXT = """
What can be measured:
  {kbbench} list
Run a model, with slices and latency:
  {kbbench} run mini-stark --model bm25
Two of the runs above, compared and as a page:
  {kbbench} compare {runs}/bm25 {runs}/graph-bm25 --slices template
  {kbbench} report {runs}/graph-bm25
Answers of your own; these are of the second system above, one JSON object a line, to be changed:
  {kbbench} score {answers} --benchmark mini-text2kg
Names and options completed by the shell, here bash:
  source <({kbbench} --completion bash)"""
"""What can be pasted as it stands."""


@click.command()
def command() -> None:
    """Score, compare and plot small systems on the benchmarks in the package; writes ./kbbench-demo/.

    Example: kbbench demo
    """
    OUT.mkdir(exist_ok=True)
    shutil.rmtree(OUT / "runs", ignore_errors=True)  # what another version of the package ranked is not resumed
    panels = [_extraction(), _retrieval()]
    plain = {found.dataset: {name: each.to_dict() for name, each in systems.items()} for found, systems in panels}
    write_text(OUT / "result.json", json.dumps(plain, indent=2) + "\n")
    plot_scores(panels, OUT / "scores.png", metrics=7)
    answers = OUT / "answers.jsonl"
    write_text(answers, shipped_answers("mini-text2kg")[1].read_text(encoding="utf-8"))
    echo(f"Written: {OUT / 'result.json'}, {OUT / 'scores.png'}, {answers}")
    echo(NEXT.format(kbbench=called_as(), runs=OUT / "runs", answers=answers))


def _extraction() -> tuple[Benchmark, dict[str, Result]]:
    """Score the answers of two systems that are in the package, and compare them."""
    found = benchmark("mini-text2kg")
    return _shown(found, {file.stem: score(file, found.dataset) for file in shipped_answers(found.dataset)})


def _retrieval() -> tuple[Benchmark, dict[str, Result]]:
    """Run two retrievers, one that reads words and one that also follows relations, and compare them."""
    from kbbench_hf.runners.run import run

    found = benchmark("mini-stark")
    folders = {model: OUT / "runs" / model.replace(":", "-") for model in ("bm25", "graph:bm25")}
    return _shown(found, {model: run(found.dataset, model, out=out, show=False) for model, out in folders.items()})


def _shown(benchmark: Benchmark, systems: dict[str, Result]) -> tuple[Benchmark, dict[str, Result]]:
    (first, a), (second, b) = systems.items()
    print_comparison(compare(a, b), (first, second), benchmark)
    echo()
    return benchmark, systems
