"""The rails of the QEMU board follow what its real software does: boot, work, idle, sleep."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.railbench import config_of
from support.virtual_bench import BenchProcess, running_bench

from lab import boards
from lab.rails import Trace, sampling
from lab.rails.phase import cut
from lab.virtual.rails.levels import levels
from lab.virtual.truth_log import read_truth

WATTS = levels(boards.load("qemu-virt"), "")
RAILS = [rail.name for rail in boards.load("qemu-virt").rails]


def seen(bench: BenchProcess, since_ns: int) -> list[tuple[int, str]]:
    """When the load changed, and to which state."""
    notes = [note for note in read_truth(Path(bench.board.truth)).notes if note.text.startswith("rails=")]
    return [(note.t_ns, note.text.split()[0].removeprefix("rails=")) for note in notes if note.t_ns >= since_ns]


@pytest.mark.timeout(300)
def test_the_rails_of_real_software_follow_its_states(tmp_path: Path) -> None:
    path = tmp_path / "qemu.trace"
    with running_bench(tmp_path / "bench") as bench:
        config = config_of("qemu-virt", f"unix:{bench.board.rails}", "qemu-1")
        bench.set_straps(1)
        with bench.console() as console, sampling(config, path):
            assert bench.power("on") == 200
            console.until(rb"qemu-virt login: ")
            console.write(b"root\n")
            console.until(rb"root@qemu-virt:[^ ]*# ")
            console.write(b"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo work''ed\n")
            console.until(rb"worked\r\n")
            console.write(b"echo +15 > /sys/class/rtc/rtc0/wakealarm; echo mem > /sys/power/state; echo awa''ke\n")
            console.until(rb"awake\r\n")
            console.write(b"sleep 1; echo rest''ed\n")
            console.until(rb"rested\r\n")
            assert bench.power("off") == 200
            changes = seen(bench, 0)
        states = [state for _, state in changes]
        assert states[0] == "boot"
        assert states[-1] == "off"
        for state in ("busy", "idle", "deep_sleep"):
            assert state in states
        asleep = states.index("deep_sleep")
        trace = Trace.open(path)
        power = cut(trace, changes[asleep][0], changes[asleep + 1][0])
        assert (changes[asleep + 1][0] - changes[asleep][0]) / 1e9 > 1.0, "it slept until its clock woke it"
        for rail in RAILS:
            assert power.rail(rail).mean_w == pytest.approx(WATTS["deep_sleep"][rail], rel=0.02)
