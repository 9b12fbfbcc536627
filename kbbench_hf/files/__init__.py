"""What is on disk: datasets, JSON Lines, journals, downloads, and files that are there whole or not at all."""

import hashlib
import os
from pathlib import Path

STDIN = "-"
"""The path that stands for standard input."""


def user_path(path: str | Path) -> Path:
    """Return a path as its user means it: `~` and environment variables expanded, unless a file has that very name."""
    given = Path(path)
    return given if given.exists() else Path(os.path.expandvars(given)).expanduser()


def shown_name(path: Path) -> str:
    """Return what messages call a file: its name; a pipe has none, and is called by its path."""
    return "standard input" if str(path) == STDIN else path.name if path.is_file() or path.is_dir() else str(path)


def file_sha256(file: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
