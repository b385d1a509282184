"""A board's page: its wiring as the environment says, and its runs and failures on a line of time."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest
import requests
from attrs import evolve
from sqlalchemy import update
from support import recorded_run
from support.facts import missing_facts
from support.web_serving import serving

from lab import boards
from lab.host.clock import utc_now
from lab.metrics import Flag
from lab.results import AttemptRecord, SampleRecord, Store, listing, open_store
from lab.results.models import RunRow
from lab.web.charts import TIMELINE_WIDTH, timeline
from lab.web.site import Site
from lab.web.wiring import wiring

BOARD = "am62x-1"
ENVIRONMENT = """
targets:
  main:
    resources:
      - USBSerialPort: {name: main0, match: {ID_PATH: pci-0000:00:14.0}, speed: 115200}
      - NetworkPowerPort: {model: netio, host: "http://olga:hunter2@192.0.2.5/", index: 3}
      - HttpDigitalOutput: {name: B3, url: "http://192.0.2.10/relay/1", body_asserted: "on"}
      - HttpDigitalOutput: {name: CAN, url: "http://192.0.2.10/relay/5", body_asserted: "on"}
      - RailSensors: {backend: ina231, port: /dev/i2c-1, rails: {vdd_core: {address: 0x40, shunt_mohm: 2.0}}}
    drivers:
      - NetworkPowerDriver: {}
      - BootModeDriver: {lines: {3: B3, 4: B4}, fixed: 0x43}
      - ShellDriver: {prompt: "# ", password: hunter2}
      - BoardStrategy: {board_type: am62xx_sk, board: am62x-1}
  other:
    resources: {RawSerialPort: {port: /dev/ttyUSB7}}
    drivers: {BoardStrategy: {board_type: am62xx_sk, board: another}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "one.yaml").write_text(ENVIRONMENT)
    return tmp_path


def test_the_wiring_of_a_board_is_that_of_its_target_without_passwords(folder: Path) -> None:
    found = wiring(folder / "envs" / "one.yaml", BOARD)
    assert [(wire.part, wire.name) for wire in found] == [
        ("adapter", "USBSerialPort main0"),
        ("outlet", "NetworkPowerPort"),
        ("strap", "HttpDigitalOutput B3"),
        ("strap", "BootModeDriver"),
        ("switch", "HttpDigitalOutput CAN"),
        ("sensor", "RailSensors"),
        ("other", "ShellDriver"),
        ("other", "BoardStrategy"),
    ]
    said = {wire.name: wire.arguments for wire in found}
    assert not missing_facts(said["USBSerialPort main0"], "ID_PATH", "pci-0000:00:14.0", "speed 115200")
    assert not missing_facts(said["BootModeDriver"], "3 B3, 4 B4", "fixed 0x43")
    assert not missing_facts(said["RailSensors"], "vdd_core", "0x40", "shunt_mohm 2.0")
    assert said["ShellDriver"] == "prompt # ; password ***"
    assert "hunter2" not in str(found)
    assert {f"{wire.part} {wire.own}".strip(): wire.phrase for wire in found if wire.phrase} == {
        "adapter main0": "USB socket pci-0000:00:14.0, 115200 Bd",
        "outlet": "outlet 3 of http://olga:***@192.0.2.5/ (netio)",
        "strap B3": "relay 1 of 192.0.2.10",
        "switch CAN": "relay 5 of 192.0.2.10",
        "sensor": "vdd_core by ina231 at /dev/i2c-1",
    }
    (port, _) = wiring(folder / "envs" / "one.yaml", "another")
    assert port.arguments == "port /dev/ttyUSB7"


def test_the_page_has_the_wiring_and_says_why_it_cannot_be_read(folder: Path) -> None:
    with open_store(str(folder / "results.db")) as store:
        recorded_run.record(store, virtual=False, cycles=20, board=BOARD)
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as url:
        page = requests.get(f"{url}/boards/{BOARD}", timeout=60).text
        assert "NetworkPowerPort: model netio" in page
        assert re.search(r'<th scope="row">strap B3</th><td>relay 1 of 192.0.2.10</td>', page)
        assert page.index('id="runs"') < page.index('id="wiring"'), "runs are read daily, wiring once"
        assert "hunter2" not in page
        assert re.search(r"Provenance of the last run, 1", page)
        crosses = re.findall(r'<a href="/runs/1#attempt-(\d+)" aria-label="(\w+), run 1', page)
        assert {outcome for _, outcome in crosses} >= {"hang_kernel"}
        report = requests.get(f"{url}/runs/1", timeout=60).text
        assert all(f'id="attempt-{attempt}"' in report for attempt, _ in crosses), "each leads to its log"


def attempt(store: Store, run: int, outcome: str, at: dt.datetime) -> None:
    store.record_attempt(run, AttemptRecord(1, 1, {"medium": "sd"}, outcome, "board", True, "no prompt", at, 30.0))


