"""The Space itself, killed after every commit of a backlog and started on an empty disk; with a Hub that misbehaves.

    python -m tests.endurance.leaderboard_restarts [--submissions 200] [--histories 20] [--kills 4]

Every commit is the last one once, as a machine with an empty disk sees it. After some of them the Space itself,
`spaces/leaderboard/app.py`, is killed and started. The client is huggingface_hub's own. Exits 1 if a promise broke.
"""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.servers.board import ROOT
from tests.servers.clock import Clock
from tests.servers.hostile import GOOD
from tests.servers.hub import TOKEN, LocalHub, Repo, local_hub
from tests.servers.serving import await_answer, free_port

if TYPE_CHECKING:
    from huggingface_hub import HfApi

NAME = "kbbench/results"
CATCH_UP_S = 180.0
PAGE_S = 30.0
"""Within so many seconds every start shows a page, whatever the Hub does; measure it on a quiet machine."""
FAULTS = ("timeout", "409", "412", "429", "500", "500-after-commit")
ENVIRONMENTS = {
    "no dataset named": {"KBBENCH_RESULTS": ""},
    "no Hub": {"HF_ENDPOINT": "http://127.0.0.1:9"},
    "no Hub, without a store": {"HF_ENDPOINT": "http://127.0.0.1:9"},
    "wrong token": {"HF_TOKEN": "hf_wrong"},
    "silent, as a Space without sign-in": {"SPACE_ID": "kbbench/leaderboard"},
}
"""Kind of start -> what else its environment says."""
SILENT = ("silent", "silent, without a store", "silent, as a Space without sign-in", "silent after who it is")
STARTS = ("absent dataset", "slow", *FAULTS, *ENVIRONMENTS, *SILENT[:2], SILENT[3])


@contextmanager
def space(hub: LocalHub, store: Path, **others: str) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    """Run the Space until the block ends; give its process and the seconds until it showed a page."""
    port, log = free_port(), store.with_suffix(".log")
    environment = {**os.environ, **hub.environment(str(store.parent / "hf")), "PYTHONPATH": str(ROOT),
                   "KBBENCH_STORE": str(store), "KBBENCH_RESULTS": NAME, "GRADIO_SERVER_PORT": str(port),
                   "GRADIO_ANALYTICS_ENABLED": "False", "OMP_NUM_THREADS": "1", **others}  # fmt: skip
    started = time.monotonic()
    with log.open("wb") as out:
        command = [sys.executable, "-W", "ignore", str(ROOT / "spaces/leaderboard/app.py")]
        process = subprocess.Popen(command, cwd=store.parent, env=environment, stdout=out, stderr=out)
    hub.space = process  # type: ignore[attr-defined]
    try:
        await_answer(f"http://127.0.0.1:{port}/", process, log)
        yield process, time.monotonic() - started
    finally:
        process.kill()
        process.wait(30)


