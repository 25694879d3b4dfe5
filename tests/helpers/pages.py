"""Python blocks of pages, and output that is alike."""

import re

import pytest

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*")


# Machines agree in distribution only: numbers may differ by a tenth and this, counts by a few.
SLACK, SLACK_OF_COUNTS = 0.03, 3


def assert_alike(printed, shown):
    words = ["".join(NUMBER.sub("#", text).split()) for text in (printed, shown)]
    assert words[0] == words[1]
    for one, other in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        slack = SLACK if "." in other else SLACK_OF_COUNTS
        assert float(one) == pytest.approx(float(other), rel=0.1, abs=slack)
