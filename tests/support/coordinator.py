"""labgrid's real coordinator, exporter and client, as programs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lab.virtual.ports import free_port
from support.virtual_bench import wait_for_listener

PROGRAMS = Path(sys.executable).parent
DEADLINE_S = 60
ALICE = {"LG_USERNAME": "alice", "LG_HOSTNAME": "ci1"}


@contextlib.contextmanager
def running(*words: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (folder / f"{words[0]}.log").open("ab") as log,
        subprocess.Popen([PROGRAMS / words[0], *words[1:]], cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


@contextlib.contextmanager
def running_coordinator(folder: Path) -> Iterator[str]:
    """Its address."""
    address = f"127.0.0.1:{free_port()}"
    with running("labgrid-coordinator", "-l", address, folder=folder):
        wait_for_listener(address)
        yield address


def client(address: str, *words: str, **who: str) -> None:
    """labgrid-client, as Alice unless somebody else is named."""
    done = subprocess.run(
        [PROGRAMS / "labgrid-client", *words],
        env={**os.environ, "LG_COORDINATOR": address, **ALICE, **who},
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
