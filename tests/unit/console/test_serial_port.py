"""Opening ports: raw, alone, and with a reason when it does not work."""

from __future__ import annotations

import fcntl
import grp
import os
import shutil
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.console_bench import Adapter
from support.facts import missing_facts

from lab.console.serial_port import close_port, is_pty, line_errors, open_port, set_speed
from lab.errors import ConfigurationError, LabStableError


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Adapter]:
    adapter = Adapter(tmp_path / "uart0")
    yield adapter
    adapter.close()


def test_a_port_is_raw_8n1_and_never_blocks(adapter: Adapter) -> None:
    left_behind = termios.tcgetattr(adapter.board)
    left_behind[6][termios.VMIN], left_behind[6][termios.VTIME] = 0, 5
    termios.tcsetattr(adapter.board, termios.TCSANOW, left_behind)
    port = open_port(adapter.link, 115200)
    adapter.say(b"\x03\x04\r\n\x11\x13\xff")
    assert os.read(port.fd, 100) == b"\x03\x04\r\n\x11\x13\xff"
    with pytest.raises(BlockingIOError):
        os.read(port.fd, 100)
    os.write(port.fd, b"\n\x03")
    assert adapter.heard(2) == b"\n\x03"
    _, _, control, _, _, speed, characters = termios.tcgetattr(port.fd)
    assert (characters[termios.VMIN], characters[termios.VTIME]) == (1, 0)
    assert control & termios.CSIZE == termios.CS8
    assert not control & (termios.PARENB | termios.CSTOPB)
    assert speed == termios.B115200
    close_port(port.fd)


def test_a_pty_says_that_it_has_no_low_latency_mode_and_no_counters(adapter: Adapter) -> None:
    port = open_port(adapter.link, 115200)
    assert not missing_facts(port.low_latency, "not supported")
    assert (port.adapter_latency_ns, port.fifo_bytes) == (0, 1)
    assert line_errors(port.fd) is None
    assert is_pty(adapter.link)
    assert not is_pty(Path("/dev/null"))
    close_port(port.fd)


def test_a_link_that_outlived_its_pty_does_not_lead_to_another_programs(adapter: Adapter, tmp_path: Path) -> None:
    through = tmp_path / "through"
    through.symlink_to(adapter.link.name)
    pty = adapter.link.resolve()
    while pty.stat().st_ctime_ns <= adapter.link.lstat().st_ctime_ns:
        pty.chmod(0o600)  # as new as if it had been made after the link; nothing else sets this time
    for link in (adapter.link, through):
        with pytest.raises(LabStableError, match=r"newer.*link anew") as caught:
            open_port(link, 115200)
        assert caught.value.failure == "port_missing"
    adapter.link.unlink()
    adapter.link.symlink_to(pty)
    close_port(open_port(through, 115200).fd)


def test_a_port_is_opened_once(adapter: Adapter) -> None:
    port = open_port(adapter.link, 115200)
    with pytest.raises(LabStableError, match=r"another program") as caught:
        open_port(adapter.link, 115200)
    assert caught.value.failure == "port_in_use"
    close_port(port.fd)
    close_port(open_port(adapter.link, 115200).fd)


def test_a_port_that_others_locked_is_not_touched(adapter: Adapter) -> None:
    other = os.open(adapter.link, os.O_RDWR | os.O_NOCTTY)
    before = termios.tcgetattr(other)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(LabStableError, match="in use"):
        open_port(adapter.link, 9600)
    assert termios.tcgetattr(other) == before
    os.close(other)


