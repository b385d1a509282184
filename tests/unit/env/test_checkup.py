"""The check of a board, on simulated boards in virtual time: what each fault of the lab makes of it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import define, evolve, field, frozen
from labgrid import Target
from labgrid.resource import NetworkSerialPort
from support.facts import missing_facts
from support.simruns import SimBench, bench, planned

from lab import boards
from lab.boards.hardware import Rail
from lab.console.model import Lateness
from lab.console.published import PublishedPort
from lab.drivers import StampedConsoleDriver
from lab.env.checkup import CheckUp, host_of, part_of
from lab.errors import LabTransientError
from lab.health import BoardCheck, CheckedPart
from lab.health.state import PARTS
from lab.host.clock import time_line, utc_now
from lab.rails.config import AUTOMATION

ALWAYS = "1-9"


@frozen
class Wiring:
    """What `RailsDriver.config` says."""

    measured: list[Rail]


@define
class Rails:
    """Sensors that read the nominal voltages while the board has power, but for what a test makes of one."""

    bench: SimBench
    wrong: dict[str, float] = field(factory=dict)
    silent: frozenset[str] = frozenset()
    stays: bool = False
    held: int = 0  # readings after power off in which its supplies still hold
    sensors: SimpleNamespace = field(factory=lambda: SimpleNamespace(backend=AUTOMATION))  # not sampled at power on
    config: Wiring = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.config = Wiring(boards.load("am62xx_sk").rails)

    def volts(self, _seconds: float = 0.0) -> dict[str, float]:
        on = self.stays or self.bench.lab.board.computer is not None
        if not on and self.held:
            self.held, on = self.held - 1, True
        return {
            rail.name: self.wrong.get(rail.name, rail.volts) if on else 0.01
            for rail in self.config.measured
            if rail.name not in self.silent
        }


def checked(
    folder: Path, *faults: str, with_rails: bool = False, change: Callable[[SimBench], None] = lambda _bench: None
) -> dict[str, CheckedPart]:
    """A check of a board on which these faults strike at every power on."""
    with bench(folder, [planned(name, cycles=ALWAYS) for name in faults]) as made:
        if with_rails:
            made.strategy.rails = Rails(made)
        change(made)
        parts = CheckUp(made.strategy, lambda _line: None).run()
        assert made.lab.outlet == "off", "a check leaves the board off"
    assert [part.name for part in parts] == list(PARTS)
    return {part.name: part for part in parts}


def outcome(parts: dict[str, CheckedPart]) -> dict[str, str]:
    return {name: part.failure or part.outcome for name, part in parts.items()}


def verdict(parts: dict[str, CheckedPart]) -> BoardCheck:
    return BoardCheck("sim-1", "am62xx_sk", "lab-1", utc_now(), tuple(parts.values()))


def test_a_board_that_works_passes_with_what_was_found(tmp_path: Path) -> None:
    parts = checked(tmp_path, with_rails=True)
    assert outcome(parts) == dict.fromkeys(PARTS, "ok")
    assert verdict(parts).passed
    assert not missing_facts(parts["medium"].message, "sd", "8 MiB", "/dev/mmcblk1p2")
    assert not missing_facts(parts["power"].message, "rails", "power on", "1.0 s after power off")
    assert not missing_facts(parts["boot"].message, "login prompt", "0.21 s after power on")
    assert "within 8%" in parts["rails"].message


def test_the_time_for_which_supplies_hold_after_power_off_is_told(tmp_path: Path) -> None:
    parts = checked(tmp_path, with_rails=True, change=lambda made: setattr(made.strategy.rails, "held", 10))
    assert parts["power"].outcome == "ok"
    assert "1.5 s after power off" in parts["power"].message


def test_the_lateness_of_stamps_is_told_at_rest_and_with_busy_processors(tmp_path: Path) -> None:
    """Evidence that comes while the board prints its log is told; the usual lateness is the least."""
    evidence_ns = [200_000, 2_500_000]
    with bench(tmp_path) as made:
        made.strategy.transition("linux")
        linux, console = made.strategy.linux, made.strategy.console

        class Late:
            def run(self, command: str) -> object:
                console.capture.append(Lateness(0, 0, evidence_ns.pop(0)))
                return linux.run(command)

        checkup = CheckUp(made.strategy, lambda _line: None, loads=True)
        text = checkup._lateness(Late())
        unloaded = CheckUp(made.strategy, lambda _line: None)._lateness(linux).partition("at rest")[2]
        assert "late" not in unloaded
        assert not missing_facts(unloaded, "not measured", "other boards")
    assert not missing_facts(text, "0.30 ms late at rest", "2.50 ms with")


def test_without_sensors_the_console_proves_the_power_cycle(tmp_path: Path) -> None:
    parts = checked(tmp_path)
    assert verdict(parts).passed
    assert not missing_facts(parts["power"].message, "switched on", "switched off", "silent")
    assert "rails" not in parts["power"].message
    assert parts["rails"].outcome == "not tried"


@pytest.mark.parametrize(
    ("fault", "with_rails", "found", "passed", "of_the_lab"),
    [
        pytest.param(
            "silent_console", False, {"console": "silent", "power": "not tried"}, False, "", id="dead console"
        ),
        pytest.param(
            "silent_console",
            True,
            {"console": "silent", "power": "ok"},
            False,
            "",
            id="dead console, its rails are up",
        ),
        pytest.param("wrong_baud", False, {"console": "garbled"}, False, "", id="unreadable console"),
        pytest.param("pdu_lies", True, {"power": "power_lost"}, False, "power_lost", id="a switch that does nothing"),
        pytest.param(
            "stuck_relay", False, {"power": "power_off_ineffective"}, False, "power_off_ineffective", id="stuck"
        ),
        pytest.param("pdu_error", False, {"power": "pdu_refused"}, False, "pdu_refused", id="a switch that refuses"),
        pytest.param("no_boot_device", False, {"medium": "no_boot_device"}, False, "", id="no medium"),
        pytest.param("corrupted_medium", False, {"medium": "io_error"}, False, "", id="a medium that cannot be read"),
        pytest.param("wrong_medium", False, {"medium": "wrong_medium"}, False, "", id="straps"),
        pytest.param("kernel_panic", False, {"boot": "kernel_panic", "console": "ok"}, True, "", id="a bad release"),
    ],
)
def test_a_fault_is_found_in_its_part_and_is_whose_it_is(
    tmp_path: Path, fault: str, with_rails: bool, found: dict[str, str], passed: bool, of_the_lab: str
) -> None:
    parts = checked(tmp_path, fault, with_rails=with_rails)
    check = verdict(parts)
    assert found.items() <= outcome(parts).items()
    assert check.passed is passed
    assert (check.fault.failure if check.fault else "") == of_the_lab
    for part in check.failed:
        assert part.message
        assert part.said or fault in {"silent_console", "pdu_lies", "pdu_error"}, "what the console said is kept"


@pytest.mark.parametrize(
    ("change", "part", "failure", "says"),
    [
        pytest.param({"wrong": {"vdd_core": 1.2}}, "rails", "rail_out_of_range", "vdd_core reads 1.200 V", id="range"),
        pytest.param({"silent": frozenset({"vdd_core"})}, "rails", "rail_unread", "no sensor answers", id="silent"),
        pytest.param({"stays": True}, "power", "power_off_ineffective", "still has", id="fed from elsewhere"),
    ],
)
def test_rails_are_compared_with_what_the_board_type_says(
    tmp_path: Path, change: dict[str, object], part: str, failure: str, says: str
) -> None:
    def wire(made: SimBench) -> None:
        made.strategy.rails = Rails(made, **change)

    parts = checked(tmp_path, change=wire)
    assert (parts[part].failure, parts[part].fault) == (failure, "lab")
    assert says in parts[part].message
    assert not verdict(parts).passed


@pytest.mark.parametrize(
    ("scaled", "volts", "passes"),
    [
        pytest.param({"range_v": [0.75, 1.0]}, 0.75, True, id="a slow operating point"),
        pytest.param({"range_v": [0.75, 1.0]}, 1.2, False, id="out of its range"),
        pytest.param({}, 1.2, True, id="on, and nobody knows its range"),
        pytest.param({}, 0.02, False, id="off"),
    ],
)
def test_a_rail_that_software_scales_need_not_be_near_its_nominal_voltage(
    tmp_path: Path, scaled: dict[str, list[float]], volts: float, passes: bool
) -> None:
    def wire(made: SimBench) -> None:
        kind = made.strategy.type
        rails = [evolve(rail, scaled=True, **scaled) if rail.name == "vdd_core" else rail for rail in kind.rails]
        made.strategy.type = evolve(kind, rails=rails)
        made.strategy.rails = Rails(made, wrong={"vdd_core": volts})

    parts = checked(tmp_path, change=wire)
    assert (parts["rails"].outcome, parts["rails"].failure) == (
        ("ok", "") if passes else ("failed", "rail_out_of_range")
    )
    assert "vdd_core" in parts["rails"].message


def test_a_range_is_of_a_scaled_rail_and_holds_its_nominal_voltage() -> None:
    mpu = next(rail for rail in boards.load("am43xx-gpevm").rails if rail.name == "vdd_mpu")
    assert mpu.range_v == [0.95, 1.325]
    for change in ({"scaled": False}, {"range_v": [1.2, 1.3]}, {"range_v": [1.1]}):
        with pytest.raises(ValueError, match="range_v of rail vdd_mpu"):
            evolve(mpu, **change)


def test_a_fault_that_passes_costs_a_second_try_and_no_verdict(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("kernel_panic", cycles="1")]) as made:
        said: list[str] = []
        parts = CheckUp(made.strategy, said.append).run()
    assert {part.name: part.outcome for part in parts} | {"rails": "ok"} == dict.fromkeys(PARTS, "ok")
    assert said[0].endswith("Once more.")


def test_a_console_that_changes_what_is_typed_fails(tmp_path: Path) -> None:
    class Deaf:
        def run(self, command: str, _timeout: float = 0.0) -> tuple[list[str], list[str], int]:
            return [command.replace("boardlab", "boardlb")], [], 0

    with bench(tmp_path) as made:
        checkup = CheckUp(made.strategy, lambda _line: None)
        checkup._part("console", lambda: checkup._check_echo(Deaf()))
    assert checkup.parts["console"].failure == "console_echo"


def test_an_adapter_that_is_not_there_is_of_the_console(tmp_path: Path) -> None:
    def unplug(made: SimBench) -> None:
        def gone() -> None:
            raise LabTransientError("/dev/ttyUSB0 is not there", failure="port_missing")

        made.strategy.check_lab = gone

    parts = checked(tmp_path, change=unplug)
    assert outcome(parts)["console"] == "port_missing"


@pytest.mark.parametrize(
    ("failure", "part"),
    [("pdu_timeout", "power"), ("strap_refused", "medium"), ("port_lost", "console"), ("kernel_oops", "boot")],
)
def test_a_class_speaks_of_a_part(failure: str, part: str) -> None:
    assert part_of(failure) == part


@pytest.mark.parametrize(
    ("host", "line", "found"),
    [
        pytest.param("lab-7", "another host's", "lab-7", id="on another host"),
        pytest.param("lab-7", time_line(), "lab-7", id="here, by the name that other hosts know it by"),
        pytest.param("127.0.0.1", time_line(), socket.gethostname(), id="here, without a name"),
    ],
)
def test_the_host_is_what_the_exporter_says_and_no_address_of_a_tcp_port(host: str, line: str, found: str) -> None:
    """`lab farm export` publishes 127.0.0.1, since stock clients come through ssh."""
    target = Target("main")
    port = NetworkSerialPort(target, None, host="127.0.0.1", port=4711)
    port.extra = {  # as RemotePlace has it
        "proxy": host,
        "proxy_required": True,
        **PublishedPort("/run/boardlab/console.sock", host, "", line, "/dev/ttyUSB0").extra(),
    }
    assert host_of(SimpleNamespace(console=StampedConsoleDriver(target, None))) == found


def test_the_host_of_a_port_here_is_this_one_and_that_of_a_terminal_server_is_its_name(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        assert host_of(made.strategy) == socket.gethostname()
    target = Target("main")
    NetworkSerialPort(target, None, host="192.0.2.7", port=4711)
    assert host_of(SimpleNamespace(console=StampedConsoleDriver(target, None))) == "192.0.2.7"
