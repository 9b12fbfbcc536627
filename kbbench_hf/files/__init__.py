"""What is on disk: datasets, JSON Lines, journals, downloads, and files that are there whole or not at all."""

import hashlib
from pathlib import Path


def file_sha256(file: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
