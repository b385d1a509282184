"""A board on another host: a labgrid place of our exporter, measured with the stamps and on the clock of that host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from support.coordinator import ALICE, client
from support.measuring_lab import ENOUGH, Lab, Number, assert_true, running_lab
from support.otherhost import AHEAD_S
from support.placedboard import BOARD, running_place
from support.railbench import true_energy_j

from lab import boards
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.results import Attempt, open_store
from lab.virtual.truth_log import TrueBoot, read_truth, true_boots

DEADLINE_S = 240
CYCLES = 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("sim"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        lab.environ |= ALICE
        yield lab


@frozen
class Place:
    """The board as a user of another host has it."""

    lab: Lab
    env: Path
    coordinator: str

    def boots(self, cycles: int) -> Iterator[tuple[Attempt, TrueBoot]]:
        """The good attempts of a session, each beside the truth."""
        words = ("--lg-env", str(self.env), "--lg-coordinator", self.coordinator, "--lab-medium", "sd")
        process = self.lab.pytest(*words, "--lab-cycles", str(cycles))
        assert process.wait(DEADLINE_S) == pytest.ExitCode.OK, self.lab.log
        with open_store(self.lab.environ["LAB_DB"]) as store:
            run = store.runs()[0]
            assert run.provenance["virtual"] is True
            attempts = [attempt for attempt in store.attempts(run.id) if attempt.ok]
        assert len(attempts) == cycles
        identity = boards.load("am62xx_sk").identity
        assert identity is not None
        truth = true_boots(read_truth(self.lab.bench.folder / BOARD / "truth.log"), identity.hostname)
        yield from zip(attempts, truth[-cycles:], strict=True)

    def numbers(self, cycles: int) -> list[Number]:
        """Boot times, and times from power on, beside the true ones; each attempt says how the clocks are related."""
        found = []
        for attempt, true in self.boots(cycles):
            clock = attempt.details["console_clock"]
            assert clock["same_clock"] is False
            assert abs(clock["offset_ns"] - AHEAD_S * 10**9) <= clock["bound_ns"] < 10**9
            for sample in attempt.samples:
                if sample.metric in {BOOT_TIME.name, BOOT_POWER_ON.name}:
                    expected = true.boot_s if sample.metric == BOOT_TIME.name else true.from_power_on_s
                    found.append((sample.value, sample.uncertainty, expected))
                    assert "simulated" in sample.flags
                    assert "remote_stamp" not in sample.flags
        assert len(found) == 2 * cycles
        return found


@pytest.fixture(scope="module")
def place(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Alice has acquired it."""
    folder = tmp_path_factory.mktemp("place")
    with running_place(lab, folder) as (env, coordinator):
        place = Place(lab, env, coordinator)
        client(place.coordinator, "-p", BOARD, "acquire")
        yield place
        client(place.coordinator, "-p", BOARD, "release")


def test_a_boot_on_another_hosts_clock_is_timed_from_the_switch_here_within_its_bound(place: Place) -> None:
    assert_true(place.numbers(CYCLES), more=lambda: place.numbers(ENOUGH // 2))


@pytest.mark.soak
def test_a_suspend_on_another_hosts_clock_has_its_mode_from_the_mcus_port_and_its_energy_from_the_sensors_there(
    place: Place,
) -> None:
    words = (
        "--lg-env",
        str(place.env),
        "--lg-coordinator",
        place.coordinator,
        "--lab-sleep",
        "1",
        "--lab-cycles",
        "1",
    )
    modes = ("--lab-mode", "mcu_only", "--lab-energy")
    process = place.lab.pytest(*words, *modes, measures="test_low_power.py")
    assert process.wait(DEADLINE_S) == pytest.ExitCode.OK, place.lab.log
    with open_store(place.lab.environ["LAB_DB"]) as store:
        (attempt,) = [attempt for attempt in store.attempts(store.runs()[0].id) if attempt.ok]
    assert "MCU-only mode received" in attempt.details["suspend"]["mcu_uart"]
    start_ns, end_ns = (t_ns - AHEAD_S * 10**9 for t_ns in attempt.details["suspend"]["energy_span_ns"])
    energy = next(s for s in attempt.samples if s.metric.endswith(".energy") and s.params["rail"] == "total")
    true_j = true_energy_j(place.lab.bench.folder / BOARD / "truth.log", start_ns, end_ns)
    assert energy.value == pytest.approx(true_j, rel=0.01)
    kernel = next(s for s in attempt.samples if s.metric.endswith(".resume_kernel"))
    worked = [
        n.text for n in read_truth(place.lab.bench.folder / BOARD / "truth.log").notes if "stage=resume " in n.text
    ]
    assert abs(kernel.value - int(worked[-1].rpartition("planned_ns=")[2]) / 1e6) <= kernel.uncertainty
    assert "mode_unverified" not in kernel.flags
