"""`kbbench leaderboard`: look after a leaderboard's store."""

import getpass
import sys
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path

import click

from kbbench_hf.benchmarks import place_of
from kbbench_hf.cli.names import NAME, FilePath
from kbbench_hf.cli.options import MODE, on_benchmark, read_how
from kbbench_hf.errors import UsageError
from kbbench_hf.hub.connection import check_name, connection
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.records import System
from kbbench_hf.leaderboard.rescore import rescore
from kbbench_hf.leaderboard.restoring import Restored, lacks
from kbbench_hf.leaderboard.seeding import Seed, released_seeds, run_seed, shipped_seeds, sow
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.reports.terminal import echo
from kbbench_hf.scoring.options import ReadOptions

SEEDED_BY = "kbbench"
"""The submitter of the rows with which a board begins."""

STORE = click.option("--store", type=FilePath(), default=Path("kbbench-leaderboard"), show_default=True)
_results = partial(click.option, "--results", type=NAME, metavar="OWNER/NAME")
RESULTS = _results(
    help="The store's dataset on the Hub: what --store lacks is fetched from it first, and what is new is sent to it."
)


@click.group()
def command() -> None:
    """Look after a leaderboard's store, here or on the Hub: seed, copy, re-score, check, mend, hide.

    Example: kbbench leaderboard sync --results OWNER/NAME
    """


@command.command()
@STORE
@click.argument("sources", nargs=-1, type=FilePath(exists=True))
@on_benchmark
@MODE
@click.option("--name", type=NAME, help="The system, where SOURCES is one file or run.")
@click.option("--link", default="", help="Where a file is from.")
@click.option("--licence", default="", help="Under which its source hands it on; figures alone are kept without one.")
@click.option("--notes", default="", help="What else is to be known of it.")
@read_how
def seed(
    store: Path,
    sources: tuple[Path, ...],
    benchmark: str | None,
    split: str | None,
    mode: str | None,
    name: str | None,
    link: str,
    licence: str,
    notes: str,
    read_options: ReadOptions,
) -> None:
    """Begin a board with what you have: score it again and store it, each row with where it is from.

    Without SOURCES these are our own runs on the mini benchmarks, and the answers of published systems that datasets
    built here bring with them. SOURCES are folders of your runs, or one file of answers that somebody released.

    Example: kbbench leaderboard seed kbbench-runs/mini-stark/*
    """
    if name and len(sources) != 1:
        raise UsageError(f"--name names one system, and there are {len(sources)} sources. Leave it out, or name one.")
    seeds: Iterable[Seed] = [*shipped_seeds(), *released_seeds()]
    if sources and benchmark is None:
        seeds = [run_seed(each, name) for each in sources]
    elif sources:
        if len(sources) != 1 or not name:
            raise UsageError(
                "A file that somebody released is seeded alone, with its --name. Name one file and system."
            )
        where = place_of(benchmark or "", split=split, mode=mode)
        said = System(name, link, licence or "none stated", notes=notes)
        seeds = [Seed(where, sources[0], said, "released", not licence, read_options)]
    for each, receipt in sow(Store(store), seeds, SEEDED_BY):
        state = "  (was there already)" if receipt.existed else "  (figures only)" if each.figures_only else ""
        echo(f"{receipt.id}  {each.place}: {each.system.name}{state}")


@command.command()
@STORE
@_results(required=True, help="The store's dataset on the Hub; made where there is none.")
@click.option("--dry-run", is_flag=True, help="Only say what would be fetched and sent.")
def sync(store: Path, results: str, dry_run: bool) -> None:
    """Make a store and its dataset on the Hub alike: fetch what is new there, send what is new here.

    To move a store, sync it with the old dataset, then with the new one.
    """
    outbox = _outbox(store, results)
    with connection(results):
        if dry_run:
            outbox.repository.refresh()
        else:
            _say(outbox.fetch(create=True))
            echo(f"sent {outbox.flush():,} files")
    lacking = lacks(outbox.store, outbox.repository)
    waiting = outbox.backlog()
    echo(f"on the Hub: {len(outbox.durable()):,} of the submissions here; there alone: {len(lacking):,}")
    echo(f"backlog: {len(waiting):,} submissions in {len(outbox.pending()):,} files wait for {results}")
    sys.exit(1 if (lacking or waiting) and not dry_run else 0)


