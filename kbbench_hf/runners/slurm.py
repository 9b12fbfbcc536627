"""Slurm jobs of a run in shards: the scripts of the array job and of the job that collects it, and their submission.

`kbbench run --slurm` and `synthesize --slurm` use it. The same command again submits the shards that have not ended.
The name of the jobs must follow from the folder alone: by it, queued jobs of a run are found.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path

from kbbench_hf.errors import BusyError, KBBenchError, UsageError
from kbbench_hf.files import RUN
from kbbench_hf.files.heartbeat import read_report
from kbbench_hf.files.shards import Shard, has_ended, newest_claims
from kbbench_hf.runners.run_status import has_open_prompts

MOST_RESTARTS = 100
"""Maximum restarts of a task at its time limit: perhaps its model cannot load within the limit."""
_OWN = {"array": "-a", "job-name": "-J", "wrap": "--wrap", "parsable": "--parsable"}
"""Options of sbatch that are set here -> their short forms; the user must not set them."""
_ARRAY = re.compile(r"([1-9]\d{0,5})(%[1-9]\d*)?")
"""`N`, or `N%M` to run M tasks at once."""
_TASK = """\
# 60 s before the time limit, this shell alone gets USR1: the command stops, and the task starts again.
# At preemption and scancel, the command gets TERM, too. Its journal has what is answered: nothing is sent again.
requeue() {{
  kill -TERM "$run"; wait "$run"
  [ "${{SLURM_RESTART_COUNT:-0}}" -lt {most} ] || exit 1
  exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
}}
trap requeue USR1
trap 'wait "$run"; exit 143' TERM
{command} --shard "$SLURM_ARRAY_TASK_ID"/{n_shards} &
run=$!
wait "$run"
exit
"""


@dataclass(frozen=True)
class SlurmRun:
    """A run in shards under Slurm: the command of each task without `--shard`, and sbatch's options.

    >>> run = SlurmRun(["kbbench", "run", "mini-stark", "--out", "shared"], Path("shared"), "8%2", "--time=1")
    >>> run.n_shards, run.open_shards(), [line for line in run.array_script().splitlines() if "--array" in line]
    (8, [1, 2, 3, 4, 5, 6, 7, 8], ['#SBATCH --array=1-8%2'])
    """

    command: Sequence[str]
    out: Path
    array: str
    """The number of shards, and after % how many run at once: `8%2`."""
    options: str = ""
    """Options of sbatch for both jobs, quoted as in a shell."""
    is_collected: bool = False
    """Whether the run has its result."""

    def __post_init__(self) -> None:
        if not _ARRAY.fullmatch(self.array):
            raise UsageError(
                f"--array {self.array} is not a number of shards; expected N from 1, or N%M to run M at once. "
                "Write --array 8."
            )
        for each in self._user_options():
            name = next((own for own in _OWN if _is_option(each, own)), None)
            if name is not None:
                remedy = "Write --array N" if name == "array" else "Leave it out"
                raise UsageError(f"--slurm-args has {each!r}, but --slurm itself sets --{name}. {remedy}.")

    @property
    def n_shards(self) -> int:
        """The number of shards."""
        return int(self.array.partition("%")[0])

    @property
    def name(self) -> str:
        """The name of both jobs, unique for the folder of the run."""
        folder = self.out.absolute()
        words = re.sub(r"[^\w.-]+", "-", folder.name)[:40]
        return f"kbbench-{words}-{sha256(str(folder).encode('utf-8', 'replace')).hexdigest()[:6]}"

    @property
    def logs(self) -> Path:
        """The folder of the jobs' output."""
        return self.out.absolute() / "slurm"

    def open_shards(self) -> list[int]:
        """Return the ascending numbers of the shards that have not ended.

        None is open where a run has its result, and either all shards of some earlier `--array` have ended, or one
        process ran all of it and left no prompt to send again.
        """
        if self.is_collected:
            counts = {shard.count for shard in newest_claims(self.out)}
            if not all(self._open_shards(n) for n in counts):
                return []
            if not counts and not has_open_prompts(read_report(self.out / RUN).get("summary") or {}):
                return []
        return self._open_shards(self.n_shards)

    def _open_shards(self, count: int) -> list[int]:
        """Return the numbers of the shards of a division into `count` that have not ended."""
        return [number for number in range(1, count + 1) if not has_ended(self.out, Shard(number, count))]

    def array_script(self) -> str:
        """Return the script of an array job: a task for each shard that has not ended."""
        array = f"--array={_ranges(self.open_shards())}{''.join(self.array.partition('%')[1:])}"
        first = [array, "--requeue", "--open-mode=append", "--signal=B:USR1@60"]
        task = _TASK.format(most=MOST_RESTARTS, command=shlex.join(self.command), n_shards=self.n_shards)
        return self._script("%A_%a", task, first)

    def collecting_script(self, *array_job: str) -> str:
        """Return the script of a job that collects the shards when the array job has ended, if one is named."""
        after = [f"--dependency=afterany:{each}" for each in array_job]
        return self._script("%j", f"{shlex.join(self.command)} --collect\n", last=after)

    def submit(self) -> list[str]:
        """Submit the array job, if a shard is open, and then the collecting job; return their ids in this order.

        Raises:
            UsageError: this machine has no sbatch.
            BusyError: jobs of this run are in the queue.
            KBBenchError: sbatch refuses a job; then none is left.
        """
        queued = _call("squeue", "--me", "--noheader", "--format=%i", f"--name={self.name}").stdout.split()
        if queued:
            raise BusyError(
                f"{self.out} has jobs in the queue: {', '.join(queued)}. Wait until they have ended, or cancel them "
                f"(scancel --name={self.name}), and submit again."
            )
        self.logs.mkdir(parents=True, exist_ok=True)  # Slurm makes no folder for a log
        jobs: list[str] = []
        try:
            if self.open_shards():
                jobs.append(_submit(self.array_script()))
            jobs.append(_submit(self.collecting_script(*jobs)))
        except KBBenchError:
            if jobs:
                _call("scancel", *jobs)
            with suppress(OSError):  # earlier jobs have left files
                self.logs.rmdir()
                self.out.rmdir()
            raise
        return jobs

    def _user_options(self) -> list[str]:
        """Return the user's options of sbatch."""
        try:
            return shlex.split(self.options)
        except ValueError as error:
            raise UsageError(f"--slurm-args {self.options!r} cannot be read: {error}. Close the quotes.") from None

    def _script(self, log: str, body: str, first: Sequence[str] = (), last: Sequence[str] = ()) -> str:
        """Return a script: headers of both jobs, `first` options, the user's, `last` ones, and the body.

        Raises:
            UsageError: a header has a line break.
        """
        output = f"--output={str(self.logs).replace('%', '%%')}/{log}.log"
        # the user's options on one line, as a value may follow its option; of two equal options, the last holds
        lines = [[each] for each in (f"--job-name={self.name}", f"--chdir={Path.cwd()}", output, *first)]
        lines += [self._user_options(), [*last]]
        header = [f"#SBATCH {shlex.join(line)}" for line in lines if line]
        if "\n" in "".join(header):
            raise UsageError(f"{output} or {self.options!r} has a line break; expected none. Name another folder.")
        return "\n".join(["#!/bin/bash", *header, body])


