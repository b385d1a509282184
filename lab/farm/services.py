"""Services of a lab host and their state."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Final, Literal

from attrs import field, frozen

from lab import package_data
from lab.console.client import ConsoleClient
from lab.console.status import ServerStatus
from lab.errors import BoardlabError, ConfigurationError
from lab.farm import config
from lab.farm.config import HERE, Farm
from lab.host.runtime import runtime_dir, socket_path
from lab.results.location import DATABASE_VARIABLE, locate

State = Literal["ok", "absent", "bad"]
ANSWER_S: Final = 1.0
CONSOLE_SERVER: Final = "console server"
RUN: Final = Path("/run")  # of systemd's RuntimeDirectory=
DRAFT: Final = Path("farm.yaml")
FARM_FILES: Final = (DRAFT, Path("/etc/boardlab/farm.yaml"))
SUPERVISORD: Final = Path("run", "supervisord.conf")  # beside the farm.yaml of a farm that `lab farm up` brought up
COORDINATOR: Final = "coordinator"
NEVER_SUPERVISED: Final = (COORDINATOR, "alertmanager")  # `lab farm up` runs neither
RUNTIME_VARIABLE: Final = "BOARDLAB_RUNTIME"
FARM_VARIABLE: Final = "LAB_FARM"  # of a shell for a farm that `lab farm up` brought up
_UNITS: Final = {"alertmanager": "prometheus-alertmanager"}  # systemd units that `lab farm units` does not write


@frozen
class Service:
    """A service of a lab host.

    Attributes:
        state: "ok"; "absent": it does not run, and is not required; "bad": a person has to act on `hint`.
        said: its state in a few words, for a person.
        hint: the remedy of a bad state; else empty.
    """

    name: str
    state: State
    said: str
    hint: str = ""


@frozen
class HostFile:
    """The farm.yaml of this host.

    Attributes:
        farm: None: there is none.
        installed: True: its services must run; False: it is a draft in a lab's folder, whose services may run.
        supervised: `lab farm up` keeps its programs running, not systemd.
        name: which of its hosts this one is.
        folder: of the lab, with `envs/`: farm.yaml's `directory`; where no farm.yaml was named, and here are
            environments, this one.
        runtime: the console server's folder of `lab farm up`; None: systemd keeps the programs.
        file: absolute path of the farm.yaml; None: there is none.
    """

    farm: Farm | None
    installed: bool
    supervised: bool = False
    name: str = HERE
    folder: Path = field(factory=Path.cwd)
    runtime: Path | None = None
    file: Path | None = None


def host_file(named: Path | None = None, host: str = "") -> HostFile:
    """Read this host's farm.yaml.

    Args:
        named: its path; None: $LAB_FARM, else the first of `FARM_FILES` that exists.
        host: which of its hosts this one is; empty: the one with this machine's name, else the first.

    Raises:
        ConfigurationError: it is wrong, or has no such host.
    """
    its_shells = os.environ.get(FARM_VARIABLE)
    path = named or (Path(its_shells) if its_shells else next((path for path in FARM_FILES if path.is_file()), None))
    here = Path.cwd()
    if path is None:
        return HostFile(None, installed=False, folder=here)
    farm = config.load(path)
    names = [entry.name for entry in farm.hosts] or [HERE]
    if host and host not in names:
        raise ConfigurationError(f"{path}: no host {host!r}; `hosts` has: {', '.join(names)}")
    name = host or next((host_name for host_name in names if host_name == socket.gethostname()), names[0])
    supervised = (path.parent / SUPERVISORD).exists()
    runtime = (path.absolute().parent / SUPERVISORD).parent if supervised else None
    folder = here if named is None and (here / package_data.ENVS).is_dir() else Path(farm.directory)
    return HostFile(farm, supervised or path != DRAFT, supervised, name, folder, runtime, path.absolute())


def runtime_of(host: HostFile) -> Path:
    """Runtime folder of an installed farm.yaml's programs, else this user's own."""
    if host.runtime is not None and not os.environ.get(RUNTIME_VARIABLE):
        return host.runtime
    if host.farm is not None and host.installed and not os.environ.get(RUNTIME_VARIABLE):
        folder = RUN / host.farm.runtime
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                return folder
    return runtime_dir()


def database(db: str | None, farm: Farm | None) -> str | None:
    """Return the database to use: the given, else farm.yaml's if it exists.

    None: $LAB_DB's, else the user's own, as for `locate`.
    """
    if db or os.environ.get(DATABASE_VARIABLE) or farm is None:
        return db
    try:
        location = locate(farm.database)
    except BoardlabError:  # e.g. a draft's folder does not exist
        return None
    return farm.database if location.path is None or location.path.exists() else None


def console_server(runtime: Path) -> tuple[Service, ServerStatus | None]:
    """State of the console server, and its status if it answers."""
    try:
        if not socket_path(runtime).exists():
            return Service(CONSOLE_SERVER, "absent", "does not run; the first measurement starts it"), None
        with ConsoleClient(socket_path(runtime)) as client:
            status = client.status()
    except PermissionError:
        text = f"{runtime} is another user's"
        return Service(CONSOLE_SERVER, "bad", text, "look as the user whose console server it is (sudo -u USER)"), None
    except BoardlabError as error:
        if error.failure == "no_console_server":  # it was killed, and its socket stayed
            return Service(CONSOLE_SERVER, "absent", "does not run; the first measurement starts it"), None
        return Service(CONSOLE_SERVER, "bad", str(error), "lab console stop, when nothing measures"), None
    lost = [port.info.name for port in status.ports if port.state != "open"]
    count = len(status.ports)
    text = f"pid {status.pid}, {count} {'port' if count == 1 else 'ports'}"
    if lost:
        again = "plug the adapter in again, or see `lab console list`"
        return Service(CONSOLE_SERVER, "bad", f"{text}, lost: {', '.join(lost)}", again), status
    return Service(CONSOLE_SERVER, "ok", text), status


def listening(host: HostFile) -> list[Service]:
    """States of the services with a port; an installed farm.yaml requires them."""
    farm = host.farm or Farm()
    addresses = {"pdudaemon": farm.pdudaemon.address, "exporter": farm.exporter_of(host.name)}
    addresses |= {COORDINATOR: farm.coordinator, "alertmanager": farm.alertmanager}
    states = []
    for name, address in addresses.items():
        if not address:
            continue
        machine, _, port = address.rpartition(":")
        try:
            socket.create_connection((machine.strip("[]") or "localhost", int(port)), ANSWER_S).close()
        except (OSError, ValueError, OverflowError) as error:
            if host.installed:
                reason = getattr(error, "strerror", None) or str(error)
                states.append(Service(name, "bad", f"{address}: {reason}", hint(name, host)))
            else:
                states.append(Service(name, "absent", f"nothing listens at {address}"))
        else:
            states.append(Service(name, "ok", f"listens at {address}"))
    return states


def hint(name: str, host: HostFile) -> str:
    """Return the remedy for a stopped service.

    Args:
        name: of the service, without "boardlab-".
    """
    if name == COORDINATOR and host.farm is not None and host.name != host.farm.coordinator_at:
        coordinator_host = host.farm.coordinator_at or "its host"
        return (
            f"it runs on {coordinator_host}: look there. The connection from here, e.g. `ssh -N -L` or WireGuard, "
            "must be up, too "
            '(docs/farm/several-hosts.md, "Between hosts")'
        )
    if host.supervised and name not in NEVER_SUPERVISED:
        return "`lab farm status` says whether it runs, `lab farm logs` why it ended"
    unit = _UNITS.get(name, f"boardlab-{name}")
    return f"systemctl start {unit}; journalctl -u {unit} says why it ended"
