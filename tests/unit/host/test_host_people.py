"""Whose a process is, for messages."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from lab.host import process as host_process

ME = pwd.getpwuid(os.getuid()).pw_name


def process(proc: Path, pid: int, cmdline: bytes, loginuid: str | None = None) -> None:
    """A process as /proc shows it."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(cmdline)
    (folder / "comm").write_text("kthread\n")
    if loginuid is not None:
        (folder / "loginuid").write_text(loginuid)


@pytest.mark.parametrize("loginuid", [None, "4294967295", "nonsense"])
def test_without_a_login_a_process_is_its_owners(tmp_path: Path, loginuid: str | None) -> None:
    process(tmp_path, 7, b"", loginuid)
    assert host_process.person_of(7, tmp_path) == ME


def test_a_shared_account_does_not_hide_who_logged_in(tmp_path: Path) -> None:
    process(tmp_path, 7, b"", str(pwd.getpwnam("daemon").pw_uid))
    process(tmp_path, 8, b"", "4000000000")
    assert host_process.person_of(7, tmp_path) == "daemon"
    assert host_process.person_of(8, tmp_path) == "4000000000"


@pytest.mark.parametrize(
    ("cmdline", "program"),
    [
        (b"/usr/bin/python3\0/srv/.venv/bin/lab\0console\0attach\0/dev/ttyUSB0\0", "lab console attach"),
        (b"python3.11\0-P\0-m\0pytest\0--lg-env=am62x.yaml\0", "pytest"),
        (b"python3\0-c\0import this\0", "python3"),
        (b"/usr/sbin/ser2net\0-c\0/etc/ser2net.yaml\0", "ser2net"),
        (b"", "kthread"),
    ],
)
def test_a_program_is_named_by_what_was_called(tmp_path: Path, cmdline: bytes, program: str) -> None:
    process(tmp_path, 7, cmdline)
    assert host_process.program(7, tmp_path) == program


def test_a_process_is_described_and_one_that_is_gone_has_its_number() -> None:
    assert host_process.described(os.getpid()).startswith(f"{ME} (")
    assert host_process.described(os.getpid()).endswith(f"pid {os.getpid()})")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert host_process.described(ended.pid) == f"pid {ended.pid}"
