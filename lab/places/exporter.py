"""labgrid's exporter, with our console server behind its serial ports.

labgrid has no plug-ins for exporters: this is its program with another class for `RawSerialPort` and `USBSerialPort`.
A stock client sees a NetworkSerialPort; in its `extra` ours finds the console server. That runs on its own (systemd,
`lab console serve`) and outlives this program, which ends whenever its coordinator does.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import time
from pathlib import Path
from socket import getfqdn, gethostname
from typing import Any, Final
from urllib.parse import urlsplit

import attr
import jinja2
import pyudev
from attrs import define, field, frozen
from labgrid.remote import exporter as stock
from labgrid.remote.config import ResourceConfig
from labgrid.resource.serialport import RawSerialPort
from labgrid.resource.udev import USBSerialPort

from lab.console.client import ConsoleClient
from lab.console.published import PublishedHost, PublishedPort, machine_id
from lab.console.rfc2217_server import Bridge
from lab.console.serial_port import is_pty, is_there
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clock import time_line
from lab.host.devices import belongs_to
from lab.host.runtime import socket_path
from lab.host.tcp import is_loopback
from lab.places.records import PORT
from lab.rails.server import rails_socket

LOOPBACK: Final = "127.0.0.1"
COORDINATOR_GONE: Final = 100  # labgrid's exit status then; systemd starts the program again
_LOOK_AGAIN_S: Final = 1.0  # for the console server, and the coordinator
_KINDS: Final = {"RawSerialPort": RawSerialPort, "USBSerialPort": USBSerialPort}
_log = logging.getLogger(__name__)


@frozen
class ExporterOptions:
    """Options of the program.

    Attributes:
        resources: labgrid's own configuration of an exporter (YAML).
        coordinator: host:port.
        name: of the exporter.
        hostname: this host's name for other hosts.
        runtime: the console server's folder.
        listen: address of the TCP ports for stock clients.
        isolated: stock clients reach all exports through ssh (labgrid's `--isolated`).
    """

    resources: Path
    coordinator: str
    runtime: Path
    name: str = field(factory=gethostname)
    hostname: str = field(factory=getfqdn)
    listen: str = LOOPBACK
    isolated: bool = False

    @property
    def known(self) -> dict[str, object]:
        """Variables of the resources' template, as in labgrid's exporter."""
        return {"env": os.environ, "isolated": self.isolated, "hostname": self.hostname, "name": self.name}

    @property
    def on_loopback(self) -> bool:
        """Return whether `listen` is on loopback.

        It is 127.0.0.0/8, ::1 or a name for them.
        """
        return is_loopback(self.listen)

    @property
    def reached_at(self) -> str:
        """Address of the TCP ports for stock clients.

        Through ssh it is an address of this host's side, as labgrid writes no brackets around IPv6 there.
        """
        if self.proxied:
            return "localhost" if self.on_loopback and ":" in self.listen else self.listen
        return self.hostname

    @property
    def proxied(self) -> bool:
        """Return whether stock clients reach consoles through ssh.

        On loopback those of other hosts have no other way.
        """
        return self.isolated or self.on_loopback


@define
class ConsoleHost:
    """The console server of this host, and whether it answers.

    Attributes:
        why: it does not; empty while it does.
    """

    options: ExporterOptions
    why: str = ""
    _looked_at: float = field(default=0.0, init=False)

    @property
    def socket(self) -> Path:
        """Socket of the console server."""
        return socket_path(self.options.runtime)

    def answers(self) -> bool:
        """Check the server, at most once a second for all ports."""
        if self._looked_at and time.monotonic() - self._looked_at < _LOOK_AGAIN_S:
            return not self.why
        before, self.why = self.why, ""
        try:
            ConsoleClient(self.socket).close()
        except BoardlabError as error:
            self.why = str(error)
        self._looked_at = time.monotonic()  # one that hangs is not asked for each port: labgrid's loop waits for this
        if self.why != before:
            _log.log(
                logging.WARNING if self.why else logging.INFO,
                "%s",
                f"no serial port is exported: {self.why} (systemctl start boardlab-console)"
                if self.why
                else "the console server answers",
            )
        return not self.why


@define
class _ServedPort:
    """A plugged serial port with an answering console server."""

    port: Any
    host: ConsoleHost
    avail: bool = False

    def poll(self) -> None:
        """Poll the port and the console server."""
        self.port.poll()
        # labgrid says of a port with a path that it is there, whatever is.
        self.avail = bool(self.port.avail) and is_there(Path(self.port.port)) and self._is_its_device()
        self.avail = self.avail and self.host.answers()

    def node(self) -> str:
        """The port's path.

        Raises:
            LabTransientError: another device has it since a reset.
        """
        if not self._is_its_device():
            raise LabTransientError(
                f"{self.port.port}: another device has this name since a reset", failure="port_lost"
            )
        return str(self.port.port)

    def _is_its_device(self) -> bool:
        """False after a reset, until labgrid knows the adapter's new name."""
        device = getattr(self.port, "device", None)
        return device is None or belongs_to(Path(self.port.port), str(device.device_path))


@attr.s(eq=False)
class ConsoleExport(stock.ResourceExport):  # type: ignore[misc]
    """A serial port behind the console server; `exports` makes subclasses."""

    console: ConsoleHost

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        try:
            self.serial = _KINDS[self.cls](target=None, name=None, **self.local_params)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{self.cls} {self.local_params}: {error.args[0]}; mend it in the file of resources"
            ) from error
        self.local = _ServedPort(self.serial, self.console)
        self.data["cls"] = "NetworkSerialPort"
        self.proxy = self.console.options.hostname
        self.proxy_required = self.console.options.proxied
        self._bridge: Bridge | None = None

    def _get_start_params(self) -> dict[str, Any]:
        return {"path": self.serial.port}

    def _start(self, start_params: dict[str, Any]) -> None:
        options = self.console.options
        try:
            self._bridge = Bridge(self.console.socket, self.local.node, self.serial.speed, options.listen)
            with ConsoleClient(self.console.socket) as client:
                client.open(start_params["path"], self.serial.speed)
        except OSError as error:  # the port is served again when the place is acquired
            _log.warning("%s: %s: %s", self.serial.port, options.listen, error.strerror or error)
        except BoardlabError as error:  # a client is told, too; this program needs no restart
            _log.warning("%s", error)

    def _stop(self, start_params: dict[str, Any]) -> None:  # noqa: ARG002 - labgrid's signature
        if self._bridge is not None:
            self._bridge.close()
        self._bridge = None

    def _get_params(self) -> dict[str, Any]:
        options = self.console.options
        properties = _udev(self.serial.port)
        published = PublishedPort(
            socket=str(self.console.socket),
            host=options.hostname,
            machine=machine_id(),
            line=time_line(),
            device=str(self.serial.port or "unplugged"),
            id_path=properties.get("ID_PATH", ""),
            serial=properties.get("ID_SERIAL_SHORT", ""),
            pty=is_pty(Path(self.serial.port or "")),
            rails=str(rails) if (rails := rails_socket(options.runtime)).is_socket() else "",
        )
        return {
            "host": options.reached_at,
            "port": self._bridge.port if self._bridge else None,
            "speed": self.serial.speed,
            "protocol": "rfc2217",
            "extra": {"path": self.serial.port, **published.extra()},
        }


