"""Run a served model on a benchmark, end to end: ask, score, say what weakens the score, compare, write a page.

    python examples/served_model.py BASE_URL MODEL [BENCHMARK]

BASE_URL is any server with OpenAI's chat completions, `http://127.0.0.1:8000/v1` say; BENCHMARK is mini-text2kg by
default. Every answer is journalled: the same line goes on where it was stopped, and asks nothing twice.
"""

import subprocess
import sys

import kbbench_hf
from kbbench_hf.benchmarks import shipped_answers


def main() -> None:
    """Run the model, print its figures beside those of a baseline, and write the run's page."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    base_url, model, *named = sys.argv[1:]
    benchmark = named[0] if named else "mini-text2kg"
    result = kbbench_hf.run(benchmark, f"llm:{model}", base_url=base_url, concurrency=8)
    for metric, figure in result.scores.items():
        low, high = figure.ci95
        print(f"{figure.value:.3f} [{low:.3f}, {high:.3f}]  {metric}, {figure.n_scored} examples")
    for warning in result.warnings:
        print(f"Note: {warning}")
    for baseline in shipped_answers(benchmark):
        print(f"Against {baseline.stem}: {kbbench_hf.compare(result, kbbench_hf.score(baseline, benchmark))}")
    subprocess.run([sys.executable, "-m", "kbbench_hf.cli", "report", str(result.folder)], check=True)


if __name__ == "__main__":
    main()
