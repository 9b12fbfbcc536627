"""What the submit page says of a file, before anything is stored."""

import gzip
import json
import shlex
from pathlib import Path

import click
import pytest

from kbbench_hf.app.boards import Boards
from kbbench_hf.app.submit_page import _command, _upload, preview_text
from kbbench_hf.benchmarks import as_task_key, benchmark_names, shipped_answers
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import UsageError
from kbbench_hf.hub.download import Listing
from kbbench_hf.leaderboard.checking import Upload
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview


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


def test_a_board_is_in_the_menus_after_its_first_submission_also_of_another_process(tmp_path: Path) -> None:
    boards, place = Boards(Index(Store(tmp_path))), as_task_key("mini-text2kg/sentences/test/reference")
    assert place not in boards.places() and not boards.board(place).rows
    (file,) = [each for each in shipped_answers("mini-text2kg") if each.stem == "pattern"]
    submission = store_preview(Store(tmp_path), preview(file, "mini-text2kg"), System("mine"), "ada").id
    assert [row.id for row in boards.board(place, now=True).rows] == [submission]
    assert boards.places().count(place) == 1
    Store(tmp_path).withdraw(submission, "ada")
    assert place not in boards.places() and not boards.board(place, now=True).rows


def test_an_upload_is_one_file_of_predictions_with_its_annotations() -> None:
    place, files = (
        "mini-genres/sentences/test/reference",
        ["a/factualness.parquet", "a/mine.jsonl.gz", "a/topics.parquet"],
    )
    where = as_task_key(place)
    assert _upload(place, files) == Upload(files[1], where, [files[0], files[2]])
    assert _upload(place, files[1:2]) == Upload(files[1], where, [])
    for wrong, words in (
        ([files[0]], "predictions: none;"),
        ([*files, "b.jsonl"], r"mine\.jsonl\.gz, b\.jsonl; expected one"),
    ):
        with pytest.raises(UsageError, match=words):
            _upload(place, wrong)


@pytest.mark.parametrize(
    ("place", "verb", "command"),
    [
        ("mini-text2kg/sentences/test/reference", "validate", "--benchmark mini-text2kg"),
        ("mini-text2kg/sentences/test/paper", "validate", "--benchmark mini-text2kg"),
        ("mini-text2kg/sentences/test/paper", "submit", "--benchmark mini-text2kg --mode paper --name 'my system'"),
        ("stark-mag/queries/human/reference", "submit", "--benchmark stark-mag --split human --name 'my system'"),
        ("mini-ska/noise_table_1k/test/typed", "submit", "--benchmark mini-ska/noise_table_1k --name 'my system'"),
    ],
)
def test_the_command_for_a_visitors_own_machine_is_one_that_it_takes(
    place: str, verb: str, command: str, in_tmp: Path
) -> None:
    Path("my file.jsonl").touch()
    words = _command(
        verb, Upload("/uploads/my file.jsonl", as_task_key(place)), "my system" if verb == "submit" else ""
    )
    assert words == f"kbbench {verb} 'my file.jsonl' {command}"
    called = kbbench.get_command(click.Context(kbbench), verb)
    assert called is not None
    called.make_context(verb, shlex.split(words)[2:])
