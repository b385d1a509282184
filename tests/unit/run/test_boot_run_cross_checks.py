"""The facts of a board against the moments of its boot, in runs of a simulated board."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from attrs import define
from support.simruns import bench, planned

from lab.benchmarks.boot.crosscheck import with_digest
from lab.errors import BoardTransientError, LabTransientError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_SPL, BOOT_TIME
from lab.results import ArtifactRef, Store
from lab.run import boot
from lab.run.attempts import RunConsole, store_recording
from lab.run.boot import host_temperatures
from lab.virtual.sim.faults.base import Fault
from lab.virtual.sim.setup import FALCON, SimSetup


def test_each_cycle_has_what_the_board_knows_of_its_boot(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=4) as made:
        attempts = made.measure()
        assert [each.outcome for each in attempts] == ["ok"] * 4
        checks = [each.details["cross_check"] for each in attempts]
        assert checks[0]["boot_id"] != checks[1]["boot_id"]
        for check in checks:
            assert check["zero"] == pytest.approx(0, abs=0.2)
            assert check["getty"] == pytest.approx(1.0, abs=0.2)
            assert check["software"]["command_line"].startswith("console=ttyS2")
            assert check["temperatures_c"] == {"thermal_zone0": 45.312}
        samples = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)
        assert {Flag.NOT_CROSS_CHECKED in sample.flags for sample in samples} == {False}


def test_the_sensors_of_the_host_are_read_by_chip_and_name(tmp_path: Path) -> None:
    for number, (chip, readings) in enumerate({"coretemp": {"temp1": "48000", "temp2": "n/a"}, "w1": {}}.items()):
        folder = tmp_path / f"hwmon{number}"
        folder.mkdir()
        (folder / "name").write_text(f"{chip}\n")
        for name, text in readings.items():
            (folder / f"{name}_input").write_text(f"{text}\n")
    assert host_temperatures(tmp_path) == {"hwmon0 coretemp temp1": 48.0}
    assert host_temperatures(tmp_path / "nowhere") == {}


def test_a_board_that_does_not_answer_loses_no_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise BoardTransientError("no answer", failure="shell_timeout")

    with bench(tmp_path) as made:
        monkeypatch.setattr(made.strategy, "asked", asked)
        assert [each.outcome for each in made.measure()] == ["ok"]
        (sample,) = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)
        assert Flag.NOT_CROSS_CHECKED in sample.flags


def test_a_login_that_failed_is_not_tried_in_each_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def refused(*_: object) -> None:
        tries.append(1)
        raise BoardTransientError("Login incorrect", failure="login_failed")

    with bench(tmp_path, cycles=3) as made:
        monkeypatch.setattr(made.strategy, "_log_in", refused)
        assert [each.outcome for each in made.measure()] == ["ok"] * 3
    assert len(tries) == 1


def test_a_boot_id_of_a_cycle_before_is_no_boot(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=2) as made:
        original = made.strategy.asked

        def asked(question: str, is_whole: Callable[[Sequence[str]], bool]) -> object:
            found = original(question, is_whole)
            assert found is not None
            asked_ns, lines = found
            same = [re.sub(r"^[0-9a-f-]{36}$", "00000000-1111-4222-8333-444444444444", line) for line in lines[:-1]]
            return asked_ns, lines if same == lines[:-1] else with_digest(same)

        made.strategy.asked = asked
        outcomes = [each.outcome for each in made.measure()]
        assert outcomes[0] == "ok"
        assert set(outcomes[1:]) == {"not_rebooted"}
        captured = made.strategy.console.captured()
        assert b"boot_id" in captured, "the board's answer, which is the evidence, is not in the recording"


def test_the_power_off_is_ordered_before_a_good_boot_is_stored_and_verified_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets: list[str] = []
    with bench(tmp_path, cycles=3) as made:

        def stored(store: Store, console: RunConsole) -> tuple[ArtifactRef, ...]:
            outlets.append(made.lab.outlet)
            return store_recording(store, console)

        monkeypatch.setattr(boot, "store_recording", stored)
        assert [each.outcome for each in made.measure()] == ["ok"] * 3
        samples = made.store.samples(made.run.run.id, metric=BOOT_POWER_ON.name)
        assert {Flag.OFF_UNVERIFIED in sample.flags for sample in samples[1:]} == {False}
        assert made.strategy.console.answers(1.0), "the last boot's board is left as it is"
    assert outlets == ["off", "off", "on"]


def test_a_switch_that_does_not_obey_at_once_loses_no_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    with bench(tmp_path, cycles=2) as made:
        switch = made.strategy.power.off

        def off() -> None:
            orders.append(made.lab.outlet)
            if len(orders) == 2:
                raise LabTransientError("it is busy", failure="pdu_timeout")
            switch()

        monkeypatch.setattr(made.strategy.power, "off", off)
        assert [each.outcome for each in made.measure()] == ["ok"] * 2
    assert orders[1:] == ["on", "on"]


def test_a_board_that_was_asked_is_in_linux_without_another_boot(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.strategy.boot()
        answer = made.strategy.asked("echo asked", lambda lines: lines == ["asked"])
        assert answer is not None
        assert answer[1] == ["asked"]
        booted = made.lab.board.cycle
        made.strategy.transition("linux")
        assert made.strategy.linux.run("echo once") == (["once"], [], 0)
        assert made.lab.board.cycle == booted


@pytest.mark.parametrize("seed", range(4))
def test_a_boot_from_which_whole_lines_are_missing_is_flagged(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    fault = planned("lines_lost", whole=True, lines=dice.randint(30, 80), pieces=dice.randint(1, 8))
    with bench(tmp_path, [fault], cycles=2, seed=seed) as made:
        attempts = made.measure()
        assert [each.outcome for each in attempts] == ["ok", "ok"]
        assert attempts[0].details["cross_check"]["lost_lines"] >= 20
        assert "lost_lines" not in attempts[1].details["cross_check"]
        samples = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)
        assert [Flag.CONSOLE_OVERRUN in sample.flags for sample in samples] == [True, False]


@define(eq=False)
class UnheardLoaders(Fault):
    """All that SPL of the A53 and U-Boot print is lost."""

    unheard: bool = False

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:  # noqa: ARG002 - a fault's hook
        self.unheard = (self.unheard or b"BL31: Built" in data) and b"Booting Linux" not in data
        return b"" if self.unheard else data


@pytest.mark.parametrize("flow", ["normal", FALCON])
def test_a_lost_uboot_is_no_falcon_boot_without_a_flag(tmp_path: Path, flow: str) -> None:
    with bench(tmp_path, setup=SimSetup(flow=flow)) as made:
        if flow != FALCON:
            made.lab.board.troubles_for = lambda _cycle: [UnheardLoaders()]
        assert [each.outcome for each in made.measure()] == ["ok"]
        (sample,) = made.store.samples(made.run.run.id, metric=BOOT_SPL.name)
        assert sample.params["flow"] == "falcon"
        assert (Flag.FLOW_UNVERIFIED in sample.flags) == (flow != FALCON)