def test_runs_and_failures_stand_where_they_were(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        for outcome in ("hang_kernel", "reset"):
            run = store.begin_run("boot", "am62xx_sk", BOARD, "11.01", plan={"cycles": 1}, provenance={})
            attempt(store, run.id, outcome, utc_now())
            store.finish_run(run.id, "failed")
        now = utc_now() + dt.timedelta(hours=3)
        line = timeline(store, listing.list_runs(store), now)
        assert line is not None
        assert [bar.run_id for bar in line.bars] == [1, 2]
        assert [cross.text.split(",")[0] for cross in line.crosses] == ["hang_kernel", "reset"]
        assert all(0 <= bar.x < bar.x + bar.width <= TIMELINE_WIDTH for bar in line.bars)
        assert line.bars[1].x < TIMELINE_WIDTH / 10, "they were three hours ago"
        assert 2 <= len(line.marks) <= 4, "the hours"
        days = timeline(store, listing.list_runs(store), now + dt.timedelta(days=40))
        assert days is not None
        assert 8 <= len(days.marks) <= 13
        assert all(re.fullmatch(r"\d\d-\d\d", text) for _, text in days.marks)
        for minutes in (3, 20, 100):
            short = timeline(store, listing.list_runs(store), utc_now() + dt.timedelta(minutes=minutes))
            assert short is not None
            assert 2 <= len(short.marks) <= 13, "a line of some minutes has times, too"
        assert timeline(store, [], now) is None


def test_a_release_is_named_where_it_begins_and_of_two_that_would_meet_the_newer(tmp_path: Path) -> None:
    now = utc_now()
    with open_store(str(tmp_path / "results.db")) as store:
        for hours, release in ((9.0, "11.00"), (8.9, "11.01"), (4.0, "11.01"), (1.0, "11.02")):
            run = store.begin_run("boot", "am62xx_sk", BOARD, release, plan={}, provenance={})
            begun = update(RunRow).where(RunRow.id == run.id).values(started_at=now - dt.timedelta(hours=hours))
            store.write(lambda session, begun=begun: session.execute(begun))
        line = timeline(store, listing.list_runs(store), now)
    assert line is not None
    assert [(name, round(x, -1)) for x, name in line.releases] == [("11.01", 20), ("11.02", 880)]


SAMPLE = SampleRecord("boot.time", {"medium": "emmc"}, 16.0, 0.001, frozenset(), 0, 10)


def good(store: Store, board_type: str, kind: str, params: dict[str, str], *flags: Flag) -> None:
    """A run of a board with a good attempt."""
    run = store.begin_run(kind, board_type, "evm-1", "12.00", plan={"cycles": 1}, provenance={})
    sample = evolve(SAMPLE, params=params, flags=frozenset(flags))
    store.record_attempt(run.id, AttemptRecord(1, 1, params, "ok", None, None, "", utc_now(), 30.0, samples=(sample,)))
    store.finish_run(run.id, "completed")


def test_what_is_assumed_of_a_type_stands_there_until_a_real_run_confirms_it(tmp_path: Path) -> None:
    board, medium, deep = boards.load("am62lxx_evm"), "media.ospi.boot_mode", {"mode": "deep_sleep", "wake": "rtc"}
    with open_store(str(tmp_path / "results.db")) as store:
        good(store, board.name, "boot", {"medium": "ospi"}, Flag.SIMULATED)
        good(store, board.name, "boot", {"medium": "ospi"}, Flag.MEDIUM_UNVERIFIED)
        good(store, board.name, "low_power", deep, Flag.MODE_UNVERIFIED)
        assert listing.still_assumed(store, board.name, boards.assumptions(board)) == boards.assumptions(board), (
            "neither simulated nor unverified"
        )
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)) as url:
        page = requests.get(f"{url}/boards/evm-1", timeout=60).text
        assert f"<code>{medium}</code>" in page
        with open_store(str(tmp_path / "results.db")) as store:
            good(store, board.name, "boot", {"medium": "ospi"})
            good(store, board.name, "low_power", deep)
            left = listing.still_assumed(store, board.name, boards.assumptions(board))
        page = requests.get(f"{url}/boards/evm-1", timeout=60).text
    assert set(boards.assumptions(board)) - set(left) == {medium}
    assert "low_power.modes.deep_sleep.jumper" in left, "no rail was measured"
    assert f"<code>{medium}</code>" not in page
    assert "<code>low_power.modes.rtc_io_ddr.rails_on</code>" in page


def test_a_verified_mode_confirms_its_wake_up_sources(tmp_path: Path) -> None:
    place = "low_power.modes.partial_io.woken_by"
    with open_store(str(tmp_path / "results.db")) as store:
        good(store, "am62xx_sk", "low_power", {"mode": "partial_io", "wake": "can"})
        assert listing.still_assumed(store, "am62xx_sk", [place]) == []
