"""Sphinx configuration."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import bayespoint

project = "bayespoint"
author = "the bayespoint developers"
copyright = "2026, the bayespoint developers"
release = version = bayespoint.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    # scikit-learn makes these, with references that only its own manual resolves.
    "exclude-members": (
        "set_fit_request, set_score_request, set_predict_request, "
        "set_predict_proba_request, set_decision_function_request"
    ),
}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = f"bayespoint {release}"
html_theme_options = {"show_prev_next": False}
html_sidebars = {"**": []}  # a flat manual: the links at the top are all there is
html_static_path = ["_static"]
html_css_files = ["tables.css"]
