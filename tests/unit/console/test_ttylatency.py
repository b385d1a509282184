"""The byte that the server sends through the kernel to see how late others come."""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest

from lab.console.ttylatency import INTERVAL_NS, TtyLatencyProbe


@pytest.fixture
def probe() -> Iterator[TtyLatencyProbe]:
    made = TtyLatencyProbe()
    yield made
    made.close()


def test_a_byte_that_is_announced_too_early_is_still_on_its_way(probe: TtyLatencyProbe) -> None:
    probe.arrived()  # nothing has come
    probe.send(1_000)
    assert select.select([probe.fd], [], [], 10)[0] == [probe.fd]
    assert probe.late_ns(5_000) == 4_000
    probe.arrived()
    assert probe.late_ns(6_000) == 0
    probe.send(1_000 + INTERVAL_NS)
    select.select([probe.fd], [], [], 10)
    probe.arrived()
    probe.send(1_000 + 2 * INTERVAL_NS)
    probe.arrived()  # perhaps before it has come
    assert probe.late_ns(1_000 + 3 * INTERVAL_NS) in {0, INTERVAL_NS}