@pytest.mark.parametrize(
    ("device", "kind", "says"),
    [
        ("missing", LabStableError, "no such port; plug the adapter in"),
        ("file", ConfigurationError, "not a serial port"),
        ("", ConfigurationError, "not a serial port"),
        ("file/below", LabStableError, "cannot be opened: Not a directory"),
    ],
)
def test_what_cannot_be_opened_says_why(tmp_path: Path, device: str, kind: type[Exception], says: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(kind, match=says):
        open_port(tmp_path / device, 115200)


def test_a_speed_that_does_not_exist_is_refused(adapter: Adapter) -> None:
    with pytest.raises(ConfigurationError, match="115201 Bd is not a speed"):
        open_port(adapter.link, 115201)


@pytest.fixture
def without_4m(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver like ftdi_sio with an FT232B: it sets 9600 Bd for what the adapter lacks."""
    settle = termios.tcsetattr

    def set_termios(fd: int, when: int, attributes: list[Any]) -> None:
        iflag, oflag, cflag, lflag, ispeed, ospeed, characters = attributes
        if ospeed == termios.B4000000:
            ispeed = ospeed = termios.B9600
        settle(fd, when, [iflag, oflag, cflag, lflag, ispeed, ospeed, characters])

    monkeypatch.setattr("lab.console.serial_port.termios.tcsetattr", set_termios)


def test_a_speed_that_the_driver_does_not_take_is_refused(adapter: Adapter, without_4m: None) -> None:
    with pytest.raises(LabStableError, match=r"no 4000000 Bd.*9600 Bd"):
        open_port(adapter.link, 4000000)
    port = open_port(adapter.link, 115200)
    with pytest.raises(LabStableError, match=r"adapter.*no 4000000 Bd"):
        set_speed(port.fd, adapter.link, 4000000)
    assert termios.tcgetattr(port.fd)[5] == termios.B115200, "as before"
    set_speed(port.fd, adapter.link, 921600)
    close_port(port.fd)


@pytest.mark.parametrize(
    ("files", "links", "expected"),
    [
        ({"device/latency_timer": "1\n"}, {}, ("FTDI, latency timer 1 ms", 1_000_000, 1)),
        ({"device/latency_timer": "16\n"}, {}, ("FTDI, latency timer 16 ms", 16_000_000, 1)),
        ({}, {"device/subsystem": "usb-serial"}, ("usb-serial, no latency timer known", 1_000_000, 1)),
        ({}, {"device/subsystem": "usb"}, ("usb, no latency timer known", 1_000_000, 1)),
        ({"xmit_fifo_size": "16\n"}, {"device/subsystem": "platform"}, ("UART on the host, FIFO of 16", 0, 16)),
        ({"xmit_fifo_size": "0\n"}, {}, ("UART on the host", 0, 1)),
        ({}, {}, ("no adapter known", 0, 1)),
    ],
)
def test_the_adapter_s_latency_comes_from_sysfs(
    adapter: Adapter,
    tmp_path: Path,
    files: dict[str, str],
    links: dict[str, str],
    expected: tuple[str, int, int],
) -> None:
    entry = tmp_path / "sys" / adapter.link.resolve().name
    (entry / "device").mkdir(parents=True)
    for name, text in files.items():
        (entry / name).write_text(text)
    for name, target in links.items():
        (tmp_path / "bus" / target).mkdir(parents=True)
        (entry / name).symlink_to(tmp_path / "bus" / target)
    port = open_port(adapter.link, 115200, tmp_path / "sys")
    close_port(port.fd)
    words, latency_ns, fifo_bytes = expected
    assert port.adapter.startswith(words)
    assert (port.adapter_latency_ns, port.fifo_bytes) == (latency_ns, fifo_bytes)


def test_the_firmware_of_a_usb_adapter_is_part_of_its_name(adapter: Adapter, tmp_path: Path) -> None:
    device = tmp_path / "usb1" / "1-1"
    (device / "1-1:1.0").mkdir(parents=True)
    for name, text in {"idVendor": "0451", "idProduct": "bef3", "bcdDevice": "0100", "product": "XDS110"}.items():
        (device / name).write_text(f"{text}\n")
    entry = tmp_path / "sys" / adapter.link.resolve().name
    entry.mkdir(parents=True)
    (entry / "device").symlink_to(device / "1-1:1.0")
    port = open_port(adapter.link, 115200, tmp_path / "sys")
    close_port(port.fd)
    assert not missing_facts(port.adapter, "no adapter", "0451:bef3", "0100", "XDS110")


@pytest.fixture
def stranger() -> Iterator[None]:
    """Somebody without root's rights."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


@pytest.mark.parametrize(("mode", "says"), [(0o060, "it belongs to group {group}"), (0o000, "its group may not")])
def test_a_port_that_one_may_not_open_names_the_group_that_may(
    forbidden: Path, stranger: None, mode: int, says: str
) -> None:
    group = grp.getgrgid(forbidden.stat().st_gid).gr_name
    with pytest.raises(LabStableError, match=f"not permitted; {says.format(group=group)}") as caught:
        open_port(forbidden, 115200)
    assert caught.value.failure == "port_permission"


@pytest.fixture
def forbidden(mode: int) -> Iterator[Path]:
    """A device that its owner may not open, in a folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="console-"))
    folder.chmod(0o755)
    device = folder / "tty"
    device.touch()
    if os.geteuid() == 0:
        shutil.chown(device, group="tty")
    device.chmod(mode)
    yield device
    device.unlink()
    folder.rmdir()
