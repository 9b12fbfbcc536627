"""`kbbench score`, `validate` and `compare`: what they print, and what they refuse, with the line it stands on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.scoring.score import score
from tests.servers.scripted import MODEL, ScriptedServer

STORED = {file.stem: file for file in shipped_answers("mini-text2kg")}
ON = ("--benchmark", "mini-text2kg")
N = 48
"""Sentences of mini-text2kg."""


def lines(n: int | None = None) -> list[str]:
    return STORED["copy"].read_text(encoding="utf-8").splitlines()[:n]


def written(name: str, each: list[str]) -> Path:
    file = Path(name)
    file.write_text("".join(f"{line}\n" for line in each), encoding="utf-8")
    return file


def test_a_table_shows_each_figure_with_its_interval_and_how_many_were_scored(kbbench):
    done = kbbench("score", STORED["copy"], *ON)
    assert done.code == 0
    title, _, f1, *_ = done.out.splitlines()
    assert title.startswith("Text2KGBench, mini · sentences, test, mode reference, data ")
    assert re.fullmatch(r"F1 +0\.\d{4}  \[0\.\d{3}, 0\.\d{3}\] +48", f1)
    assert not done.err
    assert max(map(len, done.out.splitlines())) <= 80


def test_json_on_standard_output_is_json_alone_and_the_same_figures(kbbench):
    result = json.loads(kbbench("score", STORED["copy"], *ON, "--json").out)
    assert (result["benchmark"], result["mode"], result["counters"]["n_examples"]) == ("mini-text2kg", "reference", N)
    table = kbbench("score", STORED["copy"], *ON).out
    assert f"F1      {result['scores']['f1']['value']:.4f}" in table
    assert kbbench("score", STORED["copy"], *ON, "--out", "kept").code == 0
    assert json.loads(Path("kept/result.json").read_text(encoding="utf-8")) == result
    assert len(Path("kept/scores.jsonl").read_text(encoding="utf-8").splitlines()) == N


def test_a_missing_prediction_is_scored_counted_and_shown(kbbench):
    done = kbbench("score", written("part.jsonl", lines(5)), *ON)
    assert done.code == 0
    assert "43 of 48 examples have no prediction and count as wrong." in done.out
    assert done.out.splitlines()[1].endswith("no prediction")
    result = json.loads(kbbench("score", "part.jsonl", *ON, "--json").out)
    assert result["scores"]["f1"]["n_missing"] == 43


@pytest.mark.parametrize(
    "options",
    [
        ["mini-stark", "--model", "bm25", "--limit", 5],
        ["mini-stark", "--model", "graph:bm25", "--mode", "standard"],
        ["mini-text2kg", "--model", MODEL, "--mode", "repaired", "--limit", 5],
    ],
)
def test_the_folder_of_a_run_is_scored_as_the_run_was_and_names_its_benchmark_itself(kbbench, options):
    with ScriptedServer(answer=lambda payload: "[]") as server:
        served = ["--base-url", server.url] if MODEL in options else []
        done = json.loads(kbbench("run", *options, *served, "--out", "mine", "--json").out)
    for what in ("mine", "mine/predictions.jsonl"):
        result = json.loads(kbbench("score", what, "--json").out)
        assert result == {key: value for key, value in done.items() if key not in ("run", "summary")}
    assert result == json.loads(Path("mine/result.json").read_text(encoding="utf-8"))


def test_validate_refuses_missing_predictions_unless_told_that_the_file_is_partial(kbbench):
    written("part.jsonl", lines(5))
    refused = kbbench("validate", "part.jsonl", *ON)
    assert refused.code == 65
    assert "43 of 48 missing: ont" in refused.err
    assert "and 38 more" in refused.err  # 20 are shown
    assert refused.err.endswith("To accept missing predictions, add --partial.\n")
    assert kbbench("validate", "part.jsonl", *ON, "--partial").out.startswith(
        "Valid: 5 of 48 examples have predictions"
    )
    counts = json.loads(kbbench("validate", "part.jsonl", *ON, "--partial", "--json").out)
    assert (counts["n_predictions"], counts["n_missing"]) == (5, 43)
    assert kbbench("validate", STORED["copy"], *ON).code == 0


def test_a_repeated_id_is_an_error_with_both_lines_unless_the_last_is_to_count(kbbench):
    first = json.loads(lines(1)[0])
    written("twice.jsonl", [*lines(), json.dumps({**first, "triples": []})])
    refused = kbbench("score", "twice.jsonl", *ON, "--out", "kept")
    assert refused.code == 65
    assert f"twice.jsonl:49: id '{first['id']}' occurs at twice.jsonl:1 already" in refused.err
    assert "--duplicates last" in refused.err
    assert not Path("kept").exists()
    taken = json.loads(kbbench("score", "twice.jsonl", *ON, "--duplicates", "last", "--json").out)
    emptied = [json.dumps({**first, "triples": []}), *lines()[1:]]
    assert taken["scores"] == json.loads(kbbench("score", written("once.jsonl", emptied), *ON, "--json").out)["scores"]
    assert taken["counters"]["n_duplicates"] == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": ont', "not JSON: Expecting value at column 8"),
        ('{"id": "q9", "triples": []}', "id 'q9' matches no example"),
        ("[1]", "expected an object with 'id', found list"),
        ('{"triples": []}', "no 'id'; the keys are ['triples']"),
        ('{"id": "ont_1_isles_test_9", "triples": "none"}', "'triples' is str; expected a list"),
        ('{"id": "ont_1_isles_test_9", "triples": [["a", "b"]]}', "triple 0 is ['a', 'b']; expected [subject, "),
        ('{"id": "ont_1_isles_test_9", "triples": [], "id": "x"}', "key 'id' occurs twice in one object"),
        ('{"id": "ont_1_isles_test_9", "answer": []}', "neither 'triples' nor 'response'"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_nothing_is_written(kbbench, line, problem):
    written("bad.jsonl", [*lines(2), line])
    for verb in (["score", "--out", "kept"], ["validate", "--partial"]):
        done = kbbench(verb[0], "bad.jsonl", *ON, *verb[1:])
        assert done.code == 65
        assert f"bad.jsonl:3: {problem}" in done.err
        assert not done.out
    assert not Path("kept").exists()


def test_predictions_for_another_benchmark_are_recognised_as_such(kbbench):
    done = kbbench("score", STORED["copy"], "--benchmark", "mini-ska")
    assert done.code == 65
    assert (
        "has the ids of mini-text2kg, split test, not of mini-ska. Score it with --benchmark mini-text2kg" in done.err
    )


@pytest.mark.parametrize("how", ["-", "/dev/stdin", "fifo", "~", "$HOME"])
def test_a_pipe_and_a_path_from_home_are_read_as_the_file_is(kbbench, monkeypatch, how, tmp_path):
    expected = json.loads(kbbench("score", STORED["copy"], *ON, "--json").out)["scores"]
    path, content = how, STORED["copy"].read_bytes()
    monkeypatch.setenv("HOME", str(tmp_path))
    if how in ("~", "$HOME"):
        (tmp_path / "mine.jsonl").write_bytes(content)
        path = f"{how}/mine.jsonl"
        assert score(path, "mini-text2kg").scores["f1"].value == expected["f1"]["value"]
    if how == "fifo":
        os.mkfifo("fifo")
        Thread(target=Path("fifo").write_bytes, args=(content,)).start()
    if how in ("-", "/dev/stdin"):
        command = [sys.executable, "-m", "kbbench_hf.cli", "score", path, *ON, "--json"]
        printed = subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout.decode()
    else:
        printed = kbbench("score", path, *ON, "--json").out
    assert json.loads(printed)["scores"] == expected


def test_two_systems_are_called_by_the_names_given_before_their_files(kbbench):
    done = kbbench("compare", f"ours={STORED['copy']}", f"theirs={STORED['pattern']}", *ON)
    assert "\nA ours\nB theirs\n" in done.out


def test_a_path_without_predictions_is_a_usage_error(kbbench):
    Path("empty").mkdir()
    done = kbbench("score", "empty", *ON)
    assert (done.code, "empty holds no .jsonl file" in done.err) == (2, True)
    Path("empty/journal.jsonl").write_text('{"id": null}\n')
    done = kbbench("score", "empty", *ON)
    assert (done.code, "empty is a run that is not finished" in done.err) == (2, True)
    done = kbbench("score", "nothing.jsonl", *ON)
    assert (done.code, "nothing.jsonl does not exist" in done.err) == (2, True)


def test_a_folder_of_files_is_scored_as_one(kbbench):
    Path("parts").mkdir()
    written("parts/a.jsonl", lines()[:20])
    written("parts/b.jsonl", lines()[20:])
    whole, parts = (json.loads(kbbench("score", path, *ON, "--json").out) for path in (STORED["copy"], "parts"))
    assert whole == parts


def test_slices_fit_the_terminal_and_nothing_is_left_out(kbbench, monkeypatch):
    narrow = kbbench("score", STORED["copy"], *ON, "--slices", "all", "--all-metrics").out
    assert max(map(len, narrow.splitlines())) <= 80
    assert sum(line.startswith("1_isles") for line in narrow.splitlines()) == 2
    assert "…" not in narrow
    monkeypatch.setenv("COLUMNS", "140")
    wide = kbbench("score", STORED["copy"], *ON, "--slices", "ontology", "--all-metrics").out
    assert sum(line.startswith("1_isles") for line in wide.splitlines()) == 1


def test_compare_counts_the_better_value_as_the_win(kbbench):
    done = kbbench("compare", STORED["copy"], STORED["pattern"], *ON, "--slices", "ontology")
    assert done.code == 0
    rows = {line.split("  ")[0].strip(): line for line in done.out.splitlines()}
    # copy hallucinates one subject, pattern none: B has the lower rate, so A loses.
    assert rows["SH ↓"].endswith("0/47/1")
    assert rows["F1"].endswith("2/31/15")
    assert max(map(len, done.out.splitlines())) <= 80
    found = json.loads(kbbench("compare", STORED["copy"], STORED["pattern"], *ON, "--json").out)
    test = found["tests"]["subject_hallucination"]
    assert (test["wins"], test["ties"], test["losses"]) == (0, 47, 1)
    assert test["difference"] > 0  # A - B, as it is


def test_compare_refuses_what_score_refuses(kbbench):
    written("bad.jsonl", ["{"])
    assert kbbench("compare", STORED["copy"], "bad.jsonl", *ON).code == 65
    assert kbbench("compare", STORED["copy"], "nothing.jsonl", *ON).code == 2


def test_a_table_becomes_json_lines_that_the_leaderboard_takes(kbbench):
    rows = [json.loads(line) for line in lines()]
    cells = "".join(f"{row['id']}\t{json.dumps(row['triples'])}\n" for row in rows)
    Path("answers.tsv").write_text(f"id\ttriples\n{cells}", encoding="utf-8")
    refused = kbbench("submit", "answers.tsv", *ON, "--name", "mine")
    assert refused.code == 65
    assert "kbbench validate FILE --benchmark NAME --out answers.jsonl" in refused.err
    done = kbbench("validate", "answers.tsv", *ON, "--out", "answers.jsonl")
    assert (done.code, "was read as a table (tsv, tabs between cells)" in done.out) == (0, True)
    assert Path("answers.jsonl").read_text(encoding="utf-8").splitlines() == [
        json.dumps({"id": row["id"], "triples": row["triples"]}, ensure_ascii=False) for row in rows
    ]
    assert kbbench("submit", "answers.jsonl", *ON, "--name", "mine").out.startswith("Stored")


def test_a_file_without_any_answer_is_refused_and_says_so_as_json_too(kbbench):
    Path("empty.jsonl").write_text("")
    written("errors.jsonl", [json.dumps({"id": json.loads(line)["id"], "error": "timeout"}) for line in lines(3)])
    for file, words in (
        ("empty.jsonl", "holds no predictions: it is empty"),
        ("errors.jsonl", "3 of 48 lines are errors"),
    ):
        refused = kbbench("score", file, *ON, "--json")
        assert refused.code == 65
        assert words in refused.err
        assert json.loads(refused.out)["error"]["code"] == "empty"
        assert kbbench("compare", STORED["copy"], file, *ON).code == 65
