"""What a visitor does, in a real browser: board, search, row, compare, submit; nothing leaves the machine."""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import Browser, BrowserContext, Page, expect

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.baselines import published_rows
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.end_to_end.browser.chromium import chromium, until_sent
from tests.servers.board import Server, board_server
from tests.servers.hostile import GOOD, PLACE
from tests.servers.hub import local_hub

pytestmark = pytest.mark.browser
TITLE = "Text2KGBench, mini"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A board with both mini systems and sixty named copies of one, on a machine that is logged in to the test Hub."""
    folder = tmp_path_factory.mktemp("board")
    store = Store(folder / "store")
    for file in shipped_answers("mini-text2kg"):
        costs = {"cost_per_1000_usd": 0.5, "latency_p95_s": 2.0} if file.stem == "pattern" else {}
        store_preview(store, preview(file, "mini-text2kg"), System(file.stem, **costs), "kbbench", origin="own")
    read = preview(shipped_answers("mini-text2kg")[0], "mini-text2kg")
    for number in range(60):
        store_preview(store, read, System(f"copy number {number}"), "somebody")
    with local_hub() as hub, board_server(folder / "store", hub.environment(str(folder / "hf"))) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What the visitors share is the cache: the scripts are fetched and compiled once."""
    with closing(browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)) as running:
        yield running


@pytest.fixture
def page(context: BrowserContext, server: Server) -> Iterator[Page]:
    """A page on which anything a visitor would not see is an error: a script error, a dialog, a request elsewhere."""
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda each: each.url.startswith((server.url, "data:", "blob:")) or wrong.append(each.url))
    yield page
    page.close()
    context.clear_cookies()
    assert wrong == []


def opened(page: Page, server: Server, query: str = f"?place={PLACE}") -> Page:
    page.goto(f"{server.url}/{query}")
    page.wait_for_selector(":is(#board, #row-figures, #compare-figures) table:visible")
    return page


def systems(page: Page) -> list[str]:
    return page.locator("#board tbody th").all_inner_texts()


def test_the_first_page_has_a_line_for_each_benchmark_that_leads_to_its_board(page: Page, server: Server) -> None:
    page.goto(server.url)
    expect(page.locator("#overview .kb-line h3", has_text="STaRK-Prime")).to_have_count(1)
    page.get_by_role("link", name=f"{TITLE} · test").click()
    expect(page.locator("#board tbody tr")).to_have_count(50)


def test_a_board_and_its_rows_are_read_before_any_script_runs(browser: Browser, server: Server) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{server.url}/?place={PLACE}&search=number")
    until_sent(page, "main tbody a")
    first, row = page.locator("main tbody a").all_inner_texts(), page.locator("main tbody tr").first.bounding_box()
    page.locator("main tbody a").first.click()
    until_sent(page, "main #row-head h2")
    expect(page.locator("main #row-head h2")).to_have_text(first[0])
    page.get_by_role("link", name="Leaderboard", exact=True).click()
    until_sent(page, "main tbody a")
    page.get_by_role("link", name="Overview", exact=True).click()
    until_sent(page, "main h2")
    expect(page.locator("main h2").first).to_have_text("STaRK")
    context.close()
    with closing(browser.new_page(viewport={"width": 1280, "height": 900})) as other:
        opened(other, server, f"?place={PLACE}&search=number")
        assert other.locator("#board tbody a").all_inner_texts() == first
        assert other.locator("#kb-first").count() == 0
        after = other.locator("#board tbody tr").first.bounding_box()
    assert row and after and abs(row["y"] - after["y"]) < 15, (row, after)  # it stays where a reader's eye is


def test_every_family_has_a_tab_with_its_datasets(page: Page, server: Server) -> None:
    opened(page, server)
    for name in ("Text2KGBench", "SKA-Bench", "GenRES", "Mini", "STaRK"):
        page.get_by_role("tab", name=name, exact=True).click()
        expect(page).to_have_url(re.compile(f"place={ {'Text2KGBench': 'text2kg', 'SKA-Bench': 'ska', 'GenRES': 'genres', 'Mini': 'mini', 'STaRK': 'stark'}[name]}-"))  # fmt: skip  # noqa: E501
        page.wait_for_selector("#board tbody tr")
    assert "BM25" in systems(page)


