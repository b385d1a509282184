"""`lab console attach`: what a port says is shown, what is typed goes to it, and Ctrl-] ends it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tty
from pathlib import Path

from lab.console.client import ConsoleClient
from lab.console.runtime import socket_path

LAB = Path(sys.executable).with_name("lab")


def read_until(descriptor: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += os.read(descriptor, 1024)
    return seen


def test_keys_go_to_the_board_and_its_words_to_the_screen(tmp_path: Path) -> None:
    board, port = os.openpty()
    tty.setraw(port)
    person, terminal = pty.openpty()
    environ = {**os.environ, "BOARDLAB_RUNTIME": str(tmp_path)}
    process = subprocess.Popen(
        [LAB, "console", "attach", os.ttyname(port)], stdin=terminal, stdout=terminal, stderr=terminal, env=environ
    )
    try:
        read_until(person, b"Ctrl-] ends")
        os.write(board, b"=> ")
        read_until(person, b"=> ")
        os.write(person, b"printenv\r\x03")  # Ctrl-C is the board's
        assert read_until(board, b"\x03") == b"printenv\r\x03"
        os.write(person, b"\x1d")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        with ConsoleClient(socket_path(tmp_path)) as client:
            client.stop()
        for descriptor in (board, port, person, terminal):
            os.close(descriptor)
