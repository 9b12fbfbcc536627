"""Files: built datasets, importers of prediction formats, journals, downloads, atomic writes; paths and checksums.

Nearly all packages import it; so it imports nothing large. The names of files and folders are stored formats.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from kbbench_hf.errors import UsageError

RUN = "run.json"
"""The file of a run folder with the settings and facts of the run."""
STDIN = "-"
"""The path of standard input."""
_STDIN_NAMES = {STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}


def user_path(path: str | Path) -> Path:
    """Return a user's path with `~` and environment variables expanded; unchanged if it exists as it is."""
    given = Path(path)
    return given if given.exists() else Path(os.path.expandvars(given)).expanduser()


def shown_name(path: Path) -> str:
    """Return the name of a file or folder for messages: the last part of its path; the whole path of anything else.

    Standard input (`-`) is named in words.
    """
    if str(path) == STDIN:
        return "standard input"
    return path.name if path.is_file() or path.is_dir() else str(path)


def annotations_folder(predictions: Path) -> Path:
    """Return the folder of annotations of a predictions file: `annotations` of its run, or beside it.

    >>> str(annotations_folder(Path("runs/mine/predictions.jsonl")))
    'runs/mine/annotations'
    >>> str(annotations_folder(Path("answers/mine.jsonl.gz")))
    'answers/mine.annotations'
    """
    if predictions.name == "predictions.jsonl":
        return predictions.parent / "annotations"
    return predictions.parent / f"{predictions.name.removesuffix('.gz').removesuffix('.jsonl')}.annotations"


def is_pipe(path: str | Path) -> bool:
    """Return whether a path is standard input or a pipe, which can be read only once."""
    return str(path) in _STDIN_NAMES or Path(path).is_fifo()


def refuse_stdin_twice(paths: Iterable[object]) -> None:
    """Refuse paths of which more than one is standard input.

    Raises:
        UsageError: standard input would be read twice.

    >>> refuse_stdin_twice(["-", "answers.jsonl"])
    """
    named = [str(path) for path in paths if str(path) in _STDIN_NAMES]
    if len(named) > 1:
        raise UsageError(
            f"Standard input is named {len(named)} times ({', '.join(named)}) and can be read once; expected it once. "
            "Save one of the inputs to a file and name the file."
        )


def file_sha256(file: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
