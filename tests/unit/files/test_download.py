"""Pinned downloads, against a server on 127.0.0.1 that breaks off, lies, or is busy."""

import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from filelock import FileLock

from kbbench_hf.building.text2kgbench.release import COMMIT, ORIGINAL_COMMIT, pinned_files
from kbbench_hf.errors import BusyError, DataError, KBBenchError
from kbbench_hf.files.download import ATTEMPTS, PinnedFile, cache_folder, fetch
from tests.servers.serving import serving

CONTENT = bytes(range(256)) * 1000


class _Server(ThreadingHTTPServer):
    """Serves CONTENT; `cuts` says after how many bytes each of the next answers breaks off."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cuts: list[int] = []
        self.statuses: list[int] = []
        self.ranges: list[str | None] = []
        self.knows_ranges = True
        self.block_seconds = 0.0
        self.content = CONTENT

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.server.statuses:
            self.send_error(self.server.statuses.pop(0))
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.knows_ranges else 0
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        body = body[: self.server.cuts.pop(0)] if self.server.cuts else body
        with suppress(ConnectionError):  # a client that was killed
            for position in range(0, len(body), 8192):
                self.wfile.write(body[position : position + 8192])
                time.sleep(self.server.block_seconds)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with serving(_Server()) as running:
        yield running


def pinned(server: _Server, sha256: str | None = None) -> PinnedFile:
    return PinnedFile("folder/a.bin", f"{server.address}/a.bin", len(CONTENT), sha256 or _sha256(CONTENT))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*") if each.is_file() and each.name != ".lock")


def test_a_file_arrives_whole_under_its_name(server: _Server, tmp_path: Path) -> None:
    assert fetch([pinned(server)], tmp_path) == tmp_path
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["a.bin"]


def test_what_is_there_and_right_is_not_fetched_again(server: _Server, tmp_path: Path) -> None:
    fetch([pinned(server)], tmp_path)
    fetch([pinned(server)], tmp_path)
    assert len(server.ranges) == 1


def test_what_is_there_and_damaged_is_fetched_again(server: _Server, tmp_path: Path) -> None:
    fetch([pinned(server)], tmp_path)
    (tmp_path / "folder/a.bin").write_bytes(CONTENT[:-1] + b"?")
    fetch([pinned(server)], tmp_path)
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT


def test_a_broken_connection_is_taken_up_where_it_stopped(server: _Server, tmp_path: Path) -> None:
    server.cuts = [100_000, 50_000]
    fetch([pinned(server)], tmp_path, pause_seconds=0)
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT


def test_a_download_given_up_leaves_only_a_part_that_the_next_call_continues(server: _Server, tmp_path: Path) -> None:
    server.cuts = [1000] * ATTEMPTS
    with pytest.raises(
        KBBenchError, match=r"4,000 of 256,000 bytes arrived, and are kept .* Run the same command again"
    ):
        fetch([pinned(server)], tmp_path, pause_seconds=0)
    assert names(tmp_path) == ["a.bin.part"]
    fetch([pinned(server)], tmp_path, pause_seconds=0)
    assert server.ranges[-1] == "bytes=4000-"
    assert names(tmp_path) == ["a.bin"]


def under_way(server: _Server, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a download in another process, and return it once something has arrived."""
    part = folder / "folder/a.bin.part"
    # whoever runs the tests in the background has interrupts ignored, and what it starts inherits that
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code = (
        listens + "import sys, pathlib; from kbbench_hf.files.download import *; fetch([{}], pathlib.Path(sys.argv[1]))"
    )
    running = subprocess.Popen([sys.executable, "-c", code.format(pinned(server)), str(folder)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not (part.is_file() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    return running


def test_a_killed_download_leaves_no_file_of_the_name_and_is_continued(server: _Server, tmp_path: Path) -> None:
    server.block_seconds = 0.05  # 32 blocks: 1.6 s
    part = tmp_path / "folder/a.bin.part"
    killed = under_way(server, tmp_path)
    killed.kill()
    killed.communicate(timeout=600)
    assert names(tmp_path) == ["a.bin.part"]
    arrived = part.stat().st_size
    assert 0 < arrived < len(CONTENT)
    server.block_seconds = 0
    fetch([pinned(server)], tmp_path)
    assert server.ranges == [None, f"bytes={arrived}-"]
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT


def test_an_interrupt_ends_a_download_at_once_and_keeps_what_arrived(server: _Server, tmp_path: Path) -> None:
    server.block_seconds = 0.5  # 32 blocks: 16 s
    part = tmp_path / "folder/a.bin.part"
    running = under_way(server, tmp_path)
    running.send_signal(signal.SIGINT)
    try:
        running.communicate(timeout=600)
    finally:
        running.kill()
    assert running.returncode != 0
    assert 0 < part.stat().st_size < len(CONTENT)


def test_a_server_that_knows_no_ranges_sends_everything_again(server: _Server, tmp_path: Path) -> None:
    server.cuts = [100_000]
    server.knows_ranges = False
    fetch([pinned(server)], tmp_path, pause_seconds=0)
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_with_both_values_and_nothing_is_kept(server: _Server, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        fetch([pinned(server, sha256="0" * 64)], tmp_path)
    assert all(part in str(caught.value) for part in ("a.bin", "0" * 64, _sha256(CONTENT), "again"))
    assert caught.value.exit_code == 65
    assert names(tmp_path) == []


def test_a_damaged_part_fails_the_checksum_and_the_next_call_starts_afresh(server: _Server, tmp_path: Path) -> None:
    part = tmp_path / "folder/a.bin.part"
    part.parent.mkdir()
    part.write_bytes(b"?" * 1000)
    with pytest.raises(DataError, match="SHA-256"):
        fetch([pinned(server)], tmp_path)
    fetch([pinned(server)], tmp_path)
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_dropped(server: _Server, tmp_path: Path) -> None:
    part = tmp_path / "folder/a.bin.part"
    part.parent.mkdir()
    part.write_bytes(CONTENT + b"more")
    fetch([pinned(server)], tmp_path)
    assert (tmp_path / "folder/a.bin").read_bytes() == CONTENT


def test_a_complete_part_needs_no_request(server: _Server, tmp_path: Path) -> None:
    part = tmp_path / "folder/a.bin.part"
    part.parent.mkdir()
    part.write_bytes(CONTENT)
    fetch([pinned(server)], tmp_path)
    assert server.ranges == []
    assert names(tmp_path) == ["a.bin"]


def test_a_longer_answer_than_pinned_fails_the_checksum(server: _Server, tmp_path: Path) -> None:
    server.content = b"!" + CONTENT
    with pytest.raises(DataError, match="SHA-256"):
        fetch([pinned(server)], tmp_path)


def test_a_busy_server_is_asked_again_and_an_absent_file_is_not(server: _Server, tmp_path: Path) -> None:
    server.statuses = [503, 429]
    fetch([pinned(server)], tmp_path / "busy", pause_seconds=0)
    assert len(server.ranges) == 3
    server.statuses = [404]
    with pytest.raises(KBBenchError, match=r"404.*--source"):
        fetch([pinned(server)], tmp_path / "absent", pause_seconds=0)
    assert len(server.ranges) == 4


def test_two_downloads_into_one_folder_do_not_mix(server: _Server, tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"), pytest.raises(BusyError, match="another process"):
        fetch([pinned(server)], tmp_path)
    assert names(tmp_path) == []


def test_many_files_are_fetched_and_one_bad_one_is_named(server: _Server, tmp_path: Path) -> None:
    good = [PinnedFile(f"{i}.bin", f"{server.address}/{i}", len(CONTENT), _sha256(CONTENT)) for i in range(20)]
    bad = PinnedFile("bad.bin", f"{server.address}/bad", len(CONTENT), "f" * 64)
    with pytest.raises(DataError, match="/bad:"):
        fetch([*good, bad], tmp_path)
    assert "bad.bin" not in names(tmp_path)
    fetch(good, tmp_path)
    assert len(names(tmp_path)) == 20


def test_the_cache_can_be_put_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBBENCH_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("KBBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_folder() == Path("/cache/kbbench")


def test_the_pins_are_the_files_of_the_release(shared: Path) -> None:
    for file in [*pinned_files("wikidata_tekgen"), *pinned_files("dbpedia_webnlg")]:
        content = (shared / "data" / "text2kgbench" / file.path).read_bytes()
        assert (len(content), _sha256(content)) == (file.size, file.sha256), file.path


def test_the_pins_point_at_two_fixed_commits() -> None:
    # The earlier revision keeps its gold at src/data/ground_truth/ont_<id>_ground_truth.jsonl.
    urls = [each.url for each in pinned_files("wikidata_tekgen")]
    host = "https://raw.githubusercontent.com/cenguix/Text2KGBench"
    assert f"{host}/{ORIGINAL_COMMIT}/src/data/ground_truth/ont_3_sport_ground_truth.jsonl" in urls
    assert f"{host}/{COMMIT}/data/wikidata_tekgen/train/ont_1_movie_train.jsonl" in urls
    assert sum(ORIGINAL_COMMIT in url for url in urls) == 10
