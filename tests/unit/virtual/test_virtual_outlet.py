"""The outlet with a board that does as it is told, on real adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from attrs import define, field

from lab.errors import LabStableError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.virtual import straps
from lab.virtual.board import BoardFolder, BoardPower
from lab.virtual.outlet import Outlet
from lab.virtual.truth_log import PowerEvent, Truth, TruthLog, read_truth
from lab.virtual.uart import Pacer, UartAdapter


@define(eq=False)
class ToyBoard:
    """Remembers what was done to it; `broken` keeps it from starting."""

    clock: MonotonicRaw
    done: list[str] = field(factory=list)
    broken: bool = False
    died_hook: Callable[[str], None] = print

    async def power_on(self, word: int) -> int:
        if self.broken:
            raise LabTransientError("it does not start")
        self.done.append(f"on {word}")
        return self.clock.now_ns()

    async def power_off(self) -> None:
        self.done.append("off")


def with_outlet(
    tmp_path: Path, body: Callable[[Outlet, ToyBoard], Awaitable[None]], *, idle_off_s: float = 0.0
) -> Truth:
    """Run `body` on an outlet of a board with two straps; returns the truth log afterwards."""
    folder = BoardFolder(tmp_path / "toy-1")
    straps.create(folder.straps, 2)

    async def run() -> None:
        clock = MonotonicRaw()
        pacer = Pacer(clock, asyncio.get_running_loop())
        truth = TruthLog(folder.truth_log, 115200)
        adapters = {"uart0": UartAdapter(folder.uart("uart0"), pacer, truth)}
        board = ToyBoard(clock)
        outlet = Outlet(folder, board, adapters, truth, clock, boot_mode_bits=2, idle_off_s=idle_off_s)
        try:
            async with asyncio.timeout(20):
                await body(outlet, board)
        finally:
            await outlet.off()
            adapters["uart0"].close()
            truth.close()
            pacer.close()

    asyncio.run(run())
    return read_truth(folder.truth_log)


def switched(truth: Truth) -> list[PowerEvent]:
    """The states that the board reached."""
    return [event for event in truth.power if event.state in {"on", "off", "dead"}]


def test_power_on_reads_the_straps_of_that_moment(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        straps.path(outlet.folder.straps, 1).write_text("1\n")
        await outlet.on()
        straps.path(outlet.folder.straps, 1).write_text("0\n")
        assert outlet.power is BoardPower.ON
        assert board.done == ["on 2"]

    with_outlet(tmp_path, body)


def test_switching_to_the_state_that_it_has_does_nothing(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        await outlet.off()
        await outlet.on()
        await outlet.on()
        await outlet.off()
        await outlet.off()
        assert board.done == ["on 0", "off"]

    truth = with_outlet(tmp_path, body)
    assert [event.state for event in switched(truth)] == ["on", "off"]


def test_an_unreadable_strap_keeps_the_board_off(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        straps.path(outlet.folder.straps, 0).write_text("high\n")
        with pytest.raises(LabStableError, match="expected 0 or 1"):
            await outlet.on()
        assert outlet.power is BoardPower.OFF
        assert board.done == []
        assert "expected 0 or 1" in outlet.straps()

    with_outlet(tmp_path, body)


def test_a_board_that_does_not_start_stays_off_and_may_be_tried_again(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        board.broken = True
        with pytest.raises(LabTransientError, match="does not start"):
            await outlet.on()
        assert outlet.power is BoardPower.OFF
        board.broken = False
        await outlet.on()
        assert outlet.power is BoardPower.ON

    with_outlet(tmp_path, body)


def test_a_dead_board_is_told_and_needs_a_power_cycle(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        await outlet.on()
        board.died_hook("smoke")
        assert (outlet.power, outlet.reason) == (BoardPower.DEAD, "smoke")
        with pytest.raises(LabStableError, match=r"smoke.*off first"):
            await outlet.on()
        await outlet.off()
        await outlet.on()
        assert outlet.power is BoardPower.ON

    truth = with_outlet(tmp_path, body)
    assert [event.state for event in switched(truth)] == ["on", "dead", "off", "on", "off"]


def test_two_requests_at_once_switch_one_after_the_other(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        await asyncio.gather(outlet.on(), outlet.off(), outlet.on())
        assert board.done == ["on 0", "off", "on 0"]

    with_outlet(tmp_path, body)


def test_a_silent_board_is_switched_off_once_the_idle_time_has_passed(tmp_path: Path) -> None:
    async def body(outlet: Outlet, board: ToyBoard) -> None:
        await outlet.on()
        while outlet.power is not BoardPower.OFF:
            await asyncio.sleep(0)
        assert board.done == ["on 0", "off"]

    truth = with_outlet(tmp_path, body, idle_off_s=0.05)
    on, off = switched(truth)
    assert off.t_ns - on.t_ns >= 50_000_000


def test_a_board_that_speaks_is_not_idle(tmp_path: Path) -> None:
    async def body(outlet: Outlet, _board: ToyBoard) -> None:
        await outlet.on()
        outlet.adapters["uart0"].transmit(b"x" * 3500)  # for 0.3 s
        while outlet.power is not BoardPower.OFF:
            await asyncio.sleep(0)

    truth = with_outlet(tmp_path, body, idle_off_s=0.2)
    assert len(truth.data) == 3500
    assert switched(truth)[1].t_ns - truth.left_ns(3499) >= 199_000_000  # 1 ms: the truth may be late by a slip
