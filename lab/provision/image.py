"""Release files as streams: fetched, checked against their digest, unpacked.

No file is ever whole on disk in unpacked form.
"""

from __future__ import annotations

import fcntl
import functools
import gzip
import hashlib
import lzma
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urljoin, urlsplit

import requests
import zstandard
from attrs import frozen
from urllib3.exceptions import HTTPError

from lab.errors import ConfigurationError, LabTransientError
from lab.provision import bmap
from lab.provision.errors import ImageDamagedError, ImageUnreachableError
from lab.provision.release import File, Image, Part
from lab.redaction import redact, scrub

HOSTS_VARIABLE: Final = "LAB_RELEASE_HOSTS"
# Where TI's SDKs are: the download page leads to the first.
DOWNLOADS: Final = ("dr-download.ti.com", "software-dl.ti.com")
_REDIRECTS: Final = 5
_REDIRECT_CODES: Final = (301, 302, 303, 307, 308)
_TIMEOUT_S: Final = (10.0, 60.0)  # to connect; without a byte
_CHUNK_BYTES: Final = 1024 * 1024
MOST_FETCHED_BYTES: Final = 64 * 1024**3  # of a file, as it is fetched
MOST_S: Final = 4 * 3600.0  # for a file: 64 GiB at 5 MB/s
# A host that gives less in this time trickles; a proxy that looks at the file first gives nothing for up to a minute.
LEAST_BYTES: Final = 64 * 1024
LEAST_S: Final = 90.0
FREE_BYTES: Final = 1024**3  # that stay free on the disk: this host may record consoles
_PART: Final = ".part-"
_YOUNG_S: Final = 60.0  # a part of this age may not be locked yet


@frozen
class Hosts:
    """Hosts that release files may come from, and the cache.

    A name may have a port, e.g. "builds.lan:8080".
    """

    allowed: frozenset[str]
    cache: Path

    @classmethod
    def of_user(cls) -> Hosts:
        """TI's downloads, the hosts of $LAB_RELEASE_HOSTS, and the user's cache.

        The variable has commas between hosts.
        """
        more = os.environ.get(HOSTS_VARIABLE, "").split(",")
        return cls(frozenset({*DOWNLOADS, *(name.strip().lower() for name in more if name.strip())}), cache_folder())

    def check(self, url: str) -> None:
        """Make sure that a URL's host is allowed.

        Raises:
            ConfigurationError: its host is not allowed, or it is no URL.
        """
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError as error:
            raise ConfigurationError(f"{redact(url)}: not a URL; mend the release file") from error
        if parts.scheme not in {"http", "https"} or not {host, f"{host}:{port}"} & self.allowed:
            raise ConfigurationError(
                f"{redact(url)}: the host {host or '(none)'} is not one that releases may come from "
                f"({', '.join(sorted(self.allowed))}). If it may be trusted, add it to ${HOSTS_VARIABLE}"
            )


def cache_folder() -> Path:
    """Folder of fetched files: $XDG_CACHE_HOME/boardlab/releases, or under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boardlab" / "releases"


def fetch(file: File, hosts: Hosts) -> Path:
    """Return a URL's packed file in the cache, fetched if needed.

    Raises:
        ConfigurationError: its host is not allowed.
        ImageUnreachableError: no answer, not all of it, not within `MOST_S`, or less than `LEAST_BYTES` in `LEAST_S`.
        ImageDamagedError: more than its `size` or `MOST_FETCHED_BYTES`, or another digest than the release file says;
            it is not kept.
    """
    hosts.check(file.source)
    cached = hosts.cache / file.sha256
    if cached.is_file():
        return cached
    hosts.cache.mkdir(parents=True, exist_ok=True)
    try:
        with _part(hosts.cache) as part:
            digest = hashlib.sha256()
            for chunk in _chunks(file, hosts):
                digest.update(chunk)
                part.write(chunk)
            part.flush()
            os.fsync(part.fileno())  # or a power loss keeps a file that is empty
            if digest.hexdigest() != file.sha256:
                raise ImageDamagedError(
                    f"{file.label}: the fetched file has the SHA-256 {digest.hexdigest()}, the release file says "
                    f"{file.sha256}. The file there was replaced: correct the release file if the new one is meant"
                )
            cached.unlink(missing_ok=True)
            os.link(part.name, cached)
    except (requests.RequestException, HTTPError) as error:
        raise ImageUnreachableError(
            f"{file.label}: cannot be fetched ({scrub(str(error), file.source)[:200]}). Look at the network and "
            "the proxy, or put the file on the lab host and its path into the release file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{hosts.cache}: cannot be written: {error.strerror}; make room there") from error
    return cached


@contextmanager
def _part(folder: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for a download, and remove it afterwards.

    Leftovers of killed programs are removed first.
    """
    for path in folder.glob(f"{_PART}*"):
        with suppress(OSError), path.open("rb") as left:  # a lock that cannot be had: somebody fetches into it
            if time.time() - os.fstat(left.fileno()).st_mtime > _YOUNG_S:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=_PART) as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        yield part


