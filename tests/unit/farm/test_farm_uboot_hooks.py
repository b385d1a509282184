"""The hooks of U-Boot's test/py say what is missing, and its failures are the expected ones or news."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.facts import missing_facts

HOOKS = Path(__file__).parents[3] / "farm" / "uboot-test-hooks"
NAMES = sorted(path.name for path in (HOOKS / "bin").iterdir())
TESTS = """
import pytest

def test_fails():
    assert False

def test_passes():
    pass

def test_is_skipped():
    pytest.skip("not here")
"""


def hook(name: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [HOOKS / "bin" / name, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": path, **environment},
    )


def expecting(folder: Path, expected: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "expected.toml").write_text(expected)
    (folder / "boardlab_expected.py").symlink_to(HOOKS / "py" / "boardlab_expected.py")
    options = ("-p", "no:cacheprovider", "-p", "boardlab_expected", "--expected-failures", "expected.toml", "-rA")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(words or (".",))],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_says_what_it_needs(name: str, tmp_path: Path) -> None:
    board = ("am62x_evm_a53", "desk-1")
    for done, said in (
        (hook(name, "am62x_evm_a53"), "expected BOARD_TYPE and BOARD_ID"),
        (hook(name, *board), "BOARDLAB_ENVS is not set: export the folder in which am62x_evm_a53-desk-1.yaml"),
        (
            hook(name, *board, BOARDLAB_ENVS=str(tmp_path)),
            f"no am62x_evm_a53-desk-1.yaml and no am62x_evm_a53.yaml in {tmp_path}",
        ),
        (hook(name, *board, PATH="/usr/bin:/bin"), "no program 'lab' in PATH"),
    ):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"{name}: {said}")


def test_the_file_of_one_board_comes_before_that_of_its_type(tmp_path: Path) -> None:
    for name in ("evm.yaml", "evm-desk-1.yaml"):
        (tmp_path / name).write_text("targets: {}\n")
    for identity, name in (("desk-1", "evm-desk-1.yaml"), ("desk-2", "evm.yaml")):
        done = hook("u-boot-test-release", "evm", identity, BOARDLAB_ENVS=str(tmp_path))
        assert done.returncode == 1
        assert f"error: {tmp_path / name}: targets" in done.stderr


def test_an_expected_failure_is_no_news(tmp_path: Path) -> None:
    done = expecting(tmp_path, '[fails]\n"test_it.py::test_fails" = "no TPM"\n')
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not missing_facts(done.stdout, "XFAIL", "test_it.py::test_fails", "no TPM")
    assert "1 passed, 1 skipped, 1 xfailed" in done.stdout


@pytest.mark.parametrize(
    ("expected", "words", "code", "says"),
    [
        ("", (), pytest.ExitCode.TESTS_FAILED, "1 failed, 1 passed, 1 skipped"),
        ('[fails]\n"test_it.py::test_passes" = "?"\n', (), pytest.ExitCode.TESTS_FAILED, "2 failed, 1 skipped"),
        ('[fails]\n"test_it.py::test_gone" = "?"\n', (), pytest.ExitCode.USAGE_ERROR, "no such tests: test_it.py::test_gone"),
        ('[left_out]\n"test_it.py::test_fails" = "?"\n', (), pytest.ExitCode.OK, "1 passed, 2 skipped"),
        ("fails = 7", (), pytest.ExitCode.USAGE_ERROR, "expected.toml: expected tables [fails] and [left_out]"),
        ("[expected]", (), pytest.ExitCode.USAGE_ERROR, "only: it has expected"),
        ('[fails]\n"test_gone.py::test_gone" = "?"\n', ("test_it.py::test_passes",), pytest.ExitCode.OK, "1 passed"),
    ],
)  # fmt: skip
def test_what_is_not_as_expected_is_news(
    tmp_path: Path, expected: str, words: tuple[str, ...], code: pytest.ExitCode, says: str
) -> None:
    done = expecting(tmp_path, expected, *words)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
