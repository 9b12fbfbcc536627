"""Simultaneous submissions, kills and full disks; prints a table, exits 1 if a promise broke.

python -m tests.endurance.leaderboard_crashes [--trials 20] [--kills 200] [--server-kills 10] [--full-disks 20]
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from kbbench_hf.errors import BusyError
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.servers.board import Server, Visitor, board_server
from tests.servers.hostile import GOOD, PLACE
from tests.servers.hub import local_hub

WRITER = """
import sys
from pathlib import Path
from kbbench_hf.leaderboard.store import System
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.submissions import preview, store_preview
read, store = preview(Path(sys.argv[1]), "mini-text2kg"), Store(Path(sys.argv[2]))
print("ready", flush=True)
for n in range(10_000):
    print(store_preview(store, read, System(f"{sys.argv[3]}-{n}"), "tester").id, flush=True)
"""
NO_QUOTA = {"KBBENCH_PER_USER_AND_DAY": "1000000", "KBBENCH_PER_DAY": "1000000"}
STORED = re.compile(r"\*\*Stored\*\* as `([0-9a-f]{32})`")


def at_once(folder: Path, environment: dict[str, str], n: int, trials: int) -> dict[str, object]:
    """Let n visitors submit at the same time, trial after trial; then let all of them try again."""
    exact = 0
    with board_server(folder / "store", environment) as server:
        visitors = [Visitor(server) for _ in range(n)]
        for visitor in visitors:
            visitor.log_in()

        def submit(trial: int, number: int) -> str:
            visitor = visitors[number]
            said = visitor.submit(PLACE, visitor.upload("a.jsonl", GOOD), f"trial {trial} visitor {number}")
            found = STORED.search(said)
            return found[1] if found else said

        known = 0
        for trial in range(trials):
            with ThreadPoolExecutor(n) as pool:
                first = list(pool.map(submit, [trial] * n, range(n)))
                again = list(pool.map(submit, [trial] * n, range(n)))
            visible = Store(folder / "store").visible()
            whole = len(set(first)) == n and first == again and set(first) <= set(visible)
            exact += whole and len(visible) == len(set(visible)) == known + n
            known = len(visible)
    return {"visitors at once": n, "trials": trials, "exact": exact, "problems": len(Store(folder / "store").check())}


def killed_writers(folder: Path, kills: int) -> dict[str, object]:
    """Kill a storing process again and again."""
    generator = random.Random(5)
    upload, root = folder / "a.jsonl", folder / "store"
    upload.write_bytes(GOOD)
    acknowledged: set[str] = set()
    for trial in range(kills):
        command = [sys.executable, "-c", WRITER, str(upload), str(root), f"trial {trial}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(generator.uniform(0.005, 0.25))
            os.kill(writer.pid, signal.SIGKILL)
            acknowledged |= {line.strip() for line in writer.stdout if len(line) == 33}
    return {"kills of the storing process": kills, **_state(root, acknowledged)}


def killed_servers(folder: Path, environment: dict[str, str], kills: int) -> dict[str, object]:
    """Kill the whole server while visitors submit, start it again, and let them go on."""
    generator = random.Random(6)
    acknowledged: set[str] = set()
    for trial in range(kills):
        server = Server(folder / "store", environment)
        visitors = [Visitor(server) for _ in range(8)]
        for visitor in visitors:
            visitor.log_in()

        def submit(number: int, trial: int = trial, visitors: list[Visitor] = visitors) -> None:
            visitor = visitors[number % 8]
            try:
                said = visitor.submit(PLACE, visitor.upload("a.jsonl", GOOD), f"trial {trial} number {number}")
            except Exception:  # the server is gone
                return
            if found := STORED.search(said):
                acknowledged.add(found[1])

        with ThreadPoolExecutor(8) as pool:
            pending = [pool.submit(submit, number) for number in range(40)]
            time.sleep(generator.uniform(1.0, 5.0))
            server.kill()
            for each in pending:
                each.result()
    return {"kills of the server": kills, **_state(folder / "store", acknowledged)}


def full_disks(folder: Path, trials: int) -> dict[str, object]:
    """Store on a file system of two megabytes until it is full; make room; store again."""
    refused, accepted, problems = 0, 0, 0
    with small_disk(folder / "small", 2) as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(1_000_000))
        upload = folder / "a.jsonl"
        upload.write_bytes(GOOD)
        read, store = preview(upload, "mini-text2kg"), Store(small / "store")
        number = 0
        while refused < trials:
            number += 1
            try:
                store_preview(store, read, System(f"system {number}"), "tester")
            except BusyError as error:
                assert "storage is full" in str(error)
                refused += 1
        problems += len(store.check()) + len(list((small / "store" / "partial").glob("*")))
        n_visible = len(store.visible())
        ballast.unlink()
        accepted += not store_preview(store, read, System("after"), "tester").existed
        problems += len(store.check()) + (len(store.visible()) != n_visible + 1)
    return {"refusals of a full disk": refused, "partial or wrong": problems, "accepted after": accepted}


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of so many megabytes until the block ends; a process that was killed may still be ending."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def full_disks_over_http(folder: Path, environment: dict[str, str], trials: int) -> dict[str, object]:
    """Fill the disk of a served board from four visitors at once; the rows are those that were acknowledged, no other.

    The rows are read again after the server was killed and found room.
    """
    acknowledged, refused, said = set[str](), 0, set[str]()

    def submit(visitor: Visitor, number: int) -> str:
        try:
            return visitor.submit(PLACE, visitor.upload("a.jsonl", GOOD), f"system {number}")
        except httpx.HTTPStatusError as error:  # not even the upload found room
            return f"upload {error.response.status_code}"
        except httpx.TransportError as error:  # the same, while it was still being sent
            return f"upload {type(error).__name__}"

    with small_disk(folder / "small", 4) as small:
        (small / "ballast").write_bytes(bytes(1_000_000))
        with board_server(small / "store", environment) as server, ThreadPoolExecutor(4) as pool:
            visitors = [Visitor(server) for _ in range(4)]
            for visitor in visitors:
                visitor.log_in()
            for number in range(0, 4_000, 4):
                for answer in pool.map(submit, visitors, range(number, number + 4)):
                    if found := STORED.search(answer):
                        acknowledged.add(found[1])
                    else:
                        refused, said = refused + 1, said | {answer[:90]}
                if refused >= trials:
                    break
            shown = _shown(server)
            server.kill()
        (small / "ballast").unlink()
        with board_server(small / "store", environment) as again:
            after = _shown(again)
    return {
        "refusals over http": refused,
        "in words": sorted(said),
        "acknowledged": len(acknowledged),
        "acknowledged without a row": len(acknowledged - shown),
        "rows without acknowledgement": len(shown - acknowledged),
        "rows after a restart that differ": len(after ^ acknowledged),
    }


def _shown(server: Server) -> set[str]:
    """Return the ids of the rows that a served board has."""
    return {
        row["id"] for row in httpx.get(f"{server.url}/api/board", params={"place": PLACE}, timeout=120).json()["rows"]
    }


def _state(root: Path, acknowledged: set[str]) -> dict[str, object]:
    """Return what is to be said of a store after kills: acknowledged and lost, twice there, half there, index."""
    store = Store(root)
    store.recover()
    visible = store.visible()
    index = Index(store)
    index.update()
    before = index.dump()
    index.rebuild()
    return {
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - set(visible)),
        "duplicated": len(visible) - len(set(visible)),
        "half visible": len(store.check()),
        "rebuilt identical": index.dump() == before,
    }


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    for name, default in (("trials", 20), ("kills", 200), ("server-kills", 10), ("full-disks", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    tables = []
    with tempfile.TemporaryDirectory() as name, local_hub() as hub:
        environment = {**hub.environment(f"{name}/hf"), **NO_QUOTA}
        places = [Path(name) / part for part in ("at-once", "writers", "servers", "full", "full-http")]
        for place in places:
            place.mkdir()
        for run in (
            lambda: at_once(places[0], environment, 50, options.trials),
            lambda: killed_writers(places[1], options.kills),
            lambda: killed_servers(places[2], environment, options.server_kills),
            lambda: full_disks(places[3], options.full_disks),
            lambda: full_disks_over_http(places[4], environment, options.full_disks),
        ):
            tables.append(run())
            print(json.dumps(tables[-1]), flush=True)
    zero = (
        *("problems", "lost", "duplicated", "half visible", "partial or wrong"),
        *("acknowledged without a row", "rows without acknowledgement", "rows after a restart that differ"),
    )
    broken = [key for table in tables for key, value in table.items() if key in zero and value]
    broken += [key for table in tables for key, value in table.items() if key == "rebuilt identical" and not value]
    sys.exit(f"broken: {broken}" if broken or tables[0]["exact"] != options.trials else 0)


if __name__ == "__main__":
    main()
