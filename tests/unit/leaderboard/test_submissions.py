"""Strangers' files are bounded, checked, and stored only when they are whole."""

import gzip
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import Preview, checked_system, preview, store_preview
from tests.servers.hostile import TRAPS, packed


def refused(file: Path) -> str:
    with pytest.raises(KBBenchError) as caught:
        preview(file, "mini-text2kg")
    return str(caught.value)


def test_a_good_file_is_scored_with_the_code_that_scores_everywhere(read: Preview) -> None:
    assert read.result.scores["f1"].value > 0 and read.predictions.n_missing == 0


def test_a_partial_file_is_refused_with_the_ids_that_lack(upload: Path) -> None:
    upload.write_text("".join(upload.read_text().splitlines(keepends=True)[:-2]))
    assert "2 of 48 missing" in refused(upload)


@pytest.mark.parametrize("name", ["a.parquet", "a.pkl", "a.csv", "a.jsonl.zip", "a.npy", "jsonl"])
def test_nothing_but_json_lines_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1")
    assert "nothing else is read" in refused(tmp_path / name)


@pytest.mark.parametrize("trap", TRAPS, ids=range(len(TRAPS)))
def test_a_line_that_is_no_answer_is_refused_in_words(upload: Path, trap: bytes) -> None:
    upload.write_bytes(upload.read_bytes() + trap + b"\n")
    assert "nothing was scored" in refused(upload)


PREVIEW_ALL = """
import resource, sys, time
from pathlib import Path
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.submissions import preview
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
preview(Path(sys.argv[1]), "mini-text2kg")
for file in sys.argv[2:]:
    before, started = peak(), time.monotonic()
    try:
        preview(Path(file), "mini-text2kg")
    except KBBenchError:
        print(Path(file).name, peak() - before, time.monotonic() - started)
preview(Path(sys.argv[1]), "mini-text2kg")
print("still accepts")
"""


def test_bombs_are_refused_quickly_and_cheaply_and_the_next_good_file_is_taken(tmp_path: Path, upload: Path) -> None:
    for name, part in {"zeros": b"0", "objects": b"{}\n"}.items():
        (tmp_path / f"{name}.jsonl.gz").write_bytes(packed(part, 300_000_000))
    (tmp_path / "nested.jsonl").write_bytes(b"[" * 900_000 + b"\n")
    (tmp_path / "wide.jsonl").write_bytes(b'{"id": "x", "triples": [' + b"[]," * 300_000 + b"[]]}\n")
    bombs = sorted(str(file) for file in tmp_path.glob("*.jsonl*") if file != upload)
    done = subprocess.run(
        [sys.executable, "-c", PREVIEW_ALL, str(upload), *bombs], capture_output=True, text=True, check=True
    )
    *lines, last = done.stdout.splitlines()
    assert len(lines) == 4 and last == "still accepts", done.stdout
    for line in lines:
        _, kilobytes, seconds = line.split()
        assert int(kilobytes) < 200_000 and float(seconds) < 60, line


def test_a_good_file_that_unpacks_to_more_than_the_limit_is_refused(upload: Path, tmp_path: Path) -> None:
    file = tmp_path / "padded.jsonl.gz"
    file.write_bytes(gzip.compress(upload.read_bytes()) + packed(b" " * 999 + b"\n", 70_000_000))
    assert "more than 64,000,000 bytes when expanded" in refused(file)


def test_mutated_files_are_refused_or_scored_never_a_crash(upload: Path, store: Store) -> None:
    generator = random.Random(17)  # seed 17
    whole = upload.read_bytes()
    times = []
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 8)):
            kind, position = generator.randrange(4), generator.randrange(len(data))
            if kind == 0:
                data[position] ^= 1 << generator.randrange(8)
            elif kind == 1:
                del data[position : position + generator.randint(1, 200)]
            elif kind == 2:
                data[position:position] = generator.choice(
                    [b"NaN", b"1e999", b"\xed\xa0\x80", b'{"id":1,"id":2}', b"[" * 99]
                )
            else:
                data[position:position] = data[: generator.randint(1, 500)]
        upload.write_bytes(bytes(data))
        started = time.perf_counter()
        try:
            preview(upload, "mini-text2kg")
        except KBBenchError as error:
            assert str(error)
        times.append(time.perf_counter() - started)
    assert max(times) < 30  # about 20 ms


def test_a_submission_needs_somebody_logged_in(store: Store, read: Preview) -> None:
    with pytest.raises(DataError, match="You are not logged in"):
        store_preview(store, read, System("mine"), "")
    assert store.visible() == []


@pytest.mark.parametrize(
    "system",
    [
        System(""),
        System("<img src=x onerror=alert(1)>"),
        System("=HYPERLINK(1)"),
        System("[x](javascript:alert(1))"),
        System("x" * 81),
        System("ok", link="http://example.org"),
        System("ok", link="https://a.org/<script>"),
        System("ok", link="javascript:alert(1)"),
        System("ok", parameters_b=float("nan")),
        System("ok", cost_per_1000_usd=-1.0),
        System("ok", notes="n" * 501),
        System("ok", notes="my token is hf_" + "a" * 30),
        System("ok", licence="sk-" + "a" * 30),
    ],
)
def test_what_cannot_be_shown_is_refused(system: System) -> None:
    with pytest.raises(DataError):
        checked_system(system)


def test_look_alikes_and_invisible_characters_are_normalised() -> None:
    assert checked_system(System("ｍy\u202e mod\u200bel")).name == "my model"
    assert json.dumps(checked_system(System("модель 2", notes="a\nb")).notes) == '"a b"'
