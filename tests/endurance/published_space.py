"""The whole way of a board, from a clean environment to a row that somebody else scores again. Ten minutes.

A wheel is built, installed where nothing else is, and publishes a dataset and the board to a Hub in memory; the Space
is installed from what was published, as the Hub does it, and started; visitors log in, submit and see their rows; the
disk is lost; another visitor downloads the results and scores them again.

python -m tests.endurance.published_space ../shared/data/text2kgbench [ENVIRONMENT]

An environment that is named is used again where it exists.
"""

import json
import subprocess
import sys
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.hub.metric_modules import own_wheel
from tests.end_to_end.browser.chromium import chromium
from tests.servers.board import Space, Visitor
from tests.servers.hub import LocalHub, local_hub
from tests.servers.login import login_provider

PLACE = "text2kg-wikidata-tekgen/sentences/test/reference"
SYSTEMS = {"Vicuna-13B": "ada", "Alpaca-LoRA-13B": "grace"}
"""Whose answers are submitted, and by whom."""


class Clean:
    """An environment that holds the wheel and what it requires, and nothing of this checkout."""

    def __init__(self, folder: Path, home: Path, hub: LocalHub) -> None:
        self.bin, self.home = folder / "bin", home
        self.environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(home), **hub.environment(str(home / "hf"))}

    def run(self, *command: str, folder: Path | None = None, **environment: str) -> str:
        started = time.monotonic()
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]], cwd=folder or self.home,
            env={**self.environment, **environment}, capture_output=True, text=True,
        )  # fmt: skip
        print(f"{time.monotonic() - started:6.1f} s  {' '.join(command)[:110]}", flush=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def main(source: Path, environment: Path | None) -> None:
    """Walk the way and print what was seen."""
    with TemporaryDirectory() as folder, local_hub() as hub, login_provider() as provider:
        root = Path(folder)
        clean = Clean(environment or root / "environment", _made(root / "home"), hub)
        _install(clean, environment or root / "environment", root)
        clean.run("kbbench", "build", PLACE.split("/")[0], "--source", str(source))
        for target in (PLACE.split("/")[0], "leaderboard", "text2kg"):
            print(clean.run("kbbench", "publish", target, "--yes"))
        answers = clean.home / "kbbench" / PLACE.split("/")[0] / "predictions" / "sentences" / "test"
        files = {system: _every_answer(answers / f"{system}.jsonl", clean.home) for system in SYSTEMS}
        space = _cloned(hub, "kbbench/leaderboard", root / "space")
        clean.run("pip", "uninstall", "--quiet", "--yes", "kbbench-hf")
        clean.run("pip", "install", "--quiet", "--requirement", str(space / "requirements.txt"))
        assert hub.url in clean.run("pip", "freeze"), "the Space did not install what was published"
        given = {
            **clean.environment, **provider.environment("kbbench/leaderboard"),
            **hub.repos["space", "kbbench/leaderboard"].variables,
        }  # fmt: skip
        first = _served(clean, space, given, root / "first")
        for system, user in SYSTEMS.items():
            visitor = Visitor(first)
            visitor.log_in_as(user)
            file = visitor.upload(f"{system}.jsonl", files[system])
            started = time.monotonic()
            print(f"{user}:", visitor.submit(PLACE, file, system, licence="cc-by-sa-4.0"))
            print(f"{time.monotonic() - started:6.1f} s  submitted")
        _await(hub, len(SYSTEMS))
        seen = _seen(first, root / "board.png")
        print(seen)
        first.stop()
        second = _served(clean, space, given, root / "second")
        assert _seen(second, Path("build/published-space.png")) == seen, "the board is another after the disk was lost"
        second.stop()
        _scored_again(clean, hub, root / "other")


def _every_answer(file: Path, home: Path) -> bytes:
    """Return a system's answers, empty ones for the sentences that it did not answer, as a submission needs them."""
    found = {(row := json.loads(line))["id"]: row for line in file.read_text().split("\n") if line}
    ids = DatasetFolder(home / "kbbench" / PLACE.split("/")[0]).table("sentences", "test")["id"].to_pylist()
    return "".join(f"{json.dumps(found.get(each, {'id': each, 'triples': []}))}\n" for each in ids).encode()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _install(clean: Clean, folder: Path, root: Path) -> None:
    if not clean.bin.exists():
        venv.create(folder, with_pip=True)
    wheel = own_wheel()
    (root / wheel.name).write_bytes(wheel.content)
    clean.run("pip", "install", "--quiet", f"{root / wheel.name}[space]")
    clean.run("pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(root / wheel.name))
    where = clean.run("python", "-c", "import kbbench_hf; print(kbbench_hf.__file__)").strip()
    assert where.startswith(str(folder)), where


def _cloned(hub: LocalHub, name: str, folder: Path) -> Path:
    for path, content in hub.repos["space", name].commits[-1][1].items():
        (_made((folder / path).parent) / Path(path).name).write_bytes(content)
    return folder


def _served(clean: Clean, space: Path, given: Mapping[str, str], folder: Path) -> Space:
    """Start the Space on a fresh disk."""
    disk = {"KBBENCH_STORE": str(folder / "store"), "HF_HOME": str(folder / "hf"), "PYTHONPATH": ""}
    return Space(str(clean.bin / "python"), space, {**given, **disk}, _made(folder))


def _await(hub: LocalHub, wanted: int) -> None:
    """Wait until the Hub has all records, with the events that name them."""
    started = time.monotonic()
    while time.monotonic() - started < 300:
        there = hub.repos["dataset", "kbbench/results"].commits[-1][1]
        if sum(path.endswith("record.json") for path in there) == wanted and any("events/" in path for path in there):
            print(f"{time.monotonic() - started:6.1f} s  until all was on the Hub")
            return
        time.sleep(1)
    raise TimeoutError("the Hub has not got all submissions")


def _seen(space: Space, picture: Path) -> str:
    """Return what a browser shows of the board of the place."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{space.url}/?place={PLACE}")
        page.locator("#board").get_by_text(next(iter(SYSTEMS))).first.wait_for()
        page.screenshot(path=picture, full_page=True)
        return page.locator("#board").inner_text()


def _scored_again(clean: Clean, hub: LocalHub, folder: Path) -> None:
    """Download the results as somebody else, and score them again with the data of the Hub."""
    own, home = _made(folder), str(folder / "hf")
    download = ("hf", "download", "kbbench/results", "--repo-type", "dataset", "--local-dir", "store")
    clean.run(*download, folder=own, HF_HOME=home)
    said = clean.run("kbbench", "leaderboard", "rescore", "--all", "--store", "store", folder=own, HF_HOME=home)
    print(said)
    assert f"{len(SYSTEMS)} of {len(SYSTEMS)} identical" in said


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None)
