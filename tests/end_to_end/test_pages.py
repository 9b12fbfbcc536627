"""Every command and snippet of the README and of the site's pages runs and prints what is shown."""

import re
from pathlib import Path

import pytest

from tests.end_to_end.pages import ROOT, Reader, answer, blocks, commands, pages, runs_here
from tests.servers.scripted import ScriptedServer

PAGES = pages()
SLOW = {"ir_tools.md"}
"""Pages that import packages which take long: those run in `make test-all` only."""
FENCE = re.compile(r"^```(\{?\w+\}?)", re.M)
SHOWN = {"json", "bibtex", "text", "toml", "yaml", "csv"}
"""Languages of blocks that show data."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.full] if page.name in SLOW else []) for page in PAGES],
    ids=[str(page.relative_to(ROOT)) for page in PAGES],
)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    is_built = "$ kbbench build text2kg-" in page.read_text(encoding="utf-8")
    built = request.getfixturevalue("built") if is_built else None
    with ScriptedServer(answer=answer) as server:
        reader = Reader(tmp_path, server, in_process=page.name != "README.md", built=built)
        for source, shown, real in reader.differences(page):
            pytest.fail(f"{source}\nis shown with\n{shown}\nand prints\n{real}")


def test_every_block_of_a_page_is_run_or_is_data() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        others = {name for name in FENCE.findall(page.read_text(encoding="utf-8")) if not name.startswith("{")}
        assert others <= SHOWN | {"console", "python"}, page


def test_most_commands_are_run() -> None:
    found = [command for page in PAGES for block in blocks(page.read_text(encoding="utf-8"), "console")
             for command, _ in commands(block)]  # fmt: skip
    assert sum(map(runs_here, found)) > 0.6 * len(found)
