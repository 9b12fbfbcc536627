"""JSON Lines, read strictly: no repeated key, no NaN, no depth, no endless line; a problem is named with its line."""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NoReturn

from kbbench_hf.errors import UsageError

MAX_LINE_BYTES = 1_000_000
"""The longest line of a stranger's file."""
OWN_LINE_BYTES = 100_000_000
MAX_DEPTH = 8
MAX_BLANK_LINES = 100_000


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a predictions file: where (`file`, `line`, counted from 1) and what."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """Render as `file:line: message`."""
        return f"{self.file}{f':{self.line}' if self.line else ''}: {self.message}"


def prediction_files(paths: Iterable[Path]) -> list[Path]:
    """Return the JSON Lines files that paths stand for; a folder stands for its `.jsonl` and `.jsonl.gz` files."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            own = path / "predictions.jsonl"
            found = [own] if own.is_file() else sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
            if not found:
                raise UsageError(f"{path} holds no .jsonl file; expected predictions in JSON Lines. Name the file.")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(f"{path} does not exist; expected a predictions file or folder. Check the path.")
    return files


def read_lines(paths: Iterable[Path], max_bytes: int | None) -> Iterator[tuple[str, int, object]]:
    """Yield (file, line, its value or the Problem with it) of every line that is not blank.

    At most `max_bytes` are read, after decompression, and no line of over 1 MB; None is for files of one's own, whose
    lines may hold a ranking of a whole knowledge base.
    """
    n_bytes = n_blank = 0
    longest = OWN_LINE_BYTES if max_bytes is None else MAX_LINE_BYTES
    for file in prediction_files(paths):

        def problem(number: int, message: str, name: str = file.name) -> tuple[str, int, Problem]:
            return name, number, Problem(name, number, message)

        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as source:
            for number in count(1):
                try:
                    text = source.readline(longest + 1)
                except (OSError, EOFError, zlib.error) as error:
                    yield problem(number, f"cannot be read: {error}")
                    break
                if not text:
                    break
                n_bytes += len(text)
                n_blank += not text.strip()
                if max_bytes is not None and n_bytes > max_bytes:
                    yield problem(number, f"more than {max_bytes:,} bytes when expanded")
                    return
                if n_blank > MAX_BLANK_LINES:
                    yield problem(number, f"more than {MAX_BLANK_LINES:,} blank lines")
                    return
                if len(text) > longest:
                    yield problem(number, f"longer than {longest:,} bytes; one example is one line")
                    break
                if text.strip():
                    try:
                        yield file.name, number, load_line(text)
                    except ValueError as error:
                        yield problem(number, str(error))


def load_line(text: bytes) -> object:
    """Parse one line of strict JSON: no duplicate keys, no NaN or infinity, no deep nesting.

    Raises:
        ValueError: what is wrong, in words.
    """
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if _depth_exceeds(value, MAX_DEPTH):
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"key {next(key for key in counts if counts[key] > 1)!r} stands twice in one object")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; expected a finite number")


def _depth_exceeds(value: object, limit: int) -> bool:
    if isinstance(value, dict):
        return limit == 0 or any(_depth_exceeds(item, limit - 1) for item in value.values())
    if isinstance(value, list):
        return limit == 0 or any(_depth_exceeds(item, limit - 1) for item in value)
    return False
