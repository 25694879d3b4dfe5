"""The Python blocks of README and docs run as they stand, and print what the pages say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*")
PAGES = [p for p in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")) if p.is_file()]
# Machines agree in distribution only: numbers may differ by a tenth and this, counts by a few.
SLACK, SLACK_OF_COUNTS = 0.03, 3


def assert_alike(printed, shown):
    words = ["".join(NUMBER.sub("#", text).split()) for text in (printed, shown)]
    assert words[0] == words[1]
    for one, other in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        slack = SLACK if "." in other else SLACK_OF_COUNTS
        assert float(one) == pytest.approx(float(other), rel=0.1, abs=slack)


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
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
