"""A headless browser for tests of pages, and what it says of a page that it opened."""

import importlib.util
import shutil
from contextlib import contextmanager
from pathlib import Path

import bayespoint.cli.playground

PAGE = Path(bayespoint.cli.playground.__file__).with_name("playground.html")
# Nothing but the page itself may cause requests.
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


class NoBrowserError(RuntimeError):
    """Playwright or chromium is missing."""


@contextmanager
def chromium():
    """Chromium of the system, driven by Playwright."""
    if importlib.util.find_spec("playwright") is None:
        raise NoBrowserError("Playwright is missing: pip install 'bayespoint[browser]'")
    path = shutil.which("chromium")
    if path is None:
        raise NoBrowserError("there is no chromium on this machine: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()


class Watched:
    """A page, with all that it complained of and asked for."""

    def __init__(self, context):
        self.page = context.new_page()
        self.forget()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def forget(self):
        """What other tests have left, the place of the mouse too."""
        self.complaints, self.requests = [], []
        self.page.mouse.move(0, 0)

    def open(self, url=None, hash=""):
        """Open the page anew: without the first step only the hash of an open one would change."""
        if hash:
            self.page.goto("about:blank")
        self.page.goto((url or PAGE.as_uri()) + hash)
        return self.page

    def outside(self):
        """Requests that leave this machine."""
        here = ("file:", "data:", "blob:", "http://127.0.0.1:")
        return [url for url in self.requests if not url.startswith(here)]


def at(page, x, y):
    """Where a place of the plane is on the screen."""
    box = page.locator("#plane").bounding_box()
    return box["x"] + (x + 4) / 8 * box["width"], box["y"] + (4 - y) / 8 * box["height"]


def slide(page, name, value):
    """Move a slider as a person would."""
    page.locator(f"#{name}").evaluate(
        "(e, value) => { e.value = value; e.dispatchEvent(new Event('input')); }", value
    )


def drawn(page, least=24):
    """Make so many draws behind the shading, without waiting for frames."""
    page.evaluate(f"while (world.sampler.painted < {least}) work(performance.now() + 50)")


def next_frames(page, n=2):
    """Let the page draw so many frames more."""
    drawn_before = page.evaluate("framesDrawn")
    until(page, f"framesDrawn >= {drawn_before + n}")


def until(page, condition, looks=2000):
    """Look again and again; Playwright's own waiting is what the page's policy forbids: eval."""
    for _ in range(looks):
        if page.evaluate(f"Boolean({condition})"):
            return
        page.wait_for_timeout(5)
    raise AssertionError(f"never true: {condition}")
