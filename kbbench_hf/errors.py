"""The errors a user can meet: each message says what was found, what was expected and what to do.

Every package raises these; `cli` prints the message and exits with `exit_code`. Scripts of users depend on the exit
codes and on `code`.
"""

import shlex
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from itertools import islice
from typing import ClassVar


class KBBenchError(Exception):
    """A check or a run failed. The message has three parts: the offending value, the expectation, the remedy."""

    exit_code: ClassVar[int] = 1
    code: str = "failed"
    """The identifier for programs; `--json` prints it."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code


class UsageError(KBBenchError):
    """The call itself is wrong: an unknown name, an impossible option, a missing extra."""

    exit_code = 2
    code = "usage"


class DataError(KBBenchError):
    """The input is wrong: malformed lines, unknown or duplicate ids, a checksum that does not match."""

    exit_code = 65
    code = "data"


class BusyError(KBBenchError):
    """Another process holds the lock of the run or the store; try again later."""

    exit_code = 75
    code = "busy"


class InterruptedRunError(KeyboardInterrupt):
    """SIGINT or SIGTERM stopped the run; the answers that had arrived are kept.

    It is a KeyboardInterrupt and no Exception: `except Exception` around a run in a sweep does not catch Ctrl-C.
    """

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("Interrupted. All replies received so far are kept; start the same run again to resume.")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that is not in a table: the closest known name, then all of them.

    >>> print(unknown_name("benchmark", "moves", ["movies", "music"]))
    Unknown benchmark 'moves'. Did you mean 'movies'? Known: movies, music.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return UsageError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(names) or 'none'}.")


def first_of(values: Iterable[object], most: int = 10, show: Callable[[object], str] = str) -> str:
    """Return the first of some values for a message, and " ..." where there are more than `most`.

    >>> first_of(range(12), 3), first_of(["a"], show=repr)
    ('0, 1, 2 ...', "'a'")
    """
    listed = [*islice(values, most + 1)]
    return ", ".join(map(show, listed[:most])) + (" ..." if len(listed) > most else "")


def missing_extra(package: str, extra: str) -> UsageError:
    """Return the error for an optional package that is not installed, with the command that installs it.

    >>> print(missing_extra("torch", "models"))  # doctest: +ELLIPSIS
    The package 'torch' is not installed; this needs it. Install it: ... -m pip install 'kbbench-hf[models]'
    """
    return UsageError(f"The package {package!r} is not installed; this needs it. Install it: {install(extra)}")


def install(extra: str = "") -> str:
    """Return the command that installs an extra beside this very installation, to be pasted."""
    what = f"'kbbench-hf[{extra}]'" if extra else "kbbench-hf"
    return f"{shlex.quote(sys.executable)} -m pip install {what}"
