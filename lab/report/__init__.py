"""The report of a run: one HTML page without network.

Each number leads to its evidence.
"""

from lab.report.page import render

__all__ = ["render"]
