"""A console server of its own for each test, and adapters to plug in."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_bench import ConsoleBench


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    """A folder with a server and adapters; everything is ended with the test."""
    bench = ConsoleBench(Path(tempfile.mkdtemp(prefix="console-")))  # short, for the socket's path
    yield bench
    bench.close()
    shutil.rmtree(bench.folder)
