"""The Space as it was published: the wheel that it names, unpacked where no checkout is, starts its app."""

import io
import sys
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from kbbench_hf.hub.metric_modules import own_wheel, packed
from kbbench_hf.reports.exports import publications
from tests.servers.board import Space


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(io.BytesIO(own_wheel().content)).extractall(folder)
    return folder


def test_what_is_installed_is_packed_again_with_every_file_of_its_wheel(installed: Path) -> None:
    distribution = Distribution.at(next(installed.glob("*.dist-info")))
    again, built = packed(distribution), own_wheel()
    assert again.name == built.name and again == packed(distribution), "the same files make the same wheel"
    was, now = (zipfile.ZipFile(io.BytesIO(each.content)) for each in (built, again))
    assert set(now.namelist()) == set(was.namelist()) and now.testzip() is None
    for name in was.namelist():
        if not name.endswith("RECORD"):
            assert now.read(name) == was.read(name), name
    record = next(name for name in was.namelist() if name.endswith("RECORD"))
    assert set(now.read(record).splitlines()) == set(was.read(record).splitlines())


@pytest.mark.parametrize("target", ["leaderboard", "ranking"])
def test_a_published_space_starts_without_a_checkout(target: str, installed: Path, tmp_path: Path) -> None:
    (*_, space) = publications(target, "org")
    for name, content in space.files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    site = Space(sys.executable, tmp_path, {"PYTHONPATH": str(installed)}, tmp_path)
    site.stop()
