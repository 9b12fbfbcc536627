"""`kbbench leaderboard`: look after a leaderboard's store."""

import getpass
import sys
from functools import partial
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark, importable_names, shipped_answers
from kbbench_hf.cli.names import NAME, FilePath
from kbbench_hf.errors import UsageError
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.rescore import rescore
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from kbbench_hf.reports.terminal import echo


def _existing(_context: click.Context, _option: click.Parameter, root: Path) -> Store:
    if not any((root / part).is_dir() for part in ("submissions", "events")):
        raise UsageError(
            f"{root} is no leaderboard's store; expected a folder with submissions. Name one with --store, or "
            f"make one: kbbench leaderboard seed --store {root}"
        )
    return Store(root)


_store = partial(click.option, "--store", type=FilePath(), default=Path("kbbench-leaderboard"), show_default=True)
NEW_STORE, STORE = _store(), _store(callback=_existing)


@click.group()
def command() -> None:
    """Look after a leaderboard's store: seed, re-score, check, hide.

    Example: kbbench leaderboard rescore --all
    """


@command.command()
@NEW_STORE
def seed(store: Path) -> None:
    """Store our own runs: the answers shipped with the mini benchmarks, scored now."""
    for dataset in sorted(importable_names()):
        for file in shipped_answers(dataset):
            receipt = store_preview(Store(store), preview(file, dataset), System(file.stem), "kbbench", origin="own")
            echo(f"{receipt.id}  {benchmark(dataset).title}: {file.stem}")


@command.command("rescore")
@STORE
@click.option("--all", "everything", is_flag=True, help="Every submission on the board.")
@click.argument("submissions", nargs=-1, type=NAME)
def rescore_(store: Store, everything: bool, submissions: tuple[str, ...]) -> None:
    """Score stored predictions again; exits 1 unless every figure is the same to the last bit."""
    if not (everything or submissions):
        raise UsageError("No submission is named; expected some, or --all.")
    found = [rescore(store, each) for each in (store.visible() if everything else submissions)]
    for each in found:
        echo(f"{each.submission}  {each.outcome}{f': {each.detail}' if each.detail else ''}")
    same = sum(each.outcome == "identical" for each in found)
    echo(f"{same:,} of {len(found):,} identical")
    sys.exit(0 if same == len(found) else 1)


@command.command()
@STORE
def audit(store: Store) -> None:
    """Print the history: who stored, hid or showed what, when and why."""
    for event in store.events:
        reason = f"  {event.reason}" if event.reason else ""
        echo(f"{event.number:6}  {event.time}  {event.action:6}  {event.submission}  {event.actor}{reason}")


@command.command()
@STORE
@click.argument("submission", type=NAME)
@click.option("--reason", type=NAME, required=True, help="Kept in the history, and shown to whoever asks.")
@click.option("--undo", is_flag=True, help="Put it back on the board.")
def rollback(store: Store, submission: str, reason: str, undo: bool) -> None:
    """Take SUBMISSION off the board; its files stay."""
    (store.show if undo else store.hide)(submission, getpass.getuser(), reason)
    echo(f"{submission} is {'on' if undo else 'off'} the board.")


@command.command()
@STORE
@click.option("--recover", is_flag=True, help="Finish what a killed process left.")
def fsck(store: Store, recover: bool) -> None:
    """Check every file against its hash and every event against the one before; exits 1 if anything is wrong."""
    if recover:
        echo(f"{len(store.recover()):,} submissions recovered")
    problems = store.check()
    for problem in problems:
        echo(problem)
    n_events = Index(store).rebuild() if not problems else 0
    echo(f"{len(problems):,} problems" + ("" if problems else f"; index made again from {n_events:,} events"))
    sys.exit(1 if problems else 0)
