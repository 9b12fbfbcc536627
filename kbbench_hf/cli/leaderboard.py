"""`kbbench leaderboard`: administer a leaderboard."""

import getpass
import sys
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path

import click

from kbbench_hf.benchmarks import task_key_of
from kbbench_hf.cli.options import MODE, NAME, STORE, Command, FilePath, flag, on_benchmark, option, with_read_options
from kbbench_hf.errors import UsageError
from kbbench_hf.hub.repository import check_name, connection
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox, Restored
from kbbench_hf.leaderboard.seeding import Seed, model_seeds, released_seeds, rescore, run_seed, shipped_seeds, sow
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.reports.terminal import echo
from kbbench_hf.scoring.options import ReadOptions

SEEDED_BY = "kbbench"
"""The submitter of seeded rows."""

_results = partial(click.option, "--results", type=NAME, metavar="OWNER/NAME")
_COPY = "The leaderboard's dataset on the Hub; missing files are downloaded from it, new ones uploaded to it."


def on_store(command: Command) -> Command:
    """Add --store and --results."""
    return STORE(_results(help=_COPY)(command))  # type: ignore[no-any-return]


@click.group()
def command() -> None:
    """Administer a leaderboard on this machine or on the Hub: seed, copy, re-score, check, repair, hide.

    Example: kbbench leaderboard sync --results OWNER/NAME
    """


@command.command()
@STORE
@click.argument("sources", nargs=-1, type=FilePath(exists=True))
@on_benchmark
@MODE
@option("--name", "Name of the system, if SOURCES is one file or run.")
@click.option("--link", default="", help="URL of the source of a file.")
@click.option(
    "--license",
    "--licence",
    "licence",
    default="",
    help="License of the predictions; without one only the scores are stored.",
)
@click.option("--notes", default="", help="Remarks on the system.")
@with_read_options
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
    """Seed a leaderboard: score runs and predictions again, and store each with its source.

    SOURCES are run folders, or one released predictions file. The default is our own runs on the mini benchmarks, and
    the predictions of published systems in the datasets built here.

    Example: kbbench leaderboard seed kbbench-runs/mini-stark/*
    """
    if name and len(sources) != 1:
        raise UsageError(f"--name is for one source, and there are {len(sources)}. Leave it out, or name one source.")
    seeds: Iterable[Seed] = [*shipped_seeds(), *model_seeds(), *released_seeds()]
    if sources and benchmark is None:
        seeds = [run_seed(each, name) for each in sources]
    elif sources:
        if len(sources) != 1 or not name:
            raise UsageError(
                "With --benchmark, expected one released file and its --name. Name one file and its system."
            )
        where = task_key_of(benchmark or "", split=split, mode=mode)
        system = System(name, link, licence or "none stated", notes=notes)
        seeds = [Seed(where, sources[0], system, "released", not licence, read_options)]
    for each, receipt in sow(Store(store), seeds, SEEDED_BY):
        state = "  (already stored)" if receipt.existed else "  (scores only)" if each.scores_only else ""
        echo(f"{receipt.id}  {each.task_key}: {each.system.name}{state}")


@command.command()
@STORE
@_results(required=True, help="The leaderboard's dataset on the Hub; created if it does not exist.")
@flag("--dry-run", "Print what would be downloaded and uploaded.")
def sync(store: Path, results: str, dry_run: bool) -> None:
    """Synchronize a leaderboard with its dataset on the Hub: download new files, then upload new files.

    To move a leaderboard, sync it with the old dataset, then with the new one.
    """
    outbox = _outbox(store, results)
    with connection(results):
        if dry_run:
            outbox.repository.refresh()
        else:
            _print_download(outbox.fetch(create=True))
            echo(f"uploaded {outbox.flush():,} files")
    lacking = outbox.lacking()
    waiting = outbox.backlog()
    echo(f"on the Hub: {len(outbox.durable()):,} of the local submissions; only there: {len(lacking):,}")
    echo(f"backlog: {len(waiting):,} submissions in {len(outbox.pending()):,} files wait for {results}")
    sys.exit(1 if (lacking or waiting) and not dry_run else 0)


