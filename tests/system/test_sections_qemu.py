"""Sections on the QEMU board: real programs of Debian's arm64, through real U-Boot, Linux and a serial line, on real
file systems and over a real link to a tester in a network namespace. `./run soak` also sends datagrams, and copies files with dd.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.atlength import LONG
from support.measuring_lab import ROOT
from support.virtual_bench import BenchProcess, all_end, lab_virtual, running_bench, watched

from lab.console.client import ConsoleClient
from lab.host.runtime import socket_path
from lab.metrics import Flag
from lab.results import Attempt, open_store
from lab.results.formatting import console_log
from lab.virtual.qemu import cable

pytestmark = pytest.mark.soak

# openssl's section takes four minutes and lmbench's half an hour; a part of each, once and for a hundredth of a second, shows the same.
SHORT = """
import hashlib
import os

import pytest

from lab.benchmarks import lmbench, openssl


@pytest.fixture
def said(strategy):
    strategy.transition("linux")
    return lambda command: "".join(f"{line}\\n" for line in strategy.shell.run_check(command, timeout=600)).encode()


def test_openssl(said):
    found = openssl.parse(said("env time -v openssl speed -elapsed -seconds 1 -evp sha256 2>&1"), "sha256")
    rates = [r.value for r in found if r.metric == "openssl.throughput"]
    assert len(rates) == 6
    assert all(rate > 0 for rate in rates)


@pytest.mark.parametrize("command", ["lat_syscall null", "lat_proc fork", "lat_ops"])
def test_lmbench(said, command):
    program, _, what = command.partition(" ")
    found = lmbench.reader(command)(said(f"ENOUGH=10000 {program} -N 1 {what} 2>&1"))
    assert all(reading.value > 0 for reading in found)


def test_the_flash_that_linux_reads_is_the_one_that_u_boot_boots_from(said):
    with open(os.environ["FLASH"], "rb") as flash:
        assert said("sha256sum /dev/mtd0").split()[0].decode() == hashlib.file_digest(flash, "sha256").hexdigest()
"""
CHAPTERS = ("realtime", "ospi", "ethernet", "system_benchmarks", "emmc", "mmcsd", "uboot_emmc", "uboot_mmcsd")
# section -> how many numbers it has
SECTIONS = {
    "cyclictest": 6,
    "ospi-raw": 1,
    "iperf3": 2,
    **({"iperf3-udp": 2 * 5 * 3} if LONG else {}),
    "sysbench": 3,
    "stress-ng": 5,
    "emmc-fio": 2 * 4 * 2,
    **({"sd-ext3-dd": 5 * 6} if LONG else {}),
    "uboot-emmc": 2 * 2,
    "uboot-sd": 3 * 2,
}
ON_THE_CABLE = {"iperf3", "iperf3-udp"}


def measure(bench: BenchProcess, folder: Path) -> subprocess.CompletedProcess[str]:
    """Measure the sections and the short tests, each program for a second."""
    (folder / "test_short.py").write_text(SHORT)
    env = bench.folder / "env.yaml"
    text = env.read_text().replace("benchmarks:\n", "benchmarks:\n        seconds: 1\n", 1)
    (folder / "env.yaml").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--lg-env", str(folder / "env.yaml")]
    chosen = " or ".join([*(f"[{name}]" for name in SECTIONS), "test_short"])
    options = ["--lab-destructive", "--lab-retries", "0", "--lab-repeats", "1", "-k", chosen]
    tests = [f"tests_perf/test_{chapter}.py" for chapter in CHAPTERS]
    environment = {
        **os.environ,
        "BOARDLAB_RUNTIME": str(folder / "run"),
        "LAB_DB": f"sqlite:///{folder / 'results.db'}",
        "FLASH": str(bench.folder / bench.board.name / "media" / "ospi.img"),
    }
    done = subprocess.run(
        [*command, *options, *tests, str(folder / "test_short.py")],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    with ConsoleClient(socket_path(folder / "run")) as client:
        client.stop()
    return done


def test_what_debian_has_is_measured_for_real_and_marked_as_a_virtual_boards(tmp_path: Path) -> None:
    expected = SECTIONS if not cable.problem() else {n: c for n, c in SECTIONS.items() if n not in ON_THE_CABLE}
    with running_bench(tmp_path / "bench", "--tools") as bench:
        done = measure(bench, tmp_path)
        if expected is SECTIONS:
            tester = int((bench.folder / bench.board.name / "tester.pid").read_text())
            with watched(tester) as processes:
                lab_virtual("down", "--dir", bench.folder)
                assert all_end(processes), "the tester's network outlives the bench"
        else:  # this host forbids namespaces or taps to us: that is said, and what needs them is skipped
            assert "eth0 has no link" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(expected) + 5} passed" in done.stdout
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        (run,) = store.runs()
        attempts: dict[str, list[Attempt]] = {}
        for attempt in store.attempts(run.id):
            attempts.setdefault(attempt.params["section"], []).append(attempt)
        measured = {name: [s for attempt in each for s in attempt.samples] for name, each in attempts.items()}
        assert (run.status, run.provenance["virtual"]) == ("completed", True)
        assert {name: len(samples) for name, samples in measured.items()} == expected
        samples = [sample for each in measured.values() for sample in each]
        assert all(Flag.SIMULATED in sample.flags for sample in samples)
        assert all(sample.value > 0 for sample in samples if not sample.metric.endswith((".loss", ".cpu_load")))
        shortened = {name for name, each in measured.items() if any(Flag.SHORTENED in s.flags for s in each)}
        assert shortened == {"cyclictest", *ON_THE_CABLE, "sysbench", "stress-ng", "emmc-fio"} & expected.keys()
        assert b"# Histogram" in console_log(store.artifacts, attempts["cyclictest"][0])
        if "iperf3" in expected:
            assert b"iperf3 --server --one-off" in console_log(store.artifacts, attempts["iperf3"][0])
