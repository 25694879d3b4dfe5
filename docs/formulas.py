"""Formulas as MathML, which browsers show by themselves: pages need no network and no script."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError

# Names of functions without brackets want a space on both sides, which LaTeX has by itself.
FUNCTION = re.compile(r"\\(log|exp|cos|sin|tan)(?=\s*[A-Za-z\\])(?!\s*\\left)")

# What latex2mathml does not know it leaves as it is: commands, and the & of environments.
LEFT_OVER = re.compile(r"<m\w+[^>]*>(&amp;|&|[^<]*\\[^<]*)</m")


def mathml(latex, display):
    """Return a formula as MathML; refuse what would be shown as LaTeX."""
    known = latex.replace("{gathered}", "{matrix}")  # lines below each other
    found = convert(FUNCTION.sub(r"\\,\\\1\\,", known), display=display)
    left = LEFT_OVER.search(found)
    if left:
        raise ExtensionError(f"MathML has no {left[1]!r} of the formula {latex}")
    return found


def show_inline(translator, node):
    """Write a formula in a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def show_block(translator, node):
    """Write a formula in lines of its own, which scrolls where a screen is narrow."""
    formula = mathml(node.astext(), "block")
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Let pages have formulas as MathML: ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (show_inline, None), (show_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
