"""Deep idle states are forbidden while somebody measures, and only then."""

from __future__ import annotations

from pathlib import Path

from lab.host.scheduling import IdleStates


def test_no_latency_is_asked_for_as_long_as_it_is_wanted(tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.touch()
    states = IdleStates(device)
    assert not states.forbidden
    states.forbid(True)
    states.forbid(True)
    assert states.forbidden
    assert device.read_bytes() == bytes(4)  # once: a second write would be eight bytes
    states.forbid(False)
    assert not states.forbidden


def test_a_host_that_does_not_permit_it_goes_on_without(tmp_path: Path) -> None:
    states = IdleStates(tmp_path / "missing")
    states.forbid(True)
    assert not states.forbidden
