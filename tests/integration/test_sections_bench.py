"""Sections through pytest on a simulated bench: real processes, a real serial line, a tester in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from measuring_lab import ROOT, measuring_pytest
from virtual_bench import lab_virtual

from lab.console.client import ConsoleClient
from lab.host.runtime import socket_path
from lab.metrics import Flag
from lab.results import open_store
from lab.run.sectionrun import KIND

TIME_SCALE = "0.02"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    lab = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{lab}{os.pathsep}{os.environ['PATH']}",
        "BOARDLAB_RUNTIME": str(tmp_path / "run"),
        "LAB_DB": f"sqlite:///{tmp_path / 'results.db'}",
    }


def test_sections_of_linux_u_boot_and_the_tester_are_measured_and_what_is_not_allowed_is_skipped(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    bench = tmp_path / "bench"
    ports = ("--pdu-port", "0", "--switch-port", "0")
    up = lab_virtual("up", "sim", "--type", "am62xx_sk", "--time-scale", TIME_SCALE, "--dir", bench, *ports)
    assert up.returncode == 0, up.stderr
    try:
        first = measure(bench, environment, "--repeats", "1", "-k", "stream or usb-device or uboot-emmc")
        assert "2 sections, 6 numbers of 6 samples, 0 skipped by preflight" in first
        assert "uboot-emmc overwrites the scratch medium emmc_blocks: allow it with --lab-destructive" in first
        words = ("--repeats", "1", "--lab-destructive", "-k", "stream or uboot-emmc")
        second = measure(bench, environment, *words)
        assert "2 sections, 8 numbers of 8 samples" in second
        assert second.index("stream   ") < second.index("uboot-emmc   "), "what destroys nothing comes first"
    finally:
        lab_virtual("down", "--dir", bench)
        with ConsoleClient(socket_path(tmp_path / "run")) as client:
            client.stop()
    with open_store(environment["LAB_DB"]) as store:
        runs = store.runs()
        assert [(run.kind, run.status, run.provenance["virtual"]) for run in runs] == [(KIND, "completed", True)] * 2
        for run in runs:
            samples = store.samples(run.id)
            assert samples
            assert all(Flag.SIMULATED in sample.flags for sample in samples)


def measure(bench: Path, environment: dict[str, str], *words: str) -> str:
    command = [*measuring_pytest(bench), "tests_perf"]
    done = subprocess.run([*command, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
