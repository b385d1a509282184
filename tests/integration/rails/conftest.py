"""A bench with a simulated board for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.virtual_bench import BenchProcess, running_bench

TIME_SCALE = "0.02"


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchProcess]:
    with running_bench(tmp_path_factory.mktemp("rails") / "bench", "sim", "--time-scale", TIME_SCALE) as running:
        yield running
