"""Every failure of a driver has its class, its message and its limit, whatever labgrid and its libraries raise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import attr
import grpc
import pexpect
import pytest
import requests
from labgrid import Target
from labgrid.binding import BindingError, StateError
from labgrid.driver import Driver, ExternalPowerDriver, HttpDigitalOutputDriver
from labgrid.driver.exception import ExecutionError
from labgrid.exceptions import InvalidConfigError, NoDriverFoundError, NoResourceFoundError
from labgrid.protocol import DigitalOutputProtocol
from labgrid.resource import HttpDigitalOutput, RemotePlace, USBSerialPort
from support.facts import missing_facts
from support.strapserver import StrapServer, nobody, strap_server

from lab.drivers import BootModeDriver, WakePinsDriver, guarded_calls
from lab.drivers.guarded_calls import SHELL, STRAP, TimeLimitError, within
from lab.drivers.powerdriver import ForeignSwitch, switch_of
from lab.drivers.prompt import Prompt
from lab.errors import (
    BoardlabError,
    BoardTransientError,
    ConfigurationError,
    LabStableError,
    LabTransientError,
    TestStableError,
)

FOREVER_S = 60.0


@pytest.fixture
def server() -> Iterator[StrapServer]:
    with strap_server() as server:
        yield server


def straps(url: str, timeout: float = 30.0) -> BootModeDriver:
    target = Target("main")
    HttpDigitalOutput(
        target,
        "B3",
        url=url.replace("//", "//lab:secret@", 1) + "/bit3",
        body_asserted="on",
        body_deasserted="off",
        body_get_asserted="on",
        body_get_deasserted="off",
    )
    HttpDigitalOutputDriver(target, "B3")
    boot_mode = BootModeDriver(target, None, lines={3: "B3"}, timeout=timeout)
    target.activate(boot_mode)
    return boot_mode


@pytest.mark.parametrize(
    ("trouble", "failure", "kind"),
    [
        ("hang", "strap_timeout", LabTransientError),
        ("drip", "strap_timeout", LabTransientError),
        ("500", "strap_refused", LabTransientError),
        ("404", "strap_refused", LabStableError),
        ("no http", "strap_failed", LabTransientError),
        ("reset", "strap_failed", LabTransientError),
    ],
)
def test_a_strap_switch_that_misbehaves_has_its_class_and_can_be_used_again(
    server: StrapServer, trouble: str, failure: str, kind: type[BoardlabError]
) -> None:
    boot_mode = straps(server.url, timeout=0.5 if failure == "strap_timeout" else 30.0)
    server.trouble = trouble
    with pytest.raises(BoardlabError, match=r"B3 \(.*http://lab:\*\*\*@") as e:
        boot_mode.set(8)
    assert (e.value.failure, type(e.value)) == (failure, kind)
    assert "set bit 3 to 1" in str(e.value)
    assert not missing_facts(str(e.value), "resource", "env")
    assert "secret" not in str(e.value)
    server.trouble = ""
    boot_mode.timeout = 30.0  # a busy host is no trouble of the switch
    boot_mode.set(8)
    assert boot_mode.get() == 8


def test_an_answer_that_is_no_level_is_shown_without_what_moves_a_cursor(server: StrapServer) -> None:
    boot_mode = straps(server.url)
    server.trouble = "rubbish"
    with pytest.raises(LabTransientError, match=r"bit 3: ExecutionError") as raised:
        boot_mode.get()
    assert raised.value.failure == "strap_failed"
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "lacks body_get_asserted and body_get_deasserted"),
        ({"body_get_asserted": '.*"on".*'}, "lacks body_get_deasserted"),
        (
            {"body_get_asserted": "1", "body_get_deasserted": "0"},
            "has other body_get_asserted and body_get_deasserted",
        ),
        ({"body_get_asserted": '.*"on".*', "body_get_deasserted": '.*"off".*'}, ""),
    ],
)
def test_a_relay_that_answers_json_is_said_what_its_resource_lacks(
    server: StrapServer, given: dict[str, str], says: str
) -> None:
    server.trouble, target = "json", Target("main")
    HttpDigitalOutput(target, "B3", url=f"{server.url}/bit3", body_asserted="on", body_deasserted="off", **given)
    HttpDigitalOutputDriver(target, "B3")
    boot_mode = BootModeDriver(target, None, lines={3: "B3"})
    target.activate(boot_mode)
    if not says:
        boot_mode.set(0)
        return
    with pytest.raises(LabTransientError, match=says) as raised:
        boot_mode.set(0)
    assert raised.value.failure == "strap_failed"


def test_a_strap_switch_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(LabTransientError, match=r"Connection refused") as raised:
        straps(nobody()).set(8)
    assert raised.value.failure == "strap_unreachable"


def test_a_hanging_wake_up_pin_has_its_class(server: StrapServer) -> None:
    boot_mode = straps(server.url)
    pins = WakePinsDriver(boot_mode.target, None, pins={"gpio": "B3"}, timeout=0.5, pulse=0.0)
    boot_mode.target.activate(pins)
    server.trouble = "hang"
    with pytest.raises(LabTransientError) as raised:
        pins.press("gpio")
    assert raised.value.failure == "wake_pin_timeout"


@attr.s(eq=False)
class Failing(Driver, DigitalOutputProtocol):
    """Raises."""

    error: Any = attr.ib(default=None)

    def set(self, status: bool) -> NoReturn:  # noqa: ARG002
        raise self.error

    def get(self) -> NoReturn:
        raise self.error


def http_error(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("no", response=response)


class Rpc(grpc.RpcError):
    """As a coordinator that went away."""


@pytest.mark.parametrize(
    ("error", "failure", "kind"),
    [
        (pexpect.TIMEOUT("no prompt"), "strap_timeout", LabTransientError),
        (pexpect.EOF("gone"), "strap_unreachable", LabTransientError),
        (requests.ConnectTimeout(), "strap_timeout", LabTransientError),
        (requests.ConnectionError(), "strap_unreachable", LabTransientError),
        (requests.exceptions.InvalidURL("http://lab:secret@relay:x/"), "configuration", ConfigurationError),
        (http_error(503), "strap_refused", LabTransientError),
        (http_error(401), "strap_refused", LabStableError),
        (subprocess.TimeoutExpired(["ssh"], 3), "strap_timeout", LabTransientError),
        (subprocess.CalledProcessError(255, ["ssh"]), "strap_failed", LabTransientError),
        (TimeoutError("x"), "strap_timeout", LabTransientError),
        (ConnectionResetError("x"), "strap_unreachable", LabTransientError),
        (BrokenPipeError("x"), "strap_unreachable", LabTransientError),
        (OSError(5, "Input/output error"), "strap_unreachable", LabTransientError),
        (FileNotFoundError(2, "No such file", "/sys/class/gpio"), "strap_missing", LabStableError),
        (PermissionError(13, "Permission denied"), "strap_missing", LabStableError),
        (ExecutionError("no"), "strap_failed", LabTransientError),
        (Exception("Timeout while waiting for ssh connection"), "strap_failed", LabTransientError),
        (ValueError("no number"), "strap_failed", LabTransientError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "strap_failed", LabTransientError),
        (NoResourceFoundError("none"), "strap_missing", LabStableError),
        (NoDriverFoundError("none"), "strap_missing", LabStableError),
        (InvalidConfigError("none"), "configuration", ConfigurationError),
        (BindingError("none"), "configuration", ConfigurationError),
        (StateError("none"), "configuration", ConfigurationError),
        (ModuleNotFoundError("No module named 'pymodbus'"), "configuration", ConfigurationError),
        (Rpc(), "strap_unreachable", LabTransientError),
        (AttributeError("no attribute"), "strap_broken", LabStableError),
        (AssertionError(), "strap_broken", LabStableError),
        (RecursionError(), "strap_broken", LabStableError),
    ],
)
def test_every_exception_of_a_driver_has_its_class(error: Exception, failure: str, kind: type[BoardlabError]) -> None:
    target = Target("main")
    output = Failing(target, "B3", error=error)
    with pytest.raises(BoardlabError, match=r"strap B3 \(Failing\)") as raised:
        guarded_calls.call(output, STRAP, "set to 1", lambda: output.set(True), 1.0)
    assert (raised.value.failure, type(raised.value)) == (failure, kind)
    assert raised.value.__cause__ is error
    assert "secret" not in str(raised.value)


def test_a_resource_that_is_not_there_is_named_by_what_it_must_match() -> None:
    target = Target("main")
    absent = USBSerialPort(target, "main0", match={"ID_PATH": "pci-2.1"})
    output = Failing(
        target, "B3", error=NoResourceFoundError(f"Not all resources are available: {{{absent}}}", filter={absent})
    )
    with pytest.raises(LabStableError, match=r"USBSerialPort .*pci-2.1") as raised:
        guarded_calls.call(output, STRAP, "activate", lambda: output.set(True), 1.0)
    assert "target=" not in str(raised.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), TestStableError("ours")])
def test_what_is_ours_or_a_persons_is_handed_on_as_it_is(error: BaseException) -> None:
    output = Failing(Target("main"), None, error=error)
    with pytest.raises(type(error)) as raised:
        guarded_calls.call(output, STRAP, "set", lambda: output.set(True), 1.0)
    assert raised.value is error


def test_a_prompt_that_does_not_come_is_the_boards_fault() -> None:
    class Silent:
        name = None

        def run(self, _cmd: str, timeout: float) -> NoReturn:
            raise pexpect.TIMEOUT(f"nothing within {timeout}")

    with pytest.raises(BoardTransientError, match=r"`uname`: TIMEOUT: .* 3") as raised:
        Prompt(Silent(), SHELL).run("uname", timeout=3)
    assert raised.value.failure == "shell_timeout"


def hang() -> None:
    threading.Event().wait(FOREVER_S)


def hang_in_a_library_that_swallows_every_error() -> None:
    for _ in range(3):
        try:
            hang()
        except BaseException:  # noqa: S112, BLE001 - that is what is tested
            continue
    raise RuntimeError("after three tries")


def interrupted_in_its_cleanup() -> NoReturn:
    try:
        raise KeyboardInterrupt
    finally:
        raise AssertionError("step was stopped twice")


def test_ctrl_c_that_a_driver_turned_into_another_error_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        guarded_calls.call(Failing(Target("main"), None), STRAP, "set", interrupted_in_its_cleanup, 1.0)


def after_ctrl_c(work: Callable[[], NoReturn]) -> None:
    """What the session's end does: it calls a driver while Ctrl-C is being handled."""
    try:
        signal.default_int_handler(signal.SIGINT, None)
    except KeyboardInterrupt:
        guarded_calls.call(Failing(Target("main"), None), STRAP, "set", work, 1.0)


