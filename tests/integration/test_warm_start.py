"""The fork server of the tests outlives clients that were killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.warm_start import ADDRESS, ROOT, SCRIPTS, SETTINGS, WarmPopen, WarmStarts


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of a fork server of this test's own."""
    for name in (ADDRESS, SETTINGS):
        monkeypatch.setenv(name, "")
    server = WarmStarts()
    address = os.environ[ADDRESS]
    while not Path(address).exists():  # it imports everything first, which takes a minute on a starved host
        assert server.is_alive, "the fork server ended"
        time.sleep(0.01)
    monkeypatch.setattr(WarmPopen, "address", address)
    monkeypatch.setattr(WarmPopen, "group", os.getpgrp())
    monkeypatch.setattr(WarmPopen, "settings", json.loads(os.environ[SETTINGS]))
    yield address
    server.close()
    for name in (ADDRESS, SETTINGS):
        os.environ[name] = ""  # for monkeypatch to restore


def test_a_client_killed_before_its_request_does_not_end_the_server(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(address)
    lab = next(name for name, module in SCRIPTS.items() if module == "lab.cli")
    process = WarmPopen([lab, "--version"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process._server, "was started without the fork server"
    printed, _ = process.communicate()
    assert (process.returncode, printed[:8]) == (0, b"boardlab")
