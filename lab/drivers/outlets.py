"""Which outlet a power driver switches, and a word to who watches the lab's outlets."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from labgrid.resource import Resource

from lab.host import runtime
from lab.host.runtime import OutletStatus, runtime_dir
from lab.redaction import redacted

PDUDAEMON_PORT = 16421
_NAMES = ("pdu", "model", "path")  # of a resource: what a person calls the switch


@frozen
class Outlet:
    """An outlet of the lab.

    Attributes:
        server: host:port of the pdudaemon that knows it, or the host of the switch; empty: this host's own.
        pdu: the switch's name; of a driver that has none, its class.
        number: the outlet of the switch; where outlets have no numbers, what tells it from others.
    """

    server: str
    pdu: str
    number: str

    @property
    def shown(self) -> str:
        """For a person."""
        at = f" at {self.server}" if self.server else ""
        return f"{self.pdu} {self.number}{at}"


def outlet_of(driver: Any, board: str) -> Outlet:
    """What any power driver switches: of its resource, or the board that it is for."""
    for supplier in getattr(driver, "suppliers", ()):
        index = getattr(supplier, "index", None)
        if isinstance(supplier, Resource) and index is not None:
            if type(supplier).__name__ == "PDUDaemonPort":
                return Outlet(pdudaemon_of(supplier), str(supplier.pdu), str(index))
            names = [getattr(supplier, name, None) for name in _NAMES]
            name = next((str(each) for each in names if each), type(driver).__name__)
            return Outlet(redacted(str(getattr(supplier, "host", "") or "")), name, str(index))
    whose = " ".join(filter(None, (board, driver.name))) or driver.target.name
    return Outlet("", type(driver).__name__, whose)


def pdudaemon_of(port: Any) -> str:
    """host:port of a PDUDaemonPort's pdudaemon; two of them may have a PDU of the same name."""
    place = urlsplit(f"//{port.host}")
    return f"{place.hostname}:{place.port or PDUDAEMON_PORT}"


def last_command(outlet: Outlet) -> OutletStatus | None:
    """What a program of this host's user told this outlet last; None: nothing is known."""
    found = runtime.read_all(runtime_dir() / runtime.OUTLETS, OutletStatus)
    return next((each for each in found if (each.server, each.pdu, each.outlet) == _key(outlet)), None)


def record_command(outlet: Outlet, command: str, at: float, duration_s: float, *, done: bool) -> None:
    """Note an order, and whether it was obeyed. It is no reason to fail if that cannot be written."""
    before = last_command(outlet)
    commands, failures = (before.commands, before.failures) if before else (0, 0)
    status = OutletStatus(*_key(outlet), command, at, duration_s, commands + 1, failures + (not done))
    runtime.write(runtime_dir() / runtime.OUTLETS, "/".join(_key(outlet)), status)


def _key(outlet: Outlet) -> tuple[str, str, str]:
    return outlet.server, outlet.pdu, outlet.number
