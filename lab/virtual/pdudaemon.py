"""pdudaemon between the tests and the bench's power switch: found, configured, supervised."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import shipped
from lab.errors import ConfigurationError, LabStableError
from lab.virtual.gate import Gate, House
from lab.virtual.guard import LOOPBACK
from lab.virtual.ports import free_port
from lab.virtual.process import Child

VARIABLE = "BOARDLAB_PDUDAEMON"
DEFAULT_PORT = 16421
_READY_S = 20.0
_POLL_S = 0.05
_RESTART_S = (0.0, 1.0, 5.0)  # before a restart: the first at once, later ones slower
_STEADY_S = 30.0  # a pdudaemon that lived so long starts again at the head of _RESTART_S
_log = logging.getLogger(__name__)


def home() -> Path:
    """The environment of its own that pdudaemon has: its pyserial would overwrite labgrid's in ours.

    In a checkout `./run setup` fills it; elsewhere it is inside the environment that boardlab is installed in.
    """
    checkout = shipped.checkout()
    return checkout / ".cache" / "pdudaemon" if checkout else Path(sys.prefix) / "pdudaemon"


def installing() -> str:
    """The command that fills `home()`, with uv where that is at hand. It builds nothing: neither compiler nor headers are needed."""
    uv, where = shutil.which("uv"), str(home())
    make = [uv, "venv", "--allow-existing"] if uv else [sys.executable, "-m", "venv"]
    fill = [uv, "pip", "install", "--python", where] if uv else [f"{where}/bin/python", "-m", "pip", "install"]
    wanted = str(shipped.folder(shipped.FARM) / "pdudaemon" / "requirements.txt")
    return f"{shlex.join([*make, where])} && {shlex.join([*fill, '--no-deps', '-r', wanted])}"


def find() -> Path:
    """The pdudaemon program: $BOARDLAB_PDUDAEMON where that is set, else the one in `home()`, else on PATH.

    Raises:
        ConfigurationError: it is not there.
    """
    named = os.environ.get(VARIABLE)
    own = home() / "bin" / "pdudaemon"
    for candidate in (named,) if named else (own, shutil.which("pdudaemon")):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    where = f"${VARIABLE} says {named}, which is no program" if named else f"{own} is no program"
    how = "`./run setup` installs it, or this command" if shipped.checkout() else "This command installs it"
    raise ConfigurationError(
        f"pdudaemon is not installed ({where}). {how}, into an environment of its own: {installing()}"
        + (f" && unset {VARIABLE}" if named else "")
    )


class PduDaemon:
    """A pdudaemon that is started again when it ends, and never outlives this process."""

    def __init__(self, folder: Path, program: Path, port: int, switch: str, boards: Sequence[str]) -> None:
        """
        Args:
            port: of loopback, where its gate shall listen. switch: host:port of the bench's power switch.
            boards: their names, in the order of the switch's outlets.
        """
        self.address = f"{LOOPBACK}:{port}"
        self._folder, self._program = folder, program
        self._conf = folder / "pdudaemon.conf"
        self._switch, self._outlets = switch, len(boards)
        self._gate = Gate(port, shipped.BENCH_PDU, boards)
        self._child: Child | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            LabStableError: the gate's port is in use; or it ended, or did not answer in time: the message has its last words.
        """
        await self._gate.open()
        self._child = self._spawn()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                while not self._child.ended.is_set() and not await self._gate.house.answers():
                    await asyncio.sleep(_POLL_S)
        if self._child.ended.is_set() or not await self._gate.house.answers():
            await self._child.kill()
            raise LabStableError(
                f"pdudaemon did not come up on {self.address}; the end of {self._log_path}:\n{self._tail()}",
                failure="pdudaemon",
            )
        self._task = asyncio.create_task(self._supervise())

    async def stop(self) -> None:
        """End it."""
        self._gate.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._child is not None:
            await self._child.kill()

    @property
    def _log_path(self) -> Path:
        return self._folder / "pdudaemon.log"

    def _spawn(self) -> Child:
        self._gate.house = house = House(free_port(), secrets.token_hex(16))
        switch = {"driver": "tasmota", "ip": self._switch, "port_count": self._outlets}
        settings = {
            "daemon": {"hostname": LOOPBACK, "port": house.port, "logging_level": "INFO", "listener": "http"},
            # One try: whoever asked decides whether to try again, and learns of a failure at once.
            "pdus": {house.pdu: {**switch, "retries": 1, "retrydelay": 0}},
        }
        self._conf.touch(mode=0o600)
        self._conf.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        # It asks the switch through `requests`, which would go through a proxy that the environment names.
        direct = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
        return Child([str(self._program), "--conf", str(self._conf)], self._log_path, env=direct)

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while self._child is not None:
            started = loop.time()
            await self._child.ended.wait()
            failures = 0 if loop.time() - started > _STEADY_S else failures + 1
            pause_s = _RESTART_S[min(failures, len(_RESTART_S)) - 1] if failures else 0.0
            _log.warning("pdudaemon ended; starting it again in %.0f s (its log: %s)", pause_s, self._log_path)
            await asyncio.sleep(pause_s)
            self._child = self._spawn()

    def _tail(self) -> str:
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-5:])
