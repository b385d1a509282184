"""Every power driver of labgrid switches a board that is measured; and a board whose power somebody else cuts."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid import Target
from labgrid.driver import (
    DigitalOutputPowerDriver,
    Driver,
    ExternalPowerDriver,
    HttpDigitalOutputDriver,
    ManualPowerDriver,
    ManualSwitchDriver,
    NetworkPowerDriver,
)
from labgrid.resource import HttpDigitalOutput, NetworkPowerPort
from support.facts import missing_facts
from support.simruns import SimBench, bench
from support.simtarget import OUTLET

from lab.drivers import powerdriver
from lab.errors import LabTransientError
from lab.metrics.catalogue import BOOT_POWER_ON
from lab.rails.config import AUTOMATION

MID_BOOT = "Starting kernel"
TELL_PDUDAEMON = "import sys, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(sys.argv[1]).read()"


def command(target: Target, address: str) -> Driver:
    """A program that tells pdudaemon."""
    tell = f"{sys.executable} -S -c '{TELL_PDUDAEMON}' http://{address}/power/control"
    return ExternalPowerDriver(target, None, cmd_on=f"{tell}/on", cmd_off=f"{tell}/off")


def network(target: Target, address: str) -> Driver:
    """A network switch of labgrid's model `rest`."""
    NetworkPowerPort(target, None, model="rest", host=f"http://{address}{OUTLET}", index=1)
    return NetworkPowerDriver(target, None)


def output(target: Target, address: str) -> Driver:
    """A digital output."""
    levels = {"body_asserted": "1", "body_deasserted": "0", "body_get_asserted": "1", "body_get_deasserted": "0"}
    HttpDigitalOutput(target, "feed", url=f"http://{address}{OUTLET}", **levels)
    HttpDigitalOutputDriver(target, "feed")
    target.set_binding_map({"output": "feed"})
    return DigitalOutputPowerDriver(target, None)


def person(target: Target, _address: str) -> Driver:
    """Somebody who is asked."""
    return ManualPowerDriver(target, None)


def persons_output(target: Target, _address: str) -> Driver:
    """A digital output that is somebody who is asked."""
    ManualSwitchDriver(target, "feed", description="the feed")
    target.set_binding_map({"output": "feed"})
    return DigitalOutputPowerDriver(target, None)


def obeying(made: SimBench, asked: list[str]) -> Callable[[str], str]:
    """A person who does as asked, after two seconds, and presses Enter another second later."""

    def answer(prompt: str) -> str:
        asked.append(prompt)
        made.lab.run_for(2_000_000_000)
        words = prompt.casefold().split()
        made.lab.switch("on" if "on" in words else "off")
        made.lab.run_for(1_000_000_000)
        return ""

    return answer


@pytest.mark.parametrize("power", [command, network, output, person, persons_output])
def test_a_board_is_measured_whichever_driver_of_labgrid_switches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, power: Callable[[Target, str], Driver]
) -> None:
    asked: list[str] = []
    with bench(tmp_path, power=power) as made:
        monkeypatch.setattr(builtins, "input", obeying(made, asked))
        assert [attempt.outcome for attempt in made.measure()] == ["ok"]
        for (value, uncertainty), true in zip(made.samples_s(), made.true_boots(), strict=True):
            assert abs(value - true.boot_s) <= uncertainty
        since_power_on = made.store.samples(made.run.run.id, metric=BOOT_POWER_ON.name)
        for sample, true in zip(since_power_on, made.true_boots(), strict=True):
            assert abs(sample.value - true.from_power_on_s) <= sample.uncertainty
        edge = made.strategy.power.edge
        assert edge.requested_ns <= edge.acknowledged_ns
        assert powerdriver.last_command(made.strategy.power.outlet) is not None
    assert bool(asked) == (power in {person, persons_output})


@pytest.mark.parametrize("power", [person, persons_output])
def test_a_person_has_minutes_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, power: Callable[[Target, str], Driver]
) -> None:
    limits: list[float] = []

    def within(limit_s: float, work: Callable[[], Any]) -> Any:
        limits.append(limit_s)
        return work()

    with bench(tmp_path, power=power) as made:
        made.strategy.check_lab()
        monkeypatch.setattr(builtins, "input", obeying(made, []))
        monkeypatch.setattr("lab.drivers.guarded_calls.within", within)
        made.strategy.power.on()
    assert limits == [600.0]


