"""U-Boot's own test/py, of Debian's sources, on a QEMU board: through our console and our power switch.

A fixed part of it; `./run test -e uboot` runs the whole. See docs/uboot-tests.md.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.measuring_lab import Lab
from support.uboot_suite import DEADLINE_S, HOOKS, lab_with_hooks, powered, run_suite

from lab.console.client import ConsoleClient, ensure_server

BOARD_TYPE = "qemu_arm64"
FAILS = "test_tpm2.py::test_tpm2_init"  # for want of a TPM: test/py power-cycles the board for the test behind it
PARTS = {  # what is asked for, in this order -> how many pass
    "test_000_version.py": 1,
    FAILS: 0,
    "test_env.py": 13,
    "test_help.py": 1,
    "test_hush_if_test.py": 67,
    "test_md.py": 2,
    "test_shell_basics.py": 4,
    "test_unknown_cmd.py": 1,
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with lab_with_hooks(tmp_path, BOARD_TYPE) as lab:
        yield lab


def hook(lab: Lab, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HOOKS / "bin" / name, BOARD_TYPE, "na"],
        env=lab.environ | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.soak
def test_a_board_that_somebody_measures_is_left_alone(lab: Lab) -> None:
    with ConsoleClient(ensure_server(Path(lab.environ["BOARDLAB_RUNTIME"]))) as measurement:
        port = measurement.open(lab.bench.board.uarts["uart0"])
        measurement.attach(port.name, write=True)
        for name in ("u-boot-test-reset", "u-boot-test-release"):
            done = hook(lab, name)
            assert done.returncode == 1
            assert f"{name}: process {os.getpid()} uses {lab.bench.board.uarts['uart0']}" in done.stderr
        assert powered(lab) == []
    done = hook(lab, "u-boot-test-reset", BOARDLAB_CONSOLE_WAIT="0")
    assert not missing_facts(done.stderr, "u-boot-test-reset", "nobody listens")
    assert done.returncode == 0, done.stderr
    assert hook(lab, "u-boot-test-release").returncode == 0
    assert powered(lab)[-2:] == ["on", "off"]


@pytest.mark.soak
def test_u_boots_own_tests_pass(lab: Lab, tmp_path: Path) -> None:
    passed = [module for module, _ in run_suite(lab, tmp_path, list(PARTS))]
    assert {part: passed.count(part.partition(".")[0]) for part in PARTS} == PARTS
    assert powered(lab).count("on") == 2
