"""A console server of its own for each test, and adapters to plug in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.console_bench import ConsoleBench, running_bench


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    """A folder with a server and adapters; everything is ended with the test."""
    with running_bench() as bench:
        yield bench
