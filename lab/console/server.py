"""The console server's process: `python -m lab.console.server --runtime DIR [--detach]`.

With --detach the command returns when the server listens (0), could not start (1), or found another one (3).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from lab.console.loop import ConsoleServer
from lab.errors import BoardlabError, LabStableError
from lab.host.clock import MonotonicRaw
from lab.host.process import open_many_files
from lab.host.runtime import EXIT_TWICE, lock_path, log_path, prepare, runtime_dir
from lab.terminal import PlainFormatter, plain_text

TWICE = "console_server_twice"
EXIT_FAILED = 1
LOG_BYTES = 1 << 20  # of the log; one older one is kept
_log = logging.getLogger(__name__)


def lock(runtime: Path) -> int:
    """Lock the runtime folder for this process; return the lock's descriptor.

    Raises:
        LabStableError: another server has it.
    """
    fd = os.open(lock_path(runtime), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        raise LabStableError(
            f"a console server (pid {pid}) serves {runtime} already; use it, or end it with `lab console stop`",
            failure=TWICE,
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def serve(runtime: Path, ready: Callable[[], None] = lambda: None) -> None:
    """Serve in this process until SIGTERM, SIGINT or a client's stop.

    Args:
        ready: called when clients can connect.

    Raises:
        BoardlabError: the folder is not usable, or another server has it.
    """
    fd = lock(prepare(runtime))
    try:
        handler = logging.handlers.RotatingFileHandler(
            log_path(runtime), maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
        handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])
        open_many_files()  # three for a port, one for a client
        server = ConsoleServer(runtime, MonotonicRaw())

        def end(number: int, _frame: FrameType | None) -> None:
            _log.info("ending: %s", signal.Signals(number).name)
            server.stop()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        ready()
        server.run()
    finally:
        os.close(fd)


def detach() -> Callable[[], None]:
    """Continue as a daemon while the calling process waits and exits.

    Returns: a function to call when the server is ready; the waiting process then exits with 0.
    """
    ready, notify = os.pipe()
    child = os.fork()
    if child:
        os.close(notify)
        if os.read(ready, 1):
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or EXIT_FAILED)
    os.close(ready)
    os.setsid()

    return functools.partial(write_ready, notify)


def write_ready(fd: int) -> None:
    """Report readiness to the waiting process, if it still waits."""
    with contextlib.suppress(BrokenPipeError):
        os.write(fd, b"1")
    os.close(fd)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m lab.console.server", description="boardlab's console server")
    parser.add_argument("--runtime", type=Path, default=runtime_dir(), help="folder of the socket and the recordings")
    parser.add_argument("--detach", action="store_true", help="go to the background and return when it serves")
    options = parser.parse_args()
    try:
        if options.detach:
            serve(options.runtime, detach())
        else:
            serve(options.runtime)
    except BoardlabError as error:
        sys.stderr.write(f"{plain_text(str(error))}\n")
        return EXIT_TWICE if error.failure == TWICE else EXIT_FAILED
    return 0


# With --detach the command returns when the server listens (0), could not start (1), or found another one (3).


if __name__ == "__main__":
    sys.exit(main())
