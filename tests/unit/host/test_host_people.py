"""Whose a process is, for messages."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lab.host import process as host_process

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def loginuid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of this process's login, which does not exist yet."""
    monkeypatch.setattr(host_process, "PROC", tmp_path)
    (tmp_path / str(os.getpid())).mkdir()
    return tmp_path / str(os.getpid()) / "loginuid"


@pytest.mark.parametrize("text", [None, "4294967295", "nonsense"])
def test_without_a_login_a_process_is_its_owners(loginuid: Path, text: str | None) -> None:
    if text is not None:
        loginuid.write_text(text)
    assert host_process.person_of(os.getpid()) == ME


def test_a_shared_account_does_not_hide_who_logged_in(loginuid: Path) -> None:
    loginuid.write_text(str(pwd.getpwnam("daemon").pw_uid))
    assert host_process.person_of(os.getpid()) == "daemon"
    loginuid.write_text("4000000000")
    assert host_process.person_of(os.getpid()) == "4000000000"


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["/usr/bin/python3", "/srv/.venv/bin/lab", "console", "attach", "/dev/ttyUSB0"], "lab console attach"),
        (["python3.11", "-P", "-m", "pytest", "--lg-env=am62x.yaml"], "pytest"),
        (["python3", "-c", "import this"], "python3"),
        (["/usr/sbin/ser2net", "-c", "/etc/ser2net.yaml"], "ser2net"),
    ],
)
def test_a_program_is_named_by_what_was_called(argv: list[str], program: str) -> None:
    assert host_process.shorten(argv) == program


def test_a_process_without_a_command_line_is_named_as_the_kernel_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert host_process.program(child.pid) == "sleep"
        monkeypatch.setattr(psutil.Process, "cmdline", lambda _self: [])
        assert host_process.program(child.pid) == "sleep"
        child.kill()


def test_a_process_is_described_and_one_that_is_gone_has_its_number() -> None:
    assert host_process.describe(os.getpid()).startswith(f"{ME} (")
    assert host_process.describe(os.getpid()).endswith(f"pid {os.getpid()})")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert host_process.describe(ended.pid) == f"pid {ended.pid}"
