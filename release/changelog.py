"""The changelog and the version: what may follow what, and the files that say which it is."""

import datetime
import re
from pathlib import Path

from packaging.version import InvalidVersion, Version

UNRELEASED = "Unreleased"
CHANGELOG = "CHANGELOG.md"
VERSIONED = {
    "pyproject.toml": r'(?<=\nversion = ")[^"]+',
    "CITATION.cff": r"(?<=\nversion: )\S+",
    "spaces/leaderboard/requirements.txt": r"(?<===)\S+",
}
"""The files that name the version, each with where it stands."""


class Refused(Exception):
    """A release that must not be: what stands in its way, and what to do."""


def notes(changelog: str, section: str) -> str:
    r"""Return what a section of the changelog says; empty where it says nothing, or is not there.

    >>> notes("# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-01-31)\n\nFirst.\n", "Unreleased")
    '- New.'
    """
    found = re.search(rf"^## {re.escape(section)}(?: \(.*\))?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def check_follows(version: str, current: str) -> None:
    """Refuse a version that is not the next patch, minor or major one.

    Raises:
        Refused: it is no version, or another one.

    >>> check_follows("0.2.0", current="0.1.4")
    """
    major, minor, patch = Version(current).release
    following = f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0", f"{major + 1}.0.0"
    try:
        written = str(Version(version)) == version
    except InvalidVersion:
        written = False
    if not written or version not in following:
        raise Refused(f"{version!r} does not follow {current}. Expected one of {', '.join(following)}. Give VERSION=.")


def current_version(root: Path) -> str:
    """Return the version that the checkout's files name.

    Raises:
        Refused: they name several.
    """
    named = {file: _find(root, file) for file in VERSIONED}
    if len(set(named.values())) > 1:
        said = ", ".join(f"{file} {version}" for file, version in named.items())
        raise Refused(f"The files disagree on the version: {said}. Expected one. Make them agree.")
    return named["pyproject.toml"]


def write_version(root: Path, version: str, today: datetime.date) -> None:
    """Write the version into all files that name it, and its section into the changelog, from what is unreleased.

    Raises:
        Refused: nothing is unreleased.
    """
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    if not notes(changelog, UNRELEASED):
        raise Refused(f"{CHANGELOG} says nothing under {UNRELEASED}. Expected what users will notice. Write it.")
    dated = changelog.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} ({today:%Y-%m-%d})\n", 1)
    (root / CHANGELOG).write_text(dated, encoding="utf-8")
    for file in VERSIONED:
        text = re.sub(VERSIONED[file], version, (root / file).read_text(encoding="utf-8"), count=1)
        (root / file).write_text(re.sub(r"(?<=\ndate-released: )\S+", f"{today:%Y-%m-%d}", text), encoding="utf-8")


def _find(root: Path, file: str) -> str:
    found = re.search(VERSIONED[file], (root / file).read_text(encoding="utf-8"))
    if not found:
        raise Refused(f"{file} names no version. Expected one that fits {VERSIONED[file]!r}. Write it there.")
    return found[0]
