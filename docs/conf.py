"""Sphinx configuration."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import bayespoint

project = "bayespoint"
author = "the bayespoint developers"
copyright = "2026, the bayespoint developers"
release = version = bayespoint.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "formulas",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    # scikit-learn makes these, with references that only its own manual resolves.
    "exclude-members": (
        "set_fit_request, set_partial_fit_request, set_score_request, set_predict_request, "
        "set_predict_proba_request, set_decision_function_request"
    ),
}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = f"bayespoint {release}"
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "show_prev_next": True,
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        "index": [],
        "gallery": [],
    },
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without a section of their own have nothing to choose from at the side.
html_sidebars = {page: [] for page in ("index", "start", "benchmarks")}
html_show_sourcelink = False
html_static_path = ["_static"]
# The playground as it ships, at playground.html.
html_extra_path = ["../src/bayespoint/cli/playground/playground.html"]
html_css_files = ["layout.css", "tables.css", "gallery.css"]

# On demand: sphinx-build -b linkcheck docs docs/_build/links
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_workers = 4
linkcheck_rate_limit_timeout = 60
# Anchors that a page makes while it loads cannot be seen.
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]
