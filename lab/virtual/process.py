"""Child processes that end with their parent, watched by its loop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.virtual.images import tools

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)  # opened here: between fork and exec it would be too late


class Child:
    """A program that the kernel kills when this process dies.

    The caller's process must have a single thread, since code of ours runs between fork and exec.

    Args:
        log: gets the program's standard output and error, appended.
        ended_hook: called once, with the exit status, when the program ended without `kill`.

    Raises:
        ConfigurationError: the program is not installed.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        ended_hook: Callable[[int], None] | None = None,
    ) -> None:
        parent = os.getpid()

        def die_with_parent() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before we asked
                os._exit(1)

        self._ended_hook = ended_hook
        self._loop = asyncio.get_running_loop()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [tools.find(command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                env={**os.environ, **(env or {})},
                preexec_fn=die_with_parent,  # noqa: PLW1509 - a single thread, and no other way is free of races
            )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.ended = asyncio.Event()
        self._loop.add_reader(self._pidfd, self._exited)

    async def kill(self) -> None:
        """Kill the program and wait until the kernel has reaped it."""
        self._ended_hook = None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self.ended.wait()

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._process.wait()
        self.ended.set()
        if self._ended_hook is not None:
            self._ended_hook(status)
