"""`lab console replay` and `show` on recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from support.console_bench import BOOT, BOOT_MOMENTS, kernel_log, paced
from support.facts import missing_facts
from typer.testing import CliRunner, Result

from lab import boards
from lab.cli.console import app
from lab.console import Chunk, Gap, Lateness, LineTiming, RecordingMeta, RecordKind, encode, find_moments
from lab.errors import ConfigurationError

META = RecordingMeta("uart0", "/dev/ttyUSB0", 115200, adapter_latency_ns=1_000_000, scheduling_ns=200_000)
QEMU = boards.load("qemu-virt")


def lab_console(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A boot at full speed, with a late stamp and a port that was lost at the end."""
    events = paced(BOOT, META.timing)
    events.insert(0, Lateness(events[0].t_ns - 900_000_000, 0, 3_000_000))
    events.append(Gap(events[-1].t_ns + 5, len(BOOT), RecordKind.LOST, 5))
    for path, content in zip((tmp_path / "uart0.log", tmp_path / "uart0.idx"), encode(META, events), strict=True):
        path.write_bytes(content)
    return tmp_path / "uart0.log"


def test_replay_prints_the_moments_of_the_board_type_that_fits(recording: Path) -> None:
    result = lab_console("replay", str(recording))
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert not missing_facts(lines[0], "qemu-virt", "7 moments", "115200 Bd", "latency 1 ms")
    cells = [line.split() for line in lines[2:9]]
    assert [cell[3] for cell in cells] == BOOT_MOMENTS
    expected = find_moments(paced(BOOT, META.timing), QEMU.moments, META.timing)
    assert [float(cell[0]) for cell in cells] == pytest.approx(
        [(moment.t_ns - expected[0].t_ns) / 1e9 for moment in expected], abs=1e-6
    )
    assert cells[0][2] == "4.29"  # 1 ms adapter, 0.2 ms scheduling, 3 ms late, one byte
    assert cells[-1][2] == "1.29"
    assert not missing_facts(result.output, "late stamps", "3.00 ms")
    assert "gaps: 1" in result.output


def test_replay_as_json_has_everything_that_the_table_has(recording: Path) -> None:
    document = json.loads(lab_console("replay", str(recording), "--board", "qemu-virt", "--json").stdout)
    assert document["board"] == "qemu-virt"
    assert [moment["name"] for moment in document["moments"]] == BOOT_MOMENTS
    first, *_, last = document["moments"]
    assert last["since_first_s"] == pytest.approx((last["t_ns"] - first["t_ns"]) / 1e9)
    assert document["lateness_max_ns"] == 3_000_000
    assert document["printk"] is None  # this boot came at full speed, whatever its kernel's times say


def test_replay_compares_the_kernel_s_clock_with_the_host_s(tmp_path: Path) -> None:
    for path, content in zip(
        (tmp_path / "a.log", tmp_path / "a.idx"), encode(META, kernel_log(100, ppm=80)), strict=True
    ):
        path.write_bytes(content)
    result = lab_console("replay", str(tmp_path / "a.log"), "--board", "qemu-virt")
    assert not missing_facts(result.output, "+80 ppm", "2.0 s", "100 of 100 lines")
    document = json.loads(lab_console("replay", str(tmp_path / "a.log"), "--board", "qemu-virt", "--json").stdout)
    assert document["printk"]["rate_ppm"] == pytest.approx(80, abs=1)


def test_another_board_type_finds_its_own_moments(recording: Path) -> None:
    result = lab_console("replay", str(recording), "--board", "am62xx_sk", "--json")
    names = [moment["name"] for moment in json.loads(result.stdout)["moments"]]
    assert "starting_kernel" in names
    assert "login" not in names


def test_show_puts_the_time_since_the_first_byte_before_each_line(recording: Path) -> None:
    lines = lab_console("show", str(recording)).output.splitlines()
    assert lines[1] == f"{META.timing.bytes_ns(2) / 1e9:12.6f}  U-Boot 2023.01 (Jan 09 2023 - 16:07:33 +0000)"
    assert "autoboot:  1 ^H^H^H 0" in lines[4]
    assert lines[-2].endswith("  qemu-virt login: ")
    assert lines[-1].endswith("  --- the port was lost ---")


def test_show_raw_is_the_log_to_the_byte(recording: Path) -> None:
    assert lab_console("show", str(recording), "--raw").stdout_bytes == BOOT


def test_a_console_without_a_boot_is_said_to_be_one(tmp_path: Path) -> None:
    log, index = encode(META, [Chunk(1, 0, b"hello\n")])
    (tmp_path / "a.log").write_bytes(log)
    (tmp_path / "a.idx").write_bytes(index)
    result = lab_console("replay", str(tmp_path / "a.log"))
    assert isinstance(result.exception, ConfigurationError)
    assert not missing_facts(str(result.exception), "no moment")
    result = lab_console("replay", str(tmp_path / "a.log"), "--board", "qemu-virt")
    assert not missing_facts(result.output.splitlines()[0], "qemu-virt", "0 moments", "115200 Bd", "latency 1 ms")
    assert "too few lines" in result.output


def test_a_window_of_a_long_recording_is_timed_the_same(recording: Path) -> None:
    """An attempt's artifact is a window of the stream; its positions begin at 0."""
    events = paced(BOOT, META.timing)
    moved = [evolve(event, position=event.position + 12345) for event in events]
    log, index = encode(META, moved)
    recording.write_bytes(log)
    recording.with_suffix(".idx").write_bytes(index)
    document = json.loads(lab_console("replay", str(recording), "--json").stdout)
    expected = find_moments(events, QEMU.moments, LineTiming(115200, 1_000_000, 1, 200_000))
    assert [(m["t_ns"], m["position"]) for m in document["moments"]] == [(m.t_ns, m.position) for m in expected]
