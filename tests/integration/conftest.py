"""The longest files first, so that no processor waits for one of them at the end; the others as they are collected."""

from __future__ import annotations

import pytest

LONGEST = (
    "test_sim_faults.py",
    "test_chaos.py",
    "test_frozen_lab.py",
    "test_sections_qemu.py",
    "test_qemu_boards.py",
    "test_full_guide.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort them; pytest-xdist hands files out in this order (--no-loadscope-reorder)."""
    places = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))
