"""Debian's Chromium, driven by Playwright, without any request of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless browser until the block ends; the test is skipped where none is installed."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    expect.set_options(timeout=60_000)  # a page that takes .1 s on an idle machine takes seconds under load
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=300_000)
        try:
            yield browser
        finally:
            browser.close()


def until_sent(page: Page, selector: str) -> None:
    """Load the page again until the server sends a part with it, which a busy one leaves to the scripts."""
    for _ in range(20):
        if page.locator(selector).count():
            return
        page.wait_for_timeout(500)
        page.reload()
