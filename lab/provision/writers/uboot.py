"""Writer by U-Boot over the network.

Each piece is loaded over TFTP, compared, written, and read back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from attrs import evolve, field, frozen

from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.provision import image as images
from lab.provision.errors import ImageTooLargeError
from lab.provision.image import Hosts
from lab.provision.release import Content, PartPlace
from lab.provision.writer import CRC32, FULL, Meter, Plan, Report, Step, Verified, WriteTarget
from lab.provision.writers import planning, ubootemmc
from lab.provision.writers import ubootanswers as answers
from lab.provision.writers.command import Command, CommandPrompt, carry_out, ending_on_error
from lab.provision.writers.ubootmedia import BLOCK_BYTES, Cfi, Mtd, SpiFlash, UbiVolume, UBootBlocks, UBootMedium
from lab.provision.writers.ubootsession import Session

_SLOWEST_LOAD: Final = 200 * 1024  # bytes a second of a TFTP transfer that loses packets
_PROBE: Final = b"boardlab\n"  # is loaded before anything is decided
USUAL_RATE: Final = 4 * 1024 * 1024
_UNSAFE: Final = re.compile(r"[^\w.+-]", re.ASCII)


class Loader(Protocol):
    """Loads bytes into the board's memory.

    rate: bytes a second, usually. note: a remark for a person; may be empty.
    """

    @property
    def rate(self) -> float: ...

    @property
    def note(self) -> str: ...

    def prepare(self, prompt: CommandPrompt) -> None:
        """Before the first load, at U-Boot's prompt."""

    def load(self, prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        """Load these bytes; raises where not all of them came."""

    def rest(self) -> None:
        """End the helpers on this host, e.g. a server.

        The board stays as it is.
        """


@frozen
class Network:
    """Network settings of the board in U-Boot.

    Attributes:
        server: the lab host's address as the board sees it.
        port: of the server; 69 needs nothing of U-Boot, another CONFIG_TFTP_PORT.
        board: the board's own address; empty: from DHCP.
        netmask: with it.
        block: TFTP's block size; 0: U-Boot's own.
    """

    server: str
    port: int = 69
    board: str = ""
    netmask: str = "255.255.255.0"
    block: int = 1468

    def commands(self) -> list[Command]:
        """Commands that set up U-Boot's network without saving it."""
        own = (
            [Command(f"setenv ipaddr {self.board}", _quiet), Command(f"setenv netmask {self.netmask}", _quiet)]
            if self.board
            else [
                Command("setenv autoload no", _quiet),
                Command("dhcp", answers.judge_dhcp, 60.0, loads=True),
            ]
        )
        port = [] if self.port == 69 else [Command(f"setenv tftpdstp {self.port}", _quiet)]
        block = [Command(f"setenv tftpblocksize {self.block}", _quiet)] if self.block else []
        return [*own, Command(f"setenv serverip {self.server}", _quiet), *port, *block]


@frozen
class Tftp:
    """Loader over TFTP from a served folder.

    The server is boardlab's or the lab's. prefix: of names, below the server's root.
    """

    folder: Path
    network: Network
    prefix: str = ""
    rate: float = USUAL_RATE
    note: str = ""

    def prepare(self, prompt: CommandPrompt) -> None:
        for command in self.network.commands():
            carry_out(prompt, command)

    def load(self, prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        path = self.folder / name
        path.write_bytes(data)
        path.chmod(0o644)  # the server may be another user's
        try:
            text = f"tftpboot {address:#x} {self.prefix}{name}"
            limit = 90.0 + len(data) / _SLOWEST_LOAD
            carry_out(prompt, Command(text, answers.judge_load(len(data), name), limit, loads=True))
        finally:
            path.unlink(missing_ok=True)

    def rest(self) -> None:
        """Do nothing; the server has another owner."""


@frozen
class UBootWriter:
    """Writes a medium from U-Boot.

    Attributes:
        medium: as U-Boot sees it.
        begin: brings the board to U-Boot's prompt; it stays there until `end`.
        device: the same in the words of the environment, e.g. "mmc 0".
    """

    name: str
    medium: UBootMedium
    loader: Loader
    begin: Callable[[], CommandPrompt]
    end: Callable[[], None]
    hosts: Hosts | None = None
    now_ns: Callable[[], int] = field(default=MonotonicRaw().now_ns)
    device: str = ""

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        """Plan a write.

        A board that the loader does not reach is refused, and a lab host without the loader's programs.
        """
        planned = planning.steps(content, self.hosts)
        if content.extcsd.given and self._places.mmc is None:
            raise ConfigurationError(
                f"{target.medium}: extcsd is an eMMC's, and {self.device or target.device} "
                "is none; mend the release file or the env"
            )
        self._places.check(content, planned, self.hosts)
        try:
            with ending_on_error(self.end):
                session = Session.begin(self.begin())
                lines = self._places.look(session)
                planned = self._places.resolve(session, planned)
                size = self._places.fit(session, content, planned, self.hosts, lines)
                session.most(self.medium.align)
                self.loader.prepare(session.prompt)
                session.spoil(_PROBE, session.address)
                self.loader.load(session.prompt, session.address, _PROBE, "probe")
                session.compare(_PROBE, "a probe: what was loaded", quick=True)
        finally:
            self.loader.rest()
        total = sum(step.bytes for step in planned)
        notes = (self.loader.note,) if self.loader.note else ()
        target = evolve(target, device=self.device or target.device, size_bytes=size)
        return Plan(self.name, target, content, planned, estimate_s=total / self.loader.rate, notes=notes)

    def write(self, plan: Plan, report: Report) -> None:
        with ending_on_error(self.end):
            session = Session.begin(self.begin())
            self.loader.prepare(session.prompt)
            meter = Meter(plan.total_bytes, report, self.now_ns)
            chosen: UBootMedium | None = None
            for piece in planning.pieces(plan.steps, session.most(self.medium.align), self.hosts):
                step = plan.steps[piece.step]
                medium, offset = self._places.of(step.place, step.bytes)
                if piece.first:
                    meter.begin(step.name)
                if medium != chosen:
                    session.run([*(chosen.finish() if chosen else []), *medium.select()])
                    chosen = medium
                name = _UNSAFE.sub("_", f"{step.name}-{piece.offset:x}")  # it becomes a word of a command on the board
                self.loader.load(session.prompt, session.address, piece.data, name)
                # Of a whole image, half of which is as bad as a wrong byte, the reading back says it
                if step.place is not None:
                    session.compare(piece.data, f"{step.name}: what was loaded", quick=True)
                before = medium.before(
                    offset + (0 if isinstance(medium, UbiVolume) else piece.offset), len(piece.data)
                )
                session.run([*before, *medium.write(session.address, offset + piece.offset, len(piece.data))])
                meter.add(len(piece.data))
            if chosen:
                session.run(chosen.finish())

    def verify(self, plan: Plan) -> Verified:
        """Have the board read back and digest the written bytes.

        Bytes that a later part overwrote are left out.
        """
        with ending_on_error(self.end):
            session = Session.begin(self.begin())
            compared, chosen = planning.ComparedPiece(), None
            pieces = planning.pieces(plan.steps, session.most(self.medium.align), self.hosts)
            for piece in planning.not_overwritten(plan.steps, pieces, self.medium.align):
                step = plan.steps[piece.step]
                medium, offset = self._places.of(step.place, step.bytes)
                if medium != chosen:
                    session.run([*(chosen.finish() if chosen else []), *medium.select()])
                    chosen = medium
                at = session.back + (piece.offset if isinstance(medium, UbiVolume) else 0)
                session.spoil(piece.data, at)
                session.run(medium.read(session.back, offset + piece.offset, len(piece.data)))
                session.compare(piece.data, f"{step.name}: read back at {offset + piece.offset:#x}", at)
                compared.add(piece.data)
            if chosen:
                session.run(chosen.finish())
        if not plan.content.extcsd.given:
            self.end()
        return Verified(compared.digest, compared.count, FULL if session.has_hash else CRC32)

    def switch(self, plan: Plan) -> str:
        if not plan.content.extcsd.given or self._places.mmc is None:
            return ""
        try:
            return ubootemmc.set_extcsd(self.begin(), self._places.mmc, plan.content.extcsd)
        finally:
            self.end()

    @property
    def _places(self) -> UBootPlaces:
        return UBootPlaces(self.medium)


def _quiet(_lines: object, _status: int) -> None:
    """`setenv` says nothing."""


_FLASHES: Final = (Cfi, Mtd, SpiFlash)


@frozen
class UBootPlaces:
    """Places of a medium.

    medium: the whole of it, as the environment names it.
    """

    medium: UBootMedium

    @property
    def mmc(self) -> int | None:
        """U-Boot's number of an `mmc` medium; None: it is none."""
        medium = self.medium
        return medium.number if isinstance(medium, UBootBlocks) and medium.interface == "mmc" else None

    def of(self, place: PartPlace | None, count: int) -> tuple[UBootMedium, int]:
        """Return the medium and offset of a step's place.

        `count` is the number of its bytes; the medium may be a part of the whole.

        Raises:
            ConfigurationError: this medium has no such place.
        """
        medium = self.medium
        if place is None:
            return medium, 0
        if place.mtd:
            if not isinstance(medium, Mtd):
                raise ConfigurationError(f"{place.label}: a place by MTD name takes a medium `mtd` in the env")
            return (
                UbiVolume(place.mtd, place.volume, count) if place.volume else Mtd(place.mtd, medium.erase_bytes)
            ), 0
        if place.hardware != "user":
            if self.mmc is None:
                raise ConfigurationError(
                    f"{place.label}: only an eMMC has hardware partitions, by a medium `mmc` in the env"
                )
            medium = UBootBlocks("mmc", self.mmc, place.hardware)
        offset = place.offset or 0
        if offset % medium.align:
            raise ConfigurationError(
                f"{place.label}: it must begin at a multiple of "
                f"{medium.align:#x}, as the medium is written in such blocks"
            )
        return medium, offset

    def check(self, content: Content, planned: tuple[Step, ...], hosts: Hosts | None) -> None:
        """Check the release file without a board.

        Raises:
            ConfigurationError: a part or the image has an impossible place.
        """
        for step in planned:
            if step.place is None or step.place.partition is None:
                self.of(step.place, step.bytes)
            elif not isinstance(self.medium, UBootBlocks):
                raise ConfigurationError(
                    f"{step.place.label}: this medium has no partition table; give the part an offset"
                )
        planning.check_ranges(content, self.medium.align, hosts)
        if isinstance(self.medium, _FLASHES):
            planning.check_overwritten(content, hosts)

    def look(self, session: Session) -> list[str]:
        """Ask U-Boot for the medium's description; empty: none.

        Raises:
            BoardlabError: it is not there. ConfigurationError: no release can be written so.
        """
        session.run(self.medium.select())
        asked = self.medium.size()
        lines = carry_out(session.prompt, asked) if asked else []
        self.medium.parse_size(lines)
        return lines

    def resolve(self, session: Session, planned: tuple[Step, ...]) -> tuple[Step, ...]:
        """Resolve partitions of steps to offsets, by the medium's current table.

        Raises:
            MediaMissingError: there is no such partition. ImageTooLargeError: it is too small.
        """
        medium = self.medium
        if not isinstance(medium, UBootBlocks):
            return planned
        resolved = []
        for step in planned:
            place = step.place
            if place is None or place.partition is None:
                resolved.append(step)
            else:
                offset, room = (
                    answers.partition_blocks(carry_out(session.prompt, command)) * BLOCK_BYTES
                    for command in medium.partition(place.partition)
                )
                _check_room(step, room)
                resolved.append(evolve(step, place=PartPlace(offset=offset, room=room)))
        return tuple(resolved)

    def fit(
        self, session: Session, content: Content, planned: tuple[Step, ...], hosts: Hosts | None, lines: list[str]
    ) -> int | None:
        """Make sure that everything fits on the board's medium.

        Returns the size of the medium; None: U-Boot does not say.

        Args:
            lines: of `look`.

        Raises:
            ImageTooLargeError: something does not fit. ConfigurationError: not into U-Boot's memory.
        """
        size = self.medium.parse_size(lines)
        planning.check_fits(content, planned, size, hosts)
        if self.mmc is not None:
            self._probe(session, content, planned, hosts)
        for step in planned:
            part, _ = self.of(step.place, step.bytes)
            if isinstance(part, UbiVolume):
                _check_volume(session, part)
            elif step.place is not None and step.place.mtd and isinstance(part, Mtd):
                _check_room(step, part.parse_size(lines))
        return size

    def _probe(self, session: Session, content: Content, planned: tuple[Step, ...], hosts: Hosts | None) -> None:
        """Read the last block that will be written of each area.

        `mmc info` rounds, and lacks boot partitions.
        """
        ends: dict[UBootMedium, int] = {}
        for step in planned:
            medium, offset = self.of(step.place, step.bytes)
            count = images.unpacked_bytes(content.image, hosts) if step.place is None and content.image else step.bytes
            ends[medium] = max(ends.get(medium, 0), offset + count)
        for medium, end in ends.items():
            last = (max(end, 1) - 1) // BLOCK_BYTES * BLOCK_BYTES
            session.run([*medium.select(), *medium.read(session.address, last, BLOCK_BYTES), *medium.finish()])


def _check_volume(session: Session, volume: UbiVolume) -> None:
    free = session.memory[1] - session.back
    if volume.total > free:
        raise ConfigurationError(
            f"UBI volume {volume.volume}: {volume.total} bytes, and U-Boot reads a volume only from its start, into "
            f"{free} bytes of memory that are free: write it from Linux, or put less into it"
        )
    session.run([*volume.select(), *volume.before(0, volume.total)])
    room = volume.parse_size(carry_out(session.prompt, volume.size()))
    if room is not None and volume.total > room:
        raise ImageTooLargeError(
            f"UBI volume {volume.volume}: {volume.total} bytes, and it has room for "
            f"{room}. Make it larger, or the image smaller"
        )


def _check_room(step: Step, room: int | None) -> None:
    if room is not None and step.bytes > room:
        raise ImageTooLargeError(
            f"{step.name}: {step.bytes} bytes, and {step.place.label if step.place else ''} has {room}. Mend the "
            "release file, or the build"
        )
