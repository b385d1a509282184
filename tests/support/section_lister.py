"""A plugin of pytest: after the collection it prints each section that would be measured, and none that would be skipped."""

from __future__ import annotations

import sys

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """One line a section."""
    for item in session.items:
        section = getattr(getattr(item, "callspec", None), "params", {}).get("section")
        if section is not None and not any(item.iter_markers("skip")):
            sys.stdout.write(f"\nsection: {section.name}\n")
