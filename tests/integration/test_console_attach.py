"""`lab console attach` as a program: what a port says is shown, what is typed goes to it, and how it ends."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import tty
from pathlib import Path

from lab.console.client import ConsoleClient
from lab.host.runtime import socket_path

LAB = Path(sys.executable).with_name("lab")


def read_until(descriptor: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        assert select.select([descriptor], [], [], 30)[0], f"only {seen!r} came"
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


def test_a_script_gets_the_answer_and_an_exit_status_that_says_how_it_ended(tmp_path: Path) -> None:
    board, port = os.openpty()
    tty.setraw(port)
    environ = {**os.environ, "BOARDLAB_RUNTIME": str(tmp_path)}

    def attach(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [LAB, "console", "attach", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        )

    def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
        shown, _ = process.communicate(timeout=30)
        return process.returncode, shown

    try:
        with attach(os.ttyname(port), "--until", "=> $") as script:
            assert script.stdin is not None
            script.stdin.write(b"version\r")
            script.stdin.close()
            script.stdin = None
            assert read_until(board, b"\r") == b"version\r"
            os.write(board, b"U-Boot 2023.01\r\n=> ")
            assert ended(script) == (0, b"U-Boot 2023.01\r\n=> ")
        with attach(os.ttyname(port), "--backlog", "1", "--until", "never", "--timeout", "0") as script:
            assert ended(script) == (3, b"=> ")
        with attach("nowhere") as script:
            assert ended(script) == (1, b"")
        with attach(os.ttyname(port), "--until", "(") as script:
            assert ended(script) == (2, b"")
    finally:
        with ConsoleClient(socket_path(tmp_path)) as client:
            client.stop()
        os.close(board)
        os.close(port)
