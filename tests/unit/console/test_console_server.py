"""The server's process: what it owes to whoever started it."""

from __future__ import annotations

import os

import pytest

from lab.console.server import write_ready


def test_who_started_the_server_is_told_that_it_serves() -> None:
    told, tell = os.pipe()
    write_ready(tell)
    assert os.read(told, 2) == b"1"
    assert os.read(told, 2) == b"", "the pipe is closed"
    os.close(told)


def test_a_server_that_nobody_waits_for_any_more_goes_on() -> None:
    told, tell = os.pipe()
    os.close(told)
    write_ready(tell)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(tell)
