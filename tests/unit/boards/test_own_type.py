"""No code is written for a board type: one that boardlab does not ship is booted, measured and put into a guide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.section_bench import SectionBench, section_bench

from lab import boards
from lab.benchmarks.sections import ALL
from lab.boards.registry import OWN_TYPES
from lab.cli import main
from lab.errors import ConfigurationError
from lab.guide import measurements as sheets
from lab.guide.read import reader
from lab.guide.write import rst_writer, stored_release
from lab.run.boot import BootRun
from lab.run.progress import Progress
from lab.virtual import kinds
from lab.virtual.sim import environment
from lab.virtual.sim.model import model

TYPES = Path(__file__).parents[2] / "fixtures" / "board_types"
OWN = "ex1000_sk"
MEASURED = ("tcp", "glmark2", "can")  # each asks for something that a board type says
ABSENT = {"alsa", "gfxbench", "glbenchmark", "pcie-ethernet", "usb-device", "coremark-pro-two-core", "ospi-raw"}


@pytest.fixture(autouse=True)
def _own_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_TYPES, str(TYPES))


def boot(bench: SectionBench) -> list[str]:
    """Measure one boot, and say what became of each attempt."""
    clock, store = bench.run.clock, bench.store
    begun = store.begin_run(
        "boot", OWN, "sim-1", "11.01", plan={"cycles": 1, "media": ["sd"]}, provenance={"virtual": True}
    )
    BootRun(
        store, begun, bench.strategy, Progress(bench.said.append, clock, 1), clock, bench.strategy.sleep, 0
    ).measure("sd")
    return [attempt.outcome for attempt in store.attempts(begun.id)]


def test_a_type_of_ones_own_is_booted_measured_and_put_into_a_guide(tmp_path: Path) -> None:
    with section_bench(tmp_path, OWN) as bench:
        assert boot(bench) == ["ok"]
        for name in MEASURED:
            section = {section.name: section for section in ALL}[name]
            assert section.fits(bench.strategy.type)
            assert bench.run.preflight(section).failed == {}
            bench.run.measure(section)
        text = rst_writer.write(stored_release.collect(bench.store, "11.01", []))
    guide = reader.parse("own.rst", text)
    assert guide.unread == ()
    chapters = {table.chapter[0] for table in guide.tables}
    assert {"Boot-time Measurement", "Ethernet", "Graphics SGX/RGX Driver", "Other Measurements"} <= chapters
    found = {reading.key[0] for reading in sheets.of_guide(guide).readings}
    assert {"boot.time", "ethernet.tcp.throughput", "glmark2.score"} <= found
    assert any("CAN" in table.title and "throughput" in " ".join(table.header) for table in guide.tables)


def test_what_the_type_does_not_have_is_not_measured() -> None:
    fitting = {section.name for section in ALL if section.fits(boards.load(OWN))}
    assert fitting.isdisjoint(ABSENT)
    assert {"tcp", "glmark2", "can", "emmc-ext4", "sd-fio", "lmbench"} <= fitting


def test_the_link_that_is_measured_has_the_speed_of_the_type(tmp_path: Path) -> None:
    with section_bench(tmp_path, OWN) as bench:
        speed = bench.session({section.name: section for section in ALL}["tcp"]).run("cat /sys/class/net/eth0/speed")
    assert speed.split() == [b"100"]


def test_the_commands_and_the_bench_know_the_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards", "--json"]) == 0
    assert OWN in {board["name"] for board in json.loads(capsys.readouterr().out)}
    assert OWN in kinds.names()
    (target, _tester) = yaml.safe_load(environment.shipped(OWN, "ex1000.yaml").replace("!template ", ""))[
        "targets"
    ].values()
    assert target["options"]["benchmarks"]["interface"] == "eth0"
    assert "crypto_module" not in target["options"]["benchmarks"]


def test_a_type_that_is_like_no_known_family_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (TYPES / f"{OWN}.toml").read_text(encoding="utf-8")
    unlike = text.replace('simulated_as = "AM62X"\n', "").replace(f'"{OWN}"', '"ex2000_sk"')
    (tmp_path / "ex2000_sk.toml").write_text(unlike, encoding="utf-8")
    monkeypatch.setenv(OWN_TYPES, str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"'EX1000'.*AM62X"):
        model("ex2000_sk")
