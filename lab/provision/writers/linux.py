"""Writer by a Linux on the board.

Each piece is carried into its memory over HTTP or ssh, checked there, written and read back.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from attrs import evolve, field, frozen

from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import MonotonicRaw
from lab.provision import image as images
from lab.provision.image import Hosts, packing
from lab.provision.release import Content, Image
from lab.provision.writer import Meter, Plan, Report, Step, Verified, WriteTarget
from lab.provision.writers import bmaptool, planning
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers import linuxemmc as emmc
from lab.provision.writers.command import CommandPrompt, carry_out, ending_on_error
from lab.provision.writers.linuxmedia import LinuxBlocks, LinuxMedium, Surface, parse
from lab.provision.writers.planning import WritePiece, ahead


class Carrier(Protocol):
    """Carries bytes into the board's memory, to `answers.SPOOL`."""

    @property
    def name(self) -> str:
        """Its kind, for messages and records: "http", "ssh"."""

    def carry(self, prompt: CommandPrompt, name: str, data: bytes, /) -> None:
        """Carry these bytes to the spool.

        Raises:
            BoardlabError: they did not come.
        """


class FileServer(Protocol):
    """Offers bytes of this host at a URL for the board."""

    def offer(self, name: str, data: bytes) -> AbstractContextManager[str]:
        """The URL of these bytes, as long as the context lasts."""

    def offer_file(self, name: str, path: Path) -> AbstractContextManager[str]:
        """The URL of a file of this host's."""


@frozen
class FolderServer:
    """A `FileServer`: an HTTP server of a folder.

    Attributes:
        url: the folder's address as the board sees it.
    """

    folder: Path
    url: str

    @contextmanager
    def offer(self, name: str, data: bytes) -> Iterator[str]:
        path = self.folder / name
        path.write_bytes(data)
        with self._offer_path(path) as url:
            yield url

    @contextmanager
    def offer_file(self, name: str, path: Path) -> Iterator[str]:
        link = self.folder / name
        link.symlink_to(path.absolute())
        with self._offer_path(link) as url:
            yield url

    @contextmanager
    def _offer_path(self, path: Path) -> Iterator[str]:
        """The URL of a file in the folder; removed at the end."""
        try:
            yield f"{self.url}/{path.name}"
        finally:
            path.unlink(missing_ok=True)


@frozen
class OverHttp:
    """A `Carrier`: the board's wget fetches from a server."""

    server: FileServer
    name: str = "http"

    def carry(self, prompt: CommandPrompt, name: str, data: bytes) -> None:
        with self.server.offer(name, data) as url:
            carry_out(prompt, answers.fetch(url, len(data)))

    def stream(self, prompt: CommandPrompt, path: Path, count: int, device: str, offset: int) -> None:
        """Have the board fetch and write a file at once.

        The bytes are on the device after `answers.flush`.
        """
        with self.server.offer_file(f"run-{offset:x}", path) as url:
            carry_out(prompt, answers.stream(url, device, offset, count))

    @contextmanager
    def image(self, image: Image, hosts: Hosts | None) -> Iterator[tuple[str, str]]:
        """Serve a checked, packed image and its block map.

        Yields both URLs.

        Raises:
            BoardlabError: as of `lab.provision.image.open_checked`.
        """
        packing = images.packing(image)
        name = f"image.{packing}" if packing else "image"
        with (
            images.open_checked(image, hosts) as stream,
            self.server.offer_file(name, Path(stream.name)) as url,
            self.server.offer("image.bmap", images.block_map_text(image, hosts)) as bmap_url,
        ):
            yield url, bmap_url


@frozen
class OverSsh:
    """A `Carrier` that copies over ssh.

    Attributes:
        put: copies a file: its path on this host, its path on the board, its size in bytes.
    """

    put: Callable[[str, str, int], None]
    name: str = "ssh"

    def carry(self, _prompt: CommandPrompt, _name: str, data: bytes, /) -> None:
        with tempfile.NamedTemporaryFile(prefix="boardlab-piece-") as file:
            file.write(data)
            file.flush()
            self.put(file.name, answers.SPOOL, len(data))


_USUAL_BYTES_PER_S: Final = 10e6  # for the estimate of a plan
_PROBE: Final = b"boardlab\n"  # is carried when a write is planned: a board that cannot be reached is not begun


