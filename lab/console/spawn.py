"""Starting the console server when none is there."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from lab.console.client import ConsoleClient
from lab.errors import LabStableError, LabTransientError
from lab.host.runtime import EXIT_TWICE, log_path, prepare, runtime_dir, socket_path

START_TIMEOUT_S = 20.0  # a Python start on a loaded host
RETRY_S = 0.02
LOG_TAIL_LINES = 5


def ensure_server(runtime: Path | None = None) -> Path:
    """The socket of a server that answers; one is started if none does, and outlives this process.

    Args:
        runtime: the server's folder; None: `runtime_dir()`.

    Raises:
        LabStableError: the server could not start; the message has the end of its log.
        ConfigurationError: the folder cannot be used.
    """
    folder = prepare(runtime or runtime_dir())
    address = socket_path(folder)
    if _answers(address):
        return address
    log = log_path(folder)
    command = [sys.executable, "-P", "-m", "lab.console.server", "--runtime", str(folder), "--detach"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True
        )
        try:
            status = process.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    deadline = time.monotonic() + START_TIMEOUT_S
    while status == EXIT_TWICE and not _answers(address) and time.monotonic() < deadline:
        time.sleep(RETRY_S)  # another process was faster; its server is about to listen
    if _answers(address):
        return address
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:])
    raise LabStableError(
        f"the console server did not start (exit status {status}); the end of {log}:\n{tail}",
        failure="no_console_server",
    )


def _answers(address: Path) -> bool:
    try:
        ConsoleClient(address).close()
    except LabTransientError:
        return False
    return True
