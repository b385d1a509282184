"""The report of a run: one HTML page that needs no network, from which each number leads to its evidence."""

from lab.report.page import render

__all__ = ["render"]
