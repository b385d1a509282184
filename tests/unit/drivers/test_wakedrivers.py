"""What wakes a board: pins through digital outputs, and commands of the host as such outputs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid import Target
from labgrid.driver import FileDigitalOutputDriver
from labgrid.resource import NetworkSerialPort
from support.playedssh import played_ssh

from lab.console.published import PublishedPort
from lab.drivers import BootModeDriver, CommandOutputDriver, StampedConsoleDriver, WakePinsDriver
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import time_line
from lab.host.ssh import SshLink


def command(path: Path) -> list[str]:
    return [sys.executable, "-c", f"open({str(path)!r}, 'a').write('x')"]


def test_a_press_asserts_the_pins_output_and_releases_it_and_bounds_the_edge(tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.write_text("0\n")
    target = Target("main")
    FileDigitalOutputDriver(target, "WKGPIO", filepath=str(pin))
    pins = WakePinsDriver(target, None, pins={"gpio": "WKGPIO"}, pulse=0.0)
    target.activate(pins)
    before_ns = pins.clock.now_ns()
    requested_ns, acknowledged_ns = pins.press("gpio")
    assert before_ns <= requested_ns <= acknowledged_ns <= pins.clock.now_ns()
    assert pin.read_text() == "0\n"


def test_a_command_of_the_host_is_an_output_that_can_wake_the_board(tmp_path: Path) -> None:
    sent = tmp_path / "frames"
    target = Target("main")
    CommandOutputDriver(target, "CAN", asserted=command(sent))
    pins = WakePinsDriver(target, None, pins={"can": "CAN"}, pulse=0.0)
    target.activate(pins)
    pins.press("can")
    assert sent.read_text() == "x", "once: nothing is done when it is deasserted"


@pytest.mark.parametrize("pins", [{}, {"moon": "X"}, {"gpio": 3}, ["gpio"]])
def test_pins_that_are_no_wake_up_sources_are_refused(pins: object) -> None:
    with pytest.raises(ConfigurationError, match="WakePinsDriver: pins"):
        WakePinsDriver(Target("main"), None, pins=pins)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('no such interface')"], LabTransientError, "no such interface"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], LabTransientError, "did not end within 0.2 s"),
        (["/nowhere/cansend"], ConfigurationError, "mend CommandOutputDriver"),
    ],
)
def test_a_command_that_does_not_do_it_is_named(words: list[str], error: type[Exception], says: str) -> None:
    target = Target("main")
    output = CommandOutputDriver(target, None, asserted=words, timeout=0.2)
    target.activate(output)
    with pytest.raises(error, match=says):
        output.set(True)
    assert output.get() is False


def test_a_command_is_a_list_of_words() -> None:
    with pytest.raises(ConfigurationError, match=r"asserted.*list of words"):
        CommandOutputDriver(Target("main"), None, asserted="cansend can0 123#00")


def output_at(line: str, runtime: Path, **arguments: Any) -> CommandOutputDriver:
    """A strap at the host of a board's console; `line` says on which one that is."""
    target = Target("main")
    port = NetworkSerialPort(target, None, host="127.0.0.1", port=4000, protocol="raw")
    port.extra = PublishedPort("/run/console.sock", "lab-2", "m", line, "/dev/ttyUSB0").extra()
    console = StampedConsoleDriver(target, None, runtime=str(runtime))
    target.get_strategy = lambda: SimpleNamespace(console=console)
    output = CommandOutputDriver(target, "B0", at="console", **arguments)
    target.activate(output)
    return output


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an ssh that is first in PATH."""
    return played_ssh(tmp_path / "bin", monkeypatch)


def test_a_command_at_the_console_runs_on_its_host_and_its_strap_is_read_back(tmp_path: Path, ssh: Path) -> None:
    pin, said = tmp_path / "a pin", ["sh", "-c", 'echo "$1 $AT" > "$2"', "-"]
    output = output_at(
        "another boot",
        tmp_path / "run",
        asserted=[*said, "1", str(pin)],
        deasserted=[*said, "0", str(pin)],
        reads=["cut", "-c1", str(pin)],
    )
    output.set(True)
    assert pin.read_text() == "1 lab-2\n"
    assert output.get() is True
    output.set(False)
    assert output.get() is False
    pin.write_text("stuck\n")
    with pytest.raises(LabTransientError, match=r"lab-2.*1 or 0.*'s'"):
        output.get()
    (ssh / "away").touch()
    with pytest.raises(LabTransientError, match=r"lab-2.*Connection closed") as caught:
        output.set(True)
    assert caught.value.failure == "console_link"


def test_a_strap_at_a_connection_that_hangs_is_set_over_a_new_one(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = SshLink("lab-2", tmp_path / "ssh", answer_s=1.0)
    monkeypatch.setattr(SshLink, "to", lambda *_args: link)
    pin = tmp_path / "pin"
    output = output_at("another boot", tmp_path / "run", asserted=["touch", str(pin)], reads=["echo", "1"])
    straps = BootModeDriver(output.target, None, lines={0: "B0"}, timeout=0.5)
    output.target.activate(straps)
    assert straps.get() == 1  # there is a connection
    (ssh / "hangs").touch()
    straps.set(1)
    assert pin.exists()
    assert not (ssh / "hangs").exists()


@pytest.mark.usefixtures("ssh")
def test_a_program_that_the_other_host_has_not_is_named(tmp_path: Path) -> None:
    output = output_at("another boot", tmp_path / "run", asserted=["no-such-relay", "1"])
    with pytest.raises(ConfigurationError, match=r"no-such-relay 1 on lab-2"):
        output.set(True)


def test_a_command_at_a_console_of_this_host_needs_no_ssh(tmp_path: Path) -> None:
    output = output_at(time_line(), tmp_path / "run", asserted=["touch", str(tmp_path / "set")])
    output.set(True)
    assert (tmp_path / "set").exists()


def test_a_console_that_does_not_say_where_it_is_has_no_commands(tmp_path: Path) -> None:
    target = Target("main")
    output = CommandOutputDriver(target, "B0", at="console", asserted=["touch", str(tmp_path / "set")])
    with pytest.raises(ConfigurationError, match=r"needs a BoardStrategy"):
        target.activate(output)
