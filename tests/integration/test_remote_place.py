"""A board on another host: a labgrid place of our exporter, measured with the stamps and on the clock of that host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from attrs import frozen
from coordinator import ALICE, client, running_coordinator
from exported import make_place, running_exporter
from measuring_lab import ENOUGH, ROOT, Lab, Number, assert_true, running_lab
from otherhost import AHEAD_S, console_server_with_another_clock, rails_server_beside
from railbench import true_energy_j

from exporters.farm.coordinator import Coordinator
from lab import boards
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.results import Attempt, open_store
from virtual.sim.trueboots import TrueBoot, true_boots
from virtual.truth import read_truth

DEADLINE_S = 240
BOARD = "am62xx_sk-1"
CYCLES = 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("sim"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        lab.environ |= ALICE
        yield lab


def elsewhere(lab: Lab) -> tuple[str, str]:
    """The board's environment as that of a place, and what the exporter exports: its serial ports and its outlet."""
    env = yaml.safe_load((lab.bench.folder / BOARD / "env.yaml").read_text())
    main = env["targets"]["main"]
    exported = {}
    kept = [{"RemotePlace": {"name": BOARD}}]
    for resource in main["resources"]:
        ((cls, arguments),) = resource.items()
        name = arguments.get("name", cls)
        if cls == "RailSensors":
            arguments["at"] = "console"
        if cls in {"PDUDaemonPort", "RawSerialPort"}:
            exported[name] = {"cls": cls, **{key: value for key, value in arguments.items() if key != "name"}}
        else:
            kept.append(resource)
    main["resources"] = kept
    return yaml.safe_dump(env), yaml.safe_dump({BOARD: exported})


@frozen
class Place:
    """The board as whoever is on another host has it."""

    lab: Lab
    env: Path
    coordinator: str

    def boots(self, cycles: int) -> Iterator[tuple[Attempt, TrueBoot]]:
        """The good attempts of a session, each beside the truth."""
        words = ("--lg-env", str(self.env), "--lg-coordinator", self.coordinator, "--medium", "sd")
        process = self.lab.pytest(*words, "--cycles", str(cycles))
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
    """Of a coordinator and an exporter, with servers whose clock is another one; Alice has acquired it."""
    folder = tmp_path_factory.mktemp("place")
    env, exported = elsewhere(lab)
    (folder / "place.yaml").write_text(env)
    with (
        running_coordinator(folder) as coordinator,
        console_server_with_another_clock(lab.folder / "host") as console,
        rails_server_beside(console),
        running_exporter(coordinator, folder, lab.folder / "host", exported),
    ):
        make_place(coordinator, BOARD)
        client(coordinator, "-p", BOARD, "acquire")
        yield Place(lab, folder / "place.yaml", coordinator)
        client(coordinator, "-p", BOARD, "release")


def test_a_boot_on_another_hosts_clock_is_timed_from_the_switch_here_within_its_bound(place: Place) -> None:
    assert_true(place.numbers(CYCLES), more=lambda: place.numbers(ENOUGH // 2))


def test_a_suspend_on_another_hosts_clock_has_its_mode_from_the_mcus_port_and_its_energy_from_the_sensors_there(
    place: Place,
) -> None:
    words = ("--lg-env", str(place.env), "--lg-coordinator", place.coordinator, "--sleep", "1", "--cycles", "1")
    modes = ("--mode", "mcu_only", "--energy")
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


def test_a_section_is_measured_by_lab_run_which_takes_the_place_and_gives_it_back(
    place: Place, tmp_path: Path
) -> None:
    client(place.coordinator, "-p", BOARD, "release")
    text = yaml.safe_load(place.env.read_text())
    text["options"] = {"coordinator_address": place.coordinator}
    (tmp_path / "place.yaml").write_text(yaml.safe_dump(text))
    words = ("run", "--env", str(tmp_path / "place.yaml"), "--sections", "stream", "--cycles", "1")
    environ = place.lab.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            [Path(sys.executable).with_name("lab"), *words],
            env=environ,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert Coordinator(place.coordinator).holder(BOARD) == ""
        with open_store(place.lab.environ["LAB_DB"]) as store:
            run = store.runs()[0]
            assert (run.kind, run.status) == ("sections", "completed")
    finally:
        client(place.coordinator, "-p", BOARD, "acquire")
