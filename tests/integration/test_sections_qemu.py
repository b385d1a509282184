"""Sections on the QEMU board: real programs of Debian's arm64, through real U-Boot, Linux and a serial line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from measuring_lab import ROOT
from virtual_bench import running_bench

from lab.console.client import ConsoleClient
from lab.console.runtime import socket_path
from lab.metrics import Flag
from lab.results import open_store
from lab.results.logs import console_log

# openssl's section takes four minutes; one second a block size of one algorithm shows the same.
SHORT = """
from lab.benchmarks import openssl

def test_openssl(strategy):
    strategy.transition("linux")
    lines = strategy.shell.run_check("env time -v openssl speed -elapsed -seconds 1 -evp sha256 2>&1", timeout=120)
    found = openssl.parse("".join(line + "\\\\n" for line in lines).encode(), "sha256")
    rates = [r.value for r in found if r.metric == "openssl.throughput"]
    assert len(rates) == 6
    assert all(rate > 0 for rate in rates)
"""


def test_openssl_and_cyclictest_are_measured_for_real_and_marked_as_a_virtual_boards(tmp_path: Path) -> None:
    (tmp_path / "test_short.py").write_text(SHORT.replace("\\\\n", "\\n"))
    environment = {
        **os.environ,
        "BOARDLAB_RUNTIME": str(tmp_path / "run"),
        "LAB_DB": f"sqlite:///{tmp_path / 'results.db'}",
    }
    with running_bench(tmp_path / "bench", "--tools"):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--lg-env",
            str(tmp_path / "bench" / "env.yaml"),
        ]
        tests = ["tests_perf/test_realtime.py", "--retries", "0", str(tmp_path / "test_short.py")]
        done = subprocess.run(
            [*command, *tests], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        with ConsoleClient(socket_path(tmp_path / "run")) as client:
            client.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    with open_store(environment["LAB_DB"]) as store:
        (run,) = store.runs()
        (attempt,) = store.attempts(run.id)
        assert (run.status, run.provenance["virtual"], attempt.params) == (
            "completed",
            True,
            {"section": "cyclictest"},
        )
        assert {sample.params["statistic"] for sample in attempt.samples} == {
            "min",
            "mean",
            "p50",
            "p99",
            "p99.99",
            "max",
        }
        assert all(Flag.SIMULATED in sample.flags for sample in attempt.samples)
        assert b"# Histogram" in console_log(store.artifacts, attempt)
