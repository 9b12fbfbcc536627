"""`kbbench status`: how far runs are, from their files; pause, resume and slow down a run that goes on."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kbbench_hf.cli.options import JSON, FilePath, flag, option
from kbbench_hf.errors import UsageError
from kbbench_hf.files import RUN
from kbbench_hf.files.heartbeat import CONCURRENCY, PAUSE, write_control
from kbbench_hf.reports.terminal import echo, print_json
from kbbench_hf.runners.cost import duration
from kbbench_hf.runners.run_status import ALIVE, COMPLETE, FINISHED, PAUSED, StatusReader, WorkStatus

REDRAW_S, PRINT_S = 1.0, 10.0
"""Seconds between two readings of --watch, on a terminal and elsewhere."""
RESULT_S = 60.0
"""Seconds for which --watch waits for the result of a run whose examples are all done."""


@click.command()
@click.argument("run", type=FilePath(exists=True, file_okay=False), default=Path("kbbench-runs"))
@flag("--all all_runs", "Show all runs in the folder RUN, by default kbbench-runs.")
@flag("--watch", "Repeat until no process runs; on a pipe, where it changed.")
@flag("--pause", "Let the processes finish what is under way, and wait.")
@flag("--resume", "Let the processes of a paused run go on.")
@option("--concurrency", "Set the maximum concurrent requests of each process.", click.IntRange(1))
@JSON
def command(
    run: Path, all_runs: bool, watch: bool, pause: bool, resume: bool, concurrency: int | None, json_output: bool
) -> None:
    """Show how far RUN is: examples done, failed and under way, rate, cost, time left.

    Everything is read from the run folder, on any machine that sees it. What is under way is of the last report of
    each process, at most a second before. Processes obey --pause, --resume and --concurrency within about a second.

    Examples:
      kbbench status kbbench-runs/mini-stark/queries-test-bm25-1a2b3c4d
      kbbench status --all --watch
      kbbench status shared --pause
    """
    steers = pause or resume or concurrency is not None
    if (pause and resume) or (watch and (json_output or steers)) or (steers and all_runs):
        raise UsageError(
            "--pause, --resume and --concurrency are for one run, --watch prints no JSON; expected a call for one "
            "purpose. Leave the other options out."
        )
    folders = sorted(file.parent for file in run.glob(f"**/{RUN}")) if all_runs else [run]
    readers = [StatusReader(folder) for folder in folders]
    if steers:
        changes = {"paused": pause} if pause or resume else {}
        _steer(run, readers[0].read(), changes | ({"concurrency": concurrency} if concurrency else {}))
    if watch:
        _watch(readers)
        return
    statuses = [reader.read() for reader in readers]
    if json_output:
        print_json([asdict(each) for each in statuses] if all_runs else asdict(statuses[0]))
        return
    for each in statuses:
        for line in _lines(each):
            echo(line)


def _steer(run: Path, status: WorkStatus, changes: dict[str, object]) -> None:
    """Write the control file of a run, which its processes read; print a note if none runs.

    Raises:
        UsageError: the run is finished, or a process cannot do this.
    """
    works = [status, *status.annotations]
    if all(work.state == FINISHED for work in works):
        raise UsageError(f"{run} is finished; expected a run that goes on or can be resumed. Name another.")
    alive = [each for work in works for each in work.processes if each.state in ALIVE]
    for ability in [PAUSE] * ("paused" in changes) + [CONCURRENCY] * ("concurrency" in changes):
        if unable := [each for each in alive if ability not in each.abilities]:
            raise UsageError(
                f"--{ability}: {unable[0].name} of {run} cannot do that: it sends no requests, or works with "
                "others that would wait in vain. Stop it, and start the same command again."
            )
    write_control(run, **changes)
    if not alive:
        echo(f"No process of {run} reports here; one that starts will obey.", err=True)


def _watch(readers: Sequence[StatusReader]) -> None:
    """Print the status again and again until no process runs; on a pipe only where it changed."""
    before, changed, shows = "", 0.0, sys.stdout.isatty()
    while True:
        statuses = [reader.read() for reader in readers]
        text = "\n".join(line for each in statuses for line in _lines(each))
        if shows:
            click.clear()
        if shows or text != before:
            echo(text)
        if text != before:
            before, changed = text, time.monotonic()
        states = {work.state for each in statuses for work in (each, *each.annotations)}
        if states.isdisjoint(ALIVE) and (COMPLETE not in states or time.monotonic() - changed > RESULT_S):
            return
        time.sleep(REDRAW_S if shows else PRINT_S)


def _lines(status: WorkStatus) -> Iterator[str]:
    """Yield a line for a run, one for each of its processes if there are several, and those of its annotations."""
    yield _status_line(status)
    for each in status.processes if len(status.processes) > 1 else ():
        yield f"  {_status_line(each)}"
    for each in status.annotations:
        yield from (f"  {line}" for line in _lines(each))


def _status_line(status: WorkStatus) -> str:
    """Return the name and the state of a run or a process, and the facts that are known."""
    rate, left = status.rate_per_s or 0, status.seconds_left
    kinds = ", ".join(f"{why} {n:,}" for why, n in sorted(status.failed.items()))
    parts = {
        f"{status.n_done or 0:,}{f' of {status.n_total:,}' if status.n_total else ''} done": status.n_done is not None,
        f"{sum(status.failed.values()):,} of them failed ({kinds})": status.failed,
        f"{status.under_way:,}{f' of at most {status.concurrency}' if status.concurrency else ''} under way": (
            status.state in ALIVE and (status.under_way or status.n_done is not None)
        ),
        f"{rate:,.1f}/s" if rate >= 1 else f"{1 / (rate or 1):,.1f} s each": rate and status.state != PAUSED,
        f"{status.cost or 0:.4f} {status.currency}": status.cost is not None,
        f"{duration(left or 0)} left": left is not None,
    }
    shown = ", ".join([status.state, *(part for part, is_known in parts.items() if is_known)])
    return f"{status.name}: {shown}{f' ({status.note})' if status.note else ''}"
