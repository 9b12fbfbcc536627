"""Wheel and sdist: built from what is committed, compared with it, and tried where nothing else is installed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from release.changelog import Refused

RESOLUTIONS = {"newest": "highest", "lowest": "lowest-direct"}
"""Name of an environment's dependencies -> uv's name for it; of the lowest, those that have a wheel for its Python."""
TRIED = """
import evaluate
found = evaluate.load("kbbench/ranking").compute(predictions=[["a", "b"]], references=[["b"]], ks=(1, 2))
assert (found["hit_at_1"], found["mrr"]) == (0, 0.5), found
"""


def build(checkout: Path, out: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, and return wheel and sdist.

    Raises:
        Refused: a build failed, the index would refuse them, or they hold something else than they should.
    """
    out.mkdir(parents=True)
    call([_uv(), "build", "--quiet", "--out-dir", str(out), str(checkout)])
    (out / ".gitignore").unlink(missing_ok=True)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    call([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
    tracked = subprocess.run(["git", "ls-files"], cwd=checkout, check=True, capture_output=True, text=True).stdout
    check_contents(wheel, sdist, checkout, tracked.splitlines())
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path, checkout: Path, tracked: Sequence[str]) -> None:
    """Compare both with the tracked files that belong into them.

    Raises:
        Refused: a file is missing, or is there and should not be; the message names up to five.
    """
    settings = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    moved = {"kbbench_hf": "kbbench_hf", **settings["targets"]["wheel"]["force-include"]}
    in_wheel = {moved[top] + file[len(top) :] for file in tracked if (top := file.partition("/")[0]) in moved}
    with zipfile.ZipFile(wheel) as archive:
        _compare(wheel, {name for name in archive.namelist() if ".dist-info/" not in name}, in_wheel)
    included = [each.strip("/") for each in settings["targets"]["sdist"]["include"]]
    in_sdist = {file for file in tracked if file in included or file.partition("/")[0] in included}
    with tarfile.open(sdist) as packed:
        names = {member.name.partition("/")[2] for member in packed.getmembers() if not member.isdir()}
    _compare(sdist, names, in_sdist | {"PKG-INFO", "pyproject.toml", ".gitignore"})


def _compare(artefact: Path, found: set[str], expected: set[str]) -> None:
    for what, files in (("lacks", expected - found), ("should not hold", found - expected)):
        if files:
            raise Refused(
                f"{artefact.name} {what} {', '.join(sorted(files)[:5])} ({len(files)} files). Expected what git tracks "
                "of the folders that pyproject.toml names. Change those."
            )


def claimed(checkout: Path) -> list[str]:
    """Return the versions of Python that the classifiers name."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in project["classifiers"])
    return [found[1] for found in versions if found]


def interpreter(version: str) -> Path | None:
    """Return a Python of this version on this machine, on the path or among pyenv's; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    for candidate in [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]:
        if subprocess.run([candidate, "-c", ""], check=False, capture_output=True).returncode == 0:
            return candidate
    return None


def try_out(wheel: Path, python: Path, resolution: str, extras: str = "") -> str:
    """Install the wheel in a new environment, run the demo, build the metrics and load one; return what it installed.

    Raises:
        Refused: a step failed; its output is in the message.
    """
    with tempfile.TemporaryDirectory() as folder:
        home, venv = Path(folder), Path(folder) / "venv"
        call([_uv(), "venv", "--quiet", "--python", str(python), str(venv)])
        requirement = f"kbbench-hf{f'[{extras}]' if extras else ''} @ {wheel.as_uri()}"
        chosen = ["--resolution", RESOLUTIONS[resolution], "--only-binary", ":all:"]
        call([_uv(), "pip", "install", "--quiet", "--python", str(venv), *chosen, requirement])
        mine = {"HOME": folder, "HF_HOME": folder, "HF_EVALUATE_OFFLINE": "1", "PATH": os.environ["PATH"]}
        for command in (["kbbench", "demo"], ["kbbench", "build", "metrics"], ["python", "-c", TRIED]):
            call([str(venv / "bin" / command[0]), *command[1:]], home, mine)
        listed = [_uv(), "pip", "freeze", "--quiet", "--python", str(venv)]
        return subprocess.run(listed, check=True, capture_output=True, text=True).stdout


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def call(command: Sequence[str], folder: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run a command, silently unless it fails.

    Raises:
        Refused: it failed.
    """
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise Refused(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-4000:]}")
