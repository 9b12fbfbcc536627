"""Every command and snippet of the README runs and prints what the README shows."""

import os
from pathlib import Path

import pytest

from tests.end_to_end.readme import README, answer, blocks, check, prepare, python_output
from tests.servers.scripted import ScriptedServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    prepare(folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif("KBBENCH_SHARED" not in os.environ and not Path("../shared/data").is_dir(), reason="no real data")
def test_every_command_prints_what_the_readme_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBBENCH_SHARED", os.environ.get("KBBENCH_SHARED", str(Path("../shared").resolve())))
    found = blocks(README.read_text(encoding="utf-8"), "console")
    assert len(found) >= 5
    with ScriptedServer(answer=answer) as server:
        for block in found:
            for command, expected, real in check(block, folder, server):
                pytest.fail(f"$ {command}\nthe README shows\n{expected}\nand it prints\n{real}")


@pytest.mark.slow
def test_every_snippet_prints_what_readme_and_docs_show(tmp_path: Path) -> None:
    pages = [README, *sorted((README.parent / "docs").glob("*.md"))]
    found = [block for page in pages for block in blocks(page.read_text(encoding="utf-8"), "python")]
    assert found
    for block in found:
        results = python_output(block, tmp_path)
        assert results.attempted > 1 and results.failed == 0, block
