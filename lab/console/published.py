"""Ports and hosts that an exporter publishes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from attrs import asdict, field, fields, frozen, validators

from lab.errors import ConfigurationError
from lab.host.clock import time_line

# It stands in the `extra` of labgrid's NetworkSerialPort, flat, as labgrid's protocol has it.


PREFIX: Final = "boardlab_"
# Of a port that no server of ours stamps.
BARE_ADAPTER: Final = "another host's, served over TCP: stamped when it arrives here"
_MACHINE_ID: Final = Path("/etc/machine-id")
_TEXT: Final = validators.instance_of(str)
_NAMED: Final = validators.and_(_TEXT, validators.min_len(1))


@frozen
class PublishedHost:
    """The host on whose loopback our exporter offers something.

    Attributes:
        host: name or address by which other hosts reach it.
        line: its time line, see `time_line`.
    """

    host: str = field(validator=_NAMED)
    line: str = field(validator=_TEXT)

    @classmethod
    def of(cls, extra: Mapping[str, object]) -> Self | None:
        """Read it from `extra`; None if our exporter did not write it.

        Raises:
            ConfigurationError: our exporter wrote it, and a field is missing or wrong.
        """
        published = {name.removeprefix(PREFIX): value for name, value in extra.items() if name.startswith(PREFIX)}
        if not published:
            return None
        names = {attribute.name for attribute in fields(cls)}
        try:
            return cls(**{name: value for name, value in published.items() if name in names})  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the exporter of this resource says too little of it ({error}): it is of another boardlab than this "
                "one; update both"
            ) from error

    def extra(self) -> dict[str, str | bool | int]:
        """Return it as labgrid's `extra`."""
        return {PREFIX + name: value for name, value in asdict(self).items()}

    @property
    def is_here(self) -> bool:
        """True if it belongs to this host (its boot identity)."""
        return self.line == time_line()


@frozen
class PublishedPort(PublishedHost):
    """A port behind a console server.

    Attributes:
        socket: path of the console server's socket on its host.
        machine: its machine-id(5); empty: none.
        pty: a pseudo terminal: no real board hangs on it.
        rails: path of the rails server's socket on that host; empty: none runs.
        device: path of the port on that host.
        id_path, serial: udev's ID_PATH and ID_SERIAL_SHORT of its adapter; empty: unknown.
    """

    socket: str = field(validator=validators.matches_re(r"/[^:\x00-\x1f]+"))  # a colon would end it in ssh's -L
    host: str = field(validator=_NAMED)
    machine: str = field(validator=_TEXT)
    line: str = field(validator=_TEXT)
    device: str = field(validator=_NAMED)
    id_path: str = field(default="", validator=_TEXT)
    serial: str = field(default="", validator=_TEXT)
    pty: bool = field(default=False, validator=validators.instance_of(bool))
    rails: str = field(default="", validator=validators.matches_re(r"(/[^:\x00-\x1f]+)?"))


def machine_id() -> str:
    """Return this host's machine-id(5); empty: none, as in a container."""
    try:
        return _MACHINE_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
