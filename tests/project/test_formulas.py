"""Formulas of the docs become MathML, or the build of the pages fails."""

import pytest
from helpers.paths import ROOT


@pytest.fixture
def formulas(monkeypatch):
    for name in ("sphinx", "latex2mathml"):
        pytest.importorskip(name)
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return pytest.importorskip("formulas")


@pytest.mark.parametrize(
    ("latex", "left"),
    [
        (r"\begin{aligned} a &= b, \\ c &= d \end{aligned}", "'&'"),
        (r"a & b", "'&'"),
        (r"x + \nonsense{y}", "nonsense"),
    ],
    ids=["environment", "ampersand", "command"],
)
def test_what_would_be_shown_as_latex_is_refused(formulas, latex, left):
    for display in ("inline", "block"):
        with pytest.raises(formulas.ExtensionError, match=left):
            formulas.mathml(latex, display)


@pytest.mark.parametrize(
    "latex",
    [
        r"\begin{gathered} a = b, \\ \log c < \lVert d \rVert \end{gathered}",
        r"\begin{cases} 1 - q & y > 0 \\ q & \text{else} \end{cases}",
        r"V = \{ w : w^\top z > 0,\; \lambda \ge 0 \}",
    ],
    ids=["gathered", "cases", "braces"],
)
def test_what_the_pages_use_is_mathml(formulas, latex):
    assert formulas.mathml(latex, "block").startswith("<math")
