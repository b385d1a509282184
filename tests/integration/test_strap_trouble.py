"""A run on a board whose strap switch misbehaves: every failed attempt is kept with its class, and the passing are retried.

The board is a scripted pty, its power switch and straps are HTTP servers, pytest measures as a user starts it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define
from support.scripted_board import ScriptedBoard
from support.strapserver import StrapServer, nobody, strap_server

from lab import package_data
from lab.console.client import ConsoleClient
from lab.host.runtime import socket_path
from lab.results import Attempt, open_store

ROOT = Path(__file__).parents[2]
TIME_LIMIT_S = 1.0
NO_BOARD_IS_SO_FAST = "impossible_times"  # a scripted boot is printed at once
PYTEST_S = 120  # until a session that hangs is a failure of this test
ENV = """
targets:
  main:
    resources:
      - PDUDaemonPort: {{host: {power}, pdu: bench, index: 1}}
      - RawSerialPort: {{port: {port}, speed: 115200}}
      - HttpDigitalOutput: {{name: S0, url: {straps}/bit0, body_asserted: 'on', body_deasserted: 'off'}}
    drivers:
      - StampedPDUDaemonDriver: {{}}
      - StampedConsoleDriver: {{adapter_latency_ms: 1.0}}
      - HttpDigitalOutputDriver: {{name: S0, bindings: {{http: S0}}}}
      - BootModeDriver: {{lines: {{0: S0}}, fixed: {fixed}, timeout: {limit}}}
      - BoardStrategy: {{board_type: qemu-virt, board: scripted-1}}
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))


@define
class StrapBench:
    """A scripted board, its straps, and a folder for everything else."""

    folder: Path
    board: ScriptedBoard
    straps: StrapServer

    def measure(self, url: str = "") -> tuple[str, list[Attempt]]:
        """What one cycle printed, and its attempts."""
        env = self.folder / "env.yaml"
        env.write_text(
            ENV.format(
                power=self.board.power_address,
                port=self.board.port,
                straps=url or self.straps.url,
                fixed=0,
                limit=TIME_LIMIT_S,
            )
        )
        database = self.folder / "results.db"
        words = [
            "-p",
            "no:cacheprovider",
            "--lg-env",
            str(env),
            "--lab-medium",
            "sd",
            "--lab-cycles",
            "1",
            "--lab-retries",
            "2",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "--lab-db", str(database), "tests_perf/test_boot.py"],
            cwd=ROOT,
            env={**os.environ, "BOARDLAB_RUNTIME": str(self.folder / "r")},
            capture_output=True,
            text=True,
            timeout=PYTEST_S,
            check=False,
        )
        with open_store(str(database)) as store:
            return done.stdout + done.stderr, store.attempts(1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StrapBench]:
    board = ScriptedBoard()
    with strap_server() as straps:
        yield StrapBench(tmp_path, board, straps)
    with ConsoleClient(socket_path(tmp_path / "r")) as client:
        client.stop()
    board.close()


@pytest.mark.parametrize(
    ("trouble", "failure"),
    [
        ("hang", "strap_timeout"),
        pytest.param("drip", "strap_timeout", marks=pytest.mark.soak),
        ("500", "strap_refused"),
        pytest.param("no http", "strap_failed", marks=pytest.mark.soak),
        pytest.param("reset", "strap_failed", marks=pytest.mark.soak),
        pytest.param("rubbish", "strap_failed", marks=pytest.mark.soak),
    ],
)
def test_trouble_that_passes_costs_an_attempt_and_no_cycle(bench: StrapBench, trouble: str, failure: str) -> None:
    bench.straps.trouble, bench.straps.left = trouble, 2  # rubbish is a good answer to PUT, and not to GET
    said, attempts = bench.measure()
    booted = {NO_BOARD_IS_SO_FAST, "stamps_uncertain"}  # the second on a busy host
    failed = [attempt for attempt in attempts if attempt.outcome not in booted]
    assert {(a.outcome, a.fault, a.transient) for a in failed} == {(failure, "lab", True)}
    assert "HttpDigitalOutputDriver on HttpDigitalOutput" in failed[0].message
    assert attempts[-1].outcome in booted, "it was powered, and it booted"
    assert "on" in bench.board.commands
    assert "Traceback" not in said


def test_a_refused_connection_is_tried_again_and_then_said_once(bench: StrapBench) -> None:
    said, attempts = bench.measure(nobody())
    assert [(a.outcome, a.fault, a.number) for a in attempts] == [("strap_unreachable", "lab", n) for n in (1, 2, 3)]
    assert "Connection refused" in said
    assert "Traceback" not in said
    assert "site-packages" not in said


def test_a_switch_that_does_not_know_the_strap_stops_the_run_at_once(bench: StrapBench) -> None:
    bench.straps.trouble = "404"
    _, attempts = bench.measure()
    assert [(a.outcome, a.transient) for a in attempts] == [("strap_refused", False)]
