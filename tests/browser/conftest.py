"""One browser for all tests of pages, and one tab for each file of them."""

import os

import pytest
from helpers.browser import NoBrowserError, Watched, chromium


@pytest.fixture(scope="session")
def browser():
    """A browser; without one tests are skipped, but not where BAYESPOINT_BROWSER says "needed"."""
    try:
        with chromium() as opened:
            yield opened
    except NoBrowserError as error:
        if os.environ.get("BAYESPOINT_BROWSER") == "needed":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def context(browser):
    return browser.new_context(viewport={"width": 1300, "height": 950}, color_scheme="light")


@pytest.fixture(scope="module")
def tab(context):
    made = Watched(context)
    yield made
    made.page.close()


@pytest.fixture
def watched(tab):
    """A page that must not complain, and must not ask anybody outside."""
    tab.forget()
    yield tab
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.fixture
def page(watched):
    return watched.open()
