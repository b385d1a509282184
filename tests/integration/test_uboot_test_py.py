"""U-Boot's own test/py, of Debian's sources, on a QEMU board: through our console and our power switch.

A fixed part of it; `./run test -e uboot` runs the whole. See docs/uboot-tests.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from measuring_lab import running_lab

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


def test_u_boots_own_tests_pass(tmp_path: Path) -> None:
    with running_lab(tmp_path / "bench", "--idle-off", "0") as lab:
        (tmp_path / f"{BOARD_TYPE}.yaml").symlink_to(lab.bench.folder / "env.yaml")
        programs = (HOOKS / "bin", Path(sys.executable).parent, os.environ["PATH"])
        modules = (HOOKS / "py", os.environ.get("PYTHONPATH", ""))
        environ = {
            **lab.environ,
            "BOARDLAB_ENVS": str(tmp_path),
            "PATH": os.pathsep.join(map(str, programs)),
            "PYTHONPATH": os.pathsep.join(map(str, modules)),
        }
        subprocess.run(["lab", "virtual", "uboot-tests", tmp_path], env=environ, timeout=DEADLINE_S, check=True)
        tests = tmp_path / "u-boot" / "test" / "py" / "tests"
        options = ["-p", "no:cacheprovider", "-p", "boardlab_expected", f"--junitxml={tmp_path}/results.xml"]
        options += [f"--expected-failures={HOOKS}/expected/{BOARD_TYPE}.toml", f"--result-dir={tmp_path}/result"]
        board = [f"--board-type={BOARD_TYPE}", f"--build-dir={tmp_path}/build"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *board, *(tests / part for part in PARTS)],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
        power = [event.state for event in lab.bench.truth().power]
    cases = ET.parse(tmp_path / "results.xml").findall(".//testcase")
    passed = [case.get("classname", "").rpartition(".")[2] for case in cases if not len(case)]
    assert {part: passed.count(part.partition(".")[0]) for part in PARTS} == PARTS
    assert power.count("on") == 2
