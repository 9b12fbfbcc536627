"""What a terminal gets: at any encoding and width nothing fails, nothing is cut, and no name moves its cursor."""

import io
import sys
import threading
import time
from pathlib import Path

import pytest

from kbbench_hf.reports import terminal


@pytest.fixture
def output(monkeypatch):
    """Make standard output a stream of an encoding; call it for the bytes that were written."""

    def open_in(encoding):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        terminal.prepare()
        return stream.buffer.getvalue

    return open_in


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "SH ↓ · ±0.1 東\n"),
        ("cp1252", "SH v · ±0.1 \\u6771\n"),
        ("latin-1", "SH v · ±0.1 \\u6771\n"),
        ("ascii", "SH v - +/-0.1 \\u6771\n"),
    ],
)
def test_a_sign_that_an_encoding_lacks_is_written_in_ascii_and_a_letter_as_its_escape(output, encoding, written):
    found = output(encoding)
    terminal.echo("SH ↓ · ±0.1 東")
    assert found().decode(encoding) == written


def test_what_stands_for_a_sign_in_a_table_is_as_wide_as_the_sign():
    assert all(len(plain) == 1 for sign, plain in terminal.IN_ASCII.items() if sign not in "±≤≥≈")
    assert "".join(terminal.IN_ASCII.values()).isascii()


def test_a_file_name_that_is_no_text_can_be_shown(output):
    found = output("utf-8")
    terminal.echo("caf\udce9.jsonl")
    assert found() == b"caf\\udce9.jsonl\n"


@pytest.mark.parametrize("printed", [terminal.echo, lambda text: terminal.console().print(text)])
def test_control_characters_are_escaped_and_lines_stay_lines(output, printed):
    found = output("utf-8")
    printed("two\nlines \x1b[2J\x07 \u202egnp.exe")
    assert found().decode() == "two\nlines \\x1b[2J\\x07 \\u202egnp.exe\n"


def test_control_characters_in_a_table_are_escaped_too(output):
    found = output("utf-8")
    terminal.print_table(terminal.console(), ["name", "n"], [["\x1b[31mred", "1"]])
    assert found().decode() == "name         n\n\\x1b[31mred  1\n"


@pytest.mark.parametrize("columns", ["0", "-3", "wide", "", "²", "99999999999"])
def test_a_width_that_is_none_is_taken_for_unknown(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", columns)
    terminal.prepare()
    assert terminal.console().width >= 80


@pytest.mark.parametrize(("on_terminal", "wait_s"), [(True, 0), (True, 60), (False, 0)])
def test_a_long_wait_has_a_title_on_a_terminal_alone(monkeypatch, capsys, on_terminal, wait_s):
    timer = threading.Timer
    monkeypatch.setattr(terminal.threading, "Timer", lambda seconds, show: timer(wait_s * seconds, show))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    with terminal.waiting("Loading the model"):
        shown, until = "", time.monotonic() + 20
        while wait_s == 0 and on_terminal and "Loading" not in shown and time.monotonic() < until:
            shown += capsys.readouterr().err
    assert ("Loading the model ..." in shown + capsys.readouterr().err) == (on_terminal and wait_s == 0)


def printed(capsys, monkeypatch, columns, headings, rows, **how):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.print_table(terminal.console(), headings, rows, **how)
    return capsys.readouterr().out.splitlines()


def test_columns_that_do_not_fit_stand_below_with_the_names_repeated(capsys, monkeypatch):
    table = ["metric", "value", "interval"], [["F1", "0.5000", "[0.4, 0.6]"], ["P", "0.2500", "[0.2, 0.3]"]]
    assert printed(capsys, monkeypatch, 26, *table) == [
        "metric   value    interval",
        "F1      0.5000  [0.4, 0.6]",
        "P       0.2500  [0.2, 0.3]",
    ]
    narrow = ["metric   value", "F1      0.5000", "P       0.2500", ""]
    narrow += ["metric    interval", "F1      [0.4, 0.6]", "P       [0.2, 0.3]"]
    assert printed(capsys, monkeypatch, 25, *table) == narrow
    assert printed(capsys, monkeypatch, 1, *table) == narrow  # narrower than a column: the terminal breaks the line


def test_a_long_name_has_a_line_of_its_own_and_widens_no_column(capsys, monkeypatch):
    name = "a relation that somebody named at length"
    assert printed(capsys, monkeypatch, 40, ["relation", "n"], [["in", "1"], [name, "2"]]) == [
        "relation  n",
        "in        1",
        name,
        "          2",
    ]


def test_words_stand_to_the_left_and_wide_characters_take_two_columns(capsys, monkeypatch):
    lines = printed(
        capsys, monkeypatch, 40, ["name", "answer", "n"], [["東京", "a", "10"], ["b", "long", "1"]], n_words=2
    )
    assert lines == ["name  answer   n", "東京  a       10", "b     long     1"]


def test_square_brackets_are_no_markup(capsys, monkeypatch):
    assert printed(capsys, monkeypatch, 40, ["x", "[b]"], [["[red]a[/red]", "1"]]) == [
        "x             [b]",
        "[red]a[/red]    1",
    ]


def test_a_full_disk_is_noticed_once_and_leaves_nothing_to_fail_later(monkeypatch):
    stream = Path("/dev/full").open("w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", stream)
    stream.write("figures")
    assert "No space left" in str(terminal.finish())
    assert terminal.finish() is None
    stream.close()
