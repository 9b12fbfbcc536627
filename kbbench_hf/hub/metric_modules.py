"""Files of this package for the Hub: `evaluate` modules, Spaces, and its wheel, built or packed.

`kbbench publish`, `build` and `doctor` use it, from a checkout and from an installed wheel, where the files lie in
other places. A packed wheel is reproducible: a Space installs it again only if its hash changes.
"""

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.writing import whole_folder

DISTRIBUTION = "kbbench-hf"
_PACKAGE = Path(__file__).resolve().parent.parent
_EPOCH = (2020, 2, 2, 0, 0, 0)
"""The time of every file in a packed wheel, so that it is reproducible."""
_INSTALLER_FILES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""Files that an installer adds to a package's metadata."""


class Wheel(NamedTuple):
    """The file name and content of a wheel."""

    name: str
    content: bytes

    def requirement(self, folder_url: str) -> str:
        """Return the line of `requirements.txt` that installs the wheel, with gradio, from a URL.

        With the hash, a changed wheel changes the line: only then does a Space install it again.
        """
        sha256 = hashlib.sha256(self.content).hexdigest()
        return f"{DISTRIBUTION}[space] @ {folder_url}/{self.name}#sha256={sha256}"


@cache
def own_wheel() -> Wheel:
    """Return the wheel of the running package: built in a checkout, packed from an installation; cached.

    Raises:
        UsageError: it runs from a checkout, and hatchling is not installed.
        KBBenchError: the build failed.
    """
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file():
        return _build(checkout)
    return packed(distribution(DISTRIBUTION))


def _build(checkout: Path) -> Wheel:
    """Return the wheel that hatchling builds of a checkout; errors are those of `own_wheel`."""
    if not find_spec("hatchling"):
        raise UsageError(
            f"{checkout} is a checkout, whose wheel hatchling builds; it is not installed. Expected it: "
            "pip install hatchling"
        )
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise KBBenchError(f"No wheel could be built of {checkout}: {done.stderr.strip()[-500:]}. Fix it.")
        file = next(Path(folder).glob("*.whl"))
        return Wheel(file.name, file.read_bytes())


def packed(installed: Distribution) -> Wheel:
    """Return the wheel of an installed package, packed from its modules and metadata, with a new RECORD."""
    named = {
        file.as_posix(): Path(str(file.locate()))
        for file in installed.files or ()
        if "__pycache__" not in file.parts and ".." not in file.parts and file.name not in _INSTALLER_FILES
    }
    contents = {name: file.read_bytes() for name, file in sorted(named.items())}
    metadata = next(name.rpartition("/")[0] for name in contents if name.endswith(".dist-info/METADATA"))
    lines = [f"{name},{_hash(data)},{len(data)}" for name, data in contents.items()]
    record = f"{metadata}/RECORD"
    contents[record] = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return Wheel(f"{metadata.removesuffix('.dist-info')}-py3-none-any.whl", content.getvalue())


def _hash(data: bytes) -> str:
    """Return a hash in the form of a wheel's RECORD."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def metric_modules() -> dict[str, Path]:
    """Return name -> folder of each `evaluate` module of this package, by name.

    >>> "ranking" in metric_modules()
    True
    """
    root = _root("evaluate_modules", "metrics")
    return {file.parent.name: file.parent for file in sorted(root.glob("*/*.py")) if file.stem == file.parent.name}


def space_files(name: str) -> dict[str, Path]:
    """Return path in the Space -> local file, for the Space of a name; it has no folders."""
    folder = _root("spaces", "spaces") / name
    return {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}


def build_metrics(out: Path, modules: Mapping[str, Path]) -> list[str]:
    """Copy modules to `<out>/<name>/`, so that `evaluate.load("<out>/<name>")` finds it; return the names."""
    for name, folder in modules.items():
        with whole_folder(out / name) as partial:
            shutil.copytree(folder, partial, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return list(modules)


def _root(in_wheel: str, in_checkout: str) -> Path:
    """Return the folder of files that are inside the package in a wheel, and next to it in a checkout.

    Raises:
        KBBenchError: there is neither.
    """
    for place in (_PACKAGE / in_wheel, _PACKAGE.parent / in_checkout):
        if place.is_dir():
            return place
    raise KBBenchError(
        f"Neither {_PACKAGE / in_wheel} nor {_PACKAGE.parent / in_checkout} exists. Install kbbench-hf again."
    )