def test_search_sorting_and_paging_are_kept_in_the_address(page: Page, server: Server) -> None:
    opened(page, server)
    page.locator("#search textarea, #search input").fill("number")
    expect(page.locator(".kb-pages")).to_contain_text("60 of 62 systems")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#board tbody tr")).to_have_count(10)
    page.locator("#board thead button", has_text="P").first.click()
    expect(page.locator("#board th[aria-sort]")).to_have_count(1)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#board tbody tr")).to_have_count(10)
    before, address = systems(page), page.url
    assert "search=number" in address and "sheet=2" in address and "sort=P" in address
    page.reload()
    page.wait_for_selector("#board table")
    page.wait_for_timeout(500)
    assert (systems(page), page.url) == (before, address)


def test_the_origin_filter_and_the_columns_are_kept_too(page: Page, server: Server) -> None:
    opened(page, server)
    page.locator("#origin input").click()
    page.get_by_role("option", name="baseline").click()
    expect(page.locator("#board tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("coverage").check()
    expect(page.locator("#board thead")).to_contain_text("coverage")
    page.reload()
    expect(page.locator("#board tbody tr")).to_have_count(2)
    expect(page.locator("#board thead")).to_contain_text("coverage")


def test_downloads_work_with_one_click(page: Page, server: Server) -> None:
    opened(page, server)
    with page.expect_download() as found:
        page.click("#save-csv")
    lines = Path(found.value.path()).read_text().splitlines()
    assert found.value.suggested_filename == "mini-text2kg-sentences-test.csv" and len(lines) == 63
    for _ in range(2):  # the same file twice is two downloads
        with page.expect_download() as found:
            page.click("#save-latex")
        assert Path(found.value.path()).read_text().startswith("\\begin{tabular}")


def test_a_row_opens_with_provenance_examples_and_the_command(page: Page, server: Server) -> None:
    opened(page, server)
    page.locator("#board tbody a", has_text="pattern").click()
    expect(page.locator("#row-head")).to_contain_text("pattern")
    expect(page.locator("#row-figures tbody tr")).to_have_count(11)
    expect(page.locator("#row-examples")).to_contain_text("Sample of 12 of 48 examples, sorted by F1 (worst first)")
    expect(page.locator("#row-command")).to_contain_text("kbbench score predictions.jsonl.gz")
    page.get_by_text("Provenance").click()
    expect(page.locator("#row-provenance")).to_contain_text("predictions_sha256")
    with page.expect_download() as found:
        page.get_by_role("link", name="Predictions").click()
    assert len(gzip.decompress(Path(found.value.path()).read_bytes()).splitlines()) == 48
    address = page.url
    page.reload()
    expect(page.locator("#row-head")).to_contain_text("pattern")
    assert "tab=row" in address and page.url == address


def test_a_row_s_id_alone_is_its_address_and_an_unknown_one_is_no_row(page: Page, server: Server) -> None:
    opened(page, server)
    row = page.locator("#board tbody tr").nth(3)
    name, row_id = row.locator("th a").inner_text(), row.get_attribute("data-row") or ""
    page.goto(f"{server.url}/?row={row_id}")
    expect(page.locator("#row-head h2")).to_have_text(name)
    for unknown in (row_id[:-1] + "x", "nobody", "published-bm25-000000"):
        page.goto(f"{server.url}/?place={PLACE}&tab=row&row={unknown}")
        expect(page.locator("#row-head")).to_contain_text("No such row")


def test_a_published_row_shows_no_empty_boxes(page: Page, server: Server) -> None:
    row = published_rows("ska-bench", "noise_kg_4k", "test", "")[0]
    opened(page, server, f"?place=ska-bench/noise_kg_4k/test/squad&tab=row&row={row.id}")
    expect(page.locator("#row-elsewhere")).to_contain_text("noise_kg_24k")
    for absent in ("#row-slices", "#row-examples", "#row-command", "#row-provenance"):
        expect(page.locator(absent)).to_have_count(0)


def test_two_rows_are_compared_with_a_paired_test(page: Page, server: Server) -> None:
    opened(page, server, f"?place={PLACE}&search=p")
    page.get_by_role("tab", name="Compare", exact=True).click()
    expect(page.locator("#compare-tests tbody tr")).to_have_count(1)
    expect(page.locator("#compare-tests")).to_contain_text("✓ p 0.0004")
    expect(page.locator("#compare-examples caption")).to_contain_text("Largest differences")
    expect(page.locator("#compare-differences tbody tr")).to_have_count(11)
    address = page.url
    page.reload()
    expect(page.locator("#compare-tests tbody tr")).to_have_count(1)
    assert "compare=" in address and page.url == address


def test_ticked_rows_are_compared_and_a_tick_opens_no_row(page: Page, server: Server) -> None:
    opened(page, server, "?place=stark-mag/queries/test/reference")
    for name in ("BM25", "ada-002"):
        page.get_by_role("checkbox", name=f"Compare {name}", exact=True).check()
    page.get_by_role("button", name="Compare 2 ticked").click()
    expect(page.locator("#compare-figures thead").last).to_contain_text("ada-002")
    expect(page).to_have_url(re.compile("compare=published-"))
    page.reload()
    expect(page.locator("#compare-figures thead").last).to_contain_text("BM25")


def test_types_and_sizes_filter_and_the_axes_of_the_plot_are_kept_in_the_address(page: Page, server: Server) -> None:
    opened(page, server, "?place=stark-mag/queries/test/reference")
    page.locator("#type input").click()
    page.get_by_role("option", name="multi-vector retriever").click()
    expect(page.locator("#board tbody tr")).to_have_count(2)
    page.get_by_label("x axis").select_option("MRR")
    expect(page.locator("#plot figcaption")).to_contain_text("Hit@1 by MRR")
    assert "x=MRR" in page.url and "type=multi-vector" in page.url
    page.reload()
    expect(page.locator("#board tbody tr")).to_have_count(2)
    expect(page.locator("#plot figcaption")).to_contain_text("Hit@1 by MRR")
    page.get_by_role("tab", name="Overview", exact=True).click()
    expect(page.locator("#overview .kb-line h3", has_text="STaRK-Prime")).to_have_count(1)
    expect(page.locator("#board")).to_be_hidden()
    assert "place=" not in page.url and "type=" not in page.url


def submit(page: Page, server: Server, data: bytes, name: str) -> None:
    opened(page, server)
    page.get_by_role("tab", name="Submit", exact=True).click()
    page.locator("#submit-place input").click()
    page.get_by_role("option", name=TITLE).first.click()
    page.locator("#file input[type=file]").set_input_files({"name": "a.jsonl", "mimeType": "", "buffer": data})
    page.locator("#name textarea, #name input").fill(name)


def test_a_bad_file_is_explained_line_by_line(page: Page, server: Server) -> None:
    submit(page, server, GOOD + b'{"id": "nobody", "triples": [1]}\n', "bad")
    expect(page.locator("#report")).to_contain_text("a.jsonl:49")
    expect(page.locator("#report")).to_contain_text("Not accepted")
    expect(page.locator("#report")).to_contain_text("'nobody' matches no example")


def test_a_good_file_is_previewed_refused_without_login_and_stored_after_it(page: Page, server: Server) -> None:
    submit(page, server, GOOD, "from the browser")
    expect(page.locator("#report")).to_contain_text("Accepted.")
    page.click("#send")
    expect(page.locator("#receipt")).to_contain_text("you are not signed in")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Logout (tester)")).to_be_visible()
    submit(page, server, GOOD, "from the browser")
    expect(page.locator("#report")).to_contain_text("Accepted.")
    page.click("#send")
    expect(page.locator("#receipt")).to_contain_text("It is on the board now.")
    opened(page, server, f"?place={PLACE}&search=from the browser")
    assert systems(page) == ["from the browser"]
    page.locator("#board tbody a").click()
    expect(page.locator("#row-head")).to_contain_text("submitted by tester")


def test_a_phone_shows_names_and_figures_at_once_and_its_menu_has_addresses(page: Page, server: Server) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, server)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    heading = page.locator("#board thead th", has_text="F1").bounding_box()
    assert heading is not None and heading["x"] + heading["width"] <= 360
    page.locator(".overflow-menu > button").first.click()
    page.locator(".overflow-dropdown button", has_text="About").click()
    expect(page).to_have_url(re.compile(r"[?&]tab=about"))


def test_the_page_configuration_is_small(page: Page, server: Server) -> None:
    answer = page.request.get(f"{server.url}/config")
    config: dict[str, Any] = json.loads(answer.body())
    assert len(answer.body()) <= 60_000 and config["components"]
