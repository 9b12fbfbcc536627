"""What the submit page says of a file, before anything is stored."""

import gzip
import json
from pathlib import Path

from kbbench_hf.app.boards import Boards
from kbbench_hf.app.submit_page import preview_text
from kbbench_hf.benchmarks import benchmark_names, shipped_answers
from kbbench_hf.hub.download import Listing
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.submissions import preview


def test_a_good_file_is_shown_with_every_figure_it_would_get() -> None:
    (file,) = [each for each in shipped_answers("mini-text2kg") if each.stem == "pattern"]
    lines = preview_text(preview(file, "mini-text2kg")).splitlines()
    assert lines[0] == "**Accepted.** Its scores:"
    assert lines[2:5] == ["| metric | value | 95 % interval |", "|---|---|---|", "| F1 | 0.6264 | [0.492, 0.748] |"]
    assert lines[-1] == "All 48 examples have a prediction."


def test_responses_that_could_not_be_read_are_counted(tmp_path: Path) -> None:
    (file,) = [each for each in shipped_answers("mini-text2kg") if each.stem == "pattern"]
    first, *others = map(json.loads, file.read_text().splitlines())
    unread = {"id": first["id"], "response": "I do not know."}
    packed = tmp_path / "mine.jsonl.gz"
    packed.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in [unread, *others]).encode()))
    said = preview_text(preview(packed, "mini-text2kg")).splitlines()
    assert "All 48 examples have a prediction." in said
    assert said[-1].startswith("⚠ 1 of 48 responses could not be parsed")


def test_what_is_here_or_listed_by_the_hub_can_be_submitted_to(tmp_path: Path) -> None:
    heard: list[str] = []
    listing = Listing(ask=lambda: frozenset(heard))
    boards = Boards(Index(Store(tmp_path)), listing=listing)
    assert "mini-text2kg/sentences/test/reference" in map(str, boards.open_places())
    assert "stark-prime/queries/test/reference" not in map(str, boards.open_places())
    heard += ["mini-text2kg", "stark-prime", "somebody-elses"]
    listing.refresh()
    assert "stark-prime/queries/test/reference" in map(str, boards.open_places())
    assert {place.benchmark for place in boards.open_places()} <= set(benchmark_names())


def test_a_benchmark_without_rows_has_its_default_place_on_the_board(tmp_path: Path) -> None:
    boards = Boards(Index(Store(tmp_path)))
    mini = [str(place) for place in boards.families()["Mini"]]
    assert "mini-text2kg/sentences/test/reference" in mini and len(mini) == len({name.split("/")[0] for name in mini})
