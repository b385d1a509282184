"""What all tests of boardlab's own code share."""

from __future__ import annotations

import pytest

TIMEOUT_S = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that hangs fails; measurements of boards (tests_perf) have no such limit."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
