"""The times that a simulated kernel and systemd tell of themselves go with the board's pace."""

from __future__ import annotations

import random

import pytest

from lab.benchmarks.diagnosis.kernel import kernel_parts
from lab.virtual.sim.linux.starttimes import initcall_records, unit_times

FAULT_NS = 40_000_000


def initcalls(end_ns: int, time_scale: float) -> dict[str, float]:
    records = initcall_records(
        end_ns, random.Random(1), lambda name: FAULT_NS * (name == "udma_driver_init"), time_scale
    )
    lines = [f"[{record.t_ns / 1e9:12.6f}] {record.text}" for record in records]
    log = ["[    0.000000] Linux version 6.12", *lines, f"[{end_ns / 1e9:12.6f}] Run /sbin/init as init process"]
    return {part.name: part.length_s for part in kernel_parts(log) if not part.name.startswith(("(", "probe "))}


@pytest.mark.parametrize("time_scale", [0.2, 0.5, 2.0])
def test_units_and_initcalls_take_as_much_of_a_boot_at_any_pace(time_scale: float) -> None:
    usual = unit_times(random.Random(1), lambda name: FAULT_NS * (name == "dbus.service"))
    paced = unit_times(random.Random(1), lambda name: FAULT_NS * (name == "dbus.service"), time_scale)
    assert paced == pytest.approx({name: length * time_scale for name, length in usual.items()}, abs=1)
    whole, part = initcalls(3_000_000_000, 1.0), initcalls(round(3_000_000_000 * time_scale), time_scale)
    assert part == pytest.approx({name: length * time_scale for name, length in whole.items()}, abs=1e-5)
