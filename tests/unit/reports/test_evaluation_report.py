"""All of an evaluation over several models: what was run is all there, what was not is said, nothing is overwritten."""

import csv
import json
import math
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import benchmark, shipped_dataset
from kbbench_hf.benchmarks.charts import ScoreTable, ShownScore
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.score_table import cells, write_evaluation
from kbbench_hf.runners.run import finished_run
from kbbench_hf.scoring.stored_runs import read_runs

SHADED = ScoreTable("t", "T", [("", "a"), ("", "b")], {"s": [ShownScore(0.5), ShownScore(-0.5)]}, shaded=True)
CONFIGS = "noise_kg_1k noise_kg_4k noise_table_4k order_kg_prefix order_kg_random order_kg_suffix".split()
JUDGED = ["rejection_kg", "rejection_control_kg"]


def test_cells_are_shaded_only_where_the_table_says_so() -> None:
    shades = [[cell.shade for cell in cells(replace(SHADED, shaded=yes))["s"]] for yes in (True, False)]
    assert shades == [[0.5, 0.0], [0.0, 0.0]]


class Scripted:
    """Answers the gold or nothing, always says no; may think aloud first."""

    def __init__(self, name: str, *, right: bool, thinks: bool = False) -> None:
        self.name, self._right = name, right
        self._thought = '<think>{"answer": ["a first guess"]}</think>\n' if thinks else ""
        folder = shipped_dataset("mini-ska")
        assert folder is not None
        subsets = ("kg", "table")
        self._gold = {r["question"]: r["answers"] for s in subsets for r in folder.rows(f"instances_{s}", "test")}

    def generate(self, prompts: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[str]:
        return [self._answer("\n".join(message["content"] for message in prompt)) for prompt in prompts]

    def _answer(self, prompt: str) -> str:
        if '"no"' in prompt:
            return f'{self._thought}{{"answer": "no"}}'
        gold = next(answers for question, answers in self._gold.items() if question in prompt)
        return self._thought + json.dumps({"answer": gold if self._right else ["Nobody"]})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")

    def run(model: Scripted, configs: Sequence[str], limit: int | None = None) -> None:
        how = {} if limit is None else {"limit": limit}
        for config in configs:
            finished_run(f"mini-ska/{config}", model, out=folder / f"{config}-{model.name}", **how)  # type: ignore[arg-type]

    run(Scripted("thinks", right=True, thinks=True), CONFIGS + JUDGED)
    run(Scripted("errs", right=False), CONFIGS[:2])
    run(Scripted("in part", right=True), CONFIGS[:1], limit=3)
    unfinished = folder / "noise_kg_4k-in part"
    unfinished.mkdir()
    shutil.copy(folder / "noise_kg_1k-in part" / "run.json", unfinished)
    return folder


@pytest.fixture(scope="module")
def written(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    write_evaluation(read_runs(runs), out)
    return out


def test_every_model_that_was_run_stands_in_every_form(written: Path) -> None:
    for file in ("report.html", "report.tex"):
        text = (written / file).read_text(encoding="utf-8")
        assert all(name in text for name in ("thinks", "errs", "in part"))
    lines = list(csv.DictReader((written / "report.csv").read_text(encoding="utf-8").splitlines()))
    figures = {(line["table"], line["system"], line["over"], line["column"]): line for line in lines}
    assert float(figures["table-3", "thinks", "KG", "1k"]["value"]) == 1.0
    assert float(figures["table-3", "errs", "KG", "1k"]["value"]) == 0.0
    assert ("table-3", "in part", "KG", "4k") not in figures
    assert float(figures["figure-7b", "thinks", "", "KG"]["value"]) == 0.0
    assert float(figures["rejection-control", "thinks", "KG", "balanced"]["value"]) == 0.5
    with_intervals = [line for line in lines if line["table"] in ("table-3", "table-4", "table-5", "figure-5a")]
    assert with_intervals and all(line["low"] and line["high"] for line in with_intervals)


def test_what_weakens_a_figure_and_what_is_not_finished_is_said(written: Path) -> None:
    page = (written / "report.html").read_text(encoding="utf-8")
    total = len(shipped_dataset("mini-ska").rows("noise_kg_1k", "test"))  # type: ignore[union-attr]
    assert f"in part: Limit: noise_kg_1k ({total - 3} of {total})" in page
    assert "start them again to finish them: noise_kg_4k-in part" in page
    assert "1.000*" in page
    assert "Budgets that this dataset does not have" in page


def test_a_page_counts_the_configs_of_each_testbed_that_sends_prompts(written: Path) -> None:
    page = (written / "report.html").read_text(encoding="utf-8")
    table = page.rpartition("Configs that were run")[2].partition("</table>")[0]
    heads, *rows = (re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("<tr>")[1:])
    assert heads == ["system", "noise", "order", "rejection", "rejection control", "hardness"]
    assert rows == [
        ["errs", "2 of 6", "0 of 14", "0 of 4", "0 of 4", "0 of 2"],
        ["in part", "1 of 6", "0 of 14", "0 of 4", "0 of 4", "0 of 2"],
        ["thinks", "3 of 6", "3 of 14", "1 of 4", "1 of 4", "0 of 2"],
    ]


def test_a_page_opens_offline_in_the_colours_of_the_reader(written: Path) -> None:
    page = (written / "report.html").read_text(encoding="utf-8")
    assert "src=" not in page and "<link" not in page and "@import" not in page
    assert page.count("<svg") >= 8 and "var(--s0)" in page
    assert "#000000" not in page and "fill: #0b5394" not in page


def test_each_picture_shows_all_systems_and_is_a_file(written: Path) -> None:
    pictures = {file.stem for file in written.glob("*.pdf")}
    assert {"noise", "order", "figure-4", "figure-5a", "figure-7b", "figure-9", "rejection"} <= pictures


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex: apt-get install texlive-latex-recommended")
def test_the_latex_compiles(written: Path) -> None:
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=written, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_benchmark_without_testbeds_and_a_name_of_a_file_are_refused(runs: Path, tmp_path: Path) -> None:
    found = read_runs(runs)
    with pytest.raises(UsageError, match="names a file"):
        write_evaluation(found, tmp_path / "page.html")
    with pytest.raises(UsageError, match="has no testbeds to report together"):
        write_evaluation(replace(found, benchmark=benchmark("mini-text2kg")), tmp_path)


def test_one_run_alone_is_reported_without_what_needs_several(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "noise_kg_1k-in part", tmp_path / "runs" / "only")
    shutil.copytree(runs / "rejection_kg-thinks", tmp_path / "runs" / "other")
    write_evaluation(read_runs(tmp_path / "runs"), tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Rank correlations between subsets need three systems" in page and "always answers no is best" in page


def test_settings_that_differ_make_systems_of_their_own(tmp_path: Path) -> None:
    model = Scripted("same", right=True)
    for prompt in ("paper", "clean"):
        finished_run("mini-ska/noise_kg_1k", model, out=tmp_path / prompt, prompt=prompt)
    assert list(read_runs(tmp_path).systems) == ["same (prompt clean)", "same (prompt paper)"]


def test_of_two_runs_that_differ_in_size_alone_the_larger_is_shown_and_the_other_counted(tmp_path: Path) -> None:
    model = Scripted("same", right=True)
    finished_run("mini-ska/noise_kg_1k", model, out=tmp_path / "whole")
    finished_run("mini-ska/noise_kg_1k", model, out=tmp_path / "part", limit=2)
    found = read_runs(tmp_path)
    assert found.systems["same"]["noise_kg_1k"].result["counters"]["n_examples"] > 2
    assert found.left_out == ["same ran noise_kg_1k 2 times; shown is whole."]


def test_runs_on_other_data_are_never_mixed(runs: Path, tmp_path: Path) -> None:
    for name in ("noise_kg_1k-errs", "noise_kg_1k-thinks"):
        shutil.copytree(runs / name, tmp_path / name)
    file = tmp_path / "noise_kg_1k-errs" / "result.json"
    other = json.loads(file.read_text(encoding="utf-8")) | {"dataset_revision": "0" * 40}
    file.write_text(json.dumps(other), encoding="utf-8")
    found = read_runs(tmp_path)
    assert list(found.systems) == ["thinks"]
    assert found.left_out == [f"Not shown: 1 runs on other data than {found.revision[:8]}."]


def test_another_mode_scores_the_answers_again(runs: Path) -> None:
    found = read_runs(runs, mode="exact")
    assert found.mode == "exact"
    result = found.systems["thinks"]["noise_kg_1k"].result
    assert result["mode"] == "exact" and math.isfinite(result["scores"]["answer_f1"]["value"])


def test_a_folder_without_runs_or_with_several_benchmarks_is_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no finished run"):
        read_runs(tmp_path)
    shutil.copytree(runs / "noise_kg_1k-errs", tmp_path / "one")
    shutil.copytree(runs / "noise_kg_1k-errs", tmp_path / "two")
    file = tmp_path / "two" / "result.json"
    other = json.loads(file.read_text(encoding="utf-8")) | {"benchmark": "mini-text2kg"}
    file.write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(UsageError, match="mini-ska, mini-text2kg"):
        read_runs(tmp_path)
