"""Writes media from the board's own Linux, over HTTP."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attr
from attrs import define, field
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.drivers.provisionprotocol import ProvisionProtocol
from lab.errors import ConfigurationError
from lab.provision.way import Way
from lab.provision.ways.command import Command, Prompt, carry_out
from lab.provision.ways.linux import FolderServer, LinuxWay
from lab.provision.ways.linuxanswers import refuse
from lab.provision.ways.serving import LOOPBACK, serving

_PREPARED: Final = "/run/boardlab-prepared"  # in the board's memory, so it is gone with the next boot
_PREPARE_S: Final = 120.0  # DHCP on a network that is slow to come up


@target_factory.reg_driver
@attr.s(eq=False)
class LinuxWriterDriver(Driver, ProvisionProtocol):
    """LinuxWriterDriver - writes block devices from the board's Linux, which fetches over HTTP from a server of its own

    Args:
        media (dict): medium -> as that Linux calls it, e.g. /dev/mmcblk0
        boot_from (str): the medium that Linux is booted from; it is never one of `media`
        listen (str): this host's address where the board can reach it
        server (str): the same as the board sees it; empty: `listen`
        prepare (str): a command at its prompt once in each boot before anything else, e.g. what loads drivers and brings the network
            up; empty: none
    """

    media: dict[str, str] = attr.ib(validator=attr.validators.instance_of(dict))
    boot_from: str = attr.ib(validator=attr.validators.instance_of(str))
    listen: str = attr.ib(default=LOOPBACK, validator=attr.validators.instance_of(str))
    server: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    prepare: str = attr.ib(default="", validator=attr.validators.instance_of(str))

    def ways(self, strategy: Any) -> Mapping[str, Way]:
        """See `ProvisionProtocol`."""
        if self.boot_from in self.media:
            raise ConfigurationError(
                f"LinuxWriterDriver: {self.boot_from} is what Linux runs from (boot_from), and it is in media: a medium is not written by "
                "the Linux on it. Boot from another one, or write it from U-Boot"
            )
        return {name: self._way(strategy, device) for name, device in self.media.items()}

    def _way(self, strategy: Any, device: str) -> Way:
        server = _Served(self)

        def begin() -> Prompt:
            strategy.select_medium(self.boot_from)
            strategy.transition("linux")
            prompt: Prompt = strategy.linux
            if self.prepare:
                once = f"[ -e {_PREPARED} ] || {{ ( {self.prepare} ) && : > {_PREPARED}; }}"
                carry_out(prompt, Command(once, partial(refuse, what=self.prepare), _PREPARE_S))
            return prompt

        def end() -> None:
            server.close()
            strategy.status = type(strategy.status).unknown

        return LinuxWay("linux-http", device, server, begin, end)


@define
class _Served:
    """A server that runs from the first use to `close`."""

    driver: LinuxWriterDriver
    _stack: ExitStack = field(factory=ExitStack, init=False)
    _folder: FolderServer | None = field(default=None, init=False)

    @contextmanager
    def offered(self, name: str, data: bytes) -> Iterator[str]:
        """See `lab.provision.ways.linux.Server`."""
        if self._folder is None:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="boardlab-http-")))
            served = self._stack.enter_context(serving(folder, self.driver.listen))
            url = f"http://{self.driver.server or self.driver.listen}:{served.http_port}"
            self._folder = FolderServer(folder, url)
        with self._folder.offered(name, data) as url:
            yield url

    def close(self) -> None:
        """End the server."""
        self._folder = None
        self._stack.close()