@frozen
class LinuxWriter:
    """Writes a medium from the board's Linux.

    Attributes:
        name: of this way to write, for plans and records.
        device: the medium, as that Linux calls it (`lab.provision.writers.linuxmedia.parse`).
        begin: brings the board to its shell; it stays there until `end`.
        hosts: where images may come from; None: as of the user's settings.
    """

    name: str
    device: str
    carrier: Carrier
    begin: Callable[[], CommandPrompt]
    end: Callable[[], None]
    hosts: Hosts | None = None
    now_ns: Callable[[], int] = field(default=MonotonicRaw().now_ns)

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        """Plan a write.

        Linux's own medium is refused, and so is a Linux that the carrier does not reach.
        """
        planned = planning.steps(content, self.hosts, without=self._medium.without)
        if content.extcsd.given:
            if not emmc.DEVICE.fullmatch(self.device):
                raise ConfigurationError(
                    f"{target.medium}: extcsd is an eMMC's, and {self.device} is none; mend the release file or the env"
                )
            emmc.check_extcsd(content.extcsd)
        self._medium.check(content, planned, self.hosts)
        with ending_on_error(self.end):
            prompt = self.begin()
            surface = self._medium.look(prompt)
            surface.check(prompt, content, planned, self.hosts)
            planning.check_fits(content, planned, surface.size_bytes, self.hosts)
            self._piece_bytes(prompt, surface, planned)  # refuses a board without the memory for one
            self._carry(prompt, "probe", _PROBE, "a probe")
        total = sum(step.bytes for step in planned)
        target = evolve(target, device=self.device, size_bytes=surface.size_bytes)
        return Plan(self.name, target, content, planned, estimate_s=total / _USUAL_BYTES_PER_S)

    def write(self, plan: Plan, report: Report) -> None:
        """Write a plan's steps.

        An image goes as a whole if the board can take it so, the rest in pieces.
        """
        with ending_on_error(self.end):
            prompt = self.begin()
            surface = self._medium.look(prompt)
            meter = Meter(plan.total_bytes, report, self.now_ns, bmaptool.STALL_S)
            most_bytes = self._piece_bytes(prompt, surface, plan.steps)
            whole = self._by_bmaptool(prompt, plan, meter) or self._stream(prompt, plan, meter, most_bytes)
            pieces = planning.pieces(plan.steps, most_bytes, self.hosts, without=whole)
            for piece, offset in planning.place_pieces(pieces):
                step = plan.steps[piece.step]
                if piece.first:
                    meter.begin(step.name)
                self._carry(prompt, f"{piece.step}-{piece.offset:x}", piece.data, step.name)
                surface.write(prompt, piece.place, offset, len(piece.data))
                meter.add(len(piece.data))

    def verify(self, plan: Plan) -> Verified:
        """Read back the written bytes past the board's page cache.

        Bytes that a later part overwrote are left out.
        """
        with ending_on_error(self.end):
            prompt, compared = self.begin(), planning.ComparedPiece()
            surface = self._medium.look(prompt)
            carry_out(prompt, answers.forget_cache())
            pieces = planning.pieces(plan.steps, self._piece_bytes(prompt, surface, plan.steps), self.hosts)
            for piece, offset in planning.place_pieces(planning.not_overwritten(plan.steps, pieces, surface.align)):
                digest = hashlib.sha256(piece.data).hexdigest()
                what = f"{plan.steps[piece.step].name}: read back at {offset:#x}"
                surface.compare(prompt, piece.place, offset, len(piece.data), digest, what)
                compared.add(piece.data)
        if not plan.content.extcsd.given:
            self.end()
        return Verified(compared.digest, compared.count)

    def switch(self, plan: Plan) -> str:
        """Set the eMMC's EXT_CSD, if the release has any of it.

        The record gets no sentence of it.
        """
        if not plan.content.extcsd.given:
            return ""
        try:
            emmc.set_extcsd(self.begin(), self.device, plan.content.extcsd)
        finally:
            self.end()
        return ""

    def _by_bmaptool(self, prompt: CommandPrompt, plan: Plan, meter: Meter) -> frozenset[int]:
        """Have the board's bmaptool write an image with a block map.

        Returns the numbers of the steps that this covers.
        """
        image = plan.content.image
        if image is None or not image.bmap or not isinstance(self._medium, LinuxBlocks):
            return frozenset()
        if not isinstance(self.carrier, OverHttp):
            return frozenset()
        packed = packing(image)
        if not bmaptool.there(carry_out(prompt, bmaptool.ask(packed)), packed):
            return frozenset()
        (number,) = (number for number, step in enumerate(plan.steps) if isinstance(step.file, Image))
        step = plan.steps[number]
        meter.begin(step.name)
        with self.carrier.image(image, self.hosts) as (url, bmap_url):
            bmaptool.copy(prompt, url, bmap_url, self._medium.device, step.bytes, meter)
        return frozenset({number})

    def _stream(self, prompt: CommandPrompt, plan: Plan, meter: Meter, most_bytes: int) -> frozenset[int]:
        """Have the board fetch and write an image as one stream.

        Returns the numbers of the steps that this covers.

        The stream is not checked; the read-back finds each error of the image.
        """
        numbers = frozenset(number for number, step in enumerate(plan.steps) if isinstance(step.file, Image))
        if not numbers or not isinstance(self.carrier, OverHttp) or not isinstance(self._medium, LinuxBlocks):
            return frozenset()
        others = frozenset(range(len(plan.steps))) - numbers
        meter.begin(plan.steps[min(numbers)].name)
        pieces = planning.pieces(plan.steps, most_bytes, self.hosts, without=others)
        with TemporaryDirectory(prefix="boardlab-image-") as folder:
            for file in spool(pieces, Path(folder)):
                self.carrier.stream(prompt, file.path, file.bytes, self.device, file.offset)
                file.path.unlink()
                meter.add(file.bytes)
        carry_out(prompt, answers.flush(self.device))
        return numbers

    @property
    def _medium(self) -> LinuxMedium:
        return parse(self.device)

    @staticmethod
    def _piece_bytes(prompt: CommandPrompt, surface: Surface, planned: Sequence[Step]) -> int:
        """The largest piece that the board's free memory takes."""
        return surface.most(planned, answers.memory_bytes(carry_out(prompt, answers.memory())))

    def _carry(self, prompt: CommandPrompt, name: str, data: bytes, what: str) -> None:
        """Carry bytes to the board, and compare their digest there.

        `what` names them in a message.
        """
        self.carrier.carry(prompt, name, data)
        digest = hashlib.sha256(data).hexdigest()
        carry_out(prompt, answers.digest(len(data), digest, f"{what}: what was loaded"))


