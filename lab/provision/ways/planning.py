"""What all ways decide alike before the first byte, and the pieces in which they send what a plan says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from attrs import define, frozen

from lab.errors import ConfigurationError
from lab.provision import image as images
from lab.provision.failures import ImageTooLargeError
from lab.provision.fetching import Hosts
from lab.provision.release import Content, Image, Place
from lab.provision.way import Step, order, rooms

_NONE: Final = frozenset[str]()


@frozen
class Piece:
    """A run of bytes with one place.

    Attributes:
        step: index of its step in the plan. place: of its step. offset: bytes from the start of that place.
        first, last: whether it is the first or the last piece of its step.
    """

    step: int
    place: Place | None
    offset: int
    data: bytes
    first: bool
    last: bool


def steps(content: Content, hosts: Hosts | None = None, *, without: frozenset[str] = _NONE) -> tuple[Step, ...]:
    """The steps of a medium's content: its image, then its parts, what the board starts from last.

    The bytes of an image with a block map are those that are mapped: only they are written.

    Args:
        without: kinds of places that the way cannot write, of "partition", "file", "hardware", "mtd", "volume", "offset", "image".

    Raises:
        ConfigurationError: the content has such a place. ImageUnreachableError, ImageDamagedError: as of `lab.provision.image`.
    """
    found = []
    for file in [*([content.image] if content.image else []), *order(content.parts)]:
        place = None if isinstance(file, Image) else getattr(file, "to", None)
        if wrong := _kinds(place) & without:
            raise ConfigurationError(
                f"{file.filename}: {place.shown if place else 'an image of the whole medium'}: this way cannot write a place by "
                f"{' and '.join(sorted(wrong))}. Give it an offset in the release file, or choose another way in the env"
            )
        with images.checked(file, hosts):
            pass  # one that is damaged is refused before the board is touched
        mapped = images.block_map(file, hosts) if isinstance(file, Image) else None
        count = mapped.mapped_bytes if mapped else images.unpacked_bytes(file, hosts)
        found.append(Step(file, place, count))
    return tuple(found)


def check_fits(
    content: Content, planned: tuple[Step, ...], size_bytes: int | None, hosts: Hosts | None = None
) -> None:
    """Whether everything fits where it goes.

    Raises:
        ImageTooLargeError: it does not; nothing was written.
    """
    if content.image is not None and size_bytes is not None:
        whole = images.unpacked_bytes(content.image, hosts)
        if whole > size_bytes:
            raise ImageTooLargeError(
                f"{content.image.shown}: {whole} bytes, and the medium has {size_bytes}. Take a larger one, or a smaller image"
            )
    free = rooms(content, size_bytes)
    for step in planned:
        room = free.get(step.name) if step.place is not None else None
        if room is not None and step.bytes > room:
            where = step.place.shown if step.place else ""
            raise ImageTooLargeError(
                f"{step.name}: {step.bytes} bytes, and {where} has room for {room}. Mend the release file, or the build"
            )


def pieces(planned: tuple[Step, ...], most: int, hosts: Hosts | None = None) -> Iterator[Piece]:
    """What the steps write, in pieces of at most `most` bytes; no more than two are in memory.

    A piece ends where the block map has a gap. `most` should be a multiple of what the medium is written in.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `lab.provision.image`.
    """
    for number, step in enumerate(planned):
        first, waiting = True, None
        for offset, data in _runs(step, most, hosts):
            if waiting is not None:
                yield Piece(number, step.place, *waiting, first, False)
                first = False
            waiting = (offset, data)
        if waiting is not None:
            yield Piece(number, step.place, *waiting, first, True)


def _runs(step: Step, most: int, hosts: Hosts | None) -> Iterator[tuple[int, bytes]]:
    gathered = _Gathered(bytearray())
    for offset, data in _source(step, hosts):
        if gathered.data and offset != gathered.begin + len(gathered.data):
            yield gathered.taken(len(gathered.data))
        if not gathered.data:
            gathered.begin = offset
        gathered.data += data
        while len(gathered.data) >= most:
            yield gathered.taken(most)
    if gathered.data:
        yield gathered.taken(len(gathered.data))


@define
class _Gathered:
    data: bytearray
    begin: int = 0

    def taken(self, count: int) -> tuple[int, bytes]:
        found = self.begin, bytes(self.data[:count])
        del self.data[:count]
        self.begin += count
        return found


def _source(step: Step, hosts: Hosts | None) -> Iterator[tuple[int, bytes]]:
    if isinstance(step.file, Image):
        yield from images.open_ranges(step.file, hosts)
        return
    offset = 0
    for chunk in images.open_image(step.file, hosts):
        yield offset, chunk
        offset += len(chunk)


def _kinds(place: Place | None) -> set[str]:
    if place is None:
        return {"image"}
    given = {
        "partition": place.partition is not None,
        "file": bool(place.file),
        "offset": place.offset is not None,
        "hardware": place.hardware != "user",
        "mtd": bool(place.mtd),
        "volume": bool(place.volume),
    }
    return {name for name, is_given in given.items() if is_given}


class Compared:
    """The digest over everything that was compared, in the order of the plan. count: bytes."""

    def __init__(self) -> None:
        self.count = 0
        self._sha256 = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """These bytes were read back as they were sent."""
        self.count += len(data)
        self._sha256.update(data)

    @property
    def digest(self) -> str:
        """Hexadecimal."""
        return self._sha256.hexdigest()
