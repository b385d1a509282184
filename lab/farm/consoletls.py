"""farm.yaml's `console_tls`: consoles, rails and power for other hosts over TCP with TLS. docs/farm.md, "Consoles by TLS"."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from attrs import Factory, field, frozen

from lab.farm import values
from lab.host.addresses import is_loopback
from lab.host.tls import FOLDER


def _addresses(_instance: object, attribute: Any, value: dict[str, str]) -> None:
    for host, listen in value.items():
        if _ip(listen) is None:
            raise ValueError(
                f"{attribute.name}: {host}: {listen!r}: expected an address of that host and a port, e.g. 10.0.0.1:7443"
            )


def _pdudaemons(_instance: object, attribute: Any, value: dict[str, list[str]]) -> None:
    for host, addresses in value.items():
        for address in addresses:
            if not is_loopback(_ip(address) or ""):
                raise ValueError(
                    f"{attribute.name}: {host}: {address!r}: expected a list of loopback addresses of that host, e.g. ['127.0.0.1:16421']"
                )


def _ip(text: str) -> str | None:
    """The IP address of an address with a port; None: it is none."""
    address, _, port = text.rpartition(":")
    try:
        shown = str(ipaddress.ip_address(address.removeprefix("[").removesuffix("]")))
        return shown if 0 < int(port) < 65_536 else None
    except ValueError:
        return None


@frozen
class ConsoleTls:
    """`lab console tls` on the hosts that export.

    Attributes:
        listen: name of a host -> its address and port; a host that is not named serves none.
        certificates: folder with ca.crt, host.crt and host.key on every host.
        pdudaemon: name of a host -> the pdudaemons on its loopback that other hosts may reach; a host that is not named has that of
            farm.yaml's `pdudaemon`, where boardlab starts it.
    """

    listen: dict[str, str] = field(default=Factory(dict), validator=_addresses)
    certificates: str = field(default=str(FOLDER), validator=values.path)
    pdudaemon: dict[str, list[str]] = field(default=Factory(dict), validator=_pdudaemons)

    def port(self, host: str) -> int:
        """Of TCP on a host; 0: it serves none."""
        return int(self.listen[host].rpartition(":")[2]) if host in self.listen else 0

    def words(self, host: str, own_pdudaemon: str) -> list[str]:
        """Of `lab console tls` on a host that serves it.

        Args:
            own_pdudaemon: address of the one that boardlab starts there; empty: none.
        """
        own_pdudaemon = own_pdudaemon.replace("localhost:", "127.0.0.1:")
        own = [own_pdudaemon] if is_loopback(_ip(own_pdudaemon) or "") else []
        named = self.pdudaemon.get(host, own)
        return ["--listen", self.listen[host], *(word for each in named for word in ("--pdudaemon", each))]


OFF: Final = ConsoleTls()