def test_where_nobody_is_there_to_be_asked_the_run_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_prompt: str) -> str:
        raise EOFError("EOF when reading a line")

    with bench(tmp_path, power=person) as made:
        monkeypatch.setattr(builtins, "input", nobody)
        (attempt,) = made.measure()
    assert (attempt.outcome, attempt.fault, attempt.transient) == ("power_missing", "lab", False)
    assert not missing_facts(attempt.message, "no terminal")


def test_a_switch_that_can_tell_says_that_somebody_else_cut_the_power(tmp_path: Path) -> None:
    with bench(tmp_path, power=network) as made:
        made.lab.cut_after = MID_BOOT
        first, second = made.measure()
    assert (first.outcome, first.fault, first.transient) == ("power_lost", "lab", True)
    assert not missing_facts(first.message, "outlet", "rest 1", "http://127.0.0.1")
    assert "hung in kernel" in first.message
    assert second.outcome == "ok"


def test_where_the_switch_cannot_tell_power_is_named_among_the_causes(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.lab.cut_after = MID_BOOT
        first, second = made.measure()
    assert (first.outcome, first.fault) == ("hang_kernel", "board")
    assert not missing_facts(first.message, "cannot tell", "bench 1", "127.0.0.1")
    assert second.outcome == "ok"


def test_a_hang_of_a_board_whose_switch_says_on_stays_a_hang(tmp_path: Path) -> None:
    with bench(tmp_path, power=network) as made:
        made.lab.cut_after = MID_BOOT
        made.lab.board.dark_hook = lambda: setattr(made.lab, "outlet", "on")
        first, _ = made.measure()
    assert first.outcome == "hang_kernel"
    assert "power" not in first.message


def test_another_program_of_this_host_that_switched_off_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench(tmp_path) as made:
        switch = made.lab.switch

        def told(command: str) -> Any:
            if not made.lab.cut_after:
                powerdriver.record_command(made.strategy.power.outlet, "off", made.strategy.on_at + 5, 0.1, done=True)
            return switch(command)

        monkeypatch.setattr(type(made.lab), "switch", lambda _lab, command: told(command))
        made.lab.cut_after = MID_BOOT
        first, _ = made.measure()
    assert first.outcome == "power_lost"
    assert not missing_facts(first.message, "another program")


@pytest.mark.parametrize(
    ("volts", "outcome", "says"),
    [
        ({"vdd_core": 0.0, "soc_dvdd_3v3": 0.02}, "power_lost", "its rails are off (vdd_core 0.00 V, soc_dvdd_3v3"),
        ({"vdd_core": 0.85}, "hang_kernel", "hung in kernel"),
        ({}, "hang_kernel", "the power switch cannot tell"),
    ],
)
def test_rails_tell_whether_there_is_power(tmp_path: Path, volts: dict[str, float], outcome: str, says: str) -> None:
    with bench(tmp_path) as made:
        made.strategy.rails = SimpleNamespace(volts=lambda: volts, sensors=SimpleNamespace(backend=AUTOMATION))
        made.lab.cut_after = MID_BOOT
        first, _ = made.measure()
    assert first.outcome == outcome
    assert says in first.message


def test_a_switch_that_does_not_answer_the_question_is_a_doubt_and_no_other_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_driver: object) -> bool:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(NetworkPowerDriver, "get", unreachable)
    with bench(tmp_path, power=network) as made:
        made.lab.cut_after = MID_BOOT
        first, _ = made.measure()
    assert first.outcome == "hang_kernel"
    assert not missing_facts(first.message, "power_unreachable")


@pytest.mark.parametrize(("state", "after"), [("bootloader", "U-Boot SPL"), ("linux", "login: ")])
def test_power_that_is_cut_before_a_prompt_is_not_blamed_on_the_board(tmp_path: Path, state: str, after: str) -> None:
    with bench(tmp_path, power=network) as made:
        made.lab.cut_after = after
        made.strategy.uboot.login_timeout = 1  # labgrid counts it in real time
        assert made.bring(state)[0].outcome == "power_lost"


def test_power_that_is_cut_under_a_shell_is_not_blamed_on_the_board(tmp_path: Path) -> None:
    with bench(tmp_path, power=network) as made:
        made.strategy.transition("linux")
        made.lab.switch("off")
        with pytest.raises(LabTransientError) as raised:
            made.strategy.linux.run("true", timeout=0.1)
    assert raised.value.failure == "power_lost"