def test_an_error_while_the_board_is_switched_off_after_ctrl_c_is_told() -> None:
    def fails() -> NoReturn:
        raise AssertionError("no answer")

    with pytest.raises(LabStableError, match="no answer"):
        after_ctrl_c(fails)


def assert_goes_on(outer: tuple[float, float]) -> None:
    """The timer set before, pytest-timeout's or none, is as it was, less the time that has gone by."""
    remaining_s, again_s = signal.getitimer(signal.ITIMER_REAL)
    assert again_s == outer[1]
    assert remaining_s <= outer[0]
    assert (remaining_s > 0) == (outer[0] > 0)


@pytest.mark.parametrize("work", [hang, hang_in_a_library_that_swallows_every_error])
def test_a_call_that_hangs_ends_at_its_limit(work: Callable[[], None]) -> None:
    began, outer = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    with pytest.raises(TimeLimitError, match=r"not end within 0\.2 s"):
        within(0.2, work)
    assert time.monotonic() - began < FOREVER_S
    assert_goes_on(outer)


def test_a_limit_leaves_nothing_behind_where_the_call_ends_in_time() -> None:
    handler, outer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    assert within(FOREVER_S, lambda: 7) == 7
    assert signal.getsignal(signal.SIGALRM) is handler
    assert_goes_on(outer)


