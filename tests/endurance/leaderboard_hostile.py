"""Hostile submissions against the code and against a served leaderboard; prints a table, exits 1 if a promise broke.

python -m tests.endurance.leaderboard_hostile [--malformed 10000] [--over-http 500]
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.servers.board import Server, Visitor, board_server
from tests.servers.hostile import FIELDS, GOOD, INJECTIONS, PLACE, bombs, code, is_valid, malformed
from tests.servers.hub import local_hub


def offer_malformed(n: int, folder: Path) -> dict[str, float]:
    """Offer n broken files to the code that the page calls, as somebody logged in."""
    store, found, times = Store(folder / "store"), Counter[str](), []
    for number, (name, data) in enumerate(malformed(n)):
        file = folder / name
        file.write_bytes(data)
        started = time.perf_counter()
        try:
            store_preview(store, preview(file, "mini-text2kg"), System(f"s{number}"), "tester")
        except KBBenchError:
            found["refused"] += 1
        except Exception as error:
            found["uncaught"] += 1
            print(f"uncaught {type(error).__name__}: {error}", file=sys.stderr)
        else:
            found["stored and valid" if is_valid(name, data) else "stored though malformed"] += 1
        times.append(time.perf_counter() - started)
    return {"malformed": n, **found, "p99 s": round(float(np.quantile(times, 0.99)), 3), "max s": round(max(times), 3)}


def offer_over_http(server: Server, visitor: Visitor, n: int) -> dict[str, float]:
    """Send n broken files to the server."""
    found: Counter[str] = Counter()
    times = []
    for number, (name, data) in enumerate(malformed(n, seed=18)):
        started = time.perf_counter()
        said = visitor.submit(PLACE, visitor.upload(name, data), f"h{number}")
        times.append(time.perf_counter() - started)
        stored = said.startswith("**Stored**")
        refused = said.startswith("**Not stored.**")
        valid = is_valid(name, data)
        found["refused" if refused else "stored and valid" if stored and valid else f"wrong: {said[:90]}"] += 1
    log = server.log.read_text()
    found["tracebacks"] = log.count("Traceback") - log.count("gradio.exceptions.Error")  # a refused file ending is one
    return {"over http": n, **found, "p99 s": round(float(np.quantile(times, 0.99)), 3)}


def offer_bombs(server: Server, visitor: Visitor) -> dict[str, float]:
    """Send every bomb; the growth is that of the greatest memory use seen from before the first to after the last."""
    visitor.submit(PLACE, visitor.upload("a.jsonl", GOOD), "before the bombs")
    before = most = server.memory_kb()
    accepted, slowest, n = 0, 0.0, 0
    for name, data in bombs():
        started = time.perf_counter()
        said = visitor.submit(PLACE, visitor.upload(name, data), "bomb")
        slowest = max(slowest, time.perf_counter() - started)
        accepted += said.startswith("**Stored**")
        most, n = max(most, server.peak_kb()), n + 1
    after = visitor.submit(PLACE, visitor.upload("a.jsonl", GOOD), "after the bombs").startswith("**Stored**")
    return {"bombs": n, "accepted": accepted, "growth MB": (most - before) // 1000, "slowest s": round(slowest, 2),
            "next valid accepted": after}  # fmt: skip


def offer_code(visitor: Visitor, folder: Path) -> dict[str, float]:
    """Send everything that would run if anything ran it."""
    canary, n, stored = folder / "canary", 0, 0
    for name, data in code(canary):
        said = visitor.submit(PLACE, visitor.upload(name, data), "code")
        stored, n = stored + said.startswith("**Stored**"), n + 1
    return {"code payloads": n, "stored": stored, "executed": int(canary.exists())}


def inject(visitor: Visitor) -> dict[str, float]:
    """Send every injection in every field, the answers among them; what is stored must be inert on the pages."""
    found: Counter[str] = Counter()
    for number, text in enumerate(INJECTIONS):
        for field in FIELDS:
            rows = [json.loads(line) for line in GOOD.splitlines()]
            values = {"name": f"injection {number} {field}"}
            if field == "answer":
                rows[0]["triples"] = [[text, text, text]]
            else:
                values[field] = text
            data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
            said = visitor.submit(PLACE, visitor.upload("a.jsonl", data), **values)
            found["stored" if said.startswith("**Stored**") else "refused"] += 1
    return {"injections": found.total(), **found}


def pages_are_inert(server: Server, visitor: Visitor) -> dict[str, float]:
    """Open the board and every stored row in a browser: no dialog, no request elsewhere, no element of theirs."""
    from tests.end_to_end.browser.chromium import chromium

    found: Counter[str] = Counter()
    with chromium() as browser:
        page = browser.new_page()
        page.on("dialog", lambda dialog: (found.update(dialogs=1), dialog.dismiss()))
        page.on("request", lambda each: found.update(elsewhere=not each.url.startswith((server.url, "data:", "blob:"))))
        links: list[str] = []
        for number in (1, 2, 3):
            page.goto(f"{server.url}/?place={PLACE}&sheet={number}")
            page.wait_for_selector("#board table")
            links += page.eval_on_selector_all("#board tbody a", "links => links.map(link => link.href)")
        links = sorted(set(links))
        for link in links:
            page.goto(link)
            page.wait_for_selector("#row-figures table")
            theirs = "#row-head :is(script,img,svg,iframe,form), #row-examples :is(script,img,svg,iframe,form)"
            found.update({"their elements": page.locator(theirs).count(), "rows opened": 1})
        page.goto(f"{server.url}/?place={PLACE}")
        page.wait_for_selector("#board table")
        with page.expect_download() as download:
            page.click("#save-csv")
        lines = download.value.path().read_text().splitlines()
        found["formula cells"] = sum(cell.startswith(("=", "+", "@")) for line in lines for cell in line.split(","))
    return {"dialogs": 0, "elsewhere": 0, **found}


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--malformed", type=int, default=10_000)
    parser.add_argument("--over-http", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, local_hub() as hub:
        folder = Path(name)
        (folder / "direct").mkdir()
        tables = [offer_malformed(options.malformed, folder / "direct")]
        print(tables[-1], flush=True)
        with board_server(
            folder / "served" / "store", {**hub.environment(f"{name}/hf"), "KBBENCH_PER_USER_AND_DAY": "10000"}
        ) as server:
            visitor = Visitor(server)
            visitor.log_in()
            for check in (
                lambda: offer_bombs(server, visitor),
                lambda: offer_over_http(server, visitor, options.over_http),
                lambda: offer_code(visitor, folder),
                lambda: inject(visitor),
                lambda: pages_are_inert(server, visitor),
            ):
                tables.append(check())
                print(tables[-1], flush=True)
    zero = ("uncaught", "stored though malformed", "tracebacks", "accepted", "executed", "dialogs", "elsewhere",
            "their elements", "formula cells")  # fmt: skip
    broken = [f"{key} {value}" for table in tables for key, value in table.items() if key in zero and value]
    broken += [key for table in tables for key in table if key.startswith("wrong")]
    sys.exit(f"broken: {broken}" if broken else 0)


if __name__ == "__main__":
    main()
