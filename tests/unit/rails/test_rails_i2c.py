"""The ways through an I2C bus: the messages of each reach the chips, and a missing acknowledge is one on all of them."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import define, evolve
from pyftdi.i2c import I2cNackError
from smbus2 import i2c_msg
from support.facts import missing_facts
from support.railbench import BenchClock, RailBench

from lab.errors import ConfigurationError, LabStableError
from lab.rails.ftdi import FtdiBus
from lab.rails.i2c import MAX_MESSAGES, I2cBus, LinuxBus, NackError, Register, SocketBus, read
from lab.rails.ina import InaSensor
from lab.rails.ina_chips import CHIPS
from lab.rails.model import AdcRange
from lab.rails.sensors import open_bus
from lab.virtual.rails.wiring import Wires

CONFIG = Register(0x40, 0)
NOBODY = Register(0x4F, 0)
MESSAGE = struct.Struct("<BBH")


@define
class KernelBus:
    """What the kernel does with an I2C_RDWR ioctl, on emulated chips; `error` instead of an answer.

    Attributes:
        most: messages that its adapter takes, or it says `refusal`; 0: none, it does SMBus.
    """

    wires: Wires
    error: int = 0
    transfers: int = 0
    most: int = MAX_MESSAGES
    refusal: int = errno.EOPNOTSUPP

    def read_word_data(self, address: int, number: int) -> int:
        answer = i2c_msg.read(address, 2)
        self._transfer(i2c_msg.write(address, [number]), answer)
        return int.from_bytes(bytes(answer), "little")

    def write_word_data(self, address: int, number: int, value: int) -> None:
        self._transfer(i2c_msg.write(address, [number, value & 0xFF, value >> 8]))

    def i2c_rdwr(self, *i2c_msgs: i2c_msg) -> None:
        assert len(i2c_msgs) <= MAX_MESSAGES, "the kernel refuses more"
        if len(i2c_msgs) > self.most:
            raise OSError(self.refusal, "not supported")
        self._transfer(*i2c_msgs)

    def _transfer(self, *i2c_msgs: i2c_msg) -> None:
        self.transfers += 1
        body = b""
        for message in i2c_msgs:
            reads = message.flags & 1
            body += MESSAGE.pack(message.addr, reads, message.len) + (b"" if reads else bytes(message))
        answer = self.wires.transfer(body)
        status = struct.unpack_from("<i", answer, 2)[0]
        if self.error or status:
            raise OSError(self.error or -status, "no")
        data = answer[6:]
        for message in i2c_msgs:
            if message.flags & 1:
                for place in range(message.len):
                    message.buf[place] = data[place]
                data = data[message.len :]

    def close(self) -> None: ...


@define
class Cable:
    """A pyftdi controller on emulated chips."""

    wires: Wires
    address: int = 0

    def get_port(self, address: int) -> Cable:
        return evolve(self, address=address)

    def exchange(self, out: bytes, readlen: int = 0) -> bytes:
        body = MESSAGE.pack(self.address, 0, len(out)) + out
        if readlen:
            body += MESSAGE.pack(self.address, 1, readlen)
        answer = self.wires.transfer(body)
        if struct.unpack_from("<i", answer, 2)[0]:
            raise I2cNackError("NACK from slave")
        return answer[6:]

    def close(self) -> None: ...


@contextmanager
def listening(wires: Wires, path: Path) -> Iterator[SocketBus]:
    """The bench's end of the socket, in a thread."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            while head := connection.recv(2, socket.MSG_WAITALL):
                connection.sendall(wires.transfer(connection.recv(struct.unpack("<H", head)[0], socket.MSG_WAITALL)))

    thread = threading.Thread(target=serve)
    thread.start()
    bus = SocketBus(str(path))
    try:
        yield bus
    finally:
        bus.close()
        thread.join()
        server.close()


@pytest.fixture
def bench() -> RailBench:
    return RailBench("am62xx_lp_sk")


@pytest.fixture
def wires(bench: RailBench) -> Wires:
    return Wires(bench.rails.chip_at, BenchClock(bench))


@pytest.fixture(params=["kernel", "pairs", "words", "ftdi", "socket"])
def bus(request: pytest.FixtureRequest, wires: Wires, tmp_path: Path) -> Iterator[I2cBus]:
    if request.param == "kernel":
        yield LinuxBus(KernelBus(wires), "/dev/i2c-7")
    elif request.param == "pairs":
        yield LinuxBus(KernelBus(wires, most=2, refusal=errno.EINVAL), "/dev/i2c-7")
    elif request.param == "words":
        yield LinuxBus(KernelBus(wires, most=0), "/dev/i2c-7")
    elif request.param == "ftdi":
        yield FtdiBus(Cable(wires), "ftdi://ftdi:232h/1")
    else:
        with listening(wires, tmp_path / "s") as connected:
            yield connected


def test_a_register_is_written_and_read_most_significant_byte_first(bus: I2cBus) -> None:
    assert read(bus, CONFIG) == 0x4127
    bus.write(CONFIG, 0x4927)
    assert read(bus, CONFIG) == 0x4927


