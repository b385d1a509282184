"""pdudaemon between tests and power switch, and the gate before it.

pdudaemon is found, configured and supervised. It obeys every client of its port, and listens on nothing but TCP.
So clients, labgrid's own driver too, ask at the gate, which lets in the user of the bench (`lab.virtual.ports`). pdudaemon
knows the power switch under a secret name, a new one each time it starts; a client of its own port finds no switch there.
"""

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
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from attrs import frozen

from lab import package_data
from lab.errors import ConfigurationError, LabStableError
from lab.virtual import http, ports
from lab.virtual.ports import LOOPBACK, free_port
from lab.virtual.process import Child

VARIABLE = "BOARDLAB_PDUDAEMON"
DEFAULT_PORT = 16421
_READY_S = 90.0  # of a busy host: it loads for a second of one processor
_POLL_S = 0.05
_RESTART_S = (0.0, 1.0, 5.0)  # before a restart: the first at once, later ones slower
_STEADY_S = 30.0  # a pdudaemon that lived so long starts again at the head of _RESTART_S
_log = logging.getLogger(__name__)


def home() -> Path:
    """Folder of pdudaemon's own environment.

    Its pyserial would overwrite labgrid's in ours.

    In a checkout `./run setup` fills it; elsewhere it is inside the environment that boardlab is installed in.
    """
    checkout = package_data.checkout()
    return checkout / ".cache" / "pdudaemon" if checkout else Path(sys.prefix) / "pdudaemon"


def installing() -> str:
    """Command that fills `home()`, with uv if available.

    It builds nothing: neither compiler nor headers are needed.
    """
    uv, where = shutil.which("uv"), str(home())
    make = [uv, "venv", "--allow-existing"] if uv else [sys.executable, "-m", "venv"]
    fill = [uv, "pip", "install", "--python", where] if uv else [f"{where}/bin/python", "-m", "pip", "install"]
    wanted = str(package_data.folder(package_data.FARM) / "pdudaemon" / "requirements.txt")
    return f"{shlex.join([*make, where])} && {shlex.join([*fill, '--no-deps', '-r', wanted])}"


def find() -> Path:
    """Path of pdudaemon: $BOARDLAB_PDUDAEMON, else in `home()`, else on PATH.

    Raises:
        ConfigurationError: it is not there.
    """
    named = os.environ.get(VARIABLE)
    own = home() / "bin" / "pdudaemon"
    for candidate in (named,) if named else (own, shutil.which("pdudaemon")):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    where = f"${VARIABLE} says {named}, which is no program" if named else f"{own} is no program"
    how = "`./run setup` installs it, or this command" if package_data.checkout() else "This command installs it"
    raise ConfigurationError(
        f"pdudaemon is not installed ({where}). {how}, into an environment of its own: {installing()}"
        + (f" && unset {VARIABLE}" if named else "")
    )


class PduDaemon:
    """A pdudaemon that is restarted and never outlives this process."""

    def __init__(self, folder: Path, program: Path, port: int, switch: str, boards: Sequence[str]) -> None:
        """
        Args:
            port: of loopback, where its gate shall listen.
            switch: host:port of the bench's power switch.
            boards: their names, in the order of the switch's outlets.
        """
        self.address = f"{LOOPBACK}:{port}"
        self._folder, self._program = folder, program
        self._conf = folder / "pdudaemon.conf"
        self._switch, self._outlets = switch, len(boards)
        self._gate = Gate(port, package_data.BENCH_PDU, boards)
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
            failed = "ended at once" if self._child.ended.is_set() else f"did not answer within {_READY_S:.0f} s"
            raise LabStableError(
                f"pdudaemon {failed}; its log {self._log_path} ends with: {self._tail()}",
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
            # One try: the caller decides on another one, and learns of a failure at once.
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
        return " | ".join(self._log_path.read_text(errors="replace").splitlines()[-5:])


# --- The gate before pdudaemon ---


PATIENCE_S: Final = 10.0  # pdudaemon starts within a second or two; clients wait meanwhile
_PIECE_BYTES: Final = 4096


@frozen
class House:
    """Server behind the gate: pdudaemon's port and the switch's secret name."""

    port: int = 0
    pdu: str = ""

    async def answers(self) -> bool:
        """Return whether pdudaemon listens."""
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(ports.LOOPBACK, self.port)
            writer.close()
            return True
        return False


class Gate:
    """Passes on what our user asks, and what pdudaemon answers.

    Attributes:
        house: where pdudaemon is now.
    """

    def __init__(self, port: int, pdu: str, boards: Sequence[str]) -> None:
        """
        Args:
            port: of loopback, where to listen.
            pdu: the name of the power switch for clients.
            boards: the boards at its outlets 1, 2 and so on; a client may name one as `PDU/BOARD`, port 1.
        """
        self.house = House()
        self._port, self._pdu, self._boards = port, pdu, boards
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Listen. Returns host:port.

        Raises:
            LabStableError: somebody else has the port.
        """
        where = (ports.LOOPBACK, self._port)
        try:
            self._server = await ports.listen(self._serve, where, refusal=http.refusal(), limit=http.REQUEST_BYTES)
        except OSError as error:
            raise LabStableError(
                f"cannot listen on {ports.LOOPBACK}:{self._port}: {error.strerror}; choose another port with --pdu-port",
                failure="pdudaemon",
            ) from error
        return "{}:{}".format(*self._server.sockets[0].getsockname())

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(http.REQUEST_S):
                request = http.parse(await reader.readuntil(b"\r\n\r\n"))
            if isinstance(request, http.JsonResponse):
                writer.write(http.encoded(request))
            elif request.body is not None:
                writer.write(http.encoded(http.JsonResponse(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "expected GET"})))
            elif (wrong := self._unknown(request.query)) is not None:
                writer.write(http.encoded(wrong))
            else:
                await self._ask(request.path, request.query, writer)
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.info("a client of pdudaemon got no answer: %r", error)
        finally:
            writer.close()

    def _unknown(self, query: Mapping[str, str]) -> http.JsonResponse | None:
        """Answer to a client that names an unknown board."""
        pdu, slash, board = query.get("hostname", "").partition("/")
        if pdu != self._pdu or not slash or (board in self._boards and query.get("port", "1") == "1"):
            return None
        there = ", ".join(f"{self._pdu}/{name}" for name in self._boards)
        said = f"no outlet {query.get('port', '')} of {pdu}/{board} on this bench: it has outlet 1 of {there}"
        return http.JsonResponse(HTTPStatus.NOT_FOUND, {"error": said})

    def _inside(self, query: Mapping[str, str]) -> dict[str, str]:
        """The question as pdudaemon understands it."""
        pdu, _, board = query.get("hostname", "").partition("/")
        if pdu != self._pdu:
            return dict(query)
        outlet = {"port": str(self._boards.index(board) + 1)} if board else {}
        return {**query, "hostname": self.house.pdu, **outlet}

    async def _ask(self, path: str, query: Mapping[str, str], client: asyncio.StreamWriter) -> None:
        reader, writer = await self._enter()
        try:
            named = self._inside(query)
            target = f"{path}?{urlencode(named)}" if named else path
            head = f"GET {target} HTTP/1.1\r\nHost: {ports.LOOPBACK}:{self.house.port}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode("ascii"))
            while piece := await reader.read(_PIECE_BYTES):
                client.write(piece)
        finally:
            writer.close()

    async def _enter(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await asyncio.open_connection(ports.LOOPBACK, self.house.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(_POLL_S)
