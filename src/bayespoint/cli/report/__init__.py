"""The report of ``bayespoint evaluate``: what is measured, how it is drawn, the page."""

from bayespoint.cli.report.measures import Evaluated, Limit, measure
from bayespoint.cli.report.page import write_report

__all__ = ["Evaluated", "Limit", "measure", "write_report"]
