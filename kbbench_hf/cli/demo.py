"""`kbbench demo`: everything once, on what the package carries."""

import json
from pathlib import Path

import click

from kbbench_hf.dataset_folder import write_text
from kbbench_hf.hub.load import find_benchmark
from kbbench_hf.mini import stored_answers
from kbbench_hf.reports.plots import plot_scores
from kbbench_hf.reports.tables import print_comparison, print_result
from kbbench_hf.scoring import compare, score

OUT = Path("kbbench-demo")
NEXT = """
Next:
  kbbench list                                       what can be measured
  kbbench score ANSWERS.jsonl --benchmark mini-text2kg   your own answers; lines like {example}
  kbbench run mini-stark --model bm25                run a model
  kbbench build text2kg-wikidata-tekgen              the first full benchmark"""


@click.command()
def command() -> None:
    """Score, compare and plot small systems on the benchmarks in the package; writes ./kbbench-demo/.

    Example: kbbench demo
    """
    text2kg = find_benchmark("mini-text2kg")
    systems = {file.stem: score(file, text2kg.dataset) for file in stored_answers(text2kg.dataset)}
    for name, result in systems.items():
        click.echo(f"\n{name}")
        print_result(result, text2kg)
    (first, a), (second, b) = systems.items()
    click.echo()
    print_comparison(compare(a, b), (first, second), text2kg)
    OUT.mkdir(exist_ok=True)
    write_text(
        OUT / "result.json", json.dumps({name: each.to_dict() for name, each in systems.items()}, indent=2) + "\n"
    )
    plot_scores([(text2kg, systems)], OUT / "scores.png")
    click.echo(f"\nWritten: {OUT / 'result.json'}, {OUT / 'scores.png'}")
    click.echo(NEXT.format(example=json.dumps({"id": a.ids[0], "triples": [["subject", "relation", "object"]]})))
