"""What runs beside the measurements on a lab host, and whether it answers."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final, Literal

from attrs import frozen

from lab.console.client import ConsoleClient
from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm import config
from lab.farm.config import Farm
from lab.host.runtime import socket_path
from lab.results.location import DATABASE_VARIABLE, locate

State = Literal["ok", "absent", "bad"]
ANSWER_S: Final = 1.0
DRAFT: Final = Path("farm.yaml")
FARM_FILES: Final = (DRAFT, Path("/etc/boardlab/farm.yaml"))
SUPERVISORD: Final = Path("run", "supervisord.conf")  # beside the farm.yaml of a farm that `lab farm up` brought up
SUPERVISED: Final = ("pdudaemon", "exporter")  # what it runs of those below
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


@frozen
class HostFile:
    """The farm.yaml that a host is looked at with.

    Attributes:
        farm: None: there is none. installed: what it names must run; a draft in a lab's folder only says where it would be.
        supervised: `lab farm up` keeps its programs running, not systemd.
    """

    farm: Farm | None
    installed: bool
    supervised: bool = False


def host_file(named: Path | None = None) -> HostFile:
    """The host's farm.yaml: the one that is named, else here, else /etc/boardlab's.

    Raises:
        ConfigurationError: it is wrong.
    """
    path = named or next((path for path in FARM_FILES if path.is_file()), None)
    supervised = path is not None and (path.parent / SUPERVISORD).exists()
    return HostFile(config.load(path) if path else None, supervised or path not in {None, DRAFT}, supervised)


def database(given: str | None, farm: Farm | None) -> str | None:
    """The results: those that are given, else $LAB_DB's, else farm.yaml's where they are there; None: the user's."""
    if given or os.environ.get(DATABASE_VARIABLE) or farm is None:
        return given
    try:
        location = locate(farm.database)
    except BoardlabError:  # e.g. a draft's folder that nobody has made
        return None
    return farm.database if location.path is None or location.path.exists() else None


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
    count = len(status.ports)
    said = f"pid {status.pid}, {count} {'port' if count == 1 else 'ports'}"
    if lost:
        mend = "plug the adapter in again, or see `lab console status`"
        return Service("console server", "bad", f"{said}, lost: {', '.join(lost)}", mend), status
    return Service("console server", "ok", said), status


def listening(host: HostFile) -> list[Service]:
    """The services that listen on a port. What an installed farm.yaml names must be there; others may be."""
    wanted = host.farm or Farm()
    addresses = {"pdudaemon": wanted.pdudaemon.address, "exporter": wanted.exporter.listen}
    addresses |= {"coordinator": wanted.coordinator, "alertmanager": wanted.alertmanager}
    return [_listening(name, address, host) for name, address in addresses.items() if address]


def _listening(name: str, address: str, host: HostFile) -> Service:
    machine, _, port = address.rpartition(":")
    try:
        socket.create_connection((machine.strip("[]") or "localhost", int(port)), ANSWER_S).close()
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if not host.installed:
            return Service(name, "absent", f"nothing listens at {address}")
        return Service(name, "bad", f"{address}: {reason}", _mend(name, host))
    return Service(name, "ok", f"listens at {address}")


def _mend(name: str, host: HostFile) -> str:
    if host.supervised and name in SUPERVISED:
        return "`lab farm status` says whether it runs, `lab farm logs` why it ended"
    return f"systemctl start {_UNITS[name]}; journalctl -u {_UNITS[name]} says why it ended"
