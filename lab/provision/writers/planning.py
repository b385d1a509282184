"""Planning for all writers: steps, checks, and pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final, TypeVar

from attrs import define, evolve, frozen

from lab.errors import ConfigurationError
from lab.provision import image as images
from lab.provision.errors import ImageTooLargeError
from lab.provision.image import Hosts
from lab.provision.release import Content, Image, PartPlace
from lab.provision.writer import Step, inside, inside_reason, order, rooms

T = TypeVar("T")
_NONE: Final = frozenset[str]()


@frozen
class WritePiece:
    """Consecutive bytes of a step, and where they go.

    Attributes:
        step: index of its step in the plan.
        place: the step's place; None: the whole medium.
        offset: bytes from the start of that place.
        first: True for the first piece of its step.
    """

    step: int
    place: PartPlace | None
    offset: int
    data: bytes
    first: bool


def steps(content: Content, hosts: Hosts | None = None, *, without: frozenset[str] = _NONE) -> tuple[Step, ...]:
    """Plan the steps of a medium's content: image, parts, boot stages last.

    Of an image with a block map only the mapped bytes count, since only they are written.

    Args:
        without: kinds of places that the writer cannot write, of "partition", "hardware", "mtd", "volume", "offset",
            "image".

    Raises:
        ConfigurationError: the content has such a place. ImageUnreachableError, ImageDamagedError: as of
            `lab.provision.image`.
    """
    planned = []
    for file in [*([content.image] if content.image else []), *order(content.parts)]:
        place = None if isinstance(file, Image) else getattr(file, "to", None)
        if wrong := _kinds(place) & without:
            raise ConfigurationError(
                f"{file.filename}: {place.label if place else 'an image of the whole medium'}: this way cannot write "
                f"a place by {' and '.join(sorted(wrong))}. Give it an offset in the "
                "release file, or choose another way in the env"
            )
        count = images.inspect(file, hosts).mapped_bytes  # a damaged one is refused before the board is touched
        images.check_content(file, count)
        planned.append(Step(file, place, count))
    return tuple(planned)


def check_fits(
    content: Content, planned: tuple[Step, ...], size_bytes: int | None, hosts: Hosts | None = None
) -> None:
    """Make sure that everything fits into its place.

    Raises:
        ImageTooLargeError: it does not; nothing was written.
    """
    if content.image is not None and size_bytes is not None:
        whole = images.unpacked_bytes(content.image, hosts)
        if whole > size_bytes:
            raise ImageTooLargeError(
                f"{content.image.label}: {whole} bytes, and the medium has "
                f"{size_bytes}. Take a larger one, or a smaller image"
            )
    free = rooms(content, size_bytes)
    for step in planned:
        room = free.get(step.name) if step.place is not None else None
        if room is not None and step.bytes > room:
            where = step.place.label if step.place else ""
            raise ImageTooLargeError(
                f"{step.name}: {step.bytes} bytes, and {where} has room for {room}. Mend the release file, or the build"
            )

    spans = sorted((begin, step.bytes, step.name) for step in planned if step.place and (begin := _begin(step.place)))
    for ((area, start), size, name), ((next_area, next_start), _, next_name) in pairwise(spans):
        if area == next_area and start + size > next_start:
            raise ImageTooLargeError(
                f"{name}: {size} bytes at {start:#x}, and {next_name} goes to {next_start:#x}: one would overwrite "
                "the other. Mend the release file"
            )


def place_pieces(found: Iterable[WritePiece]) -> Iterator[tuple[WritePiece, int]]:
    """Yield pieces with their offsets from the medium's start.

    The medium is one run of bytes.
    """
    for piece in found:
        yield piece, (piece.place.offset or 0 if piece.place else 0) + piece.offset


def check_ranges(content: Content, block: int, hosts: Hosts | None = None) -> None:
    """Make sure that a block map's ranges begin at block boundaries.

    `block` is the size in bytes of the medium's blocks.

    Raises:
        ConfigurationError: a range begins within a block, so the data before it would be lost.
    """
    mapped = images.block_map(content.image, hosts) if content.image is not None else None
    if mapped is not None and any(mapped.span(blocks)[0] % block for blocks in mapped.ranges):
        raise ConfigurationError(
            f"{content.image.label if content.image else ''}: its block map has ranges that begin within a block of "
            f"{block} bytes, in which the medium is written: leave the key bmap out for this medium"
        )


def check_overwritten(content: Content, hosts: Hosts | None = None) -> None:
    """Make sure that no part lies inside an image on a flash.

    A flash is erased in blocks, so a part destroys its blocks' other data.

    Raises:
        ConfigurationError: a part lies inside the image.
    """
    if content.image is None or not content.parts:
        return
    if lost := inside(content, images.unpacked_bytes(content.image, hosts)):
        raise ConfigurationError(inside_reason(lost[0]))


def not_overwritten(planned: tuple[Step, ...], found: Iterable[WritePiece], block: int) -> Iterator[WritePiece]:
    """Yield the written pieces that no later step has overwritten.

    These can be read back.

    Args:
        block: size of the medium's blocks; the rest of a later step's last block is not overwritten.
    """
    spans = [_span(step, block) for step in planned]
    for piece in found:
        begin = _begin(piece.place)
        later = [span for span in spans[piece.step + 1 :] if begin is not None and span and span[0] == begin[0]]
        yield from _cut(piece, begin[1] if begin else 0, sorted(later))


def _begin(place: PartPlace | None) -> tuple[str, int] | None:
    """Hardware partition and offset; None: the place is a name."""
    if place is None:
        return "user", 0
    return (place.hardware, place.offset) if place.offset is not None else None


def _span(step: Step, block: int) -> tuple[str, int, int] | None:
    """Hardware partition, first byte, and the byte after the last block."""
    begin = _begin(step.place)
    return (*begin, -(-(begin[1] + step.bytes) // block) * block) if begin else None


def _cut(piece: WritePiece, begin: int, later: list[tuple[str, int, int]]) -> Iterator[WritePiece]:
    """Yield the parts of a piece that no later span covers.

    Args:
        begin: offset of the piece's place.
        later: spans (`_span`) of later steps in the same hardware partition, in ascending order.
    """
    at, end = begin + piece.offset, begin + piece.offset + len(piece.data)
    for _, first, stop in later:
        if stop <= at or first >= end:
            continue
        if first > at:
            yield _slice(piece, begin, at, first)
        at = stop
    if at < end:
        yield _slice(piece, begin, at, end)


def _slice(piece: WritePiece, begin: int, start: int, stop: int) -> WritePiece:
    data = piece.data[start - begin - piece.offset : stop - begin - piece.offset]
    return evolve(piece, offset=start - begin, data=data)


def pieces(
    planned: tuple[Step, ...], most: int, hosts: Hosts | None = None, *, without: frozenset[int] = frozenset()
) -> Iterator[WritePiece]:
    """Yield the steps' data in pieces of at most `most` bytes.

    The next piece is made while one is used, so two are in memory.

    A piece ends where the block map has a gap. `most` should be a multiple of the medium's blocks.

    Args:
        without: the numbers of steps that are left out.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `lab.provision.image`.
    """
    return ahead(_pieces(planned, most, hosts, without))


def ahead(source: Generator[T, None, None]) -> Iterator[T]:
    """Yield a generator's items; the next is made while one is used.

    No item may be None, which ends the iteration. The generator is closed at the end.
    """
    with ThreadPoolExecutor(1, "ahead") as maker:
        try:
            next_item = maker.submit(next, source, None)
            while (item := next_item.result()) is not None:
                next_item = maker.submit(next, source, None)
                yield item
                del item  # else one more would stay in memory
        finally:
            maker.shutdown()
            source.close()


def _pieces(
    planned: tuple[Step, ...], most: int, hosts: Hosts | None, without: frozenset[int]
) -> Generator[WritePiece, None, None]:
    for number, step in enumerate(planned):
        if number in without:
            continue
        is_first = True
        for offset, data in _runs(step, most, hosts):
            yield WritePiece(number, step.place, offset, data, is_first)
            is_first = False


def _runs(step: Step, most: int, hosts: Hosts | None) -> Iterator[tuple[int, bytes]]:
    gathered = _RunBuffer(bytearray())
    for offset, data in images.open_ranges(step.file, hosts):
        if gathered.data and offset != gathered.begin + len(gathered.data):
            yield gathered.take(len(gathered.data))
        if not gathered.data:
            gathered.begin = offset
        gathered.data += data
        while len(gathered.data) >= most:
            yield gathered.take(most)
    if gathered.data:
        yield gathered.take(len(gathered.data))


@define
class _RunBuffer:
    """Consecutive bytes of a step that are not yielded yet.

    Attributes:
        begin: offset of the first one from the start of the step's place.
    """

    data: bytearray
    begin: int = 0

    def take(self, count: int) -> tuple[int, bytes]:
        run = self.begin, bytes(self.data[:count])
        del self.data[:count]
        self.begin += count
        return run


def _kinds(place: PartPlace | None) -> set[str]:
    if place is None:
        return {"image"}
    place_kinds = {
        "partition": place.partition is not None,
        "offset": place.offset is not None,
        "hardware": place.hardware != "user",
        "mtd": bool(place.mtd),
        "volume": bool(place.volume),
    }
    return {name for name, is_given in place_kinds.items() if is_given}


class ComparedPiece:
    """The digest of all bytes that were compared, in the plan's order.

    Attributes:
        count: number of these bytes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sha256 = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Add bytes that were read back as sent."""
        self.count += len(data)
        self._sha256.update(data)

    @property
    def digest(self) -> str:
        """SHA-256 of all compared bytes, in hexadecimal."""
        return self._sha256.hexdigest()
