"""The report of ``bayespoint evaluate``: what is measured, how it is drawn, the page."""

from bayespoint.cli.report.measures import Evaluated, measure
from bayespoint.cli.report.page import write_report

__all__ = ["Evaluated", "measure", "write_report"]
