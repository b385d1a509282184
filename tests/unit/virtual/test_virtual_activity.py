"""What a QEMU board does, from what its threads took: files as those of /proc/PID/task, and instants of our own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from attrs import define, field

from lab.virtual.qemu.activity import Activity

LOOK_NS = 50_000_000
MS = 1_000_000


@define
class Threads:
    """QEMU's only thread, and the clock."""

    folder: Path
    now: int = 0
    ran: int = 0
    waited: int = 0
    states: list[str] = field(factory=list)

    def now_ns(self) -> int:
        return self.now

    def on_state(self, state: str, _t_ns: int) -> None:
        self.states.append(state)

    def write(self, letter: str = "S") -> None:
        task = self.folder / "77"
        task.mkdir(exist_ok=True)
        (task / "schedstat").write_text(f"{self.ran} {self.waited} 12\n")
        (task / "stat").write_text(f"77 (qemu) R x) {letter} 1 77 77 0\n")

    def pass_look(self, activity: Activity, ran: float = 0, waited: float = 0, letter: str = "S") -> str:
        self.now += LOOK_NS
        self.ran += int(ran * MS)
        self.waited += int(waited * MS)
        self.write(letter)
        activity.look()
        return self.states[-1]


def after(tmp_path: Path, *looks: tuple[float, float, str]) -> list[str]:
    """The states at the looks after a board that had booted was told to sleep: ms run, ms waited, state of its thread."""

    async def watched() -> list[str]:
        threads = Threads(tmp_path)
        threads.write()
        activity = Activity(tmp_path, threads, threads.on_state)
        activity.said(b"qemu-virt login: ")
        activity.typed(b"echo mem > /sys/power/state\n")
        states = [threads.pass_look(activity, *look) for look in looks]
        activity.close()
        return states

    return asyncio.run(watched())


def test_a_board_that_falls_still_sleeps_until_it_takes_time_again(tmp_path: Path) -> None:
    looks = [(40, 0, "R"), (1, 0, "S"), (1, 0, "S"), (1.5, 0, "S"), (30, 0, "S")]
    assert after(tmp_path, *looks) == ["busy", "idle", "deep_sleep", "deep_sleep", "busy"]


def test_a_board_that_waits_for_a_core_of_a_busy_host_is_not_asleep(tmp_path: Path) -> None:
    waiting = [(0, 0, "R")] * 4  # a wait is counted when it ends
    assert after(tmp_path, *waiting, (1, 199, "S")) == ["idle"] * 4 + ["busy"]


def test_a_board_that_runs_for_a_moment_after_each_wait_is_not_asleep(tmp_path: Path) -> None:
    assert "deep_sleep" not in after(tmp_path, *[(1, 45, "S")] * 4)


def test_a_timer_that_waits_on_a_busy_host_wakes_no_board(tmp_path: Path) -> None:
    looks = [(1, 2, "S"), (1, 2, "S"), (1, 20, "S"), (0, 0, "R")]
    assert after(tmp_path, *looks) == ["idle", "deep_sleep", "deep_sleep", "deep_sleep"]
