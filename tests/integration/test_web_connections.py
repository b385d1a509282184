"""Clients of `lab web` that say nothing keep nobody else from its login."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from support import web_people

LAB = Path(sys.executable).with_name("lab")
FILES = 1024
SILENT = 1100
HALF = b"GET /login HTTP/1.1\r\nX-Slow: "
TIMEOUT_S = 60  # a busy machine answers late
LOG_BYTES = 10_000
# Opens many connections, says a little on each, and keeps them until its input ends.
CROWD = """
import socket, sys
opened = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) for _ in range(int(sys.argv[2]))]
for each in opened:
    try:
        each.sendall(bytes.fromhex(sys.argv[3]))
    except ConnectionError:
        pass
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web") / "web.log"


@pytest.fixture(scope="module")
def port(log: Path) -> Iterator[str]:
    """`lab web` with users, as a process that may have 1,024 files open."""
    folder = log.parent
    web_people.users(folder)
    (folder / "runtime").mkdir(mode=0o700)
    words = ["--listen", "127.0.0.1:0", "--db", str(folder / "results.db"), "--users", str(folder / "users.json")]
    with log.open("wb") as written:
        server = subprocess.Popen(
            [
                "sh",
                "-c",
                f'ulimit -n {FILES} && exec "$@"',
                "sh",
                LAB,
                "web",
                *words,
                "--runtime",
                str(folder / "runtime"),
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip().rpartition(":")[2]
        finally:
            server.terminate()
            server.communicate(timeout=TIMEOUT_S)


@contextlib.contextmanager
def crowd(port: str, count: int, say: bytes) -> Iterator[None]:
    """So many connections in one process."""
    words = [sys.executable, "-c", CROWD, port, str(count), say.hex()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        assert clients.stdout is not None
        assert clients.stdout.readline() == "open\n"
        yield


@pytest.mark.parametrize(
    "say", [pytest.param(b"", id="silent", marks=pytest.mark.soak), pytest.param(HALF, id="half a request")]
)
def test_more_clients_than_files_leave_the_login_to_others(port: str, log: Path, say: bytes) -> None:
    with crowd(port, SILENT // 2, say), crowd(port, SILENT // 2, say):
        for _ in range(20):
            page = requests.get(f"http://127.0.0.1:{port}/login", timeout=TIMEOUT_S)
            assert (page.status_code, 'name="password"' in page.text) == (200, True)
    assert log.stat().st_size < LOG_BYTES, log.read_text()[:2000]
