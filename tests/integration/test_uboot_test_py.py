"""U-Boot's own test/py, of Debian's sources, on a QEMU board: through our console and our power switch.

A fixed part of it; `./run test -e uboot` runs the whole. See docs/uboot-tests.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from measuring_lab import Lab, running_lab

from lab.console.client import ConsoleClient
from lab.console.spawn import ensure_server

HOOKS = Path(__file__).parents[2] / "farm" / "uboot-test-hooks"
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
DEADLINE_S = 300


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A board that the hooks find."""
    with running_lab(tmp_path / "bench", "--idle-off", "0") as lab:
        (tmp_path / f"{BOARD_TYPE}.yaml").symlink_to(lab.bench.folder / "env.yaml")
        programs = (HOOKS / "bin", Path(sys.executable).parent, os.environ["PATH"])
        modules = (HOOKS / "py", os.environ.get("PYTHONPATH", ""))
        lab.environ |= {
            "BOARDLAB_ENVS": str(tmp_path),
            "PATH": os.pathsep.join(map(str, programs)),
            "PYTHONPATH": os.pathsep.join(map(str, modules)),
        }
        yield lab


def powered(lab: Lab) -> list[str]:
    return [event.state for event in lab.bench.truth().power]


def hook(lab: Lab, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HOOKS / "bin" / name, BOARD_TYPE, "na"],
        env=lab.environ | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


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
    assert "u-boot-test-reset: nobody listens to " in done.stderr
    assert done.returncode == 0, done.stderr
    assert hook(lab, "u-boot-test-release").returncode == 0
    assert powered(lab)[-2:] == ["on", "off"]


def test_u_boots_own_tests_pass(lab: Lab, tmp_path: Path) -> None:
    subprocess.run(["lab", "virtual", "uboot-tests", tmp_path], env=lab.environ, timeout=DEADLINE_S, check=True)
    tests = tmp_path / "u-boot" / "test" / "py" / "tests"
    options = ["-p", "no:cacheprovider", "-p", "boardlab_expected", f"--junitxml={tmp_path}/results.xml"]
    options += [f"--expected-failures={HOOKS}/expected/{BOARD_TYPE}.toml", f"--result-dir={tmp_path}/result"]
    board = [f"--board-type={BOARD_TYPE}", f"--build-dir={tmp_path}/build"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *board, *(tests / part for part in PARTS)],
        cwd=tmp_path,
        env=lab.environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    cases = ET.parse(tmp_path / "results.xml").findall(".//testcase")
    passed = [case.get("classname", "").rpartition(".")[2] for case in cases if not len(case)]
    assert {part: passed.count(part.partition(".")[0]) for part in PARTS} == PARTS
    assert powered(lab).count("on") == 2