def _is_option(argument: str, name: str) -> bool:
    """Return whether an argument of sbatch is this option; sbatch also accepts the beginning of a long one."""
    long = argument.removeprefix("--").partition("=")[0] if argument.startswith("--") else ""
    return argument.startswith(_OWN[name]) or (bool(long) and name.startswith(long))


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as sbatch takes them: `1-3,7`."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda each: each[1] - each[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _submit(script: str) -> str:
    """Submit a script and return the id of the job."""
    header = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]
    # also as arguments: variables such as SBATCH_JOB_NAME replace what a script says
    done = _call("sbatch", "--parsable", *shlex.split(" ".join(header)), script=script)
    if done.returncode:
        words = "; ".join(re.sub(r"(?m)^sbatch: (error: |fatal: )?", "", done.stderr).splitlines())
        raise KBBenchError(
            f"sbatch refused the job: {words or done.returncode}. Change what it names; --dry-run prints the scripts."
        )
    job = done.stdout.strip().partition(";")[0]
    if not job:
        raise KBBenchError(f"sbatch printed no id of a job: {done.stderr.strip() or 'nothing'}. Leave out --test-only.")
    return job


def _call(*command: str, script: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command of Slurm.

    Raises:
        UsageError: this machine does not have it.
    """
    try:
        return subprocess.run(command, input=script, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        raise UsageError(
            f"--slurm needs Slurm's {command[0]}, which is not on the PATH of this machine. Run this where you submit "
            "jobs, or print the scripts with --dry-run."
        ) from None
