"""What wakes a board: pins through digital outputs, and commands of the host as such outputs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from labgrid import Target
from labgrid.driver import FileDigitalOutputDriver

from lab.drivers import CommandOutputDriver, WakePinsDriver
from lab.errors import ConfigurationError, LabTransientError


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
    with pytest.raises(ConfigurationError, match="asserted must be a list of words"):
        CommandOutputDriver(Target("main"), None, asserted="cansend can0 123#00")
