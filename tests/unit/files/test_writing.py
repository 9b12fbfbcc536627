"""A file or folder is there whole, and on disk, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbbench_hf.files.writing import new_folder, whole_file, whole_folder, write_bytes, write_new, write_text
from tests.unit.conftest import Disk


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


@pytest.mark.parametrize("write", [write_bytes, write_new])
def test_a_file_is_on_disk_before_it_has_its_name_and_then_its_name_is(
    write: Callable[[Path, bytes], object], tmp_path: Path, disk: Disk
) -> None:
    file = tmp_path / "file"
    write(file, b"data")
    assert disk.flushed(file)[0] < disk.named(file) < disk.flushed(tmp_path)[-1]
    assert file.read_bytes() == b"data" and names(tmp_path) == ["file"]


@pytest.mark.parametrize("make", [whole_folder, new_folder])
def test_everything_in_a_folder_is_on_disk_before_it_has_its_name(
    make: Callable[[Path], object], tmp_path: Path, disk: Disk
) -> None:
    with make(tmp_path / "folder") as partial:  # type: ignore[attr-defined]
        (partial / "inner").mkdir()
        (partial / "inner/file").write_bytes(b"data")
    folder = tmp_path / "folder"
    for place in (folder, folder / "inner", folder / "inner/file"):
        assert disk.flushed(place)[0] < disk.named(folder)
    assert disk.named(folder) < disk.flushed(tmp_path)[-1]
    assert names(tmp_path) == ["folder"]


def test_what_stood_there_stays_where_writing_fails(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old\n")
    with pytest.raises(ValueError), whole_file(tmp_path / "file") as sink:
        sink.write(b"new")
        raise ValueError
    for make in (whole_folder, new_folder):
        with pytest.raises(ValueError), make(tmp_path / "folder") as partial:
            (partial / "file").touch()
            raise ValueError
    assert (tmp_path / "file").read_text() == "old\n" and names(tmp_path) == ["file"]


def test_a_new_file_takes_no_others_place(tmp_path: Path) -> None:
    assert write_new(tmp_path / "file", b"first") is True
    assert write_new(tmp_path / "file", b"second") is False
    assert (tmp_path / "file").read_bytes() == b"first" and names(tmp_path) == ["file"]


def test_a_whole_folder_takes_the_place_of_another_one(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with whole_folder(tmp_path / "folder") as partial:
            (partial / content).touch()
    assert names(tmp_path) == ["folder"] and names(tmp_path / "folder") == ["new"]


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/old").touch()
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if (Path(source) / "new").exists():
            raise PermissionError
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError), whole_folder(tmp_path / "folder") as partial:
        (partial / "new").touch()
    assert names(tmp_path) == ["folder"] and names(tmp_path / "folder") == ["old"]


def test_a_new_folder_takes_the_place_of_nothing_but_an_empty_one(tmp_path: Path) -> None:
    place = tmp_path / "places/folder"
    place.mkdir(parents=True)
    with new_folder(place, tmp_path / "growing/here") as partial:
        assert partial == tmp_path / "growing/here"
        (partial / "first").touch()
    with pytest.raises(FileExistsError), new_folder(place) as partial:
        (partial / "second").touch()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), new_folder(tmp_path / "file"):
        pass
    assert names(place) == ["first"] and names(place.parent) == ["folder"] and names(tmp_path / "growing") == []
