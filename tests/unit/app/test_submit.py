"""What the submit page says of a file, before anything is stored."""

import gzip
import json
from pathlib import Path

from kbbench_hf.app.submit_page import preview_text, submit_places
from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.leaderboard.submissions import preview


def test_a_good_file_is_shown_with_every_figure_it_would_get() -> None:
    (file,) = [each for each in shipped_answers("mini-text2kg") if each.stem == "pattern"]
    lines = preview_text(preview(file, "mini-text2kg")).splitlines()
    assert lines[0] == "**Accepted.** This is what it would get:"
    assert lines[2:5] == ["| metric | value | 95 % interval |", "|---|---|---|", "| F1 | 0.6264 | [0.492, 0.748] |"]
    assert lines[-1] == "48 of 48 examples answered."


def test_responses_that_could_not_be_read_are_counted(tmp_path: Path) -> None:
    (file,) = [each for each in shipped_answers("mini-text2kg") if each.stem == "pattern"]
    first, *others = map(json.loads, file.read_text().splitlines())
    unread = {"id": first["id"], "response": "I do not know."}
    packed = tmp_path / "mine.jsonl.gz"
    packed.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in [unread, *others]).encode()))
    said = preview_text(preview(packed, "mini-text2kg")).splitlines()
    assert "48 of 48 examples answered." in said
    assert said[-1].startswith("⚠ 1 of 48 responses held no answer")


def test_every_benchmark_that_is_at_hand_can_be_submitted_to() -> None:
    assert "mini-text2kg/sentences/test/reference" in map(str, submit_places())