def test_many_registers_are_read_in_their_order(bus: I2cBus, bench: RailBench) -> None:
    addresses = [rail.address for rail in bench.config.measured]
    for place, address in enumerate(addresses):
        bus.write(Register(address, 5), place + 1)
    fetch = bus.prepare([Register(address, number) for address in addresses for number in (0, 5, 0, 5)])
    values = fetch()
    assert list(values[1::4]) == list(values[3::4]) == list(range(1, len(addresses) + 1))
    assert set(values[0::2]) == {0x4127}


def test_nobody_at_an_address_is_a_missing_acknowledge(bus: I2cBus) -> None:
    with pytest.raises(NackError):
        bus.prepare([CONFIG, NOBODY])()
    with pytest.raises(NackError):
        bus.write(NOBODY, 1)
    assert read(bus, CONFIG) == 0x4127, "and the bus goes on"


def test_the_kernel_gets_one_transfer_for_as_many_registers_as_it_takes(wires: Wires) -> None:
    kernel = KernelBus(wires)
    LinuxBus(kernel, "/dev/i2c-7").prepare([CONFIG] * 21)()
    assert kernel.transfers == 1
    LinuxBus(kernel, "/dev/i2c-7").prepare([CONFIG] * 22)()
    assert kernel.transfers == 3


@pytest.mark.parametrize(
    ("most", "limit", "transfers"),
    [
        (MAX_MESSAGES, "", 1),
        (2, "one register at a time", 3),
        (1, "SMBus' words, one register at a time", 3),
        (0, "SMBus' words, one register at a time", 3),
    ],
)
@pytest.mark.parametrize("refusal", [errno.EOPNOTSUPP, errno.EINVAL])
def test_an_adapter_is_asked_for_what_it_can_do(
    wires: Wires, most: int, limit: str, transfers: int, refusal: int
) -> None:
    kernel = KernelBus(wires, most=most, refusal=refusal)
    bus = LinuxBus(kernel, "/dev/i2c-7")
    fetch = bus.prepare([CONFIG] * 3)
    for _ in range(2):
        kernel.transfers = 0
        assert list(fetch()) == [0x4127] * 3
        assert kernel.transfers == transfers
    assert bus.limit == limit


def test_a_slow_adapter_has_the_settings_that_it_can_keep_up_with(
    bench: RailBench, wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10**12, 20_000_000))  # each round of reads takes 20 ms
    monkeypatch.setattr("lab.rails.ina.time.monotonic_ns", lambda: next(clock))
    chip = CHIPS[bench.config.backend]
    whole, pairs = (
        InaSensor(bench.config, chip, LinuxBus(KernelBus(wires, most=most), "/dev/i2c-7")).start(AdcRange.ACTIVE)
        for most in (MAX_MESSAGES, 2)
    )
    assert whole.period_ns < 4_000_000
    assert pairs.period_ns >= 25_000_000
    assert "adapter" not in whole.text
    assert not missing_facts(pairs.text, "20.0 ms for all", f"{1000000000.0 / pairs.period_ns:.0f} samples/s")


def test_a_sensor_that_the_kernel_s_driver_has_is_said_to_be_its(wires: Wires) -> None:
    with pytest.raises(LabStableError, match=r"kernel.*backend: hwmon"):
        read(LinuxBus(KernelBus(wires, error=errno.EBUSY), "/dev/i2c-7"), CONFIG)


def test_an_adapter_that_is_gone_is_an_error_of_the_lab(wires: Wires) -> None:
    with pytest.raises(LabStableError, match=r"/dev/i2c-7: no.*plugged"):
        read(LinuxBus(KernelBus(wires, error=errno.ENODEV), "/dev/i2c-7"), CONFIG)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\x40", errno.EINVAL),
        (MESSAGE.pack(0x4F, 1, 2), errno.ENXIO),
        (MESSAGE.pack(0x40, 0, 1) + b"\x42" + MESSAGE.pack(0x40, 1, 2), errno.EIO),
        (MESSAGE.pack(0x40, 0, 3) + b"\x42\x00\x00", errno.EIO),
    ],
)
def test_a_transfer_that_no_chip_can_answer_has_the_kernels_errno(wires: Wires, body: bytes, error: int) -> None:
    assert struct.unpack("<Hi", wires.transfer(body)) == (0, -error)


def test_a_chip_keeps_its_register_pointer(wires: Wires) -> None:
    wires.transfer(MESSAGE.pack(0x40, 0, 1) + b"\x00")
    assert wires.transfer(MESSAGE.pack(0x40, 1, 2))[-2:] == b"\x41\x27"


def test_a_bench_that_is_gone_is_an_error_of_the_lab(wires: Wires, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with listening(wires, tmp_path / "s") as bus:
        bus._socket.close()
        bus._socket = ours
        theirs.close()
        with pytest.raises(LabStableError, match=r"adapter plugged in"):
            read(bus, CONFIG)


@pytest.mark.parametrize(
    ("port", "says"),
    [
        ("/dev/i2c-99", "load the module i2c-dev, join the group i2c"),
        ("unix:/nowhere/rails.sock", "no bench listens"),
        ("ftdi://ftdi:232h/1", "plug the adapter in, give this user access"),
        ("/dev/ttyUSB0", "is no I2C bus; expected /dev/i2c-N"),
    ],
)
def test_a_port_that_is_not_there_is_named_with_what_to_do(bench: RailBench, port: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_bus(evolve(bench.config, port=port))
