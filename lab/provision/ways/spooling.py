"""Pieces of an image gathered in files of this host, for a board that fetches them: what one fetch costs is paid once for many pieces."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import LabStableError
from lab.provision.ways.planning import Piece, ahead

FIRST_BYTES: Final = (
    16 * 1024 * 1024
)  # of the first file; each one may be twice as large, so that progress and trouble show early
MOST_BYTES: Final = 128 * 1024 * 1024  # of a file; three of them lie there at most


@frozen
class Spooled:
    """A file with bytes of one run. offset: of the first one, from the start of the image. bytes: of the file."""

    path: Path
    offset: int
    bytes: int


def spooled(
    found: Iterable[Piece], folder: Path, first: int = FIRST_BYTES, most: int = MOST_BYTES
) -> Iterator[Spooled]:
    """Pieces in files of some `first` bytes, then of twice as many, up to `most`; the next file is made while one is used, and who has used one removes it.

    A file ends where the next piece does not follow.

    Raises:
        LabStableError: `disk`: this host's disk does not take them; and what `found` raises.
    """
    return ahead(_spooled(found, folder, first, most))


def _spooled(found: Iterable[Piece], folder: Path, limit: int, most: int) -> Generator[Spooled, None, None]:
    number, begin, count = 0, 0, 0
    path = folder / "0"
    for piece in found:
        if count and (piece.offset != begin + count or count + len(piece.data) > limit):
            yield Spooled(path, begin, count)
            number, count, limit = number + 1, 0, min(2 * limit, most)
            path = folder / str(number)
        begin = begin if count else piece.offset
        _append(path, piece.data)
        count += len(piece.data)
    if count:
        yield Spooled(path, begin, count)


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise LabStableError(
            f"{path}: {error.strerror}: what the board fetches lies there for a while; make room for some 400 MB, or set TMPDIR",
            failure="disk",
        ) from error
