"""What an exporter publishes of a port, for readers on other hosts: where its console server is, and whose port it is.

It stands in the `extra` of labgrid's NetworkSerialPort, flat, as labgrid's protocol has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from attrs import asdict, field, fields, frozen, validators

from lab.errors import ConfigurationError
from lab.host.clock import time_line

PREFIX: Final = "boardlab_"
BARE_ADAPTER: Final = (
    "another host's, served over TCP: stamped when it arrives here"  # of a port that no server of ours stamps
)
_MACHINE_ID: Final = Path("/etc/machine-id")
_TEXT: Final = validators.instance_of(str)
_NAMED: Final = validators.and_(_TEXT, validators.min_len(1))


@frozen
class PublishedPort:
    """A port behind a console server.

    Attributes:
        socket: path of the console server's socket on its host.
        host: name or address by which other hosts reach that host.
        machine: its machine-id(5); empty where it has none. line: the time line of the stamps, see `time_line`.
        pty: a pseudo terminal: no real board hangs on it.
        rails: path of the rails server's socket there; empty: none runs.
        device: path of the port there. id_path, serial: what udev knows of its adapter (ID_PATH, ID_SERIAL_SHORT); empty where nothing.
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

    @classmethod
    def of(cls, extra: Mapping[str, object]) -> Self | None:
        """What `extra` says; None where no exporter of ours wrote it.

        Raises:
            ConfigurationError: one of ours wrote it, and something is missing or wrong.
        """
        said = {name.removeprefix(PREFIX): value for name, value in extra.items() if name.startswith(PREFIX)}
        if not said:
            return None
        known = {name: value for name, value in said.items() if name in {each.name for each in fields(cls)}}
        try:
            return cls(**known)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the exporter of this port says too little of it ({error}): it is of another boardlab than this one; update both"
            ) from error

    def extra(self) -> dict[str, str | bool | int]:
        """As it stands in `extra`."""
        return {PREFIX + name: value for name, value in asdict(self).items()}

    @property
    def is_here(self) -> bool:
        """Whether it is a port of this host: no other has the identity of this boot."""
        return self.line == time_line()


@frozen
class PublishedHost:
    """The host on whose loopback something is that an exporter of ours offers.

    Attributes:
        host: name or address by which other hosts reach it. line: its time line.
    """

    host: str = field(validator=_NAMED)
    line: str = field(validator=_TEXT)

    @classmethod
    def of(cls, extra: Mapping[str, object]) -> Self | None:
        """What `extra` says; None where no exporter of ours wrote it.

        Raises:
            ConfigurationError: one of ours wrote it, and something is wrong.
        """
        host, line = (extra.get(f"{PREFIX}{name}") for name in ("host", "line"))
        if not isinstance(host, str) or not isinstance(line, str):
            return None
        try:
            return cls(host, line)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the exporter of this outlet says something wrong of it ({error}): it is of another boardlab than this one; update both"
            ) from error

    def extra(self) -> dict[str, str | int]:
        """As it stands in `extra`."""
        return {PREFIX + name: value for name, value in asdict(self).items()}

    @property
    def is_here(self) -> bool:
        """Whether it is this host."""
        return self.line == time_line()


def machine_id() -> str:
    """Of this host; empty where it has none, as in a container."""
    try:
        return _MACHINE_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
