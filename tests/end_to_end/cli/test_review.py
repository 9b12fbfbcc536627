"""`kbbench review` as a user meets it; the page itself is looked at in `browser`."""

import html
import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from kbbench_hf.benchmarks.reviews import QUERY_QUESTIONS, Judgements, ReviewItem

RIGHT = {"derivable": "yes", "superfluous": "no", "other_answer": "no", "wording": "natural"}


@pytest.fixture
def two_files(in_tmp):
    for name, derivable in (("ada", "yes"), ("ben", "no")):
        judged = Judgements(in_tmp / f"{name}.jsonl", name, "v")
        for n in range(3):
            item = ReviewItem(f"q{n}", "?", [("a",)], [("x",)], [])
            judged.add(item, {**RIGHT, "derivable": derivable if n == 2 else ("yes", "no")[n]})


def test_agreement_shows_kappa_of_every_question_and_what_they_disagree_on(kbbench, two_files):
    done = kbbench("review", "agreement", "ada.jsonl", "ben.jsonl")
    assert done.code == 0, done.err
    # derivable: agreed 2/3, chance 2/3 * 1/3 + 1/3 * 2/3 = 4/9; (6/9 - 4/9) / (5/9) = 0.4
    assert "0.400" in done.out and "q2" in done.out
    found = json.loads(kbbench("review", "agreement", "ada.jsonl", "ben.jsonl", "--json").out)
    assert found["kappas"]["derivable"]["value"] == pytest.approx(0.4)
    assert found["kappas"]["derivable"].keys() == {"n", "agreed", "value", "ci95"}
    assert found["kappas"]["wording"]["value"] is None and found["kappas"]["wording"]["ci95"] == [None, None]
    assert found["disagreements"] == [["q2", "derivable", "yes", "no"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["agreement", "ada.jsonl"], "two files"),
        (["agreement", "ada.jsonl", "nobody.jsonl"], "nobody.jsonl"),
        (["mini-ska"], "--subset"),
        (["mini-text2kg", "--subset", "kg", "--reviewer", "a", "--out", "a"], "mini-ska"),
        (["mini-stark", "--subset", "kg", "--reviewer", "a", "--out", "a"], "Known: test"),
        (["summary"], "Name one or more"),
        (["mini-ska", "--subset", "kgs", "--reviewer", "a", "--out", "a"], "'kg'"),
        (["mini-ska", "mini-stark", "--subset", "kg"], "Expected one dataset"),
    ],
)
def test_a_wrong_call_says_what_to_do(kbbench, two_files, arguments, said):
    done = kbbench("review", *arguments)
    assert done.code == 2 and said in done.err


def test_a_port_that_is_taken_is_named(kbbench):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = kbbench("review", "mini-ska", "--subset", "kg", "--reviewer", "a", "--out", "a", "--port", port)
    assert done.code == 2 and str(port) in done.err


def test_the_page_asks_the_questions_of_the_benchmark(in_tmp):
    command = [sys.executable, "-m", "kbbench_hf.cli", "review", "mini-stark", "--reviewer", "a", "--out", "a.jsonl"]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        try:
            page = urllib.request.urlopen(served.stdout.readline().split()[0], timeout=60).read().decode()
            served.send_signal(signal.SIGINT)
            assert "judged by a. Run the same command to resume." in served.communicate(timeout=60)[0]
        finally:
            served.kill()
    assert all(html.escape(each.text, quote=False) in page for each in QUERY_QUESTIONS)
