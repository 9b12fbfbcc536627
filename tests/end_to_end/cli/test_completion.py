"""The tab key: what a real shell is offered for every kind of word on the command line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OFFERED = {
    "kbbench sc": "score",
    "kbbench --compl": "--completion",
    "kbbench leaderboard re": "rescore",
    "kbbench score --bench": "--benchmark",
    "kbbench score --from ": "answer response",
    "kbbench score a.jsonl --benchmark mini-t": "mini-text2kg",
    "kbbench score a.jsonl --benchmark mini-text2kg/": "mini-text2kg/sentences",
    "kbbench score a.jsonl --benchmark mini-text2kg --mode re": "reference repaired repaired-2 repaired-3",
    "kbbench score a.jsonl --benchmark no-such --mode ": "",
    "kbbench run mini-sk": "mini-ska",
    "kbbench run mini-text2kg --prompt ": "current as_written short",
    "kbbench run mini-text2kg --par": "--parser --partition",
    "kbbench build stark-prime --configs qu": "queries",
    "kbbench publish leader": "leaderboard",
    "kbbench list my-": "my-kb",
}
SCRIPT = """
source <(kbbench --completion bash)
complete -p kbbench > /dev/null || exit 1
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _kbbench_completion kbbench
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell's environment in which `kbbench` is this checkout's."""
    command = tmp_path / "bin" / "kbbench"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from kbbench_hf.cli import main; main()" "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def own_dataset(in_tmp: Path) -> None:
    manifest = in_tmp / "kbbench" / "my-kb" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")


@pytest.mark.usefixtures("own_dataset")
@pytest.mark.parametrize("line", OFFERED)
def test_verbs_options_benchmarks_configs_and_modes_are_completed(kbbench, monkeypatch, line):
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    monkeypatch.setenv("_KBBENCH_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert " ".join(each.partition(",")[2] for each in kbbench().out.split()) == OFFERED[line]


@pytest.mark.usefixtures("own_dataset")
def test_bash_completes_what_stands_before_the_cursor(environment, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    asked = [line for line in OFFERED if line.endswith((" sc", "--from ", "--mode re"))]
    lines = "".join(f"{line}\n" for line in asked)
    done = subprocess.run(
        ["bash", "-c", SCRIPT], input=lines, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [OFFERED[line] for line in asked]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_that_they_can_read(environment, shell, tmp_path):
    done = subprocess.run(
        ["kbbench", "--completion", shell], env=environment, capture_output=True, text=True, check=True
    )
    assert f"_KBBENCH_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to read it")
    (tmp_path / "script").write_text(done.stdout)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
