"""A board of 10,000 rows in a browser: page configuration, first paint, sorting, filtering; and whether every row has
its own page, and keeps its rank group and its true difference to the row above in every order. Exits 1 where something
is wrong, or beyond a target.

python -m tests.endurance.leaderboard_size [--rows 10000] [--store FOLDER]

A folder that is named is filled once, and used again.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import httpx
import numpy as np
from playwright.sync_api import Browser

from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from kbbench_hf.leaderboard.view import p_text
from kbbench_hf.metrics.significance import paired_test
from tests.end_to_end.browser.chromium import chromium
from tests.servers.board import Server, board_server
from tests.servers.hostile import GOOD, PLACE

TARGETS = {"config bytes": 60_000, "first contentful paint p95 s": 0.5, "sort p95 s": 0.3, "filter p95 s": 0.3}
ORDERS = {
    "F1": (lambda row: row["figures"]["f1"]["value"], True),
    "SH": (lambda row: row["figures"]["subject_hallucination"]["value"], False),
    "size, B": (lambda row: row["parameters_b"] or math.inf, False),
}
"""Heading -> what rows are sorted by at its first click, and whether the greatest comes first."""
LINES = """() => [...document.querySelectorAll('#board tbody tr')].map(
    row => [row.dataset.row, [...row.cells].map(cell => cell.innerText.replace(/\\s+/g, ' ').trim())])"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
CHANGED = "before => document.querySelector('#board').innerText !== before"


def fill(folder: Path, n: int) -> None:
    """Store n systems, each with other answers left out, so that all scores differ."""
    rows = [json.loads(line) for line in GOOD.splitlines()]
    generator, store, reads = np.random.default_rng(3), Store(folder / "store"), []
    for _ in range(50):
        left_out = generator.random(len(rows)) < generator.random()
        answers = [{**row, "triples": [] if gone else row["triples"]} for row, gone in zip(rows, left_out, strict=True)]
        (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in answers))
        reads.append(preview(folder / "a.jsonl", "mini-text2kg"))
    for number in range(n):
        system = System(f"system {number}", licence="mit" if number % 3 else "", parameters_b=float(number % 70 + 1))
        store_preview(store, reads[number % 50], system, f"user{number % 97}")


def measure(folder: Path) -> dict[str, float]:
    """Return the figures of a served board."""
    environment = {"HF_HUB_OFFLINE": "1"}
    paints, sorts, filters = [], [], []
    with board_server(folder / "store", environment) as server, chromium() as browser:
        started = time.perf_counter()
        first = browser.new_page()
        first.goto(f"{server.url}/?place={PLACE}")
        first.wait_for_selector("#board table", timeout=300_000)
        cold = time.perf_counter() - started
        first.close()
        for _ in range(10):
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{server.url}/?place={PLACE}")
            page.wait_for_selector("#board table")
            paints.append(page.evaluate(PAINT) / 1000)
            context.close()
        page = browser.new_page()
        page.goto(f"{server.url}/?place={PLACE}")
        page.wait_for_selector("#board table")
        for number in range(40):
            before = page.inner_text("#board")
            started = time.perf_counter()
            page.locator("#board thead button").nth(2 + number % 5).click()
            page.wait_for_function(CHANGED, arg=before)
            sorts.append(time.perf_counter() - started)
        for number in range(40):
            before = page.inner_text("#board")
            started = time.perf_counter()
            page.locator("#search textarea").fill(f"system {number + 10}")
            page.wait_for_function(CHANGED, arg=before)
            filters.append(time.perf_counter() - started)
        size = len(page.request.get(f"{server.url}/config").body())
        n_rows = page.locator("#board tbody tr").count()
    return {
        "config bytes": size,
        "rows on the page": n_rows,
        "first visit after the start s": round(cold, 2),
        "first contentful paint p95 s": round(float(np.quantile(paints, 0.95)), 3),
        "sort p50 s": round(float(np.median(sorts)), 3),
        "sort p95 s": round(float(np.quantile(sorts, 0.95)), 3),
        "filter p50 s": round(float(np.median(filters)), 3),
        "filter p95 s": round(float(np.quantile(filters, 0.95)), 3),
    }


