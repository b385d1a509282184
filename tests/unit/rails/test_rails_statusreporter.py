"""What the sampler tells who watches the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.host.clock import NS_PER_S
from lab.host.status_files import RailStatus, read_all
from lab.rails.model import Channel, SampleSchedule, SensorReading
from lab.rails.sampler import INTERVAL_NS, StatusReporter
from lab.rails.trace import pack

PERIOD_NS = 1_000_000


def channel(rail: str) -> Channel:
    return Channel(rail, 1.0, 10.0, 0.01, 0.0, 1250.0, 2500.0)


def reporter(folder: Path) -> StatusReporter:
    schedule = SampleSchedule(
        (channel("core"), channel("ddr")), PERIOD_NS, PERIOD_NS, PERIOD_NS // 2, PERIOD_NS // 2, ""
    )
    return StatusReporter("b1", schedule, folder)


def sample(told: StatusReporter, begin_ns: int, end_ns: int, *rails: int) -> None:
    for t_ns in range(begin_ns, end_ns, PERIOD_NS):
        told.count(pack(t_ns, [SensorReading(rail, 1, 1) for rail in rails]))


def test_each_rail_is_told_with_its_rate(tmp_path: Path) -> None:
    sample(reporter(tmp_path), NS_PER_S, NS_PER_S + 2 * INTERVAL_NS, 0, 1)
    core, ddr = sorted(read_all(tmp_path, RailStatus), key=lambda status: status.rail)
    assert (core.board, core.rail, ddr.rail) == ("b1", "core", "ddr")
    for status in (core, ddr):
        assert status.rate_hz == pytest.approx(1000, rel=0.01)
        assert status.gaps == 0


def test_a_rail_that_missed_samples_is_told_with_a_gap(tmp_path: Path) -> None:
    told = reporter(tmp_path)
    sample(told, NS_PER_S, 2 * NS_PER_S, 0, 1)
    sample(told, 2 * NS_PER_S, 2 * NS_PER_S + 5 * PERIOD_NS, 0)
    sample(told, 2 * NS_PER_S + 5 * PERIOD_NS, NS_PER_S + 2 * INTERVAL_NS, 0, 1)
    assert {status.rail: status.gaps for status in read_all(tmp_path, RailStatus)} == {"core": 0, "ddr": 1}
