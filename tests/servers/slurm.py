"""A real Slurm of one node with two CPUs: Debian's slurm-wlm and munge, with all their files in one folder."""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.servers.serving import free_port

DAEMONS = ("munged", "slurmctld", "slurmd")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=20
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10
"""
"""Requeued jobs wait for `cred_expire` seconds. Jobs of `high` preempt those of `low`."""


def missing_daemon() -> str | None:
    """Return the first daemon that is not installed."""
    return next((name for name in DAEMONS if shutil.which(name, path=PATH) is None), None)


def wait_until(true: Callable[[], Any], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} not within {seconds:g} s")
        time.sleep(0.05)


class SlurmCluster:
    """A cluster with the partitions low and high; its daemons run while the block runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}

    def call(self, *command: str) -> str:
        """Run a command of Slurm and return what it prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        return done.stdout

    def wait(self, seconds: float = 120) -> None:
        """Wait until no job is in the queue."""
        wait_until(lambda: not self.call("squeue", "--noheader"), "an empty queue", seconds)

    def __enter__(self) -> "SlurmCluster":
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        host, ports = socket.gethostname(), (free_port(), free_port())
        config = CONFIG.format(host=host, folder=self.folder, user=getpass.getuser(), ports=ports)
        (self.folder / "slurm.conf").write_text(config)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        munge = [f"--{name}={self.folder}/munge.{name.split('-')[0]}" for name in ("socket", "pid-file", "seed-file")]
        munge += [f"--key-file={key}", f"--log-file={self.folder}/munge.log"]
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder / "spool", ignore_errors=True)
            stack.enter_context(self._daemon("munged", "--foreground", "--force", *munge))
            wait_until((self.folder / "munge.socket").exists, "munge")
            stack.enter_context(self._daemon("slurmctld", "-D"))
            stack.enter_context(self._daemon("slurmd", "-D", "-N", host))
            stack.callback(self._end_jobs)
            wait_until(lambda: "idle" in self._state(), "an idle node")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _state(self) -> str:
        command = ["sinfo", "--noheader", "--format=%T"]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60).stdout

    def _end_jobs(self) -> None:
        self.call("scancel", "--signal=KILL", "--full", "--me")
        self.call("scancel", "--me")
        self.wait(30)

    def _daemon(self, name: str, *arguments: str) -> ExitStack:
        """Start a daemon in the foreground, and end it with the returned stack."""
        stack = ExitStack()
        log = stack.enter_context((self.folder / f"{name}.out").open("wb"))
        found = shutil.which(name, path=PATH)
        assert found is not None
        process = subprocess.Popen([found, *arguments], env=self.environment, stdout=log, stderr=log)

        def end() -> None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

        stack.callback(end)
        return stack