# Of the first file, each later one may be twice as large: small ones show progress and trouble early.
FIRST_BYTES: Final = 16 * 1024 * 1024
MOST_BYTES: Final = 128 * 1024 * 1024  # of a file; three of them lie there at most


@frozen
class SpoolFile:
    """A file with consecutive bytes of an image.

    Attributes:
        offset: of its first byte, from the start of the image.
        bytes: its size.
    """

    path: Path
    offset: int
    bytes: int


def spool(
    pieces: Iterable[WritePiece], folder: Path, first: int = FIRST_BYTES, most: int = MOST_BYTES
) -> Iterator[SpoolFile]:
    """Gather pieces in files of growing size, from `first` to `most` bytes.

    Each file is twice as large as the one before. The next one is made while one is used; the caller removes used
    ones.

    A file ends where the next piece does not follow.

    Raises:
        LabStableError: `disk`: this host's disk does not take them; and what `pieces` raises.
    """
    return ahead(_spool_pieces(pieces, folder, first, most))


def _spool_pieces(
    pieces: Iterable[WritePiece], folder: Path, limit: int, most: int
) -> Generator[SpoolFile, None, None]:
    """The files one after another; `limit`: bytes of the first one."""
    number, begin, count = 0, 0, 0
    path = folder / "0"
    for piece in pieces:
        if count and (piece.offset != begin + count or count + len(piece.data) > limit):
            yield SpoolFile(path, begin, count)
            number, count, limit = number + 1, 0, min(2 * limit, most)
            path = folder / str(number)
        begin = begin if count else piece.offset
        try:
            with path.open("ab") as file:
                file.write(piece.data)
        except OSError as error:
            raise LabStableError(
                f"{path}: {error.strerror}: files for the board lie there for a while; "
                "make room for some 400 MB, or set TMPDIR",
                failure="disk",
            ) from error
        count += len(piece.data)
    if count:
        yield SpoolFile(path, begin, count)
