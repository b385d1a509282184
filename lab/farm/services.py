"""What runs beside the measurements on a lab host, and whether it answers."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final, Literal

from attrs import frozen

from lab.console.client import ConsoleClient
from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm.config import Farm
from lab.host.runtime import socket_path

State = Literal["ok", "absent", "bad"]
ANSWER_S: Final = 1.0
FARM_FILES: Final = (Path("farm.yaml"), Path("/etc/boardlab/farm.yaml"))
_UNITS: Final = {
    "pdudaemon": "boardlab-pdudaemon",
    "exporter": "boardlab-exporter",
    "coordinator": "labgrid-coordinator",
    "alertmanager": "prometheus-alertmanager",
}


@frozen
class Service:
    """One that a lab host may run.

    Attributes:
        state: "absent": it does not run, and nothing says that it should. said: in a few words.
        mend: what to do where it is bad.
    """

    name: str
    state: State
    said: str
    mend: str = ""


def farm_file(named: Path | None = None) -> Path | None:
    """The host's farm.yaml: the one that is named, else here, else /etc/boardlab's; None: there is none."""
    return named or next((path for path in FARM_FILES if path.is_file()), None)


def console_server(runtime: Path) -> tuple[Service, ServerStatus | None]:
    """The console server, and its ports where it answers."""
    if not socket_path(runtime).exists():
        return Service("console server", "absent", "does not run; the first measurement starts it"), None
    try:
        with ConsoleClient(socket_path(runtime)) as client:
            status = client.status()
    except BoardlabError as error:
        if error.failure == "no_console_server":  # it was killed, and its socket stayed
            return Service("console server", "absent", "does not run; the first measurement starts it"), None
        return Service("console server", "bad", str(error), "lab console stop, when nothing measures"), None
    lost = [port.info.name for port in status.ports if port.state != "open"]
    said = f"pid {status.pid}, {len(status.ports)} ports"
    if lost:
        mend = "plug the adapter in again, or see `lab console status`"
        return Service("console server", "bad", f"{said}, lost: {', '.join(lost)}", mend), status
    return Service("console server", "ok", said), status


def listening(farm: Farm | None) -> list[Service]:
    """The services that listen on a port. What a farm.yaml names must be there; without one, pdudaemon and exporter may be."""
    wanted = farm or Farm()
    addresses = {"pdudaemon": wanted.pdudaemon.address, "exporter": wanted.exporter.listen}
    addresses |= {"coordinator": wanted.coordinator, "alertmanager": wanted.alertmanager}
    return [_listening(name, address, farm is not None) for name, address in addresses.items() if address]


def _listening(name: str, address: str, named: bool) -> Service:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]") or "localhost", int(port)), ANSWER_S).close()
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if not named:
            return Service(name, "absent", f"nothing listens at {address}")
        unit = _UNITS[name]
        return Service(
            name, "bad", f"{address}: {reason}", f"systemctl start {unit}; journalctl -u {unit} says why it ended"
        )
    return Service(name, "ok", f"listens at {address}")
