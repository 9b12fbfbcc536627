"""Every page, light and dark, on a phone and on a desk: nothing that axe calls serious, nothing that scrolls sideways.

The pictures of what was looked at stand in `build/pages`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("playwright")
pytest.importorskip("axe_playwright_python", reason="no axe: pip install axe-playwright-python")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.leaderboard.records import System
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.end_to_end.browser.chromium import chromium, until_sent
from tests.servers.board import ROOT, Server, board_server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]
PLACE = "mini-text2kg/sentences/test/reference"
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
PICTURES = ROOT / "build" / "pages"
PAGES = {
    "overview": ("", "#overview .kb-line"),
    "board": (f"?place={PLACE}", "#board-more svg"),
    "published": ("?place=ska-bench/noise_kg_4k/test/squad", "#board table"),
    "row": ("?row={0}", "#row-examples"),
    "published-row": ("?row={2}", "#row-figures"),
    "no-row": ("?row=nobody", "#row-head"),
    "compare": (f"?place={PLACE}&tab=compare&compare={{0}},{{1}}", "#compare-examples"),
    "submit": ("?tab=submit", "#send"),
    "about": ("?tab=about", "text=Moderation"),
    "api": ("api", "#example"),
    "first-overview": ("", "#kb-first .kb-line"),
    "first-board": (f"?place={PLACE}", "#kb-first table"),
}
"""Page -> its address, with the ids of two rows and of a published one, and what is there when it is ready.

The last two are what is there before the scripts.
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A board of two systems and of eight that gave fewer answers, with costs that differ."""
    folder = tmp_path_factory.mktemp("board")
    store = Store(folder / "store")
    for number, file in enumerate(shipped_answers("mini-text2kg")):
        costs = {"cost_per_1000_usd": 0.5 + number, "latency_p95_s": 2.0 - number, "parameters_b": 7.0}
        store_preview(store, preview(file, "mini-text2kg"), System(file.stem, **costs), "kbbench", origin="own")
    rows = [json.loads(line) for line in shipped_answers("mini-text2kg")[1].read_text().splitlines()]
    for number in range(8):
        for row in rows[number::8]:
            row["triples"] = []
        (folder / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        system = System(f"fewer answers {number}", parameters_b=float(number + 1))
        store_preview(store, preview(folder / "answers.jsonl", "mini-text2kg"), system, "somebody")
    with board_server(folder / "store", {"HF_HUB_OFFLINE": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.parametrize("width", [390, 1440])
def test_every_page_is_for_everybody(server: Server, browser: Browser, width: int) -> None:
    first, second = (each.name for each in sorted((_store(server) / "submissions").glob("*/*"))[:2])
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
    published = _published(server)
    wrong = []
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, (address, ready) in PAGES.items():
        page.emulate_media(color_scheme="light")
        if name.startswith("first"):
            page.route("**/assets/*.js", lambda each: each.abort())
        page.goto(f"{server.url}/{address.format(first, second, published)}")
        if name.startswith("first"):
            until_sent(page, ready)
        page.wait_for_selector(ready)
        page.wait_for_timeout(300)
        if (across := page.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append(f"{name}: {across} px wide")
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            if name != "api" and not name.startswith("first"):
                page.wait_for_function(f"document.body.classList.contains('dark') === {json.dumps(scheme == 'dark')}")
                page.wait_for_timeout(300)
            page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
            for found in Axe().run(page).response["violations"]:
                if found["impact"] in ("serious", "critical"):
                    where = "; ".join(str(node["target"]) + " " + node["html"][:150] for node in found["nodes"][:3])
                    what = f"{found['id']} ({found['impact']}), {len(found['nodes'])} times"
                    wrong.append(f"{name}, {scheme}: {what}: {where}")
    page.close()
    assert wrong == []


def _store(server: Server) -> Path:
    return server.log.parent / "store"


def _published(server: Server) -> str:
    from kbbench_hf.benchmarks.baselines import published_rows

    return published_rows("ska-bench", "noise_kg_4k", "test", "")[0].id
