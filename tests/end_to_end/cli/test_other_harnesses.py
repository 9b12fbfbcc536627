"""One model behind one server through three harnesses: the same messages, predictions and scores, to the last digit.

`python -m tests.end_to_end.cli.test_other_harnesses` writes the table of scores into the guide.
"""

import doctest
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kbbench_hf import score
from kbbench_hf.benchmarks import benchmark
from kbbench_hf.runners.harness_tasks import COUNTERS
from kbbench_hf.scoring.result import Result
from tests.end_to_end.pages import FLAGS, ROOT, SERVED, answer, blocks, commands
from tests.servers.mixed_replies import key_of, mixed_replies
from tests.servers.scripted import ScriptedServer

pytestmark = pytest.mark.full

PAGE = ROOT / "docs/guides/harnesses.md"
MINIS = ("mini-text2kg", "mini-ska", "mini-genres")
HEADER = "| benchmark | score | `kbbench run` | inspect_ai | lm-evaluation-harness |\n|---|---|---|---|---|\n"
BIN = Path(sys.executable).parent


class Harnesses(NamedTuple):
    """Scores, results and messages of the three harnesses, in the order of the table."""

    scores: Sequence[dict[str, float]]
    results: Sequence[Result]
    messages: Sequence[list[str]]


def register(folder: Path) -> dict[str, str]:
    """Return an environment in which inspect_ai finds our tasks, whatever version of us is installed."""
    entry = folder / "kbbench_tasks-0.dist-info"
    entry.mkdir(parents=True)
    (group,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"].items()
    lines = [f"[{group[0]}]", *(f"{name} = {value}" for name, value in group[1].items())]
    (entry / "entry_points.txt").write_text("\n".join(lines))
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: kbbench-tasks\nVersion: 0\n")
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "COLUMNS": "100"}


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def harnesses(name: str, folder: Path) -> Harnesses:
    """Return what the three harnesses make of one benchmark; each is called as the guide shows."""
    replies, environment, task = mixed_replies(name), register(folder / "entry"), name.replace("-", "_")
    messages, stops = [], [0]
    with ScriptedServer(answer=lambda payload: replies.get(key_of(payload["messages"]), "OK")) as server:
        for command in (
            f"kbbench run {name} --base-url {server.url}/v1 --model scripted-model --out ours",
            f"inspect eval kbbench/{task} --model openai-api/local/scripted-model --model-base-url {server.url}/v1 "
            "-M api_key=none --display none",
            f"lm_eval run --tasks kbbench_{task} --include_path $(kbbench list --lm-eval) --apply_chat_template "
            "--model local-chat-completions --log_samples --output_path out "
            f"--model_args model=scripted-model,base_url={server.url}/v1/chat/completions",
        ):
            run(command, folder, environment)
            payloads = server.payloads[stops[-1] :]
            stops.append(len(server.payloads))
            sent = [key_of(each["messages"]) for each in payloads if key_of(each["messages"]) in replies]
            messages.append(sorted(sent))
            assert all(each["temperature"] == 0 and not each.get("stop") for each in payloads), command
            wanted = {each["max_tokens"] for each in payloads if key_of(each["messages"]) in replies}
            assert len(wanted) == 1, command
    (log,) = folder.glob("logs/*.eval")
    (samples,) = folder.glob("out/*/samples_*.jsonl")
    (summary,) = folder.glob("out/*/results_*.json")
    results = [score(folder / "ours"), score(log), score(samples, name)]
    ours = json.loads((folder / "ours/result.json").read_text())
    shown = [
        {k: each["value"] for k, each in ours["scores"].items()} | {k: ours["counters"][k] for k in COUNTERS},
        _inspect_scores(log, environment, folder),
        {k.removesuffix(",none"): v for k, v in json.loads(summary.read_text())["results"][f"kbbench_{task}"].items()},
    ]
    return Harnesses(shown, results, messages)


def _inspect_scores(log: Path, environment: dict[str, str], folder: Path) -> dict[str, float]:
    """Return the scores in a log, as inspect_ai itself prints it."""
    header = json.loads(run(f"inspect log dump --header-only {log}", folder, environment))
    (scores,) = header["results"]["scores"]
    return {name: each["value"] for name, each in scores["metrics"].items()}


def table_rows(name: str, found: Harnesses) -> list[str]:
    """Return the rows of the table: every score that has a value, and the number of unparsable replies."""
    labels = {**benchmark(name).metrics, "n_parse_failures": "unparsable"}
    wanted = [metric for metric in labels if found.scores[0].get(metric) is not None]
    values = [[repr(float(of[metric])) for of in found.scores] for metric in wanted]
    return [f"| `{name}` | {labels[m]} | {' | '.join(row)} |\n" for m, row in zip(wanted, values, strict=True)]


@pytest.mark.parametrize("name", MINIS)
def test_three_harnesses_send_the_same_messages_and_have_the_same_predictions_and_scores(
    name: str, tmp_path: Path
) -> None:
    found = harnesses(name, tmp_path)
    assert found.messages[0] == found.messages[1] == found.messages[2]
    assert len(found.messages[0]) == len(found.results[0].ids)
    ours = {metric: value for metric, value in found.scores[0].items() if value is not None}
    for shown in found.scores[1:]:
        assert {metric: shown[metric] for metric in ours} == ours
        assert not {each for each in shown if each in benchmark(name).metrics and not math.isnan(shown[each])} - {*ours}
    assert len({each.predictions_sha256 for each in found.results}) == 1
    assert found.results[0].counters["n_parse_failures"] > 0
    assert all(each.scores == found.results[0].scores for each in found.results)
    assert "".join(table_rows(name, found)) in PAGE.read_text(encoding="utf-8")


def test_the_guide_shows_what_the_harnesses_print(tmp_path: Path) -> None:
    environment, printed = register(tmp_path / "entry"), 0
    text = PAGE.read_text(encoding="utf-8")
    with ScriptedServer(answer=answer) as server:
        for command, output in (each for block in blocks(text, "console") for each in commands(block)):
            if not command.startswith(("inspect ", "lm_eval ", "kbbench score", "kbbench compare")):
                continue
            real = run(command.replace(SERVED.removesuffix("/v1"), server.url), tmp_path, environment)
            real = "".join(
                f"{line.rstrip()}\n" for line in real.replace(server.url, SERVED.removesuffix("/v1")).splitlines()
            )
            if output.strip():
                assert doctest.OutputChecker().check_output(output, real, FLAGS), (command, real)
                printed += 1
    assert printed >= 3


def write_table() -> None:
    """Write the table of scores into the guide."""
    rows = []
    for name in MINIS:
        with tempfile.TemporaryDirectory() as folder:
            rows += table_rows(name, harnesses(name, Path(folder)))
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(re.escape(HEADER) + r"(\|.*\n)*", HEADER + "".join(rows), text), encoding="utf-8")


if __name__ == "__main__":
    write_table()
