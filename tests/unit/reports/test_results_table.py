"""A paper's table: the same figures in every format, published rows marked, and LaTeX that compiles."""

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import shipped_answers, shipped_runs
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.reports.plots import plot_results
from kbbench_hf.reports.results_table import FORMATS, as_csv, as_html, as_latex, as_markdown
from kbbench_hf.scoring.results_table import results_table

COPY, PATTERN = shipped_answers("mini-text2kg")


@pytest.fixture(scope="module")
def own():
    return results_table([f"a_b & c={PATTERN}", COPY], ["mini-text2kg"], metrics=["f1", "subject_hallucination"])


@pytest.fixture(scope="module")
def published():
    return results_table(["published:*"], ["stark-amazon", "stark-mag", "stark-prime"])


def test_systems_stand_best_first_with_what_tells_them_apart(own) -> None:
    (block,) = own
    assert [each.name for each in block.systems] == ["a_b & c", "copy"]
    assert block.groups == {"a_b & c": 1, "copy": 2}
    (test,) = block.tests
    assert test.test.difference > 0 and test.p_holm == test.test.p_value < 0.05  # a family of one


def test_holms_correction_is_over_the_tests_that_are_shown() -> None:
    (block,) = results_table([COPY, PATTERN, f"again={COPY}"], ["mini-text2kg"], metrics=["f1"])
    p = sorted(each.test.p_value for each in block.tests)
    assert sorted(each.p_holm for each in block.tests) == [3 * p[0], 3 * p[0], 1.0]  # two alike, then a tie with itself


def test_the_best_is_the_least_where_less_is_better(own) -> None:
    (block,) = own
    assert block.best("subject_hallucination") == min(
        each.figure("subject_hallucination").value for each in block.systems
    )


def test_a_win_is_the_lower_value_where_less_is_better() -> None:
    (block,) = results_table([COPY, PATTERN], ["mini-text2kg"], metrics=["subject_hallucination"])
    ((a, b, test, _),) = block.tests
    scores = {each.name: each.figure("subject_hallucination").value for each in block.systems}
    assert scores[a] != scores[b] and (test.difference < 0) == (test.wins > test.losses)


def test_every_format_has_the_same_figures(own) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(own))))
    metrics = ("f1", "subject_hallucination")
    pairs = [(system, metric) for system in ("a_b & c", "copy") for metric in metrics]
    assert [(line["system"], line["metric"]) for line in lines] == pairs
    assert {line["origin"] for line in lines} == {"scored here"}
    for line in lines:
        shown = f"{float(line['value']):.3f}"
        assert all(shown in write(own) for write in FORMATS.values() if write is not as_csv)
        assert float(line["low"]) <= float(line["value"]) <= float(line["high"])
    assert "a\\_b \\& c" in as_latex(own) and "a\\_b & c" in as_markdown(own) and "a_b &amp; c" in as_html(own)


def test_published_systems_are_marked_with_their_sources_and_printed_digits(published) -> None:
    text = as_markdown(published, percent=True)
    (note,) = [line for line in text.splitlines() if line.startswith("† published: ")]
    assert "BM25†" in text and "| 44.94 |" in text and "STaRK (arXiv 2404.13207), Table 6" in note
    row = next(line for line in text.splitlines() if line.startswith("| ada-002†"))
    assert [float(each.strip(" *")) for each in row.split("|")[2:-1]] == [
        39.16, 62.73, 53.29, 50.35, 29.08, 49.61, 48.36, 38.62, 12.63, 31.49, 36.00, 21.41,
    ]  # fmt: skip


def test_nothing_to_show_and_metrics_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="f1"):
        results_table([COPY, PATTERN], ["mini-text2kg"], metrics=["f2"])
    with pytest.raises(DataError, match=r"no column of scores.*--benchmark NAME"):
        results_table([COPY, PATTERN])
    with pytest.raises(UsageError, match="records no benchmark"):
        results_table([COPY], ["mini-text2kg", "mini-stark"])


def test_a_table_for_a_paper_has_short_headings_a_caption_and_short_notes(own, published) -> None:
    text = as_markdown(own)
    assert text.startswith("**Text2KGBench, mini: test split, mode reference, n = 48**\n")
    assert "| System | \\# | F1 ↑ | SH ↓ |".replace("\\#", "#") in text
    assert "F1 $\\uparrow$ & SH $\\downarrow$" in as_latex(own)
    assert as_latex(own).startswith("\\begin{table}\n\\centering\n\\caption{Text2KGBench, mini: test split, ")
    assert all(len(head) <= 20 for head in as_markdown(published).split("\n")[2].split(" | ")[1:])
    places = ["text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"]
    (heads,) = [line for line in as_markdown(results_table(["published:*"], places)).split("\n") if "System" in line]
    assert "| Wikidata-TekGen F1 ↑ |" in heads and "| DBpedia-WebNLG SH ↓ |" in heads


def test_blocks_side_by_side_have_their_titles_above_their_columns_in_latex() -> None:
    places = ["text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"]
    lines = as_latex(results_table(["published:*"], places, metrics=["f1", "subject_hallucination"])).split("\n")
    start = lines.index("\\begin{tabular}{lrrrr}")
    assert lines[start + 1 : start + 7] == [
        "\\toprule",
        " & \\multicolumn{2}{c}{Wikidata-TekGen} & \\multicolumn{2}{c}{DBpedia-WebNLG} \\\\",
        "\\cmidrule(lr){2-3}",
        "\\cmidrule(lr){4-5}",
        "System & F1 $\\uparrow$ & SH $\\downarrow$ & F1 $\\uparrow$ & SH $\\downarrow$ \\\\",
        "\\midrule",
    ]


def test_a_warning_is_in_the_notes_without_what_to_type(tmp_path: Path) -> None:
    half = tmp_path / "half.jsonl"
    half.write_text("".join(PATTERN.read_text(encoding="utf-8").splitlines(keepends=True)[:24]), encoding="utf-8")
    notes = as_latex(results_table([half, COPY], ["mini-text2kg"]))
    assert "half: 24 of 48 examples have no prediction" in notes and "Compare complete files" not in notes


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_a_picture_is_drawn_alike_every_time(own, tmp_path: Path, ending: str) -> None:
    first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    plot_results(own[0], first)
    plot_results(own[0], second)
    assert first.read_bytes() == second.read_bytes() and first.stat().st_size > 2000


def test_another_ending_is_refused(own, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.svg"):
        plot_results(own[0], tmp_path / "a.jpg")


@pytest.mark.full
@pytest.mark.parametrize("which", ["own", "published", "table 3"])
def test_latex_compiles(which: str, own, published, tmp_path: Path) -> None:
    compiler = shutil.which("tectonic") or shutil.which("pdflatex")
    if not compiler:
        pytest.skip("neither tectonic nor pdflatex on this machine")
    places = ["text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"]
    blocks = {"own": own, "published": published}.get(which) or results_table(["published:*"], places, mode="paper")
    body = as_latex(blocks, percent=which == "published")
    wide = "\\usepackage[landscape,margin=5mm]{geometry}\\usepackage{booktabs}"
    document = f"\\documentclass{{article}}{wide}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    options = [] if "tectonic" in compiler else ["-interaction=nonstopmode", "-halt-on-error"]
    command = [compiler, *options, "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and (tmp_path / "table.pdf").exists(), done.stdout[-1500:]
    assert not re.search(r"Missing character|Undefined control", done.stdout)


def test_runs_say_themselves_what_they_are_of() -> None:
    (block,) = results_table(shipped_runs("mini-text2kg"))
    assert block.task_key.benchmark == "mini-text2kg" and len(block.systems) == 2
