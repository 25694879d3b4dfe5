"""The Python blocks of README and docs run as they stand, and print what the pages say.

The first sentence of a page says what its reader can do after it, or look up in it.
"""

import re

import pytest
from helpers.pages import BLOCK, assert_alike
from helpers.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FIRST_WORDS = re.compile(
    r"(After this page you can|Look up here|Find|Read here|With bayespoint you can)"
)


@pytest.mark.docs
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_blocks_of_a_page_run_in_order(page, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    names = {}
    for code, shown in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(code, str(page), "exec"), names)
        printed = capsys.readouterr().out
        if shown:
            assert_alike(printed, shown)


def test_a_wrong_number_is_noticed():
    with pytest.raises(AssertionError):
        assert_alike("error 0.30", "error 0.10")


def first_paragraph(text):
    return next(p for p in text.split("\n\n")[1:] if not p.startswith(("(", ":", "<", "```")))


@pytest.mark.parametrize(
    "page", [*PAGES[1:], *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "CHANGELOG"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)  # fmt: skip
def test_the_first_sentence_of_a_page_says_what_it_is_for(page):
    text = page.read_text(encoding="utf-8")
    if not text.startswith("```{include}"):
        assert FIRST_WORDS.match(first_paragraph(text))
