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
from attrs import evolve, frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.provision import bmap
from lab.provision.failures import ImageDamagedError
from lab.provision.fetching import Hosts, fetched
from lab.provision.release import File, Image, Part
from lab.redaction import redacted

CHUNK_BYTES: Final = 1024 * 1024
_PACKED_BYTES: Final = 256  # of a zst at once: 4 of them can become 128 KiB, and these 8 MiB
_WINDOW: Final = 64 * 1024 * 1024  # `zstd --ultra -22` has 128 MiB, `zstd -19` 8
_XZ_MEMORY: Final = 128 * 1024 * 1024  # `xz -9` takes 65 MiB; a file of 100 bytes can ask for 4 GiB
MOST_BYTES: Final = 256 * 1024**3  # of a file, unpacked, unless the release file gives its `size`
MOST_UNPACKING_S: Final = 3600.0  # for a file; 256 GiB at 75 MB/s
_ENDINGS: Final = {".xz": "xz", ".zst": "zst", ".gz": "gz"}
_SETTLED_NS: Final = 2_000_000_000  # two writes within a tick of the kernel have one time
_BROKEN: Final = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError, zstandard.ZstdError)


@frozen
class Inspected:
    """A file that was read, unpacked and compared as a whole. bytes: unpacked. mapped_bytes: of them, those that are written."""

    bytes: int
    mapped_bytes: int


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
        ImageDamagedError: it has another digest, or cannot be unpacked within `MOST_BYTES` and the memory that is allowed.
    """
    count = 0
    with checked(file, hosts) as stream:
        for chunk in _unpacked(stream, file):
            count += len(chunk)
            if file.size is not None and count > file.size:
                raise wrong_size(file, "more")  # before it runs over what lies behind
            if file.size is None and count > MOST_BYTES:
                raise ImageDamagedError(
                    f"{file.shown}: more than {MOST_BYTES} bytes unpacked. If it really is so large, give its `size` in the release file"
                )
            yield chunk
    if file.size is not None and count != file.size:
        raise wrong_size(file, str(count))


def inspected(file: File, hosts: Hosts | None = None) -> Inspected:
    """Read, unpack and compare a whole file, before anything of it is written; once in a process as long as it does not change.

    Raises:
        ConfigurationError: the release file says another size; or as of `open_image`.
        ImageUnreachableError: as of `open_image`.
        ImageDamagedError: as of `open_image`; another build's block map; unpacking takes more than `MOST_UNPACKING_S`.
    """
    with checked(file, hosts) as stream:
        size = os.fstat(stream.fileno()).st_size
    if isinstance(file, Image) and file.bmap:
        found = _inspected(file, hosts, hashlib.sha256(block_map_text(file, hosts)).hexdigest())
    elif packing(file):
        found = _inspected(file, hosts, "")
    else:
        found = Inspected(size, size)
    if file.size not in {None, found.bytes}:
        raise wrong_size(file, str(found.bytes))
    return found


@functools.lru_cache(maxsize=64)
def _inspected(file: File, hosts: Hosts | None, _map_digest: str) -> Inspected:
    """By content: the file has its digest, and `_map_digest` is that of its block map."""
    deadline = time.monotonic() + MOST_UNPACKING_S
    if file.size is not None and file.size <= MOST_BYTES:
        file = evolve(file, size=None)  # a wrong `size` is told with the right one
    end = written = 0
    for offset, data in open_ranges(file, hosts) if isinstance(file, Image) else _whole(open_image(file, hosts)):
        end, written = offset + len(data), written + len(data)
        if time.monotonic() > deadline:
            raise ImageDamagedError(
                f"{file.shown}: unpacking takes more than {MOST_UNPACKING_S / 60:.0f} minutes; it was ended after {written} bytes. Is it an image? "
                "Pack it with zstd, which is faster, or give a host that has less to do"
            )
    mapped = block_map(file, hosts) if isinstance(file, Image) else None
    return Inspected(end if mapped is None else mapped.image_bytes, written)


def read_whole(file: File, most_bytes: int, *, unpack: bool = True) -> bytes:
    """A file that goes into a board's memory.

    Raises:
        ImageDamagedError: it has more bytes. BoardlabError: as of `open_image`.
    """
    found = bytearray()
    for chunk in open_image(file) if unpack else _as_it_lies(file):
        found += chunk
        if len(found) > most_bytes:
            raise ImageDamagedError(
                f"{file.shown}: more than {most_bytes} bytes, too many for a board's memory. Is it the right file?"
            )
    return bytes(found)


def _as_it_lies(file: File) -> Iterator[bytes]:
    with checked(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


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
    yield from _whole(chunks) if mapped is None else bmap.ranges(chunks, mapped, image.shown)


def _whole(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
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
    """The size of a file when unpacked; all of it was compared, see `inspected`."""
    return inspected(file, hosts).bytes


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
        if kind in {"zst", "xz"}:
            yield from _gathered(_unpacked_zst(stream) if kind == "zst" else _unpacked_xz(stream))
            return
        source = _READERS[kind](stream)
        while chunk := source.read(CHUNK_BYTES):
            yield chunk
    except _BROKEN as error:  # before OSError: gzip's is one
        if "memory" in str(error).lower():  # the words of liblzma and of libzstd
            raise ImageDamagedError(
                f"{file.shown}: unpacking it takes more memory than is allowed ({error}). Pack it with `xz -9`, `zstd -19`, or less"
            ) from error
        raise ImageDamagedError(
            f"{file.shown}: cannot be unpacked as {kind} ({error}); the digest is right, so the build wrote it so: build it again"
        ) from error
    except OSError as error:
        raise _unread(file.shown, error) from error


_READERS: Final[Mapping[str, Callable[[IO[bytes]], Any]]] = {
    "": lambda stream: stream,
    "gz": lambda stream: gzip.GzipFile(fileobj=stream),
}


def _unpacked_xz(stream: IO[bytes]) -> Iterator[bytes]:
    """Streams one after another, with zeros between them; `lzma.LZMAFile` has no limit of memory."""
    packed = stream.read(CHUNK_BYTES)
    while True:
        unpacker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
        while not unpacker.eof:
            if not packed and unpacker.needs_input and not (packed := stream.read(CHUNK_BYTES)):
                raise EOFError("it ends within a stream")
            yield unpacker.decompress(packed, CHUNK_BYTES)
            packed = b""
        packed = unpacker.unused_data.lstrip(b"\0")
        while not packed:
            if not (more := stream.read(CHUNK_BYTES)):
                return
            packed = more.lstrip(b"\0")


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
