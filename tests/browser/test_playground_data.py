"""The page with Python behind it: rows, planes, rejections, and text that stays text."""

import re

import pytest
from helpers.browser import slide, until
from helpers.playgrounds import SCRIPT, scene, served


@pytest.fixture(scope="module")
def server():
    with served(scene()) as running:
        yield running


@pytest.fixture
def page(watched, server):
    opened = watched.open(server.url)
    until(opened, "data.view")
    return opened


def click_row(page, k):
    x, y = page.evaluate(
        """(k) => { const [x, y] = dataPixels(k), box = plane.getBoundingClientRect();
        const by = box.width / plane.width;
        return [box.left + x * by, box.top + y * by]; }""",
        k,
    )
    page.mouse.click(x, y)
    until(page, "document.querySelector('#row-details table')")


def test_a_row_tells_its_probabilities_and_neighbours(page):
    rejected = page.evaluate("data.about.rejected.indexOf(true)")
    click_row(page, rejected)
    row = page.evaluate("state.row")
    text = page.locator("#row-details").text_content()
    assert f"Row {row + 1}:" in text
    assert "Support points nearest to it" in text
    assert f"training row {row + 1}" in text
    assert "of 60 rows (hollow marks)" in page.locator("#facts").text_content()
    assert "Hollow: left undecided" in page.locator("#class-key").text_content()


def test_text_of_data_is_never_markup(page):
    click_row(page, 2)
    assert SCRIPT[:50] in page.locator("#row-details").text_content()
    assert page.evaluate("document.title") == "Bayes point playground"
    assert page.locator("#row-details script, #row-details img, select script").count() == 0


def test_columns_and_components_are_paired(page):
    before = page.evaluate("data.view.x")
    page.locator("#axis-x").select_option("2")
    until(page, "data.view.caption.includes('medians')")
    assert page.evaluate("[state.x, state.y]") == [2, 3]
    assert page.evaluate("data.view.x") != before
    page.locator("#axis-y").select_option("1")
    until(page, "data.view.caption.includes('principal')")
    assert page.evaluate("[state.x, state.y]") == [0, 1]


def test_both_modes_and_a_link_to_a_row(page, watched):
    page.locator("#mode-play").click()
    until(page, "world.sampler.painted > 20")
    assert page.locator("#presets").is_visible()
    page.locator("#mode-data").click()
    click_row(page, 5)
    until(page, "state.row >= 0 && location.hash.includes('row=' + state.row)")
    link, row = page.url, page.evaluate("state.row")
    page.goto("about:blank")
    watched.open(link)
    until(page, "document.querySelector('#row-details table')")
    assert page.evaluate("state.row") == row


def test_links_of_the_served_page_are_restored(watched, server):
    page = watched.open(server.url, "#m=data&x=3&y=4&row=5&c=0.55")
    until(page, "document.querySelector('#row-details table')")
    assert page.evaluate("[state.mode, state.x, state.y, state.row]") == ["data", 3, 4, 5]
    assert page.locator("#coverage-out").text_content() == "55 %"
    assert "Rows of your data" in page.locator("#plane").get_attribute("aria-label")
    page = watched.open(server.url, "#p=100,100a-100,-100b&c=0.8")
    until(page, "data.view")
    assert page.evaluate("[state.mode, state.points.length, state.coverage]") == ["play", 2, 0.8]
    assert page.locator("#presets").is_visible()
    assert "Points in the plane" in page.locator("#plane").get_attribute("aria-label")
    page.evaluate("copy = (text) => { window.copied = text; }")
    page.locator("#copy-link").click()
    copied = page.evaluate("window.copied")
    assert copied == "playground.html" + page.evaluate("hashOf()")
    assert server.key in page.url  # which is why the address itself is not copied


@pytest.mark.parametrize(
    ("hash", "axes"),
    [("x=0&y=99&row=5", [0, 1]), ("x=2&y=2&row=60", [2, 3]), ("x=0&y=3&row=-7", [0, 1])],
)
def test_links_to_what_is_not_there_show_what_is(watched, server, hash, axes):
    page = watched.open(server.url, f"#m=data&{hash}")
    until(page, "data.view")
    assert page.evaluate("[state.x, state.y]") == axes
    assert page.evaluate("state.row") == (5 if "row=5" in hash else -1)
    assert "Python" not in page.locator("#row-details").text_content()


def test_a_refusal_is_told_from_silence(page, watched):
    page.evaluate("ask('/row', { row: 60 }).catch(silent)")
    until(
        page, "document.getElementById('row-details').textContent.includes('refuses (/row: 400)')"
    )
    assert "400" in watched.complaints.pop()  # the browser's own


def test_rows_are_chosen_by_keys(page):
    page.locator("#plane").focus()
    for key, row in (("n", 0), ("n", 1), ("Shift+N", 0), ("Shift+N", 59)):
        page.keyboard.press(key)
        assert page.evaluate("state.row") == row
    until(page, "document.getElementById('row-details').textContent.includes('Row 60:')")


def test_coverage_leaves_more_rows_undecided(page):
    def undecided():
        words = page.locator("#facts").text_content()
        return int(re.search(r"Left undecided\s*(\d+) of 60 rows", words)[1])

    slide(page, "coverage", 1)
    own = page.evaluate("data.about.rejected.filter(Boolean).length")
    assert undecided() == own < 30
    slide(page, "coverage", 0.5)
    assert undecided() >= 30
