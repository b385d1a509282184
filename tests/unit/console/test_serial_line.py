"""A port whose adapter comes back: under its own name, under another one, or not at all while another has its path."""

from __future__ import annotations

import errno
import os
import select
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, evolve
from support.pluggedusb import PluggedUsb, UsbDevice

from lab.console.delivery import ReaderQueue
from lab.console.port import Ports, ServedPort
from lab.console.recorder import RecordingStore
from lab.console.serial_line import PortRequest
from lab.errors import LabStableError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.host.scheduling import Scheduling

FIRST, SECOND = UsbDevice("AB01", "1"), UsbDevice("AB02", "2")


@define
class Hub:
    """Two nodes, which any adapter may have, and the ports of a server; `boards` are what hangs on the nodes."""

    usb: PluggedUsb
    ports: Ports
    nodes: tuple[Path, Path]
    boards: tuple[int, int]

    def plug(self, device: UsbDevice, number: int) -> None:
        self.usb.plug(device, self.nodes[number], f"ttyUSB{number}")

    def open(self, number: int, board: str = "") -> ServedPort:
        return self.ports.open(PortRequest(self.nodes[number], name=f"pts-{self.nodes[number].name}", board=board))

    def reset(self, *ports: ServedPort) -> None:
        """Everything vanishes."""
        self.usb.reset()
        for port in ports:
            self.ports.lose(port, errno.EIO)

    def heard(self, number: int) -> bytes:
        """What has arrived at a node's board."""
        data = b""
        while select.select([self.boards[number]], [], [], 0)[0]:
            data += os.read(self.boards[number], 100)
        return data


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    masters, slaves = zip(os.openpty(), os.openpty(), strict=True)
    for slave in slaves:
        tty.setraw(slave)
    nodes = Path(os.ttyname(slaves[0])), Path(os.ttyname(slaves[1]))
    epoll, usb = select.epoll(), PluggedUsb(tmp_path / "sys")
    scheduling = Scheduling("none", 0)
    ports = Ports(epoll, RecordingStore(tmp_path), MonotonicRaw(), scheduling, ReaderQueue(), usb.sysfs)
    hub = Hub(usb, ports, nodes, masters)
    hub.plug(FIRST, 0)
    hub.plug(SECOND, 1)
    yield hub
    for port in list(ports):
        ports.close(port)
    epoll.close()
    for fd in (*masters, *slaves):
        os.close(fd)


def test_after_a_reset_in_the_other_order_each_port_has_its_own_board_again(hub: Hub) -> None:
    first, second = hub.open(0), hub.open(1)
    hub.reset(first, second)
    hub.plug(SECOND, 0)
    hub.plug(FIRST, 1)
    hub.ports.reopen_lost()
    first.line.write(b"first")
    second.line.write(b"second")
    assert (hub.heard(0), hub.heard(1)) == (b"second", b"first")
    assert (first.meta.device, second.meta.device) == (str(hub.nodes[1]), str(hub.nodes[0]))
    assert hub.open(1) is first
    assert hub.open(0) is second


@pytest.mark.parametrize(
    "other", [SECOND, evolve(FIRST, serial="AB02"), evolve(FIRST, ports="2"), evolve(FIRST, interface="01")]
)
def test_another_adapter_at_the_path_is_neither_read_nor_written(hub: Hub, other: UsbDevice) -> None:
    port = hub.open(0)
    hub.reset(port)
    hub.plug(other, 0)
    hub.ports.reopen_lost()
    with pytest.raises(LabTransientError, match=r"another.*USB 0403:6001") as caught:
        port.line.write(b"run mmc erase\n")
    assert caught.value.failure == "port_lost"
    hub.reset()
    hub.plug(FIRST, 1)
    hub.ports.reopen_lost()
    port.line.write(b"x")
    assert (hub.heard(0), hub.heard(1)) == (b"", b"x")


def test_what_was_typed_before_the_reset_reaches_no_adapter_after_it(hub: Hub) -> None:
    port = hub.open(0)
    while not port.line._outgoing:  # until the node takes no more
        port.line.write(b"0123456789abcdef" * 64)
    hub.reset(port)
    hub.heard(0)
    hub.plug(FIRST, 1)
    hub.ports.reopen_lost()
    assert not port.line._outgoing
    assert hub.heard(1) == b""


def test_an_adapter_replaced_between_two_looks_is_left_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    port = hub.open(0)
    hub.reset(port)
    hub.plug(SECOND, 0)
    monkeypatch.setattr(port.line, "_find_device", lambda: hub.nodes[0])
    assert not port.line.try_reopen()
    assert port.line.fd == -1


def test_a_lost_board_s_path_opens_what_is_there_now_under_another_name_but_not_for_that_board(hub: Hub) -> None:
    port = hub.open(0, board="board-1")
    hub.reset(port)
    hub.plug(SECOND, 0)
    with pytest.raises(LabStableError, match=r"board-1.*AB02.*AB01.*pts-"):
        hub.open(0, board="board-1")
    other = hub.open(0, board="board-2")
    assert other is not port
    assert other.meta.name == f"{port.meta.name}-2"
    assert hub.open(0) is other


def test_a_lost_adapter_is_known_by_its_new_path(hub: Hub) -> None:
    port = hub.open(0)
    hub.reset(port)
    hub.plug(FIRST, 1)
    assert hub.open(1) is port