def wrong_rows(server: Server, browser: Browser) -> Iterator[str]:
    """Yield in words which row's page or values are not that row's: every row by its address, some in the browser."""
    with httpx.Client(base_url=server.url, timeout=120) as client:
        rows = client.get("/api/board", params={"place": PLACE}).json()["rows"]
        for row in rows:
            found = client.get(f"/api/rows/{row['id']}").json()
            if any(found.get(key) != row[key] for key in ("id", "system", "figures", "group", "submitter")):
                yield f"/api/rows/{row['id']} is not {row['system']}"
    page = browser.new_page()
    for row in rows[:: max(1, len(rows) // 40)]:
        page.goto(f"{server.url}/?row={row['id']}")
        head = page.locator("#row-head h2").inner_text()
        f1 = page.locator("#row-figures tbody tr", has_text="F1").first.inner_text()
        if head != row["system"] or f"{row['figures']['f1']['value']:.4f}" not in f1:
            yield f"?row={row['id']} shows {head}: {f1}"
    page.close()


def wrong_views(server: Server, browser: Browser) -> Iterator[str]:
    """Yield in words what a view of the board has wrong: which rows, their order, groups, differences or tests."""
    store = Store(server.log.parent / "store")
    with httpx.Client(base_url=server.url, timeout=120) as client:
        rows = client.get("/api/board", params={"place": PLACE}).json()["rows"]
    page, of = browser.new_page(), {row["id"]: row for row in rows}
    for sort, search, sheet in product(("", "F1", "-F1", "SH", "size, B"), ("", "system 12", "user7"), (1, 3)):
        kept = [row for row in rows if all(word in f"{row['system']} {row['submitter']}" for word in search.split())]
        view = f"sort {sort!r}, search {search!r}, sheet {sheet}"
        if key := ORDERS.get(sort.removeprefix("-")):
            kept.sort(key=key[0], reverse=key[1] != sort.startswith("-"))
        page.goto(f"{server.url}/?{urlencode({'place': PLACE, 'sort': sort, 'search': search, 'sheet': sheet})}")
        page.wait_for_selector("#board tbody tr")
        heads = [each.split()[0] for each in page.locator("#board thead th").all_inner_texts()]
        lines = page.evaluate(LINES)
        start = 50 * (min(sheet, -(-len(kept) // 50)) - 1)
        if [row for row, _ in lines] != [row["id"] for row in kept[start : start + 50]]:
            yield f"{view}: other rows, or another order"
        for n, (row, cells) in enumerate(lines):
            shown, place = dict(zip(heads, cells, strict=True)), start + n
            if shown["#"] != str(of[row]["group"] or ""):
                yield f"{view}: {of[row]['system']} stands in group {shown['#']}, not {of[row]['group']}"
            above = kept[place - 1] if place else None
            gap = of[row]["figures"]["f1"]["value"] - above["figures"]["f1"]["value"] if above else None
            difference = shown["vs"].split()[0] if shown["vs"] else None
            if (gap is None) != (difference is None) or (gap is not None and difference != f"{gap:+z.4f}"):
                yield f"{view}: {of[row]['system']} differs by {difference}, not {gap}"
            if n % 10 == 1 and above:
                test = paired_test(store.values(above["id"], "f1"), store.values(row, "f1"))
                if shown["vs"].split(maxsplit=1)[1] != f"{'✓' if test.p_value < 0.05 else '≈'} {p_text(test.p_value)}":
                    yield f"{view}: {of[row]['system']} has {shown['vs']}, not {test.p_value}"
    page.close()


def main() -> None:
    """Fill and measure; disk syncs are left out while filling."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--store", type=Path, help="the folder of the store's folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.store or Path(name)
        if not (folder / "store").exists():
            fsync, os.fsync = os.fsync, lambda handle: None  # type: ignore[assignment]
            fill(folder, options.rows)
            os.fsync = fsync
        table = measure(folder)
        print(json.dumps({"rows": options.rows, **table}, indent=1), flush=True)
        slow = [f"{key} beyond {most}" for key, most in TARGETS.items() if table[key] > most]
        with board_server(folder / "store", {"HF_HUB_OFFLINE": "1"}) as server, chromium() as browser:
            wrong = [*wrong_rows(server, browser), *wrong_views(server, browser)]
    print("\n".join([f"{len(wrong)} rows, pages or views are wrong", *wrong[:20]]))
    sys.exit("; ".join([*slow, *wrong[:1]]) or 0)


if __name__ == "__main__":
    main()
