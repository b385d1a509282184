"""What tests start ends, and what they find out of a machine's ports."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest
from support import board_releases, children

_STAYS = "import sys; print('begun', flush=True); sys.stdin.read()"


def begun(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_child_that_ends_is_heard() -> None:
    assert children.said(begun("print('all of it')"), 60) == "all of it\n"


def test_a_child_that_does_not_end_is_killed() -> None:
    child = begun(_STAYS)
    assert child.stdin is not None
    held, child.stdin = child.stdin, None  # so that nobody ends it by closing it
    with held, pytest.raises(AssertionError, match="did not end"):
        children.said(child, 0.01)
    assert child.returncode == -signal.SIGKILL


def test_a_port_that_another_server_has_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((board_releases.OWN_ADDRESS, 0))
        monkeypatch.setattr(board_releases, "TFTP_PORT", other.getsockname()[1])
        assert not board_releases.may_serve_tftp()
