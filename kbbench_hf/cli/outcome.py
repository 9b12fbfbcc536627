"""How a command ends: its exit code, and of every error one message, never a stack trace unless asked for."""

import atexit
import errno
import json
import shlex
import signal
import traceback
from contextlib import suppress

import click
from click.exceptions import NoArgsIsHelpError

from kbbench_hf.cli.verbs import RESUMABLE, kbbench
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.reports.terminal import called_as, echo, finish, prepare


class Interrupted(KBBenchError):
    """The user said so."""

    exit_code = 130
    code = "interrupted"


REMEDIES = {
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Expected a folder where a file is. Name another place.",
    errno.EEXIST: "Expected a folder, or nothing yet. Name another place.",
    errno.EISDIR: "Expected a file. Name one in that folder.",
    errno.EACCES: "Expected a place that you may read and write. Change its permissions, or name another.",
    errno.EROFS: "Expected a place that can be written. Name another.",
    errno.ENAMETOOLONG: "Expected a name of at most 255 bytes. Name another.",
    errno.ELOOP: "Expected a link that leads to a file or folder; this one leads back to itself. Name what is meant.",
    errno.ENOSPC: "Expected room on the disk. Make some, or name a place on another disk.",
}
REMEDIES |= {
    errno.EPERM: REMEDIES[errno.EACCES],
    errno.EDQUOT: REMEDIES[errno.ENOSPC],
    errno.EFBIG: REMEDIES[errno.ENOSPC],
}
"""What can be done where the operating system refuses."""


def exit_code(arguments: list[str]) -> int:
    """Run a command line, print what there is to say of its end, and return its exit code."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # it ends already: no trace from a second Ctrl-C
    prepare()
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    code, error = _run(arguments, debug)
    unwritten = finish()
    if unwritten and not code:
        error = explained(unwritten)
    if error is None:
        return code
    with suppress(OSError):  # where standard error is full, too, the exit code must do
        echo(f"kbbench: {error}", err=True)
        if error.exit_code == Interrupted.exit_code and arguments[0] in RESUMABLE:
            echo(f"To go on: {called_as()} {shlex.join(arguments)}", err=True)
        if "--json" in arguments and not unwritten:
            click.echo(json.dumps({"error": {"code": error.code, "message": str(error)}}, indent=2))
    finish()
    return error.exit_code


def _run(arguments: list[str], debug: bool) -> tuple[int, KBBenchError | None]:
    try:
        return int(kbbench.main(arguments, prog_name="kbbench", standalone_mode=False) or 0), None
    except SystemExit as stopped:
        return (stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)), None
    except NoArgsIsHelpError as error:
        echo(error.format_message())
        return error.exit_code, None
    except BaseException as error:
        with suppress(OSError):
            if debug:
                traceback.print_exc()
        found = explained(error)
        return found.exit_code, found


def explained(error: BaseException) -> KBBenchError:
    """Return an error as its user should meet it: with an exit code, and words that say what to do.

    >>> print(explained(FileNotFoundError(2, "No such file or directory", "runs/mine")))
    runs/mine: No such file or directory. Check the path.
    """
    if isinstance(error, KBBenchError):
        return error
    if isinstance(error, click.UsageError):
        return UsageError(f"{error.format_message()}{f' See: {error.ctx.command_path} --help' if error.ctx else ''}")
    if isinstance(error, click.ClickException):
        return KBBenchError(error.format_message())
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Interrupted(str(error) or "Interrupted.")
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("kbbench_hf"):
        return UsageError(
            f"The package {error.name!r} is not installed; this needs it. Which extra has it: kbbench doctor"
        )
    if isinstance(error, OSError) and error.errno in REMEDIES:
        where = error.filename2 or error.filename
        return KBBenchError(f"{f'{where}: ' if where else ''}{error.strerror}. {REMEDIES[error.errno]}")
    if isinstance(error, OSError):
        return KBBenchError(f"{str(error).rstrip('.')}. Expected a place or an address that answers. Check it.")
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) or type(error).__name__ == "ArrowInvalid":
        return DataError(f"A file is damaged: {str(error).rstrip('.')}. Expected it as it was written. Make it again.")
    if type(error).__module__ == "sqlite3":
        return KBBenchError(
            f"The index of the leaderboard's store cannot be used: {error}. Expected a store that you may write, "
            "with room on the disk. Change its permissions, or make the index again: kbbench leaderboard fsck"
        )
    return KBBenchError(
        f"{type(error).__name__}: {error}. This is a mistake in kbbench, not in your call. To see where, add --debug; "
        "please report it.",
        code="defect",
    )
