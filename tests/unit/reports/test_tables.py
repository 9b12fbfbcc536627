"""Tables of a terminal: what is rounded, what is counted, and that nothing of a user's is read as markup."""

import math
from dataclasses import replace

import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.genres.benchmark import MINI as GENRES
from kbbench_hf.benchmarks.text2kgbench.benchmark import MINI
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.results_table import print_comparison, print_results_table
from kbbench_hf.reports.tables import interval, label, latex, number, print_result
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.results_table import results_table
from kbbench_hf.scoring.score import score

STORED = {file.stem: file for file in shipped_answers("mini-text2kg")}


@pytest.fixture(scope="module")
def copied() -> Result:
    return score(STORED["copy"], "mini-text2kg")


def test_figures_are_rounded_for_eyes_and_a_dash_stands_where_nothing_was_scored():
    assert [number(value) for value in (0.0, 0.33335, 1.0, math.nan)] == ["0.0000", "0.3333", "1.0000", "-"]
    assert interval((0.1, math.inf)) == "[0.100, -]"


def test_letters_that_latex_lacks_become_their_closest_ones():
    assert latex("é ﬁ ℜ e\u0301 x\u2026 ％ 東 50 % a_b~\\\u200b") == (
        "é fi R e x... \\% ? 50 \\% a\\_b\\textasciitilde{}\\textbackslash{}?"
    )


def test_a_metric_of_which_less_is_better_has_an_arrow():
    assert label(MINI, "f1") == "F1"
    assert label(MINI, "object_hallucination") == "OH ↓"
    assert label(MINI, "not_in_the_table") == "not in the table"


def test_the_headline_metrics_are_printed_with_a_legend_and_the_others_on_request(copied, capsys):
    print_result(copied, MINI)
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[2:9]] == ["F1", "P", "R", "OC", "SH", "RH", "OH"]
    assert "OC: ontology conformance" in " ".join(out.split()) and "\n48 examples" in out
    assert "4 more metrics (DC, RC, SH aliases ↓, OH aliases ↓): --all-metrics" in out
    print_result(copied, MINI, all_metrics=True)
    out = capsys.readouterr().out
    assert "\nDC " in out and "more metrics" not in out


def test_three_notes_are_printed_those_first_that_change_the_headline_most(copied, capsys):
    effects = {"a": 0.01, "b": -0.3, "c": 0.0, "d": 0.02}
    found = [ScoreWarning(code, f"Says {code}.", effect={"f1": effect}) for code, effect in effects.items()]
    noted = replace(copied, warnings=[ScoreWarning("note", "A note.", severity="note"), *found])
    print_result(noted, MINI)
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.splitlines() if "! Says" in line] == ["b.", "d.", "a."]
    assert "! 2 more (c, note): --notes" in out
    print_result(noted, MINI, notes=True)
    assert "i A note." in capsys.readouterr().out
    for notes, folded in ((False, True), (True, False)):
        print_comparison(replace(compare(copied, copied), warnings=noted.warnings), ("a", "b"), MINI, notes=notes)
        (block,) = results_table([STORED["pattern"], STORED["copy"]], ["mini-text2kg"])
        print_results_table([replace(block, warnings=noted.warnings)], notes=notes)
        assert capsys.readouterr().out.count("! 2 more (c, note): --notes") == 2 * folded


def test_columns_of_counts_stand_only_where_there_is_something_to_count(capsys):
    rows = load_examples("mini-text2kg").examples.rows
    full = [{"id": row["id"], "triples": [["Petrel", "captain", "Ines Calder"]]} for row in rows]
    print_result(score(full, "mini-text2kg"), MINI)
    assert capsys.readouterr().out.splitlines()[1].split() == ["metric", "value", "95", "%", "interval", "n"]
    print_result(score(full[:40], "mini-text2kg"), MINI)
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[-3:] == ["n", "no", "prediction"]
    assert "8 of 48 examples have no prediction" in out


def test_an_unknown_slice_is_refused_before_anything_is_printed(copied, capsys):
    with pytest.raises(UsageError, match="Did you mean 'ontology'"):
        print_result(copied, MINI, slices="ontolgy")
    with pytest.raises(UsageError, match="Did you mean 'ontology'"):
        print_comparison(compare(copied, copied), ("a", "b"), MINI, slices="ontolgy")
    assert capsys.readouterr().out == ""


def test_square_brackets_of_file_names_and_warnings_are_shown_as_they_are(copied, capsys):
    print_comparison(compare(copied, copied), ("[red]a[/red].jsonl", "[/nonsense].jsonl"), MINI, metrics=["f1"])
    out = capsys.readouterr().out
    assert "A [red]a[/red].jsonl\nB [/nonsense].jsonl\n" in out
    assert "0/48/0" in out


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 200])
def test_a_slice_shows_the_same_metrics_at_any_width(copied, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    print_result(copied, MINI, slices="ontology", all_metrics=True)
    lines = capsys.readouterr().out.splitlines()
    at = [n for n, line in enumerate(lines) if line.startswith("ontology  ")]
    heads = ["n", *(label(MINI, metric) for metric in copied.slices["ontology"]["1_isles"])]
    assert " ".join(" ".join(lines[n].split()[1:]) for n in at) == " ".join(heads)
    figures = [figure for n in at for figure in lines[n + 1].split()[1:]]
    assert figures == ["48", *(number(each.value) for each in copied.slices["ontology"]["1_isles"].values())]
    assert max(map(len, (line for line in lines if not line.startswith("4 more")))) <= columns
    assert all(any(line.startswith(f"{label(MINI, metric)} ") for line in lines) for metric in copied.scores)


def test_what_only_annotations_can_score_is_named_with_the_command_that_makes_them(capsys):
    rows = [{"id": row["id"], "triples": [["a", "b", "c"]]} for row in load_examples("mini-genres").examples.rows]
    print_result(score(rows, "mini-genres"), GENRES)
    out = " ".join(capsys.readouterr().out.split())
    assert "Not scored: CS, TS, US, FS, GS" in out
    assert "Make them with kbbench annotate" in out


def test_one_comparison_has_one_p_value_wherever_it_is_shown(capsys):
    found = compare(STORED["pattern"], STORED["copy"], "mini-text2kg")
    raw = found.tests["f1"].p_value
    (block,) = results_table([STORED["pattern"], STORED["copy"]], ["mini-text2kg"])
    shown = found.shown()
    assert shown["f1"].p == block.tests[0].p_holm == found.to_dict()["tests"]["f1"]["p_shown"] == raw
    assert [shown["f1"].n_adjusted, shown["recall"].n_adjusted] == [1, 6]
    assert shown["f1"].test.ci95 == block.tests[0].test.ci95
    print_comparison(found, ("a", "b"), MINI, metrics=["recall"])
    assert f"{found.tests['recall'].p_value:.4f}" in capsys.readouterr().out  # alone, so unadjusted
    for each in shown.values():
        low, high = each.test.ci95
        assert each.significant == (low > 0 or high < 0)
