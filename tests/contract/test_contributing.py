"""CONTRIBUTING's way to a fifth benchmark, followed to the letter in a copy of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.pages import blocks, commands

ROOT = Path(__file__).parents[2]


def test_a_fifth_benchmark_is_one_folder_and_one_line(tmp_path: Path) -> None:
    for name in ("kbbench_hf", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    (block,) = blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "console")
    for command, _ in commands(block):
        command = command.replace("kbbench list", f"{sys.executable} -m kbbench_hf.cli list")
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert "Capitals, a template" in done.stdout
    changed = subprocess.run(
        ["diff", "-rq", "-x", "__pycache__", str(ROOT / "kbbench_hf"), str(tmp_path / "kbbench_hf")],
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert len(changed) == 2 and any("capitals" in line for line in changed)
    answers = tmp_path / "kbbench_hf/benchmarks/capitals/mini/predictions/largest-city.jsonl"
    score = [sys.executable, "-m", "kbbench_hf.cli", "score", str(answers), "--benchmark", "mini-capitals"]
    scored = subprocess.run(score, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert "Exact" in scored and "0.3333" in scored
