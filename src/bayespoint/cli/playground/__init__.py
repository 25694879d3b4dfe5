"""``bayespoint playground``: a page that shows version space, and what a fitted model says.

``playground.html`` is the whole page, with its own exact billiard: it needs neither Python nor a
network. `scene` turns rows and a model into what the page draws of them, and `server` hands that
to the page, and to nobody else, on this machine.
"""

from bayespoint.cli.playground.command import run_playground

__all__ = ["run_playground"]
