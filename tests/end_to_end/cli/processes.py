"""The command line as a process of its own: closed or full standard streams, a full disk, another environment."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9", "COLUMNS": "80"}
PACKAGE = Path(__file__).resolve().parents[3]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def kbbench_process(
    arguments: list[str],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    streams: Mapping[str, str] | None = None,
    fsize: int | None = None,
) -> Ended:
    """Run `kbbench` in a folder; `streams` says which of stdin, stdout, stderr are `closed` or `full`.

    `fsize` is the size in bytes beyond which no file can grow, as on a full disk.
    """

    def prepare() -> None:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            state = (streams or {}).get(name)
            if state == "closed":
                os.close(number)
            elif state == "full":
                os.dup2(os.open("/dev/full", os.O_WRONLY), number)
        if fsize is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (fsize, fsize))

    path = f"{PACKAGE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", "kbbench_hf.cli", *arguments],
        cwd=folder,
        env={**os.environ, **OFFLINE, "PYTHONPATH": path, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=prepare,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