def test_the_outer_one_of_two_limits_rings_first_and_as_itself() -> None:
    with pytest.raises(TimeLimitError, match=r"0\.2 s"):
        within(0.2, lambda: within(FOREVER_S, hang))


def test_the_inner_one_of_two_limits_gives_the_outer_its_time_back() -> None:
    def work() -> float:
        with pytest.raises(TimeLimitError, match=r"0\.1 s"):
            within(0.1, hang)
        return signal.getitimer(signal.ITIMER_REAL)[0]

    assert 0 < within(FOREVER_S, work) < FOREVER_S


def test_a_program_that_hangs_is_killed_so_that_it_does_nothing_later(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = tmp_path / "hang.py"
    program.write_text(f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep({FOREVER_S})\n")
    target = Target("main")
    power = ExternalPowerDriver(target, None, cmd_on=f"{sys.executable} {program}", cmd_off="true")
    target.activate(power)
    with pytest.raises(TimeLimitError):
        within(2.0, power.on)
    assert os.waitstatus_to_exitcode(os.waitpid(int(pid.read_text()), 0)[1]) == -signal.SIGKILL


def test_a_power_driver_of_labgrid_keeps_time_and_fails_within_our_error_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    target = Target("main")
    power = switch_of(ExternalPowerDriver(target, None, cmd_on="true", cmd_off="false"))
    assert isinstance(power, ForeignSwitch)
    target.activate(power.driver)
    before_ns = power.clock.now_ns()
    power.on()
    assert power.edge is not None
    assert before_ns <= power.edge.requested_ns < power.edge.acknowledged_ns <= power.clock.now_ns()
    with pytest.raises(LabTransientError, match=r"ExternalPowerDriver.*off") as raised:
        power.off()
    assert raised.value.failure == "power_failed"


@pytest.mark.parametrize("error", [KeyError("params"), NoResourceFoundError("no NetworkSerialPort")])
@pytest.mark.parametrize("placed", [True, False])
def test_what_an_exporter_offers_no_more_is_away_and_no_defect(error: Exception, *, placed: bool) -> None:
    resources = [object.__new__(RemotePlace)] if placed else []  # made as usual, it asks its coordinator
    driver = SimpleNamespace(target=SimpleNamespace(resources=resources))

    def fail() -> NoReturn:
        raise error

    with pytest.raises(LabTransientError if placed else LabStableError) as caught:
        guarded_calls.call(driver, STRAP, "activate", fail, FOREVER_S)
    assert (caught.value.failure == "exporter_gone") is placed


@attr.s(auto_attribs=True)
class Plugged:
    """A resource of labgrid's as udev has matched it; `later` is what its queue still has."""

    port: str | None
    device: Any = attr.ib(factory=lambda: SimpleNamespace(device_path="/devices/virtual/mem/null"))
    later: str | None = ""

    def poll(self) -> None:
        if self.later != "":
            self.port = self.later


def test_a_node_of_a_device_that_udev_has_matched_is_used() -> None:
    assert guarded_calls.current_node(Plugged("/dev/null"), "port", guarded_calls.CONSOLE) == "/dev/null"


@pytest.mark.parametrize("later", ["/dev/null", None])
def test_a_node_that_is_another_device_s_now_is_asked_of_labgrid_again(later: str | None) -> None:
    assert guarded_calls.current_node(Plugged("/dev/zero", later=later), "port", guarded_calls.CONSOLE) == later


@pytest.mark.parametrize("node", ["/dev/zero", "/dev/nothing"])
def test_a_node_that_stays_another_device_s_is_not_used(node: str) -> None:
    with pytest.raises(LabTransientError, match=r"not .*/mem/null.*again") as caught:
        guarded_calls.current_node(Plugged(node), "port", guarded_calls.MULTIPLEXER)
    assert caught.value.failure == "multiplexer_unreachable"