@attr.s(eq=False)
class SwitchExport(stock.ResourceEntry):  # type: ignore[misc]
    """A pdudaemon's outlet; `exports` makes a subclass.

    A pdudaemon on this host's loopback is reached as the consoles are.
    """

    options: ExporterOptions

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.data["avail"] = True  # which labgrid says of none but its own class
        if is_loopback(urlsplit(f"//{self.data['params'].get('host', '')}").hostname or ""):
            extra = self.data["params"].setdefault("extra", {})
            extra |= {"proxy": self.options.hostname, "proxy_required": True}
            extra |= PublishedHost(self.options.hostname, time_line()).extra()


def _udev(device: str | None) -> dict[str, str]:
    """udev's properties of a port; {}: none now."""
    try:
        status = Path(device or "").stat()
        return _read_udev(str(device), (status.st_rdev, status.st_ino, status.st_ctime_ns))
    except (pyudev.DeviceNotFoundError, OSError, ValueError, LookupError):  # unplugged, or a pty
        return {}


@functools.lru_cache(maxsize=256)
def _read_udev(device: str, _node: tuple[int, int, int]) -> dict[str, str]:
    """udev's properties of one device node.

    Another adapter at its path has another node.

    Raises:
        LookupError: nothing yet.
    """
    properties = pyudev.Devices.from_device_file(pyudev.Context(), device).properties
    names = {name: str(properties[name]) for name in ("ID_PATH", "ID_SERIAL_SHORT") if name in properties}
    if not names:
        raise LookupError(device)
    return names


