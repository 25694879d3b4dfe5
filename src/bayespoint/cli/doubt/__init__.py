"""``bayespoint doubt``: which labels of a file deserve a second look."""

from bayespoint.cli.doubt.command import run_doubt

__all__ = ["run_doubt"]