def await_true(said: Callable[[], bool], seconds: float = CATCH_UP_S) -> bool:
    """Wait until something is so; False where it never was."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if said():
            return True
        time.sleep(0.2)
    return False


def outbox(store: Path, api: "HfApi") -> Outbox:
    """Return an outbox that waits in no time."""
    clock = Clock()
    return Outbox(Store(store), NAME, api, clock.time, clock.sleep)


def fill(store: Path, n: int, name: str = "system") -> set[str]:
    """Store n submissions and return their ids."""
    file = store.parent / "a.jsonl"
    file.write_bytes(GOOD)
    read = preview(file, "mini-text2kg")
    return {store_preview(Store(store), read, System(f"{name} {k}"), "tester").id for k in range(n)}


def whole(files: Mapping[str, bytes]) -> set[str]:
    """Return the submissions of which a set of files holds the record, all that it names, and an event."""
    named = {json.loads(data)["event"]["submission"] for path, data in files.items() if path.startswith("events/")}
    records = {path.split("/")[2]: json.loads(data) for path, data in files.items() if path.endswith("record.json")}
    return {
        each
        for each in named & records.keys()
        if all(f"submissions/{each[:2]}/{each}/{name}" in files for name in records[each]["files"])
    }


def killed_after_every_commit(hub: LocalHub, folder: Path, n: int) -> dict[str, object]:
    """End the sending after its first commit, its second ...; every time a machine with an empty disk starts."""
    from huggingface_hub import HfApi

    hub.repos.clear()
    ids, api = fill(folder / "full", n), HfApi(endpoint=hub.url, token=TOKEN)
    box = outbox(folder / "full", api)
    said, wrong, seconds = list[set[str]](), list[int](), list[float]()
    send = box.repository.commit

    def commit(files: Mapping[str, Path], message: str) -> None:
        said.append(box.durable())  # what was said to be on the Hub before it
        send(files, message)

    box.repository.commit = commit  # type: ignore[method-assign]
    box.flush()
    said.append(box.durable())
    for after, durable in enumerate(said):
        hub.repos["dataset", NAME].refs["main"] = after
        started = time.monotonic()
        again = outbox(folder / f"killed {after}", api)
        fresh = again.store
        again.catch_up()
        index = Index(fresh)
        index.update()
        seconds.append(time.monotonic() - started)
        if (
            not durable == set(fresh.visible()) == again.durable()
            or len(index.dump().splitlines()) != len(durable)
            or fresh.check()
        ):
            wrong.append(after)
        shutil.rmtree(fresh.root)
    return {
        "submissions": n,
        "kills, one after each commit": len(said) - 1,
        "all durable at the last": said[-1] == ids,
        "starts that showed other than what was said": wrong,
        "slowest restore, s": round(max(seconds), 1),
    }


def killed_space(hub: LocalHub, folder: Path, n: int, kills: int) -> dict[str, object]:
    """Kill the Space itself after some of its commits; every time its disk is lost, and it starts again."""
    full, wrong = folder / "full", list[int]()
    last = -(-n // 16)
    for after in sorted({1 + k * (last - 1) // max(1, kills - 1) for k in range(kills)}):
        hub.repos.clear()
        store = folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(full, store)

        def fault(method: str, path: str, after: int = after) -> str | None:
            repo = hub.repos.get(("dataset", NAME))
            if repo and len(repo.commits) > after:
                os.kill(hub.space.pid, signal.SIGKILL)  # type: ignore[attr-defined]
                return "timeout"
            return None

        hub.fault = fault
        with suppress(RuntimeError), space(hub, store) as (process, _):  # it may be killed before it serves
            await_true(lambda process=process: process.poll() is not None, 90)  # type: ignore[misc]
        hub.fault = lambda method, path: None
        held = whole(hub.repos["dataset", NAME].commits[after][1])
        shutil.rmtree(store)
        with space(hub, store):
            here = Store(store)
            shown = await_true(lambda here=here, held=held: set(here.visible()) == held)  # type: ignore[misc]
            if not shown or here.check() or len(held) != min(n, 16 * after):
                wrong.append(after)
    return {"kills of the Space": kills, "starts that showed other than what was on the Hub": wrong}


def histories(hub: LocalHub, folder: Path, n: int, trials: int) -> dict[str, object]:
    """Truncate and reorder the commits, tear one of them as once they were; then let who has all of it come back."""
    from huggingface_hub import HfApi

    generator, wrong, lost = random.Random(11), 0, 0
    store, api = folder / "history", HfApi(endpoint=hub.url, token=TOKEN)
    ids = fill(store, n)
    hub.repos.clear()
    box = outbox(store, api)
    box.flush()
    commits = hub.repos["dataset", NAME].added()
    for trial in range(trials):
        repo: Repo = hub.repos["dataset", NAME]
        kept = generator.sample(commits, generator.randrange(1, len(commits)))
        torn = generator.choice(commits)
        repo.replay([*kept, dict(generator.sample(sorted(torn.items()), generator.randrange(1, len(torn))))])
        held = whole(repo.commits[-1][1])
        again = outbox(folder / f"history {trial}", api)
        fresh = again.store
        again.catch_up()
        again.flush()
        wrong += not held <= set(fresh.visible()) == again.durable()
        box.catch_up()
        box.flush()
        lost += len(ids - whole(repo.commits[-1][1])) + (box.durable() != ids)
        shutil.rmtree(fresh.root)
    return {"histories truncated, reordered and torn": trials, "of them shown wrong": wrong, "lost": lost}


def starts(hub: LocalHub, folder: Path, kinds: Sequence[str] = STARTS) -> list[dict[str, object]]:
    """Start on a Hub that does not answer, is slow or refuses, with and without a store; then let it recover."""
    tables: list[dict[str, object]] = []
    for what in kinds:
        hub.repos.clear()
        store = folder / what.replace(" ", "-").replace(",", "")
        ids = set() if "without a store" in what else fill(store, 5)

        def fault(method: str, path: str, what: str = what) -> str | None:
            if what == "slow":
                time.sleep(1.0)
            if what in SILENT:
                return None if what == SILENT[3] and "whoami" in path else "silence"
            only_writes = what in ("409", "412", "500-after-commit")
            return what if what in FAULTS and ("/commit/" in path or not only_writes) else None

        hub.fault = fault
        with space(hub, store, **ENVIRONMENTS.get(what, {})) as (process, took):
            served = process.poll() is None and set(Store(store).visible()) == ids
            if what not in ("absent dataset", "slow"):
                time.sleep(3)
                hub.fault = lambda method, path: None

            def sent(ids: set[str] = ids) -> bool:
                repo = hub.repos.get(("dataset", NAME))
                return bool(repo) and whole(repo.commits[-1][1]) == ids  # type: ignore[union-attr]

            recovers = what not in ENVIRONMENTS and bool(ids)
            caught_up = await_true(sent) if recovers else None
        hub.fault = lambda method, path: None
        tables.append({"start": what, "page after, s": round(took, 1), "served": served, "caught up": caught_up})
        print(json.dumps(tables[-1]), flush=True)
    return tables


def main() -> None:
    """Run it; disk syncs are left out here, because power is not what fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--only-in-process", action="store_true", help="leave out what starts the Space")
    options = parser.parse_args()
    logging.disable()
    os.fsync = lambda handle: None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as name, local_hub() as hub:
        os.environ.update(hub.environment(f"{name}/hf"), HF_HUB_DISABLE_PROGRESS_BARS="1")  # read at the first import
        folder = Path(name)
        kills = killed_after_every_commit(hub, folder, options.submissions)
        print(json.dumps(kills), flush=True)
        past = histories(hub, folder, options.submissions, options.histories)
        print(json.dumps(past), flush=True)
        good = bool(kills["all durable at the last"]) and not kills["starts that showed other than what was said"]
        good = good and not (past["of them shown wrong"] or past["lost"])
        if not options.only_in_process:
            killed = killed_space(hub, folder, options.submissions, options.kills)
            print(json.dumps(killed), flush=True)
            good = good and not killed["starts that showed other than what was on the Hub"]
            for each in starts(hub, folder):
                good = good and bool(each["served"]) and each["caught up"] is not False
                good = good and float(str(each["page after, s"])) <= PAGE_S
    sys.exit(0 if good else "broken")


if __name__ == "__main__":
    main()
