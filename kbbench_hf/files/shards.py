"""Shards of a run on several machines: the examples of each one, the claim of its process, and its end.

Machines share the run folder and nothing else: no lock, no clock. A claim is a file that its process rewrites every few
seconds. Another process watches by its own clock whether the file still changes. A claim names the journal of its
process and its length: who goes on reads it as a whole, even if the disk shows it late.

Runs, judges and `synthesize` use it. Machines with different versions may share a folder: which shard owns an example
(`Shard.owns`), and the names of claims and markers, must stay.
"""

import functools
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

from kbbench_hf.errors import BusyError, KBBenchError, UsageError, first_of
from kbbench_hf.files.heartbeat import PAUSE, Heartbeat, bytes_of, is_alive, read_report

STALE_S = 20.0
"""A claim that has not changed for so many seconds is taken over; NFS caches attributes for some seconds."""
LATE_S = (0.5, 2.0, 5.0)
"""Pauses in seconds before a folder is read again: a network disk may show a file late."""
ARRAY = "SLURM_ARRAY_TASK_"
"""Beginning of the environment variables of a task of a Slurm array."""
_CLAIM = re.compile(r"claim\.(\d+)-of-(\d+)\.(\d+)\.json")
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Shard:
    """Shard `number` (from 1) of `count`; number 0 claims nothing: see `COLLECT`.

    >>> shard = Shard.parse("1/2", {})
    >>> str(shard), [name for name in "abcdef" if shard.owns(name)], shard.owns(2), shard.owns(3)
    ('1/2', ['a', 'b', 'c', 'd', 'f'], True, False)
    """

    number: int
    count: int
    is_divided: bool = field(default=False, compare=False)
    """Whether the caller has divided the examples: all that it passes on are in this shard."""

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str]) -> Self:
        """Return the shard of `K/N`, or of a task of a Slurm array by its environment.

        Raises:
            UsageError: it is neither.
        """
        match = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
        if text == "slurm":
            try:
                task, first, step, count = (int(environment[ARRAY + each]) for each in ("ID", "MIN", "STEP", "COUNT"))
            except (KeyError, ValueError):
                raise UsageError(
                    f"--shard slurm needs {ARRAY}ID, _MIN, _STEP and _COUNT, which tasks of a Slurm array have. "
                    "Start it with sbatch --array=1-N, or write --shard K/N."
                ) from None
            shard = cls((task - first) // step + 1, count)
        elif match is not None:
            shard = cls(int(match[1]), int(match[2]))
        else:
            raise UsageError(f"{text!r} is not a shard; expected K/N with K from 1 to N, or slurm. Write --shard 1/8.")
        if not 1 <= shard.number <= shard.count:
            raise UsageError(
                f"There is no shard {shard}; expected one from 1/{shard.count} to {shard.count}/{shard.count}."
            )
        return shard

    def __str__(self) -> str:
        """Return `K/N`."""
        return f"{self.number}/{self.count}"

    def owns(self, example: object) -> bool:
        """Return whether an example (by its id) or a batch (by its number) is in this shard, the same everywhere.

        Integers are divided in turn, other ids by a hash.
        """
        # another try of a prompt is in the shard of the first one, which knows that it is needed
        text = str(example).partition(", try ")[0]
        place = (
            example if isinstance(example, int) else int(sha256(text.encode("utf-8", "replace")).hexdigest()[:15], 16)
        )
        return self.number > 0 and (self.is_divided or place % self.count == self.number - 1)

    def file_name(self) -> str:
        """Return a new name for a journal that no other process writes, without `journal.` and ending."""
        host = re.sub(r"[^\w-]", "-", socket.gethostname())
        return f"{self.number}-of-{self.count}-{host}-{os.getpid()}-{os.urandom(4).hex()}"


COLLECT = Shard(0, 0)
"""The shard of a collecting run: it owns nothing and sends nothing; the records of the shards are scored."""


class ShardEnd(KBBenchError):
    """A shard has ended: its examples are journaled, and the run has no result yet. It is no failure: exit code 0."""

    exit_code = 0
    code = "shard_end"

    def __init__(self, folder: Path, shard: Shard) -> None:
        self.folder = folder
        missing = [number for number in range(1, shard.count + 1) if not has_ended(folder, Shard(number, shard.count))]
        self.is_last = not missing
        """Whether all others have ended."""
        others = f"{len(missing)} of {shard.count} shards have not ended: {first_of(missing)}"
        super().__init__(f"Shard {shard} of {folder} has ended. {others if missing else 'All shards have ended'}.")


class IncompleteError(KBBenchError):
    """Records are missing that a collecting run needs: a shard is still open, or the disk shows them late."""

    def __init__(self, folder: Path, n: int, of: int, what: str) -> None:
        self.counts = n, of, what
        claimed = [(int(number), int(count)) for number, count, _ in _claims(folder)]
        open_ones = "; ".join(
            f"shards {first_of(numbers)} of {count}"
            for count in sorted({count for _, count in claimed})
            if (numbers := [k for k in range(1, count + 1) if not has_ended(folder, Shard(k, count))])
        )
        missing = f"{n:,} of {of:,} {what} are missing" if of else "there is no run"
        super().__init__(
            f"{folder} cannot be collected: {missing}{f' ({open_ones} have not ended)' if open_ones else ''}. "
            "Run the same command with --shard K/N for these shards, then collect again."
        )


def end_shard(shard: Shard | None, folder: Path, n_open: int = 0) -> None:
    """Leave a marker that a shard has ended, and end its run; do nothing where the run has no claimed shard.

    Raises:
        ShardEnd: always, where nothing failed.
        KBBenchError: `n_open` requests failed and may be sent again.
    """
    if shard is None or not shard.number:
        return
    if n_open:
        raise KBBenchError(f"{n_open:,} requests of shard {shard} failed. Run the same command again to resend them.")
    _marker(folder, shard).touch()
    raise ShardEnd(folder, shard)


def has_ended(folder: Path, shard: Shard) -> bool:
    """Return whether a shard has left its marker."""
    return _marker(folder, shard).exists()


def check_group(shard: Shard | None, n_processes: int) -> None:
    """Raise UsageError if a process group, which divides the work itself, is given a shard."""
    if shard is not None and n_processes > 1:
        raise UsageError(
            f"A group of {n_processes} processes divides the work itself; --shard and --collect are for a process "
            "alone. Start the command without torchrun."
        )


def read_again(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function that is called again, after pauses, on an IncompleteError: the disk may show files late."""

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for pause in LATE_S:
            try:
                return function(*args, **kwargs)
            except IncompleteError:
                time.sleep(pause)
        return function(*args, **kwargs)

    return called


class Claim:
    """The claim of this process on a shard, until `release`; `lost` says that another process took it over.

    Each claim is a new file with the next number, made exclusively: of several processes that take over, one succeeds.

    Raises:
        BusyError: another process runs this shard, or one of a division into another number of shards.
    """

    def __init__(self, folder: Path, shard: Shard, journal: str = "", abilities: tuple[str, ...] = (PAUSE,)) -> None:
        self._folder, self._shard, self._number, self.lost = folder, shard, 0, False
        while True:
            newest = newest_claims(folder)
            if self._number > newest.get(shard, 0):
                newest[shard] = self._number
            check_claims(folder, shard, newest)
            self._number = 1 + newest.get(shard, 0)
            before, file = (claim_file(folder, shard, number) for number in (self._number - 1, self._number))
            self.heartbeat = Heartbeat(folder, file, before=before, is_claim=True)
            self.heartbeat.journal, self.heartbeat.abilities = {"journal": journal, "size": 0}, abilities
            with suppress(FileExistsError), file.open("xb") as sink:  # a listing may lack the newest claim
                sink.write(self.heartbeat.content())
                break
        self.heartbeat.on_beat = self._compare
        self.heartbeat.start()

    def await_journals(self) -> None:
        """Wait for the journals of earlier processes of this shard, even if their claims are not listed yet."""
        await_journals(self._folder, {claim_file(self._folder, self._shard, n) for n in range(1, self._number)})

    def release(self) -> None:
        """Let the next process take the shard at once."""
        self.heartbeat.stop()

    def check(self) -> None:
        """Raise BusyError if the claim is lost: this process was suspended, or cut off from the disk."""
        if self.lost:
            newest = claim_file(self._folder, self._shard, newest_claims(self._folder)[self._shard])
            raise _busy(self._folder, self._shard, newest)

    def _compare(self) -> None:
        self.lost = newest_claims(self._folder).get(self._shard, 0) > self._number


def await_journals(folder: Path, claims: AbstractSet[Path] = frozenset()) -> None:
    """Wait until the journals that the claims name have their full length; at most `STALE_S` seconds."""
    until = time.monotonic() + STALE_S
    while time.monotonic() < until:
        sizes = {file.name: _size_of(file) for file in folder.glob("journal*.jsonl")}
        holders = [read_report(file) for file in {*folder.glob("claim.*.json"), *claims}]
        if all(each and sizes.get(each.get("journal", ""), 0) >= each.get("size", 0) for each in holders):
            return
        time.sleep(min(0.5, STALE_S / 10))


def check_claims(folder: Path, shard: Shard | None, newest: dict[Shard, int] | None = None) -> None:
    """Raise BusyError if a process runs this shard or one of another division; with `shard` None, if any does.

    Claims of other machines are watched for `STALE_S` seconds: one that changes twice is of a live process. `newest`
    has the newest claim of each shard; None to read them.
    """
    watched: dict[Path, tuple[Shard, bytes]] = {}
    changed: set[Path] = set()
    for other, number in (newest_claims(folder) if newest is None else newest).items():
        file = claim_file(folder, other, number)
        if shard is not None and other != shard and other.count == shard.count:
            continue
        alive = is_alive(read_report(file))
        if alive:
            raise _busy(folder, other, file)
        if alive is None:
            watched[file] = other, bytes_of(file)
    until = time.monotonic() + STALE_S
    while watched and time.monotonic() < until:
        time.sleep(min(0.5, STALE_S / 10))
        for journal in folder.glob("journal*.jsonl"):
            _size_of(journal)  # what is looked at now shows as a whole when the watch ends
        for file, (other, before) in watched.items():
            if (content := bytes_of(file)) != before and not read_report(file).get("released"):
                if file in changed:  # the last change of a process that is gone may show late; a second one may not
                    raise _busy(folder, other, file)
                changed.add(file)
                watched[file] = other, content


def _busy(folder: Path, shard: Shard, claim: Path) -> BusyError:
    holder = read_report(claim)
    who = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"
    return BusyError(
        f"Shard {shard} of {folder} is run by {who}; one process runs a shard at a time. "
        "Wait for that process, or stop it and start this again."
    )


def _claims(folder: Path) -> list[tuple[str, str, str]]:
    """Return shard number, shard count and number of each claim in a folder, in no order."""
    matches = (_CLAIM.fullmatch(each.name) for each in folder.glob("claim.*.json"))
    return [(each[1], each[2], each[3]) for each in matches if each is not None]


def newest_claims(folder: Path) -> dict[Shard, int]:
    """Return shard -> highest number of the claims on it; shards without a claim are left out."""
    newest: dict[Shard, int] = {}
    for number, count, claim in _claims(folder):
        shard = Shard(int(number), int(count))
        newest[shard] = max(newest.get(shard, 0), int(claim))
    return newest


def claim_file(folder: Path, shard: Shard, number: int) -> Path:
    """Return the file of a claim, which has the reports of its process (`heartbeat.read_report`)."""
    return folder / f"claim.{shard.number}-of-{shard.count}.{number}.json"


def _marker(folder: Path, shard: Shard) -> Path:
    return folder / f"shard.{shard.number}-of-{shard.count}.done"


def _size_of(file: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
