"""Places of a release's parts on a medium of U-Boot.

They are checked before the first byte.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve, frozen

from lab.errors import ConfigurationError
from lab.provision import image as images
from lab.provision.errors import ImageTooLargeError
from lab.provision.image import Hosts
from lab.provision.release import Content, PartPlace
from lab.provision.writer import Step
from lab.provision.writers import planning
from lab.provision.writers import ubootanswers as answers
from lab.provision.writers.command import carry_out
from lab.provision.writers.ubootmedia import BLOCK_BYTES, Cfi, Mtd, SpiFlash, UbiVolume, UBootBlocks, UBootMedium
from lab.provision.writers.ubootsession import Session

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
                f"{place.label}: it must begin at a multiple of {medium.align:#x}, as the medium is written in such blocks"
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
        self.medium.sized(lines)
        return lines

    def resolved(self, session: Session, planned: tuple[Step, ...]) -> tuple[Step, ...]:
        """Resolve partitions of steps to offsets, by the medium's current table.

        Raises:
            MediaMissingError: there is no such partition. ImageTooLargeError: it is too small.
        """
        medium = self.medium
        if not isinstance(medium, UBootBlocks):
            return planned
        return tuple(self._resolved(session, medium, step) for step in planned)

    @staticmethod
    def _resolved(session: Session, medium: UBootBlocks, step: Step) -> Step:
        if step.place is None or step.place.partition is None:
            return step
        found = [
            answers.partition_blocks(carry_out(session.prompt, command)) * BLOCK_BYTES
            for command in medium.partition(step.place.partition)
        ]
        _check_room(step, found[1])
        return evolve(step, place=PartPlace(offset=found[0], room=found[1]))

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
        size = self.medium.sized(lines)
        planning.check_fits(content, planned, size, hosts)
        if self.mmc is not None:
            self._probe(session, content, planned, hosts)
        for step in planned:
            part, _ = self.of(step.place, step.bytes)
            if isinstance(part, UbiVolume):
                _check_volume(session, part)
            elif step.place is not None and step.place.mtd and isinstance(part, Mtd):
                _check_room(step, part.sized(lines))
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
            f"UBI volume {volume.volume}: {volume.total} bytes, and U-Boot reads a volume only from its start, into {free} bytes of "
            "memory that are free: write it from Linux, or put less into it"
        )
    session.run([*volume.select(), *volume.before(0, volume.total)])
    room = volume.sized(carry_out(session.prompt, volume.size()))
    if room is not None and volume.total > room:
        raise ImageTooLargeError(
            f"UBI volume {volume.volume}: {volume.total} bytes, and it has room for {room}. Make it larger, or the image smaller"
        )


def _check_room(step: Step, room: int | None) -> None:
    if room is not None and step.bytes > room:
        raise ImageTooLargeError(
            f"{step.name}: {step.bytes} bytes, and {step.place.label if step.place else ''} has {room}. Mend the release file, or the build"
        )
