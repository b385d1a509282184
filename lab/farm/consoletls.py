"""farm.yaml's `console_tls`: consoles for other hosts over TCP with TLS. docs/farm.md, "Consoles by TLS"."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from attrs import Factory, field, frozen

from lab.farm import values
from lab.host.tls import FOLDER


def _addresses(_instance: object, attribute: Any, value: dict[str, str]) -> None:
    for host, listen in value.items():
        address, _, port = listen.rpartition(":")
        try:
            ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))
            right = 0 < int(port) < 65_536
        except ValueError:
            right = False
        if not right:
            raise ValueError(
                f"{attribute.name}: {host}: {listen!r}: expected an address of that host and a port, e.g. 10.0.0.1:7443"
            )


@frozen
class ConsoleTls:
    """`lab console tls` on the hosts that export.

    Attributes:
        listen: name of a host -> its address and port; a host that is not named serves none.
        certificates: folder with ca.crt, host.crt and host.key on every host.
    """

    listen: dict[str, str] = field(default=Factory(dict), validator=_addresses)
    certificates: str = field(default=str(FOLDER), validator=[values.absolute, values.word])

    def port(self, host: str) -> int:
        """Of TCP on a host; 0: it serves none."""
        return int(self.listen[host].rpartition(":")[2]) if host in self.listen else 0


OFF: Final = ConsoleTls()
