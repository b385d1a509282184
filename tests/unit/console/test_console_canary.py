"""The byte that the server sends through the kernel to see how late others come."""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest

from lab.console.canary import INTERVAL_NS, Canary


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    made.close()


def test_a_byte_that_is_announced_too_early_is_still_on_its_way(canary: Canary) -> None:
    canary.arrived()  # nothing has come
    canary.send(1_000)
    assert select.select([canary.fd], [], [], 10)[0] == [canary.fd]
    assert canary.late_ns(5_000) == 4_000
    canary.arrived()
    assert canary.late_ns(6_000) == 0
    canary.send(1_000 + INTERVAL_NS)
    select.select([canary.fd], [], [], 10)
    canary.arrived()
    canary.send(1_000 + 2 * INTERVAL_NS)
    canary.arrived()  # perhaps before it has come
    assert canary.late_ns(1_000 + 3 * INTERVAL_NS) in {0, INTERVAL_NS}
