"""What the port's driver counts as lost is on the numbers of the boot that it was lost in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from support.simruns import bench
from support.simtarget import SimClient

from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, PortStatus, ServerStatus

PORT = PortStatus(
    info=PortInfo(RecordingMeta("sim", "/dev/ttyUSB0", 115200), "", 0),
    state="open",
    received_bytes=0,
    reads=0,
    last_byte_age_s=None,
    readers=1,
    writer=None,
    writer_since=None,
    gaps=0,
    dropped=0,
    line_errors=None,
    lateness_max_ns=0,
    recording_broken="",
)


def counting(per_look: dict[str, int] | None) -> Callable[[SimClient], ServerStatus]:
    """A status whose counters rise by so much at each look; None: the port has none."""
    counters = {"overrun": 5, "buf_overrun": 7, "frame": 9}

    def status(_client: SimClient, _name: str | None = None) -> ServerStatus:
        for name, more in (per_look or {}).items():
            counters[name] += more
        errors = None if per_look is None else dict(counters)
        return ServerStatus(1, "", "", "", [evolve(PORT, line_errors=errors)])

    return status


@pytest.mark.parametrize(
    ("per_look", "flagged"),
    [
        ({"overrun": 1}, True),
        ({"buf_overrun": 40}, True),
        ({"frame": 3}, False),  # a line that is switched on with its board begins with a broken character
        ({}, False),
        (None, False),
    ],
)
def test_lost_characters_are_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_look: dict[str, int] | None, flagged: bool
) -> None:
    monkeypatch.setattr(SimClient, "status", counting(per_look))
    with bench(tmp_path) as made:
        (attempt,) = made.measure()
        assert attempt.outcome == "ok"
        assert {"console_overrun" in sample.flags for sample in attempt.samples} == {flagged}