def exports(options: ExporterOptions) -> dict[str, type]:
    """The classes that take labgrid's place."""
    ours = type("ConsoleExport", (ConsoleExport,), {"console": ConsoleHost(options)})
    switch = type("SwitchExport", (SwitchExport,), {"options": options})
    return {**dict.fromkeys(_KINDS, ours), "PDUDaemonPort": switch}


def run(options: ExporterOptions) -> int:
    """Export until SIGTERM, SIGINT or the coordinator's end.

    It waits for the coordinator first. Returns the exit status.

    Raises:
        ConfigurationError: the file of resources is not there, or is wrong; the coordinator's address is invalid, or
            ours cannot be listened at.
    """
    if not options.resources.is_file():
        raise ConfigurationError(
            f"{options.resources}: no such file; it lists what this host exports, as labgrid's exporter has it"
        )
    try:
        urlsplit(f"//{options.coordinator}").port  # noqa: B018 - as labgrid asks for it
    except ValueError as error:
        raise ConfigurationError(
            f"--coordinator {options.coordinator}: expected HOST or HOST:PORT ({error})"
        ) from error
    family = socket.AF_INET6 if ":" in options.listen else socket.AF_INET
    try:
        socket.create_server((options.listen, 0), family=family).close()
    except OSError as error:
        raise ConfigurationError(
            f"--listen {options.listen}: {error.strerror or error}; is it an address of this "
            "host, and is its network up? (ip address)"
        ) from error
    check(options.resources, options.known)
    _wait_for(options.coordinator)
    stock.exports.update(exports(options))
    stock.inspect = None  # which only labgrid's own main sets
    stock.reexec = False
    asyncio.run(
        stock.amain(
            {
                "name": options.name,
                "hostname": options.hostname,
                "resources": str(options.resources),
                "coordinator": options.coordinator,
                "isolated": options.isolated,
            }
        )
    )
    return COORDINATOR_GONE if stock.reexec else 0


def _wait_for(coordinator: str) -> None:
    """Return when the coordinator answers; log once that it does not."""
    address = urlsplit(f"//{coordinator}")
    is_logged = False
    while True:
        try:
            return socket.create_connection((address.hostname, address.port or PORT), _LOOK_AGAIN_S).close()
        except OSError as error:
            if not is_logged:
                _log.warning(
                    "nothing is exported: no coordinator answers at %s (%s)", coordinator, error.strerror or error
                )
            is_logged = True
            time.sleep(_LOOK_AGAIN_S)


_SENSORS: Final = "RailSensors"
_LOCATION: Final = "location"  # of a group: a text, and no resource


def check(path: Path, known: dict[str, object]) -> None:
    """Refuse resources that labgrid or its clients cannot handle.

    labgrid answers them with a traceback; `labgrid-client` cannot use a place with them.

    Args:
        known: variables of the template.

    Raises:
        ConfigurationError: it is wrong.
    """
    try:
        groups = ResourceConfig(str(path), known).data
    except jinja2.TemplateSyntaxError as error:
        raise ConfigurationError(
            f"{path}:{error.lineno}: {str(error.message).rstrip('.')}; a line that begins with # is a statement of "
            "Jinja to labgrid: begin comments with ##"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'msg', None) or error}") from error
    for name, group in _mapping(path, groups, "groups").items():
        for key, params in _mapping(f"{path}: {name}", group, "resources by their classes").items():
            if _SENSORS in {key, params.get("cls") if isinstance(params, dict) else ""}:
                raise ConfigurationError(
                    f"{path}: {name}: {_SENSORS} is no resource of a place: write it into the board's env, with `at: "
                    "console`; `lab rails serve` beside this program samples it here"
                )
            if params is not None and key != _LOCATION:
                _mapping(f"{path}: {name}: {key}", params, "arguments")


def _mapping(where: Path | str, found: Any, of: str) -> dict[Any, Any]:
    if not isinstance(found, dict):
        raise ConfigurationError(f"{where}: expected {of}, as labgrid's exporter has it, and found {found!r:.40}")
    return found
