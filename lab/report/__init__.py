"""The reports of a run and of a check: one HTML page without network.

Each number leads to its evidence.
"""

from lab.report.page import render, render_check

__all__ = ["render", "render_check"]
