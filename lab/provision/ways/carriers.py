"""How bytes get from the lab host into the memory of a board whose Linux writes: its wget fetches over HTTP, or they are copied over ssh."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from attrs import frozen

from lab.provision import image as images
from lab.provision.fetching import Hosts
from lab.provision.release import Image
from lab.provision.ways import linuxanswers as answers
from lab.provision.ways import linuxpipes as pipes
from lab.provision.ways.command import Prompt, carry_out


class Carrier(Protocol):
    """Gets bytes into the board's memory (`answers.SPOOL`). name: of its kind, for messages and records."""

    @property
    def name(self) -> str: ...

    def carry(self, prompt: Prompt, name: str, data: bytes, /) -> None:
        """Carry these bytes; raises where they did not come."""


class Server(Protocol):
    """Gives bytes out to the board."""

    def offered(self, name: str, data: bytes) -> AbstractContextManager[str]:
        """The URL of these bytes, as long as the context lasts."""

    def offered_file(self, name: str, path: Path) -> AbstractContextManager[str]:
        """The URL of a file of this host's."""


@frozen
class FolderServer:
    """Over HTTP from a folder. url: of the folder, as the board sees it."""

    folder: Path
    url: str

    @contextmanager
    def offered(self, name: str, data: bytes) -> Iterator[str]:
        """See `Server`."""
        path = self.folder / name
        path.write_bytes(data)
        with self._given_out(path) as url:
            yield url

    @contextmanager
    def offered_file(self, name: str, path: Path) -> Iterator[str]:
        """See `Server`."""
        link = self.folder / name
        link.symlink_to(path.absolute())
        with self._given_out(link) as url:
            yield url

    @contextmanager
    def _given_out(self, path: Path) -> Iterator[str]:
        try:
            yield f"{self.url}/{path.name}"
        finally:
            path.unlink(missing_ok=True)


@frozen
class OverHttp:
    """A `Carrier`: the board's wget fetches from a server."""

    server: Server
    name: str = "http"

    def carry(self, prompt: Prompt, name: str, data: bytes) -> None:
        """See `Carrier`."""
        with self.server.offered(name, data) as url:
            carry_out(prompt, answers.fetch(url, len(data)))

    def stream(self, prompt: Prompt, path: Path, count: int, device: str, offset: int) -> None:
        """Have the bytes of a file fetched and written at once; they are on the device after `answers.flush`."""
        with self.server.offered_file(f"run-{offset:x}", path) as url:
            carry_out(prompt, pipes.stream(url, device, offset, count))

    @contextmanager
    def image(self, image: Image, hosts: Hosts | None) -> Iterator[tuple[str, str]]:
        """The URLs of an image, as it lies there and checked, and of its block map.

        Raises:
            BoardlabError: as of `lab.provision.image.checked`.
        """
        packing = images.packing(image)
        name = f"image.{packing}" if packing else "image"
        with (
            images.checked(image, hosts) as stream,
            self.server.offered_file(name, Path(stream.name)) as url,
            self.server.offered("image.bmap", images.block_map_text(image, hosts)) as bmap_url,
        ):
            yield url, bmap_url


@frozen
class OverSsh:
    """A `Carrier`: copied over ssh. put: takes a file of this host's, its path on the board and its bytes."""

    put: Callable[[str, str, int], None]
    name: str = "ssh"

    def carry(self, _prompt: Prompt, _name: str, data: bytes, /) -> None:
        """See `Carrier`."""
        with tempfile.NamedTemporaryFile(prefix="boardlab-piece-") as file:
            file.write(data)
            file.flush()
            self.put(file.name, answers.SPOOL, len(data))
