"""What a reviewer does in a real browser, without a mouse."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import Browser, expect

from kbbench_hf.app.review import ReviewServer
from kbbench_hf.benchmarks.reviews import Judgements, ReviewItem
from tests.end_to_end.browser.chromium import chromium
from tests.servers.serving import serving

pytestmark = pytest.mark.browser
HEADER = ("Year", "Team", "A long heading of a column", "Stadium", "Attendance", "Coach", "League", "Points", "Rank")
ROW = ("1999", "Brann", "a cell with many words in it, " * 4, "Stadion", "12,467", "Dag", "Eliteserien", "41", "3rd")
ITEMS = [ReviewItem(f"q{n}", f"Who coached in {1999 + n}?", [("Dag",)], [ROW], [ROW] * 5, HEADER) for n in range(3)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReviewServer]:
    with serving(ReviewServer("name, table", ITEMS, Judgements(tmp_path / "ada.jsonl", "ada", "v1"))) as found:
        yield found


def test_a_reviewer_needs_the_keyboard_alone_and_goes_on_where_they_ended(
    browser: Browser, server: ReviewServer
) -> None:
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(server.address)
    expect(page.locator("#place")).to_have_text("Instance 1 of 3")
    for key in ("y", "n", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("status")).to_contain_text("Not yet: 3.")
    for key in ("n", "3", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#place")).to_have_text("Instance 2 of 3")
    page.keyboard.press("b")
    expect(page.get_by_label("natural")).to_be_checked()
    page.keyboard.press("s")
    page.keyboard.press("s")
    expect(page.locator("#place")).to_have_text("Instance 3 of 3")
    page.reload()
    expect(page.locator("#place")).to_have_text("Instance 2 of 3")
    (said,) = map(json.loads, server.judgements.file.read_text(encoding="utf-8").splitlines())
    assert said["answers"] == {"derivable": "yes", "superfluous": "no", "other_answer": "no", "wording": "natural"}
    assert wrong == []
    page.close()


def test_an_answer_can_be_given_by_tab_and_blank_too(browser: Browser, server: ReviewServer) -> None:
    page = browser.new_page()
    page.goto(server.address)
    expect(page.locator("#place")).to_have_text("Instance 1 of 3")
    for n, name in enumerate(("yes", "no")):
        page.get_by_role("group").nth(n).get_by_label(name).focus()
        page.keyboard.press("Space")
    expect(page.locator("fieldset.now legend")).to_contain_text("3.")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_its_text_can_be_read(browser: Browser, server: ReviewServer, scheme: str) -> None:
    page = browser.new_page(
        viewport={"width": 390, "height": 844}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.goto(server.address)
    expect(page.locator("#place")).to_have_text("Instance 1 of 3")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(CONTRAST) >= 4.5
    page.close()


CONTRAST = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const found = parts(getComputedStyle(element).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
  };
  const all = [...document.querySelectorAll("p,li,td,legend,label,kbd,button,h1,h2,small")];
  const texts = all.filter(element => element.innerText?.trim());
  return Math.min(...texts.map(element => {
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    return (a + .05) / (b + .05);
  }));
}"""
