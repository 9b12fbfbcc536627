"""Fixtures of unit tests: the built Text2KGBench, and a disk that records calls in place of a power cut."""

import os
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.files.datasets import DatasetFolder


class Disk:
    """What was flushed and what got its name, in order. A file keeps its number whatever it is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, int]] = []
        fsync = os.fsync

        def flush(handle: Any) -> None:
            fsync(handle)
            self.calls.append(("flushed", os.fstat(handle).st_ino))

        monkeypatch.setattr(os, "fsync", flush)
        for name in ("replace", "rename", "link"):  # which those of `Path` call
            monkeypatch.setattr(os, name, self._recorded(getattr(os, name)))

    def _recorded(self, call: Any) -> Any:
        def named(source: Any, target: Any, **options: Any) -> None:
            call(source, target, **options)
            self.calls.append(("named", Path(target).stat().st_ino))

        return named

    def flushed(self, place: Path) -> list[int]:
        """Return when a file or folder was flushed."""
        return self._when("flushed", place)

    def named(self, place: Path) -> int:
        """Return when a file or folder got its name."""
        (when,) = self._when("named", place)
        return when

    def _when(self, what: str, place: Path) -> list[int]:
        return [when for when, call in enumerate(self.calls) if call == (what, place.stat().st_ino)]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture(scope="session")
def wikidata(built: Path) -> DatasetFolder:
    return DatasetFolder(built / "kbbench/text2kg-wikidata-tekgen")


@pytest.fixture(scope="session")
def webnlg(built: Path) -> DatasetFolder:
    return DatasetFolder(built / "kbbench/text2kg-dbpedia-webnlg")
