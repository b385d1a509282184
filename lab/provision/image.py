"""The files of a release as streams: fetched, checked against their digest, unpacked on the way, never whole on disk."""

from __future__ import annotations

import functools
import gzip
import hashlib
import lzma
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final

import zstandard

from lab.errors import ConfigurationError, LabTransientError
from lab.provision import bmap
from lab.provision.failures import ImageDamagedError
from lab.provision.fetching import Hosts, fetched
from lab.provision.release import File, Image, Part
from lab.redaction import redacted

CHUNK_BYTES: Final = 1024 * 1024
_PACKED_BYTES: Final = 256  # of a zst at once: 4 of them can become 128 KiB, and these 8 MiB
_WINDOW: Final = 64 * 1024 * 1024  # `zstd --ultra -22` has 128 MiB, `zstd -19` 8
_ENDINGS: Final = {".xz": "xz", ".zst": "zst", ".gz": "gz"}
_SETTLED_NS: Final = 2_000_000_000  # two writes within a tick of the kernel have one time
_BROKEN: Final = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError, zstandard.ZstdError)


def packing(file: File) -> str:
    """How it is packed, by the end of its name: "xz", "zst", "gz"; empty: it is not, or it stays so (`Part.packed`)."""
    if isinstance(file, Part) and file.packed:
        return ""
    return _ENDINGS.get(Path(file.filename).suffix.lower(), "")


def open_image(file: File, hosts: Hosts | None = None) -> Iterator[bytes]:
    """The unpacked bytes of a file, in chunks of at most 1 MiB.

    The whole packed file is fetched and its digest compared before the first chunk: a file that was changed is never written.

    Args:
        hosts: where from it may be fetched; None: as the user's settings say.

    Raises:
        ConfigurationError: no such file, or its host is not allowed.
        ImageUnreachableError: it could not be fetched.
        ImageDamagedError: it has another digest, or cannot be unpacked.
    """
    count = 0
    with checked(file, hosts) as stream:
        for chunk in _unpacked(stream, file):
            count += len(chunk)
            if file.size is not None and count > file.size:
                raise wrong_size(file, "more")  # before it runs over what lies behind
            yield chunk
    if file.size is not None and count != file.size:
        raise wrong_size(file, str(count))


def check_content(file: File, count: int) -> None:
    """Whether a file has something to write, of which `count` bytes are written: of nothing, nothing could be compared.

    Raises:
        ImageDamagedError: it has not.
    """
    if not count:
        raise ImageDamagedError(
            f"{file.shown}: nothing in it is to be written: it is empty, or its block map is. Build it again"
        )


def wrong_size(file: File, found: str) -> ConfigurationError:
    """The message about a file whose `size` is not that of the release file."""
    return ConfigurationError(
        f"{file.shown}: it has {found} bytes unpacked, the release file says {file.size}: correct `size`"
    )


def open_ranges(image: Image, hosts: Hosts | None = None) -> Iterator[tuple[int, bytes]]:
    """What of an image has to be written: (byte offset, data). Without a block map that is all of it.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `open_image`, and of the block map.
    """
    mapped = block_map(image, hosts)
    chunks = open_image(image, hosts)
    if mapped is not None:
        yield from bmap.ranges(chunks, mapped, image.shown)
        return
    offset = 0
    for chunk in chunks:
        yield offset, chunk
        offset += len(chunk)


def block_map(image: Image, hosts: Hosts | None = None) -> bmap.Bmap | None:
    """The image's block map; None: it has none.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `open_image`.
    """
    return bmap.parse(block_map_text(image, hosts), redacted(image.bmap)) if image.bmap else None


def block_map_text(image: Image, hosts: Hosts | None = None) -> bytes:
    """The file of an image's block map, which it has; one that is too large is cut, and longer than `bmap.MAX_BYTES`. Raises as `block_map`."""
    file = File(source=image.bmap, sha256=image.bmap_sha256 or _digest_of(Path(image.bmap)))
    with checked(file, hosts) as stream:
        return stream.read(bmap.MAX_BYTES + 1)


