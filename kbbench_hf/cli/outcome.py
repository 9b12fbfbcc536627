"""Exit codes and error messages of commands; a stack trace only with --debug.

Every command runs through `exit_code`. The exit codes, and the `error` of `--json`, are public.
"""

import atexit
import errno
import json
import re
import shlex
import signal
import traceback
from contextlib import suppress

import click
from click.exceptions import NoArgsIsHelpError

from kbbench_hf.cli.verbs import RESUMABLE, kbbench
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.reports.terminal import called_as, echo, finish, has_printed_json, prepare, print_json


class Interrupted(KBBenchError):
    """The user pressed Ctrl-C."""

    exit_code = 130
    code = "interrupted"


REMEDIES = {
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Expected a folder, and this is a file. Name another path.",
    errno.EEXIST: "Expected a folder or a new path. Name another path.",
    errno.EISDIR: "Expected a file. Name one in that folder.",
    errno.EACCES: "Expected a path that you may read and write. Change its permissions, or name another.",
    errno.EROFS: "Expected a writable path. Name another.",
    errno.ENAMETOOLONG: "Expected a name of at most 255 bytes. Name another.",
    errno.ELOOP: "Expected a link to a file or folder; this one links to itself. Name another path.",
    errno.ENOSPC: "Expected free space on the disk. Free some, or name a path on another disk.",
}
REMEDIES |= {
    errno.EPERM: REMEDIES[errno.EACCES],
    errno.EDQUOT: REMEDIES[errno.ENOSPC],
    errno.EFBIG: REMEDIES[errno.ENOSPC],
}
"""Error number of the operating system -> expectation and remedy, which follow its own message."""


def exit_code(arguments: list[str]) -> int:
    """Run a command line, print its error message if any, and return its exit code."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # no stack trace from a second Ctrl-C while it exits
    prepare()
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    code, error = _run(arguments, debug)
    unwritten = finish()
    if unwritten and not code:
        error = as_kbbench_error(unwritten)
    if error is None:
        return code
    with suppress(OSError):  # if standard error cannot be written either, only the exit code is left
        echo(f"kbbench: {error}", err=True)
        if error.exit_code == Interrupted.exit_code and arguments[0] in RESUMABLE:
            echo(f"To resume: {called_as()} {shlex.join(arguments)}", err=True)
        if "--json" in arguments and not unwritten and not has_printed_json():
            print_json({"error": {"code": error.code, "message": str(error)}})
    finish()
    return error.exit_code


def _run(arguments: list[str], debug: bool) -> tuple[int, KBBenchError | None]:
    """Return the exit code of a command line, and its error if there is one."""
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
        converted = as_kbbench_error(error)
        return converted.exit_code, converted


def as_kbbench_error(error: BaseException) -> KBBenchError:
    """Return an error with an exit code and a message that names the remedy.

    >>> print(as_kbbench_error(FileNotFoundError(2, "No such file or directory", "runs/mine")))
    runs/mine: No such file or directory. Check the path.
    """
    if isinstance(error, KBBenchError):
        return error
    if isinstance(error, click.UsageError):
        return UsageError(f"{error.format_message()}{_help_of(error)}")
    if isinstance(error, click.ClickException):
        return KBBenchError(error.format_message())
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Interrupted(str(error) or "Interrupted.")
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("kbbench_hf"):
        return UsageError(
            f"The package {error.name!r} is not installed. To see which extra has it, run: kbbench doctor"
        )
    if isinstance(error, OSError) and error.errno in REMEDIES:
        where = error.filename2 or error.filename
        return KBBenchError(f"{f'{where}: ' if where else ''}{error.strerror}. {REMEDIES[error.errno]}")
    if isinstance(error, OSError):
        return KBBenchError(
            f"{str(error).rstrip('.')}. Expected an existing path, or an address that responds. Check it."
        )
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) or type(error).__name__ == "ArrowInvalid":
        return DataError(f"A file is damaged: {str(error).rstrip('.')}. Create the file again.")
    if type(error).__module__ == "sqlite3":
        return KBBenchError(
            f"The index of the leaderboard cannot be used: {error}. Expected a folder that you may write, with free "
            "space on the disk. Change its permissions, or rebuild the index: kbbench leaderboard fsck"
        )
    return KBBenchError(
        f"{type(error).__name__}: {error}. This is a bug in kbbench. Add --debug for the stack trace, and please "
        "report it.",
        code="defect",
    )


def _help_of(error: click.UsageError) -> str:
    """Return a sentence with the command's help, and an example of a call if an argument is missing."""
    if error.ctx is None:
        return ""
    calls = re.findall(rf"\b{re.escape(error.ctx.command_path)} .+", error.ctx.command.help or "")
    example = next((call for call in calls if "NAME" not in call), "")
    example = f", for example: {example}" if example and isinstance(error, click.MissingParameter) else ""
    return f" See: {error.ctx.command_path} --help{example}"
