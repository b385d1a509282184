"""A person who switches the board is asked at the terminal, through pytest's capturing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lab import package_data
from lab.env import envfile

ENV = """
imports: [lab.drivers, STRATEGY]
targets:
  main:
    resources:
      - RawSerialPort: {port: /dev/null, speed: 115200}
    drivers:
      - ManualPowerDriver: {}
      - StampedConsoleDriver: {}
      - BoardStrategy: {board_type: am62xx_sk, board: b-1}
""".replace("STRATEGY", str(package_data.strategy_file()))
TEST = """
import pytest

from lab.errors import LabStableError


def test_switched_by_hand(strategy):
    strategy.target.activate(strategy.power.driver)
    strategy.power.on()
    strategy.power.off()
    assert strategy.power.edge.requested_ns < strategy.power.edge.acknowledged_ns
    with pytest.raises(LabStableError, match="There is no terminal to ask a person: run it in one"):
        strategy.power.on()
"""


def test_the_person_at_the_terminal_is_asked_and_without_one_the_failure_says_so(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(ENV)
    (tmp_path / "test_hand.py").write_text(TEST)
    assert list(envfile.problems(tmp_path / "env.yaml")) == []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--lg-env", "env.yaml", "--lab-db", f"sqlite:///{tmp_path}/results.db", "."],
        cwd=tmp_path,
        input="\n\n",
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "BOARDLAB_RUNTIME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout
    assert "main: Turn the target main ON and press enter" in done.stdout
    assert "main: Turn the target main OFF and press enter" in done.stdout
