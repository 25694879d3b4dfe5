"""The Python blocks of README and docs run as they stand, and print what the pages say."""

import pytest
from helpers.pages import BLOCK, assert_alike
from helpers.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


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