def _chunks(file: File, hosts: Hosts) -> Iterator[bytes]:
    """The bytes of a URL as they come, within limits."""
    most = MOST_FETCHED_BYTES
    if file.size is not None:  # unpacked; bytes that cannot be packed become more by less than this
        most = min(most, file.size + (file.size // 64 + LEAST_BYTES if packing(file) else 0))
    progress_at = time.monotonic()
    deadline, count, progress = progress_at + MOST_S, 0, 0
    with _answer(file.source, hosts) as answer:
        # What has come: a slow host cannot stop the clock
        while chunk := answer.raw.read1(_CHUNK_BYTES, decode_content=True):
            count += len(chunk)
            if count > most:
                raise ImageDamagedError(
                    f"{file.label}: more than {most} bytes; it was not fetched. Is it the right file, and its `size`?"
                )
            now = time.monotonic()
            if count - progress >= LEAST_BYTES:
                progress, progress_at = count, now
            elif now > progress_at + LEAST_S:
                raise ImageUnreachableError(
                    f"{file.label}: the host gave {count - progress} bytes in {LEAST_S:g} s; {count} bytes came. Look "
                    "at the network and the host, or put the file on the lab host and its path into the release file"
                )
            if now > deadline:
                raise ImageUnreachableError(
                    f"{file.label}: not fetched within {MOST_S / 3600:g} hours; {count} bytes came. Look at the "
                    "network and the host, or put the file on the lab host and its path into the release file"
                )
            if shutil.disk_usage(hosts.cache).free < FREE_BYTES:
                raise ConfigurationError(
                    f"{hosts.cache}: less than {FREE_BYTES} bytes are free after "
                    f"{count} bytes of {file.label}; make room there"
                )
            yield chunk


def _answer(url: str, hosts: Hosts) -> requests.Response:
    """Follow redirects, each to an allowed host, and return the answer."""
    for _ in range(_REDIRECTS):
        answer = requests.get(
            url, stream=True, timeout=_TIMEOUT_S, allow_redirects=False, headers={"Accept-Encoding": "identity"}
        )
        if answer.status_code not in _REDIRECT_CODES:
            answer.raise_for_status()
            return answer
        url = urljoin(url, answer.headers.get("Location", ""))
        answer.close()
        hosts.check(url)
    raise requests.TooManyRedirects(f"more than {_REDIRECTS} redirects")


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
class Inspection:
    """A file after reading and comparing it as a whole.

    bytes: unpacked. mapped_bytes: those of them that are written.
    """

    bytes: int
    mapped_bytes: int


def packing(file: File) -> str:
    """Packing of a file by its name: "xz", "zst", "gz".

    Empty: it is not packed, or it stays packed (`Part.packed`).
    """
    if isinstance(file, Part) and file.packed:
        return ""
    return _ENDINGS.get(Path(file.filename).suffix.lower(), "")


def open_image(file: File, hosts: Hosts | None = None) -> Iterator[bytes]:
    """Yield a file's unpacked bytes in chunks of at most 1 MiB.

    The whole packed file is fetched and its digest compared before the first chunk: a file that was changed is never
    written.

    Args:
        hosts: the allowed hosts; None: those of the user's settings.

    Raises:
        ConfigurationError: no such file, or its host is not allowed.
        ImageUnreachableError: it could not be fetched.
        ImageDamagedError: it has another digest, or cannot be unpacked within `MOST_BYTES` and the memory that is
            allowed.
    """
    count = 0
    with open_checked(file, hosts) as stream:
        for chunk in _unpack(stream, file):
            count += len(chunk)
            if file.size is not None and count > file.size:
                raise wrong_size(file, f"more than {file.size}")  # before it runs over what lies behind
            if file.size is None and count > MOST_BYTES:
                raise ImageDamagedError(
                    f"{file.label}: more than {MOST_BYTES} bytes unpacked. If it really is so "
                    "large, give its `size` in the release file"
                )
            yield chunk
    if file.size is not None and count != file.size:
        raise wrong_size(file, str(count))


def inspect(file: File, hosts: Hosts | None = None) -> Inspection:
    """Read, unpack and compare a whole file before any write.

    An unchanged file is read once in a process.

    Raises:
        ConfigurationError: the release file says another size; or as of `open_image`.
        ImageUnreachableError: as of `open_image`.
        ImageDamagedError: as of `open_image`; another build's block map; unpacking takes more than `MOST_UNPACKING_S`.
    """
    with open_checked(file, hosts) as stream:
        size = os.fstat(stream.fileno()).st_size
    if isinstance(file, Image) and file.bmap:
        inspection = _inspect_content(file, hosts, hashlib.sha256(block_map_text(file, hosts)).hexdigest())
    elif packing(file):
        inspection = _inspect_content(file, hosts, "")
    else:
        inspection = Inspection(size, size)
    if file.size not in {None, inspection.bytes}:
        raise wrong_size(file, str(inspection.bytes))
    return inspection


@functools.lru_cache(maxsize=64)
def _inspect_content(file: File, hosts: Hosts | None, _map_digest: str) -> Inspection:
    """Inspect a file by content: its digest and its block map's."""
    deadline = time.monotonic() + MOST_UNPACKING_S
    end = written = 0
    for offset, data in open_ranges(file, hosts):
        end, written = offset + len(data), written + len(data)
        if time.monotonic() > deadline:
            raise ImageDamagedError(
                f"{file.label}: unpacking takes more than {MOST_UNPACKING_S / 60:.0f} minutes; it was ended after "
                f"{written} bytes. Is it an image? Pack it with zstd, which is "
                "faster, or give a host that has less to do"
            )
    mapped = block_map(file, hosts) if isinstance(file, Image) else None
    return Inspection(end if mapped is None else mapped.image_bytes, written)


def read_whole(file: File, most_bytes: int, *, unpack: bool = True) -> bytes:
    """A file that goes into a board's memory.

    Raises:
        ImageDamagedError: it has more bytes. BoardlabError: as of `open_image`.
    """
    content = bytearray()
    for chunk in open_image(file) if unpack else _as_it_lies(file):
        content += chunk
        if len(content) > most_bytes:
            raise ImageDamagedError(
                f"{file.label}: more than {most_bytes} bytes, too many for a board's memory. Is it the right file?"
            )
    return bytes(content)


def _as_it_lies(file: File) -> Iterator[bytes]:
    with open_checked(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def check_content(file: File, count: int) -> None:
    """Make sure that there is anything to write and to compare.

    `count` is the number of bytes to write.

    Raises:
        ImageDamagedError: there is nothing to write.
    """
    if not count:
        raise ImageDamagedError(
            f"{file.label}: nothing in it is to be written: it is empty, or its block map is. Build it again"
        )


def wrong_size(file: File, found: str) -> ConfigurationError:
    """Error for a file whose `size` differs from the release file's."""
    return ConfigurationError(
        f"{file.label}: it has {found} bytes unpacked, the release file says {file.size}: correct `size`"
    )


def open_ranges(file: File, hosts: Hosts | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the data to write: (byte offset, data).

    Without a block map that is the whole file.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `open_image`, and of the block map.
    """
    mapped = block_map(file, hosts) if isinstance(file, Image) else None
    chunks = open_image(file, hosts)
    if mapped is not None:
        yield from bmap.ranges(chunks, mapped, file.label)
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
    return bmap.parse(block_map_text(image, hosts), redact(image.bmap)) if image.bmap else None


def block_map_text(image: Image, hosts: Hosts | None = None) -> bytes:
    """Read an image's block map, up to `bmap.MAX_BYTES` + 1.

    A longer result means that the map is too large. Raises as `block_map`.
    """
    path, digest = Path(image.bmap), image.bmap_sha256
    if not digest:  # the ranges' checksums in it are those of the image, whose digest the release has
        try:
            with path.open("rb") as map_file:
                digest = hashlib.file_digest(map_file, "sha256").hexdigest()
        except OSError as error:
            raise ConfigurationError(
                f"{path}: the block map cannot be read: {error.strerror}; leave the key bmap out"
            ) from error
    file = File(source=image.bmap, sha256=digest)
    with open_checked(file, hosts) as stream:
        return stream.read(bmap.MAX_BYTES + 1)


def unpacked_bytes(file: File, hosts: Hosts | None = None) -> int:
    """Size of a file when unpacked; `inspect` compares all of it."""
    return inspect(file, hosts).bytes


@contextmanager
def open_checked(file: File, hosts: Hosts | None = None) -> Iterator[IO[bytes]]:
    """Compare a packed file with its digest and open it.

    The stream stands at its start.

    The same open file is compared and read, so that one which is replaced meanwhile is not mixed with it.

    Raises:
        ConfigurationError, ImageUnreachableError, ImageDamagedError: as of `open_image`.
    """
    path = fetch(file, hosts or Hosts.of_user()) if file.is_url else Path(file.source)
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
                f"{file.label}: its SHA-256 is {digest}, the release file says {file.sha256}. It was changed or not "
                "copied whole: take it again, or correct the release file if the new one is meant"
            )
        stream.seek(0)
        yield stream


def _unread(path: Path | str, error: OSError) -> LabTransientError:
    return LabTransientError(
        f"{path}: cannot be read to its end: {error.strerror or error}. Look at the disk of the lab host, or at the "
        "network that it is on; try again",
        failure="disk",
    )


def _sha256(path: Path, stream: BufferedReader) -> str:
    """Digest of an open file.

    A large unchanged file is read once in a process; the kernel's times and sizes show a change.
    """
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
    """Identity of a file's content: every write or replacement changes it.

    The time of the last change is the last value.
    """
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _unpack(stream: IO[bytes], file: File) -> Iterator[bytes]:
    kind = packing(file)
    try:
        if kind in {"zst", "xz"}:
            yield from _gather(_unpack_zst(stream) if kind == "zst" else _unpack_xz(stream))
            return
        source = _READERS[kind](stream)
        while chunk := source.read(CHUNK_BYTES):
            yield chunk
    except _BROKEN as error:  # before OSError: gzip's is one
        if "memory" in str(error).lower():  # the words of liblzma and of libzstd
            raise ImageDamagedError(
                f"{file.label}: unpacking it takes more memory than is allowed ({error}). "
                "Pack it with `xz -9`, `zstd -19`, or less"
            ) from error
        raise ImageDamagedError(
            f"{file.label}: cannot be unpacked as {kind} ({error}); the digest is right, "
            "so the build wrote it so: build it again"
        ) from error
    except OSError as error:
        raise _unread(file.label, error) from error


_READERS: Final[Mapping[str, Callable[[IO[bytes]], Any]]] = {
    "": lambda stream: stream,
    "gz": lambda stream: gzip.GzipFile(fileobj=stream),
}


def _unpack_xz(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack consecutive xz streams with zeros between them.

    `lzma.LZMAFile` has no limit of memory.
    """
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


def _unpack_zst(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack zstd frames and detect a truncated file.

    zstandard's own reader takes a truncated file for a whole one; its `decompressobj` knows the end of a frame.
    """
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


def _gather(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of the size that writers like."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)
