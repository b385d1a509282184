"""A plugin of pytest: it lists each section of a collection that would be measured, and none that would be skipped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

FILE_VARIABLE: Final = "BOARDLAB_TESTS_SECTIONS"  # environment variable: the file of the list


def pytest_collection_finish(session: pytest.Session) -> None:
    """One line a section."""
    measured = [item for item in session.items if not any(item.iter_markers("skip"))]
    params = [getattr(getattr(item, "callspec", None), "params", {}) for item in measured]
    names = [each["section"].name for each in params if "section" in each]
    Path(os.environ[FILE_VARIABLE]).write_text("\n".join(names))
