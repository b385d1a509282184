"""What farm.yaml says of the programs of a host and of what is plugged in: exporter, site, pdudaemon, simulated boards, USB devices."""

from __future__ import annotations

from attrs import field, frozen, validators

from lab.farm import values
from lab.host.tcp import is_loopback


@frozen
class Exporter:
    """`lab exporter`. listen: address:port. web_config: path; needed beyond loopback."""

    listen: str = field(default="127.0.0.1:9870", validator=values.word)
    web_config: str = field(default="", validator=values.path_if_any)


@frozen
class Web:
    """`lab web`.

    Attributes:
        listen: address:port. web_config, users: paths; both needed beyond loopback. name: by which browsers elsewhere ask for it.
    """

    listen: str = field(default="127.0.0.1:9880", validator=values.word)
    web_config: str = field(default="", validator=values.path_if_any)
    users: str = field(default="", validator=values.path_if_any)
    name: str = field(default="", validator=values.word)

    @property
    def address(self) -> str:
        """Where browsers on other machines reach it; empty: only this host's do, or nobody says by which name."""
        machine, _, port = self.listen.rpartition(":")
        if not self.name and (is_loopback(machine.strip("[]")) or machine.strip("[]") in {"", "0.0.0.0", "::"}):  # noqa: S104
            return ""
        scheme, usual = ("https", "443") if self.web_config else ("http", "80")
        return f"{scheme}://{self.name or machine}" + (f":{port}" if port != usual else "")

    @property
    def words(self) -> list[str]:
        """As options of `lab web`."""
        given = {"--listen": self.listen, "--web-config": self.web_config, "--users": self.users, "--name": self.name}
        return [word for option, value in given.items() if value for word in (option, value)]


@frozen
class VirtualBoards:
    """Simulated boards of a farm that `lab farm up` brings up. types: of lab/boards. count: of each type. time_scale: as `lab virtual up`."""

    types: list[str]
    count: int = field(default=1, validator=[validators.ge(1), validators.le(1000)])
    time_scale: float = field(default=1.0, validator=validators.gt(0))


@frozen
class PduDaemonConfig:
    """pdudaemon. program: empty: boardlab starts none. address: where it listens."""

    program: str = field(default="", validator=values.program)
    config: str = field(default="/etc/pdudaemon/pdudaemon.conf", validator=values.path)
    address: str = field(default="127.0.0.1:16421", validator=[values.word, values.unguarded])


@frozen
class UsbEntry:
    """A USB device that shall be there; see exporters.farm.usb. host: where; empty: on the first."""

    name: str
    id_path: str
    kind: str = "adapter"
    host: str = ""
