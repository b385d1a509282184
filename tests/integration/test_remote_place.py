"""A board on another host: a labgrid place of our exporter, measured with the stamps and on the clock of that host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from attrs import frozen
from coordinator import ALICE, client, running_coordinator
from exported import make_place, running_exporter
from measuring_lab import ENOUGH, Lab, Number, assert_true, running_lab
from otherhost import AHEAD_S, console_server_with_another_clock

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
    """The board's environment as that of a place, and what the exporter exports: its console and its outlet."""
    env = yaml.safe_load((lab.bench.folder / BOARD / "env.yaml").read_text())
    main = env["targets"]["main"]
    exported = {}
    kept = [{"RemotePlace": {"name": BOARD}}]
    for resource in main["resources"]:
        ((cls, arguments),) = resource.items()
        name = arguments.get("name", cls)
        if cls == "PDUDaemonPort" or (cls == "RawSerialPort" and name != "mcu"):
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


def test_a_boot_on_another_hosts_clock_is_timed_from_the_switch_here_within_its_bound(
    lab: Lab, tmp_path: Path
) -> None:
    env, exported = elsewhere(lab)
    (tmp_path / "place.yaml").write_text(env)
    with (
        running_coordinator(tmp_path) as coordinator,
        console_server_with_another_clock(lab.folder / "host"),
        running_exporter(coordinator, tmp_path, lab.folder / "host", exported),
    ):
        make_place(coordinator, BOARD)
        client(coordinator, "-p", BOARD, "acquire")
        place = Place(lab, tmp_path / "place.yaml", coordinator)
        assert_true(place.numbers(CYCLES), more=lambda: place.numbers(ENOUGH // 2))
        client(coordinator, "-p", BOARD, "release")