@command.command("rescore")
@STORE
@RESULTS
@click.option("--all", "everything", is_flag=True, help="Every submission on the board.")
@click.argument("submissions", nargs=-1, type=NAME)
def rescore_(store: Path, results: str | None, everything: bool, submissions: tuple[str, ...]) -> None:
    """Score stored predictions again; exits 1 unless every figure is the same to the last bit.

    Rows of which only figures are kept do not count.
    """
    if not (everything or submissions):
        raise UsageError("No submission is named; expected some, or --all.")
    opened, _ = _opened(store, results, None if everything else submissions)
    found = [rescore(opened, each) for each in (opened.visible() if everything else submissions)]
    for each in found:
        echo(f"{each.submission}  {each.outcome}{f': {each.detail}' if each.detail else ''}")
    kept = [each for each in found if each.outcome != "figures only"]
    same = sum(each.outcome == "identical" for each in kept)
    echo(f"{same:,} of {len(kept):,} identical")
    sys.exit(0 if same == len(kept) else 1)


@command.command()
@STORE
@RESULTS
def audit(store: Path, results: str | None) -> None:
    """Print the history: who stored, hid or showed what, when and why."""
    opened, _ = _opened(store, results, ())
    for event in opened.events:
        reason = f"  {event.reason}" if event.reason else ""
        echo(f"{event.number:6}  {event.time}  {event.action:6}  {event.submission}  {event.actor}{reason}")


@command.command()
@STORE
@RESULTS
@click.argument("submission", type=NAME)
@click.option("--reason", type=NAME, required=True, help="Kept in the history, and shown to whoever asks.")
@click.option("--undo", is_flag=True, help="Put it back on the board.")
def rollback(store: Path, results: str | None, submission: str, reason: str, undo: bool) -> None:
    """Take SUBMISSION off the board; its files stay."""
    opened, outbox = _opened(store, results, (submission,))
    (opened.show if undo else opened.hide)(submission, getpass.getuser(), reason)
    where = ""
    if outbox:
        with connection(outbox.repository.name):
            outbox.flush()
        where = f" A Space of {outbox.repository.name} shows it so within a minute or two."
    echo(f"{submission} is {'on' if undo else 'off'} the board.{where}")


@command.command()
@STORE
@RESULTS
@click.option("--recover", is_flag=True, help="Mend what can be mended: from the Hub's copy, and the Hub's from here.")
def fsck(store: Path, results: str | None, recover: bool) -> None:
    """Check every file against its hash and every event against the one before; exits 1 if anything is wrong.

    With --results the Hub's copy is checked too, file by file.
    """
    opened, outbox = _opened(store, results)
    if recover:
        echo(f"{len(opened.recover()):,} submissions recovered")
    if recover and outbox:
        with connection(outbox.repository.name):
            _say(outbox.fetch(check=True))
            n_other = len(outbox.verify())
            echo(f"{n_other:,} files other on the Hub; sent {outbox.flush():,}")
    problems = opened.check()
    if outbox:
        with connection(outbox.repository.name):
            problems += outbox.verify()
        waiting = outbox.backlog()
        echo(
            f"backlog: {len(waiting):,} submissions wait for the Hub"
            + (f"; send them: {_sync(store, results)}" if waiting else "")
        )
    for problem in problems:
        echo(problem)
    n_events = Index(opened).rebuild()
    echo(f"{len(problems):,} problems; index made again from {n_events:,} events")
    if problems and not recover:
        echo(f"Mend what can be mended: kbbench leaderboard fsck --recover --store {store} --results OWNER/NAME")
    sys.exit(1 if problems else 0)


def _opened(root: Path, results: str | None, only: Collection[str] | None = None) -> tuple[Store, Outbox | None]:
    """Return a store that is there, or was fetched from the Hub: its events, and its submissions, all or some."""
    if results:
        outbox = _outbox(root, results)
        with connection(results):
            _say(outbox.fetch(only))
        return outbox.store, outbox
    if not any((root / part).is_dir() for part in ("submissions", "events")):
        raise UsageError(
            f"{root} is no leaderboard's store; expected a folder with submissions. Name one with --store, "
            f"fetch one: kbbench leaderboard sync --results OWNER/NAME --store {root}, or "
            f"make one: kbbench leaderboard seed --store {root}"
        )
    return Store(root), None


def _outbox(root: Path, results: str) -> Outbox:
    check_name(results)
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    disable_progress_bars()
    return Outbox(Store(root), results, HfApi())


def _say(done: Restored) -> None:
    """Say what came of a look at the Hub, and what is wrong there."""
    if done.n_events or done.n_submissions or done.recovered:
        again = f"; {len(done.recovered):,} have a new event" if done.recovered else ""
        echo(f"fetched {done.n_submissions:,} submissions and {done.n_events:,} events{again}")
    for line in (*done.problems, *done.lost):
        echo(line, err=True)


def _sync(store: Path, results: str | None) -> str:
    return f"kbbench leaderboard sync --store {store} --results {results}"