def unpacked_bytes(file: File, hosts: Hosts | None = None) -> int:
    """The size of a file when unpacked: of one that is not packed its own, else as its block map or the release says, else counted.

    Raises:
        ConfigurationError: the release file says another size. ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `open_image`.
    """
    found = None
    if not packing(file):
        with checked(file, hosts) as stream:
            found = os.fstat(stream.fileno()).st_size
    elif isinstance(file, Image) and (mapped := block_map(file, hosts)) is not None:
        found = mapped.image_bytes
    if found is None:
        return file.size if file.size is not None else sum(map(len, open_image(file, hosts)))
    if file.size not in {None, found}:
        raise wrong_size(file, str(found))
    return found


@contextmanager
def checked(file: File, hosts: Hosts | None = None) -> Iterator[IO[bytes]]:
    """The packed file, open at its start, after all of it was compared with its digest.

    The same open file is compared and read, so that one which is replaced meanwhile is not mixed with it.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `open_image`.
    """
    path = fetched(file, hosts or Hosts.of_user()) if file.is_url else Path(file.source)
    try:
        if path.exists() and not path.is_file():  # one that is opened, e.g. a pipe, may never end
            raise ConfigurationError(
                f"{path}: expected a file; it is something else, e.g. a folder or a device. Mend the release file"
            )
        stream = path.open("rb")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {error.strerror}; put it there, or mend the release file (`lab release check`)"
        ) from error
    with stream:
        try:
            digest = _sha256(path, stream)
        except OSError as error:
            raise _unread(path, error) from error
        if digest != file.sha256:
            if file.is_url:
                path.unlink(missing_ok=True)  # what is kept was damaged here: the next try fetches it anew
            raise ImageDamagedError(
                f"{file.shown}: its SHA-256 is {digest}, the release file says {file.sha256}. It was changed or not copied whole: "
                "take it again, or correct the release file if the new one is meant"
            )
        stream.seek(0)
        yield stream


def _unread(path: Path | str, error: OSError) -> LabTransientError:
    return LabTransientError(
        f"{path}: cannot be read to its end: {error.strerror or error}. Look at the disk of the lab host, or at the network that it is on; try again",
        failure="disk",
    )


def _sha256(path: Path, stream: BufferedReader) -> str:
    """Of an open file; a large one is read for it once in a process, as long as the kernel says that nobody has changed it."""
    state = _state(stream)
    if time.time_ns() - state[-1] < _SETTLED_NS:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    return _sha256_at(path, state)


@functools.lru_cache(maxsize=64)
def _sha256_at(path: Path, state: tuple[int, ...]) -> str:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return digest if _state(stream) == state else "another file by now"


def _state(stream: BufferedReader) -> tuple[int, ...]:
    """What changes with every write to a file, or when another takes its name; the time of the last change is the last."""
    found = os.fstat(stream.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest_of(path: Path) -> str:
    """Of a map whose digest the release does not say: the ranges' checksums are the image's, whose digest it says."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ConfigurationError(
            f"{path}: the block map cannot be read: {error.strerror}; leave the key bmap out"
        ) from error


def _unpacked(stream: IO[bytes], file: File) -> Iterator[bytes]:
    kind = packing(file)
    try:
        if kind == "zst":
            yield from _gathered(_unpacked_zst(stream))
            return
        source = _READERS[kind](stream)
        while chunk := source.read(CHUNK_BYTES):
            yield chunk
    except _BROKEN as error:  # before OSError: gzip's is one
        raise ImageDamagedError(
            f"{file.shown}: cannot be unpacked as {kind} ({error}); the digest is right, so the build wrote it so: build it again"
        ) from error
    except OSError as error:
        raise _unread(file.shown, error) from error


_READERS: Final[Mapping[str, Callable[[IO[bytes]], Any]]] = {
    "": lambda stream: stream,
    "gz": lambda stream: gzip.GzipFile(fileobj=stream),
    "xz": lzma.LZMAFile,
}


def _unpacked_zst(stream: IO[bytes]) -> Iterator[bytes]:
    """zstandard's own reader takes a file that was cut off for a whole one; its `decompressobj` says where a frame ends."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    frame, inside = unpacker.decompressobj(), False
    while packed := stream.read(_PACKED_BYTES):
        while packed:
            yield frame.decompress(packed)
            inside = not frame.eof
            packed = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = unpacker.decompressobj()
    if inside:
        raise EOFError("it ends within a frame")


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of the size that writers like."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)
