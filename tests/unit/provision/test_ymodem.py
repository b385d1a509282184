"""XMODEM and YMODEM: against labgrid's library and the simulated receiver; what a receiver can do wrong ends with a class."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Callable, Iterator
from queue import Empty, Queue

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from support.atlength import either
from support.simlab import SimLab
from xmodem import XMODEM

from lab.provision.errors import RecoveryFailedError, WriteStalledError
from lab.provision.ymodem import Sending

S = 1_000_000_000
PROMPT = "=> "


@define(eq=False)
class Pipe:
    """A `SerialLine` whose other end is a thread."""

    to_board: Queue[bytes] = field(factory=Queue)
    to_host: Queue[bytes] = field(factory=Queue)

    def read(self, timeout_s: float) -> bytes:
        try:
            return self.to_host.get(timeout=10 if timeout_s > 1 else 0)  # a short wait only asks whether all is quiet
        except Empty:
            return b""

    def write(self, data: bytes) -> None:
        self.to_board.put(data)

    def now_ns(self) -> int:
        return 0

    def getc(self) -> Callable[[int, float], bytes | None]:
        """As the library wants it."""
        kept = bytearray()

        def get(size: int, timeout: float = 1) -> bytes | None:
            while len(kept) < size:
                kept.extend(self.to_board.get(timeout=10))
            taken = bytes(kept[:size])
            del kept[:size]
            return taken

        return get


def test_labgrids_library_receives_what_is_sent_by_xmodem() -> None:
    pipe, data, received = Pipe(), bytes(range(256)) * 9 + b"end", io.BytesIO()
    modem = XMODEM(pipe.getc(), lambda data, timeout=1: pipe.to_host.put(data) or len(data), mode="xmodem1k")  # noqa: ARG005
    board = threading.Thread(target=lambda: modem.recv(received, crc_mode=1, quiet=True), daemon=True)
    board.start()
    Sending(pipe, data, "tiboot3.bin", batch=False).send(10)
    board.join(10)
    assert received.getvalue().rstrip(b"\x1a") == data


@define(eq=False)
class SimLine:
    """The console of a `SimLab` as a `SerialLine`. `damage` changes what is sent."""

    lab: SimLab
    damage: Callable[[bytes], bytes] = lambda data: data
    taken: int = 0

    def read(self, timeout_s: float) -> bytes:
        deadline_ns = self.lab.now_ns + round(timeout_s * S)
        said = self.lab.ports[self.lab.console].said
        while len(said) == self.taken:
            if not self.lab.step_until(deadline_ns):
                return b""
        came = bytes(said[self.taken :])
        self.taken = len(said)
        return came

    def write(self, data: bytes) -> None:
        self.lab.send(self.damage(data))

    def now_ns(self) -> int:
        return self.lab.now_ns


def at_prompt() -> SimLab:
    lab = SimLab(time_scale=0.05)
    lab.on()
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    return lab


@pytest.fixture(scope="module")
def uboot() -> SimLab:
    return at_prompt()


def loady(lab: SimLab, data: bytes, damage: Callable[[bytes], bytes] = lambda data: data) -> str:
    """Send a file to U-Boot's memory; what U-Boot said of it."""
    start = len(lab.said())
    lab.type("loady 82000000\r")
    Sending(SimLine(lab, damage, len(lab.ports[lab.console].said)), data, "u-boot.img").send(10)
    while not lab.said()[start:].endswith(PROMPT):
        assert lab.step_until(lab.now_ns + 5 * S)
    return lab.said()[start:]


@settings(max_examples=either(6, 100), derandomize=True)
@given(st.binary(min_size=1, max_size=2500))
def test_u_boot_has_the_very_bytes_that_were_sent_by_ymodem(data: bytes) -> None:
    lab = at_prompt()
    assert f"= {len(data)} Bytes" in loady(lab, data)
    assert hashlib.sha256(data).hexdigest() in lab.command("hash sha256 82000000 ${filesize}", PROMPT)


def test_a_damaged_block_is_sent_again(uboot: SimLab) -> None:
    spoiled: Iterator[bool] = iter([False, False, True, False, True])

    def damage(data: bytes) -> bytes:
        hit = len(data) > 100 and next(spoiled, False)
        return data[:50] + bytes([data[50] ^ 1]) + data[51:] if hit else data

    data = bytes(5000)
    assert "2 retries" in loady(uboot, data, damage)


def test_a_line_that_damages_all_ends_as_refused(uboot: SimLab) -> None:
    lab = at_prompt()

    def damage(data: bytes) -> bytes:
        return data[:50] + bytes([data[50] ^ 1]) + data[51:] if len(data) > 1000 else data

    with pytest.raises(RecoveryFailedError, match=r"refused 10 times.*byte 0"):
        loady(lab, bytes(2000), damage)


def test_a_board_that_stops_answering_is_a_stall() -> None:
    lab = at_prompt()

    def damage(data: bytes) -> bytes:
        if len(data) > 1000:
            lab.off()
        return data

    with pytest.raises(WriteStalledError, match="after 0 of 2000 bytes"):
        loady(lab, bytes(2000), damage)


def test_a_board_that_cancels_is_a_refusal() -> None:
    pipe = Pipe()
    for said in (b"## Ready for binary\r\nC", b"", b"\x18\x18"):
        pipe.to_host.put(said)
    with pytest.raises(RecoveryFailedError, match=r"cancelled.*0 of 5 bytes"):
        Sending(pipe, b"12345", "x").send(10)


def test_a_word_with_a_c_is_no_question(uboot: SimLab) -> None:
    lab = at_prompt()
    lab.type("echo CCcan C\r")
    with pytest.raises(RecoveryFailedError, match=r"ask for it within 5 s"):
        Sending(SimLine(lab), b"12345", "x").send(5)


def test_a_question_that_is_read_together_with_the_answer_before_it_is_answered() -> None:
    pipe = Pipe()
    for said in (b"## Ready for binary\r\nC", b"", b"\x06C", b"\x06", b"\x06C"):
        pipe.to_host.put(said)
    Sending(pipe, b"12345", "x").send(10)
    sent = [pipe.to_board.get_nowait() for _ in range(4)]
    assert [frame[:3] for frame in sent] == [b"\x01\x00\xff", b"\x02\x01\xfe", b"\x04", b"\x01\x00\xff"]
    assert sent[3][3:131] == bytes(128)
    assert pipe.to_board.empty()
