"""TFTP and HTTP servers for a board, started at the first use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field

from lab.errors import ConfigurationError
from lab.host.tcp import is_loopback, own_address
from lab.provision.writers.command import CommandPrompt
from lab.provision.writers.file_server import serving
from lab.provision.writers.linux import FolderServer
from lab.provision.writers.uboot import USUAL_RATE, Network, Tftp

_READABLE: Final = 0o755  # the server may be another user's
AUTO: Final = "auto"


@define
class BoardServer:
    """A folder that is given out to a board.

    Attributes:
        listen: this host's address; "auto": the one by which it reaches the board (`board_address`), or the host that
            the board is on.
        server: the same as the board sees it; empty: `listen`.
        port: of TFTP; 0: a free one.
        board_address: the board's own address in U-Boot; empty: from DHCP.
        folder: what a TFTP server gives out that runs already, at `server`; empty: one is started.
    """

    listen: str
    server: str = ""
    port: int = 0
    board_address: str = ""
    folder: str = ""
    rate: float = USUAL_RATE
    note: str = ""
    _over_tftp: ExitStack = field(factory=ExitStack, init=False)
    _stack: ExitStack = field(factory=ExitStack, init=False)
    _tftp: Tftp | None = field(default=None, init=False)
    _http: FolderServer | None = field(default=None, init=False)

    def check_reached(self, elsewhere: str) -> None:
        """Make sure that the board reaches this host.

        With `listen: auto` the address is chosen here, before any other decision.

        Args:
            elsewhere: the board's host; empty: this one.

        Raises:
            ConfigurationError: it cannot.
        """
        if self.listen == AUTO:
            towards = self.board_address or elsewhere
            if not towards:
                raise ConfigurationError(
                    "listen: auto: the board is on this host, and nothing says on which network it is: give `listen` "
                    "this host's address there, or `board_address` the board's (`ip address`)"
                )
            self.listen = own_address(towards)
        address = self.server or self.listen
        if elsewhere and is_loopback(address):
            raise ConfigurationError(
                f"listen: the board is on {elsewhere}, and {address} is reached from this host alone; nothing was "
                "written. Give `listen` this host's address on the board's network (`ip address`) or `auto`, and "
                "`server` where the board sees it by another one; or write over the "
                "console (`over: console` of UBootWriterDriver)"
            )

    def prepare(self, prompt: CommandPrompt) -> None:
        """Start the TFTP server, after the end of an earlier one.

        The earlier one may have the port.
        """
        self.rest()
        folder = self._make_folder(self._over_tftp, self.folder)
        if self.folder:
            folder.chmod(_READABLE)
            port, prefix = self.port, f"{folder.name}/"
        else:
            port, prefix = self._over_tftp.enter_context(serving(folder, self.listen, self.port)).tftp_port, ""
        self._tftp = tftp = Tftp(folder, Network(self.server or self.listen, port, self.board_address), prefix)
        tftp.prepare(prompt)

    def load(self, prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        if self._tftp is None:
            self.prepare(prompt)
        if self._tftp is not None:
            self._tftp.load(prompt, address, data, name)

    @contextmanager
    def offer(self, name: str, data: bytes) -> Iterator[str]:
        with self._over_http().offer(name, data) as url:
            yield url

    @contextmanager
    def offer_file(self, name: str, path: Path) -> Iterator[str]:
        with self._over_http().offer_file(name, path) as url:
            yield url

    def rest(self) -> None:
        """End the TFTP server until the next `prepare`.

        The port is free for another medium's server.
        """
        self._tftp = None
        self._over_tftp.close()

    def close(self) -> None:
        """End the servers."""
        self.rest()
        self._http = None
        self._stack.close()

    def _over_http(self) -> FolderServer:
        if self._http is None:
            folder = self._make_folder(self._stack)
            served = self._stack.enter_context(serving(folder, self.listen))
            self._http = FolderServer(folder, f"http://{self.server or self.listen}:{served.http_port}")
        return self._http

    def _make_folder(self, stack: ExitStack, above: str = "") -> Path:
        try:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="boardlab-serves-", dir=above or None)))
        except OSError as error:
            raise ConfigurationError(
                f"folder {above}: {error.strerror}. It must be the folder of the TFTP server at "
                f"{self.server or self.listen}, and this user must be able to write to it"
            ) from error
