"""Evaluate a model behind an API: run, score, print warnings, compare with baselines, write a report.

    python examples/served_model.py BASE_URL MODEL [BENCHMARK]

BASE_URL is a server with OpenAI's chat completions, such as `http://127.0.0.1:8000/v1`; BENCHMARK is mini-text2kg by
default. Every response is written to a journal: the same command resumes, and sends no answered request again.
"""

import subprocess
import sys

import kbbench_hf
from kbbench_hf.benchmarks import shipped_answers


def main() -> None:
    """Run the model, print its scores and a comparison with each baseline, and write the report of the run."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    base_url, model, *named = sys.argv[1:]
    benchmark = named[0] if named else "mini-text2kg"
    result = kbbench_hf.run(benchmark, f"llm:{model}", base_url=base_url, concurrency=8)
    for metric, score in result.scores.items():
        low, high = score.ci95
        print(f"{score.value:.3f} [{low:.3f}, {high:.3f}]  {metric}, {score.n_scored} examples")
    for warning in result.warnings:
        print(f"Note: {warning}")
    for baseline in shipped_answers(benchmark):
        print(f"Against {baseline.stem}: {kbbench_hf.compare(result, kbbench_hf.score(baseline, benchmark))}")
    subprocess.run([sys.executable, "-m", "kbbench_hf.cli", "report", str(result.folder)], check=True)


if __name__ == "__main__":
    main()
