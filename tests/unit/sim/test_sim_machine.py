"""The machine carries out the effects of programs at their time, on UARTs that take their time."""

from __future__ import annotations

import pytest
from attrs import define, field

from lab.virtual.sim.machine import FIFO_BYTES, Machine
from lab.virtual.sim.program import Drain, Hear, Pause, Program, Say, Typed

BYTE_NS = 86_805
MS = 1_000_000


@define(eq=False)
class FakeTransmitter:
    """Takes everything; `unsent` is what a test says."""

    said: list[bytes] = field(factory=list)
    unsent: int = 0

    def transmit(self, data: bytes) -> None:
        self.said.append(data)

    def set_speed(self, speed_bd: int) -> None: ...
    def unplug(self) -> None: ...
    def plug(self, *, renumbered: bool) -> None: ...


def machine() -> tuple[Machine, FakeTransmitter]:
    port = FakeTransmitter()
    return Machine({"u": port}, {"u": 115200}), port


def run(made: Machine, until_ns: int = 10**12) -> None:
    while (due := made.deadline_ns()) is not None and due <= until_ns:
        made.run(due)


def test_pauses_add_up_however_late_the_machine_is_called() -> None:
    made, _ = machine()
    times: list[int] = []

    def program() -> Program[None]:
        for _ in range(3):
            yield Pause(10 * MS)
            times.append(made.now_ns)

    made.spawn(program())
    made.run(25 * MS)  # late for the first two
    made.run(30 * MS)
    assert times == [10 * MS, 20 * MS, 30 * MS]


def test_a_program_that_prints_waits_for_its_uart_but_for_what_the_fifo_holds() -> None:
    made, port = machine()
    times: list[int] = []

    def program() -> Program[None]:
        for _ in range(2):
            yield Say("u", bytes(100))
            times.append(made.now_ns)
        yield Drain("u")
        times.append(made.now_ns)

    made.spawn(program())
    run(made)
    assert times == pytest.approx([44 * BYTE_NS, 144 * BYTE_NS, 200 * BYTE_NS], abs=300)
    assert [len(data) for data in port.said] == [100, 100]


def test_a_line_that_is_behind_holds_the_program_up() -> None:
    made, port = machine()
    done: list[int] = []

    def program() -> Program[None]:
        yield Say("u", b"x")
        done.append(made.now_ns)

    port.unsent = FIFO_BYTES
    made.spawn(program())
    run(made, until_ns=50 * MS)
    assert done == []
    port.unsent = FIFO_BYTES - 1
    run(made, until_ns=60 * MS)
    assert len(done) == 1


def test_input_wakes_who_listens_and_a_timeout_who_waited_in_vain() -> None:
    made, _ = machine()
    heard: list[tuple[int, Typed | None]] = []

    def program() -> Program[None]:
        for timeout in (None, 5 * MS, 0):
            heard.append((made.now_ns, (yield Hear(("u",), timeout))))

    made.spawn(program())
    run(made)
    made.receive("u", b"a", 7 * MS)
    run(made)
    assert [typed and typed.byte for _, typed in heard] == [ord("a"), None, None]
    assert [t_ns for t_ns, _ in heard] == [0, 7 * MS, 12 * MS]


def test_what_a_fifo_cannot_hold_is_lost_and_counted() -> None:
    made, _ = machine()
    made.receive("u", bytes(FIFO_BYTES + 5), 0)
    assert made.lost == 5


def test_a_stopped_program_does_nothing_more() -> None:
    made, port = machine()

    def program() -> Program[None]:
        yield Pause(MS)
        yield Say("u", b"late")

    made.spawn(program())
    made.power_lost()
    run(made)
    assert port.said == []
    assert not made.running


def test_an_interrupted_program_sees_the_error_where_it_waits() -> None:
    made, port = machine()

    def program() -> Program[None]:
        try:
            yield Hear(("u",))
        except TimeoutError:
            yield Say("u", b"reset")

    task = made.spawn(program())
    run(made)
    made.interrupt(task, TimeoutError())
    assert port.said == [b"reset"]
