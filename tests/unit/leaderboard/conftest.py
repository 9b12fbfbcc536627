"""A scored submission to store: the pattern system of the mini benchmark."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.submissions import Preview, preview
from tests.servers.hub import LocalHub, local_hub

PATTERN = shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl"


@pytest.fixture(scope="session")
def read() -> Preview:
    return preview(PATTERN, "mini-text2kg")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Preview:
    """The same predictions with the first one emptied."""
    rows = [json.loads(line) for line in PATTERN.read_text().splitlines()]
    rows[0]["triples"] = []
    file = tmp_path_factory.mktemp("other") / "other.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return preview(file, "mini-text2kg")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    return Path(shutil.copy(PATTERN, tmp_path / "mine.jsonl"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A Hub that pages its answers, and that this process may talk to."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with local_hub() as server:
        server.per_page = 7
        yield server
