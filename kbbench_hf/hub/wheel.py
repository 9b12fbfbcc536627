"""The wheel of the package that runs here: what a Space installs that is published from here."""

import base64
import hashlib
import io
import subprocess
import sys
import zipfile
from functools import cache
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kbbench_hf.errors import KBBenchError, UsageError

DISTRIBUTION = "kbbench-hf"
_PACKAGE = Path(__file__).resolve().parent.parent
_EPOCH = (2020, 2, 2, 0, 0, 0)
"""The time of every file in a wheel that is packed here, so that the same files make the same wheel."""
_OF_INSTALLATION = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""What an installer writes beside a package's metadata."""


class Wheel(NamedTuple):
    """A wheel: its file's name, and its content."""

    name: str
    content: bytes

    def requirement(self, folder_url: str) -> str:
        """Return the line of a `requirements.txt` that installs it, with gradio, from the folder at an address.

        The hash makes a change of the wheel a change of the line, without which a Space would not install it again.
        """
        sha256 = hashlib.sha256(self.content).hexdigest()
        return f"{DISTRIBUTION}[space] @ {folder_url}/{self.name}#sha256={sha256}"


@cache
def own_wheel() -> Wheel:
    """Return a wheel of the package as it runs here: built of a checkout, or packed of the files of an installation.

    Raises:
        UsageError: this is a checkout, and hatchling, which builds it, is not installed.
        KBBenchError: it could not be built.
    """
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file():
        return _built(checkout)
    return packed(distribution(DISTRIBUTION))


def _built(checkout: Path) -> Wheel:
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
    """Return the wheel of an installed package: its modules and metadata, with a record of them made again."""
    named = {
        file.as_posix(): Path(str(file.locate()))
        for file in installed.files or ()
        if "__pycache__" not in file.parts and ".." not in file.parts and file.name not in _OF_INSTALLATION
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
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
