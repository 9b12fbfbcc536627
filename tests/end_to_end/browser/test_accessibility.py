"""Every page and report on a phone and a desktop: no serious violation that axe finds, and no horizontal scrolling.

`make test` runs axe on each page in one view, in turn light on the phone and dark on the desktop, and looks for
scrolling at both widths; `make test-all` runs axe on every page in all four views. Screenshots go to `build/pages`.
"""

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("playwright")
pytest.importorskip("axe_playwright_python", reason="no axe: pip install axe-playwright-python")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import kbbench_hf
from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from kbbench_hf.reports.run_page import answers_page, run_page, side_by_side_page
from kbbench_hf.reports.score_table import write_evaluation
from kbbench_hf.runners.run import finished_run
from kbbench_hf.scoring.predictions import ReadOptions
from kbbench_hf.scoring.results_table import results_table
from kbbench_hf.scoring.score import score
from kbbench_hf.scoring.stored_runs import read_runs
from tests.end_to_end.browser.chromium import chromium, until_sent
from tests.servers.board import ROOT, Server, board_server
from tests.unit.reports.test_evaluation_report import Scripted

pytestmark = pytest.mark.browser
PLACE = "mini-text2kg/sentences/test/reference"
Scheme = Literal["light", "dark"]
View = tuple[int, Scheme]
"""Width of the window in pixels and color scheme."""
IN_TURN: list[View] = [(390, "light"), (1440, "dark")]
VIEWS = [
    IN_TURN,
    *(pytest.param([view], marks=pytest.mark.full) for view in [*IN_TURN, (390, "dark"), (1440, "light")]),
]
"""Each is for one page after the other."""
PICTURES = ROOT / "build" / "pages"
PAGES = {
    "overview": ("", "#overview .kb-line"),
    "board": (f"?place={PLACE}", "#plot svg"),
    "summary": ("?place=stark-mag/queries/test/reference", "#summary"),
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


AT_REST = """new Promise(done => setTimeout(() => done(document.getAnimations().every(
    each => each.playState !== 'running' || each.effect.getComputedTiming().endTime === Infinity)), 50))"""
"""No color and no size is on its way to another."""


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


@pytest.mark.parametrize("views", VIEWS, ids=str)
def test_every_page_is_for_everybody(server: Server, browser: Browser, views: list[View]) -> None:
    first, second = (each.name for each in sorted((_store(server) / "submissions").glob("*/*"))[:2])
    published = _published(server)
    page, wrong = browser.new_page(), []
    PICTURES.mkdir(parents=True, exist_ok=True)
    for (name, (address, ready)), (width, scheme) in zip(PAGES.items(), cycle(views), strict=False):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        if name.startswith("first"):
            page.route("**/assets/*.js", lambda each: each.abort())
        page.goto(f"{server.url}/{address.format(first, second, published)}")
        if name.startswith("first"):
            until_sent(page, ready)
        elif name != "api":
            page.wait_for_selector("#kb-first", state="detached")
        page.wait_for_selector(ready)
        if name != "api" and not name.startswith("first"):
            page.wait_for_function(f"document.body.classList.contains('dark') === {json.dumps(scheme == 'dark')}")
        page.wait_for_function(AT_REST)
        page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
        wrong += [f"{name}, {width} px, {scheme}: {each}" for each in _violations(page)]
        for each, _ in IN_TURN:
            page.set_viewport_size({"width": each, "height": 900})
            page.wait_for_function(AT_REST)
            if (across := page.evaluate("document.documentElement.scrollWidth")) > each:
                wrong.append(f"{name}: {across} px wide")
    page.close()
    assert wrong == []


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of each kind: a run with drawn paths, predictions, systems side by side, an evaluation."""
    folder = tmp_path_factory.mktemp("reports")
    copy, pattern = shipped_answers("mini-text2kg")
    run = kbbench_hf.run("mini-stark", "graph:bm25", out=folder / "run", limit=8, show=False).folder
    assert run is not None
    for config in ("noise_kg_1k", "noise_table_4k", "order_kg_prefix", "rejection_kg"):
        finished_run(f"mini-ska/{config}", Scripted("a model", right=True), out=folder / "ska" / config)
    write_evaluation(read_runs(folder / "ska"), folder / "evaluation")
    (side,) = results_table([copy, f"a long name of a system={pattern}", f"third={copy}"], ["mini-text2kg"])
    pages = {
        "report-run": run_page(run),
        "report-predictions": answers_page(pattern, score(pattern, "mini-text2kg"), ReadOptions()),
        "report-side-by-side": side_by_side_page(side),
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    files = {name: folder / f"{name}.html" for name in pages}
    return {**files, "report-evaluation": folder / "evaluation" / "report.html"}


BEYOND_EDGE = """[...document.querySelectorAll('.bar, svg, figure')].filter(each => each.getClientRects().length
    && each.getBoundingClientRect().right > innerWidth).map(each => each.outerHTML.slice(0, 100))"""
"""The drawings that are visible and lie off screen in part."""


@pytest.mark.parametrize("views", VIEWS, ids=str)
def test_every_report_is_for_everybody_and_no_drawing_lies_off_screen(
    reports: dict[str, Path], browser: Browser, views: list[View]
) -> None:
    page, wrong = browser.new_page(), []
    PICTURES.mkdir(parents=True, exist_ok=True)
    for (name, file), (width, scheme) in zip(reports.items(), cycle(views), strict=False):
        page.emulate_media(color_scheme=scheme)
        page.goto(file.as_uri())
        for each in (1280, 390, 1440, width):
            page.set_viewport_size({"width": each, "height": 900})
            across = page.evaluate("document.documentElement.scrollWidth")
            beyond = page.evaluate(BEYOND_EDGE)
            wrong += [f"{name}: {across} px wide, {beyond}"] if across > each or beyond else []
        page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        wrong += [f"{name}, {width} px, {scheme}: {each}" for each in _violations(page)]
    page.close()
    assert wrong == []


def _violations(page: Page) -> list[str]:
    """Return what axe finds serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']} ({each['impact']}), {len(each['nodes'])} times: "
        + "; ".join(str(node["target"]) + " " + node["html"][:150] for node in each["nodes"][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def _store(server: Server) -> Path:
    return server.log.parent / "store"


def _published(server: Server) -> str:
    from kbbench_hf.benchmarks.baselines import published_rows

    return published_rows("ska-bench", "noise_kg_4k", "test", "")[0].id