@command.command("rescore")
@on_store
@flag("--all everything", "Re-score all submissions on the board.")
@click.argument("submissions", nargs=-1, type=NAME)
def rescore_(store: Path, results: str | None, everything: bool, submissions: tuple[str, ...]) -> None:
    """Score stored predictions again; exit code 1 unless all scores are identical to the last bit.

    Rows stored as scores only are not counted.
    """
    if not (everything or submissions):
        raise UsageError("No submission is named; expected ids of submissions. Name some, or use --all.")
    opened, _ = _open_store(store, results, None if everything else submissions)
    outcomes = [rescore(opened, each) for each in (opened.visible() if everything else submissions)]
    for each in outcomes:
        echo(f"{each.submission}  {each.outcome}{f': {each.detail}' if each.detail else ''}")
    scored = [each for each in outcomes if each.outcome != "scores only"]
    same = sum(each.outcome == "identical" for each in scored)
    echo(f"{same:,} of {len(scored):,} identical")
    sys.exit(0 if same == len(scored) else 1)


@command.command()
@on_store
def audit(store: Path, results: str | None) -> None:
    """Print the history of the leaderboard: time, action, submission, user, reason."""
    opened, _ = _open_store(store, results, ())
    for event in opened.events:
        reason = f"  {event.reason}" if event.reason else ""
        echo(f"{event.number:6}  {event.time}  {event.action:6}  {event.submission}  {event.actor}{reason}")


@command.command()
@on_store
@click.argument("submission", type=NAME)
@option("--reason", "Reason, shown in the public history.", required=True)
@flag("--undo", "Show it on the board again.")
def rollback(store: Path, results: str | None, submission: str, reason: str, undo: bool) -> None:
    """Hide SUBMISSION from the board; its files are kept."""
    opened, outbox = _open_store(store, results, (submission,))
    (opened.show if undo else opened.hide)(submission, getpass.getuser(), reason)
    where = ""
    if outbox:
        with connection(outbox.repository.name):
            outbox.flush()
        where = f" A Space of {outbox.repository.name} follows within two minutes."
    echo(f"{submission} is {'on' if undo else 'off'} the board.{where}")


@command.command()
@on_store
@flag("--recover", "Repair local files from the Hub, and the Hub's files from here.")
def fsck(store: Path, results: str | None, recover: bool) -> None:
    """Check the hashes of all files and events; exit code 1 if there is a problem.

    With --results, also check the files on the Hub.
    """
    opened, outbox = _open_store(store, results)
    if recover:
        echo(f"{len(opened.recover()):,} submissions recovered")
    if recover and outbox:
        with connection(outbox.repository.name):
            _print_download(outbox.fetch(check=True))
            n_other = len(outbox.verify())
            echo(f"{n_other:,} files differ on the Hub; uploaded {outbox.flush():,}")
    problems = opened.check()
    if outbox:
        with connection(outbox.repository.name):
            problems += outbox.verify()
        waiting = outbox.backlog()
        remedy = f"; send them: kbbench leaderboard sync --store {store} --results {results}" if waiting else ""
        echo(f"backlog: {len(waiting):,} submissions wait for the Hub{remedy}")
    for problem in problems:
        echo(problem)
    n_events = Index(opened).rebuild()
    echo(f"{len(problems):,} problems; index rebuilt from {n_events:,} events")
    if problems and not recover:
        echo(f"To repair: kbbench leaderboard fsck --recover --store {store} --results OWNER/NAME")
    sys.exit(1 if problems else 0)


def _open_store(root: Path, results: str | None, only: Collection[str] | None = None) -> tuple[Store, Outbox | None]:
    """Return an existing store; with `results` first download the events and submissions (`only` these) that it lacks.

    Raises:
        UsageError: the folder is not a store, and `results` is missing.
    """
    if results:
        outbox = _outbox(root, results)
        with connection(results):
            _print_download(outbox.fetch(only))
        return outbox.store, outbox
    if not any((root / part).is_dir() for part in ("submissions", "events")):
        raise UsageError(
            f"{root} is not a leaderboard; expected a folder with submissions. Name one with --store, "
            f"download one: kbbench leaderboard sync --results OWNER/NAME --store {root}, or "
            f"create one: kbbench leaderboard seed --store {root}"
        )
    return Store(root), None


def _outbox(root: Path, results: str) -> Outbox:
    check_name(results)
    return Outbox.of_hub(Store(root), results)


def _print_download(done: Restored) -> None:
    """Print the numbers of downloads from the Hub, and on stderr its problems and failed downloads."""
    if done.n_events or done.n_submissions or done.recovered:
        again = f"; {len(done.recovered):,} have a new event" if done.recovered else ""
        echo(f"downloaded {done.n_submissions:,} submissions and {done.n_events:,} events{again}")
    for line in (*done.problems, *done.lost):
        echo(line, err=True)
