"""`lab web` as a process of its own, as a person starts it."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 180


@frozen
class WebProcess:
    """A `lab web` that runs; `own`, `link`: address and path by which whoever started it acts, empty where it asks for a login."""

    url: str
    own: str
    link: str
    pid: int


@contextlib.contextmanager
def running_web(folder: Path, environ: Mapping[str, str], *words: str | Path) -> Iterator[WebProcess]:
    """A `lab web` that is started in this folder."""
    server = subprocess.Popen(
        [LAB, "web", "--listen", "127.0.0.1:0", *words],
        env={**environ, "PYTHONUNBUFFERED": "1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as under systemd
    )
    try:
        assert server.stdout is not None
        found = re.fullmatch(r"serving (https?://127\.0\.0\.1:\d+)\n", server.stdout.readline())
        assert found is not None
        asks = "--users" in words
        told = "" if asks else server.stdout.readline()
        acts = re.fullmatch(r"to act: (http://[0-9a-f]{16}\.localhost:\d+)(/login\?token=\S+)\n", told)
        assert asks or acts is not None, told
        yield WebProcess(found[1], acts[1] if acts else "", acts[2] if acts else "", server.pid)
    finally:
        server.send_signal(signal.SIGTERM)  # as systemd does
        code = server.wait(DEADLINE_S)
    assert code == -signal.SIGTERM
