"""The store of attempts' files (recordings, output of tools), which are named by the hash of their contents."""

from __future__ import annotations

import fcntl
import hashlib
import io
import logging
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab.errors import BoardlabError, ConfigurationError, LabStableError, TestStableError
from lab.results import location
from lab.results.location import ARTIFACTS_VARIABLE
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG, ArtifactRef, Attempt

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
PACK_BYTES: Final = 32 << 20  # largest sum of a pack's artifacts, which are in memory at once
# Errors that zipfile raises for a damaged file: RuntimeError if the bit "encrypted" is flipped, and errors of struct,
# of text and of its parsers.
_DAMAGED: Final = (
    OSError,
    EOFError,
    LookupError,
    RuntimeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_log = logging.getLogger(__name__)
_READ_ONLY: Final = 0o440  # contents are named by their hash, so they must not change


@frozen
class ArtifactStore:
    """Files named by the hash of their contents; the file of the SHA-256 ab12… is root/ab/12….

    Attributes:
        root: folder of the files.
        shared: URL of the store that is shared with other hosts (`lab.results.location`); empty: there is none. A file
            that is read from it is kept in `root`, too.
        pack_of: returns for an artifact's SHA-256 that of the pack that contains it; None: it is in no pack. A pack is
            itself an artifact.
    """

    root: Path
    shared: str = ""
    pack_of: Callable[[str], str | None] = field(default=lambda _sha256: None, repr=False, eq=False)

    def put(self, data: bytes, *, kind: str) -> ArtifactRef:
        """Store a file of an attempt, as `add` does.

        Args:
            kind: role of the file in the attempt, e.g. "console-log".

        Raises:
            LabStableError: the directory cannot be written, or the disk is full.
        """
        try:
            return self.add(data, kind)
        except OSError as error:
            raise LabStableError(
                f"cannot store an artifact of {len(data)} bytes in {error.filename or self.root}: {error.strerror}; "
                f"free space or correct the directory's owner, or set ${ARTIFACTS_VARIABLE} to another place; then "
                "resume the run",
                failure="artifacts",
            ) from error

    def add(self, data: bytes, kind: str = "") -> ArtifactRef:
        """Store contents, unless they are stored already, and return the reference to them.

        The file gets its name only when it is complete on the disk, so a crash leaves no partial file.

        Raises:
            OSError: the directory cannot be written, or the disk is full.
        """
        ref = ArtifactRef(kind, hashlib.sha256(data).hexdigest(), len(data))
        path = self.path(ref.sha256)
        if not _touch_if_same(path, data):  # a damaged file is replaced
            location.private_folder(self.root)
            if self.shared:
                self.mark(ref.sha256)  # before it is written: a mark without its artifact does no harm
            _write(path, data)
        return ref

    def path(self, sha256: str) -> Path:
        """Return the path of an artifact's own file, whether it exists or not.

        Raises:
            TestStableError: it is not a SHA-256 in lower-case hexadecimal digits.
        """
        if not _SHA256.fullmatch(sha256):
            raise TestStableError(f"an artifact is named by a SHA-256, 64 hexadecimal digits; got {sha256!r}")
        return self.root / sha256[:2] / sha256[2:]

    def read(self, sha256: str) -> bytes:
        """Return the verified bytes of an artifact: from its file, its pack or the shared store.

        Raises:
            LabStableError: it is missing or damaged.
        """
        data = self.local(sha256)
        if data is not None:
            return data
        if (pack := self.pack_of(sha256)) is not None:
            return self._unpack(sha256, pack)
        if not self.shared:
            raise LabStableError(
                f"artifact {sha256} is not in {self.root}; if it was measured on another host, let "
                f"${ARTIFACTS_VARIABLE} name a directory that both share, or "
                f"${location.SHARED_VARIABLE} a store, or copy it from there",
                failure="artifacts",
            )
        data = location.at(self.shared).get(sha256)
        if data is None:
            raise LabStableError(
                f"artifact {sha256} is neither in {self.root} nor in {self.shared}; the host that measured it may not "
                "have uploaded it yet: run `lab results upload` there",
                failure="artifacts",
            )
        _verify(data, sha256, f"in {self.shared}")
        try:
            _write(self.path(sha256), data)
        except OSError as error:  # a copy here only saves the next download
            _log.warning("artifact %s of %s is not kept here: %s", sha256, self.shared, error.strerror)
        return data

    def _unpack(self, sha256: str, pack: str) -> bytes:
        """Return the verified bytes of an artifact from its pack.

        Raises:
            LabStableError: the pack is missing or damaged.
        """
        path = self.path(pack)
        source = path if path.exists() else io.BytesIO(self.read(pack))
        try:
            with zipfile.ZipFile(source) as file, file.open(sha256) as member:
                if file.getinfo(sha256).compress_type != zipfile.ZIP_DEFLATED:
                    raise zipfile.BadZipFile("another compression than boardlab's")  # its reader may have no limit
                data = member.read(PACK_BYTES + 1)
            if len(data) > PACK_BYTES:
                raise zipfile.BadZipFile(f"it inflates to more than {PACK_BYTES} bytes")
        except _DAMAGED as error:
            raise LabStableError(
                f"artifact {sha256} cannot be read from its pack {path}: {error}; "
                "restore that from a copy, and check the disk",
                failure="artifacts",
            ) from error
        _verify(data, sha256, f"in its pack {path}")
        return data

    def where(self, sha256: str) -> str:
        """Return the place of an artifact as text: its path, or its pack's path and its name in the pack."""
        path = self.path(sha256)
        pack = None if path.exists() else self.pack_of(sha256)
        return str(path) if pack is None else f"{self.path(pack)} (zip): {sha256}"

    def local(self, sha256: str) -> bytes | None:
        """Return the verified bytes of an artifact's own file; None: this host has no such file.

        Raises:
            LabStableError: it is damaged, or cannot be read.
        """
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LabStableError(f"cannot read artifact {path}: {error.strerror}", failure="artifacts") from error
        _verify(data, sha256, str(path))
        return data

    def hashes(self) -> list[str]:
        """Return the SHA-256 of all artifacts on this host."""
        return sorted(f"{path.parent.name}{path.name}" for path in self.root.glob("[0-9a-f][0-9a-f]/[0-9a-f]*"))

    @property
    def marks(self) -> Path:
        """Folder with an empty file for each artifact that is to be uploaded to the shared store."""
        return self.root / ".to-share"

    def mark(self, sha256: str) -> None:
        """Mark an artifact for upload.

        A failure is only logged: it must not keep the measurement from being stored.
        """
        try:
            location.private_folder(self.marks)
            (self.marks / sha256).touch()
        except OSError as error:
            _log.warning(
                "%s: %s: artifact %s is uploaded only by `lab results upload --all`",
                self.marks,
                error.strerror,
                sha256,
            )

    def unmark(self, sha256: str) -> None:
        """Remove the mark of an uploaded artifact."""
        (self.marks / sha256).unlink(missing_ok=True)

    def list_marked(self) -> list[str]:
        """Return the SHA-256 of the artifacts to upload."""
        marks = (path.name for path in self.marks.glob("*")) if self.marks.is_dir() else ()
        return sorted(name for name in marks if _SHA256.fullmatch(name))


def _touch_if_same(path: Path, data: bytes) -> bool:
    """Return whether a file has these contents, and set its time if so.

    The time keeps `lab.results.removal` from removing a file whose attempt is not committed yet.
    """
    try:
        if path.read_bytes() != data:
            return False
        with suppress(PermissionError):  # the file of another user of the group
            os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _verify(data: bytes, sha256: str, where: str) -> None:
    """Require that contents have their SHA-256.

    Raises:
        LabStableError: they are damaged.
    """
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise LabStableError(
            f"artifact {where} is damaged: it has {len(data)} bytes with SHA-256 {digest}, not {sha256}; restore it "
            "from a copy, and check the disk",
            failure="artifacts",
        )


def _write(path: Path, data: bytes) -> None:
    """Write a file that is complete on the disk before it has its name."""
    location.private_folder(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _READ_ONLY)
            os.fsync(file.fileno())
            temporary.rename(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)  # else a crash may lose the name
    finally:
        os.close(directory)


def make_pack(contents: Mapping[str, bytes]) -> bytes:
    """Return a pack, i.e. a zip file of artifacts; the same contents give the same bytes.

    Args:
        contents: SHA-256 -> bytes.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for sha256 in sorted(contents):
            file.writestr(zipfile.ZipInfo(sha256), contents[sha256], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@frozen
class UploadResult:
    """The result of an upload.

    Attributes:
        count: number of uploaded artifacts.
        bytes: their size.
        busy: True if another process was uploading, so that nothing was done.
    """

    count: int
    bytes: int
    busy: bool = False


def upload(
    artifacts: ArtifactStore, *, everything: bool = False, say: Callable[[str], None] = lambda _: None
) -> UploadResult:
    """Upload the marked artifacts, and those that are marked meanwhile, to the shared store.

    A packed artifact is not uploaded itself, but its pack. A mark is removed when its artifact is in the shared store,
    so a failed upload is repeated the next time. Artifacts are never removed here.

    Args:
        everything: True: also upload artifacts without a mark that the shared store lacks, e.g. older ones.
        say: takes a line about an artifact that cannot be read.

    Raises:
        ConfigurationError: artifacts are not shared here.
        LabStableError: the shared store does not answer, or refuses; the other artifacts stay marked.
    """
    if not artifacts.shared:
        raise ConfigurationError(
            f"artifacts are not shared: set ${location.SHARED_VARIABLE} to {location.FORMS} (docs/results.md)"
        )
    shared = location.at(artifacts.shared)
    count = size = 0
    with _upload_lock(artifacts) as is_ours:
        if not is_ours:
            return UploadResult(0, 0, busy=True)
        if everything:
            shared_names = shared.names()
            for sha256 in artifacts.hashes():
                if sha256 not in shared_names:
                    artifacts.mark(sha256)
        tried: set[str] = set()
        while names := [name for name in artifacts.list_marked() if name not in tried]:
            for sha256 in names:
                tried.add(sha256)
                if artifacts.pack_of(sha256) is not None:  # its pack is uploaded in its place
                    continue
                try:
                    data = artifacts.local(sha256)
                except BoardlabError as error:  # a damaged artifact is not uploaded, and must not stop the others
                    say(str(error))
                    continue
                if data is None:  # another program has marked it, and is still writing it
                    continue
                shared.put(sha256, data)
                count, size = count + 1, size + len(data)
                artifacts.unmark(sha256)
    return UploadResult(count, size)


@contextmanager
def _upload_lock(artifacts: ArtifactStore) -> Iterator[bool]:
    """Lock the uploads of this host; yield whether this process has the lock."""
    try:
        location.private_folder(artifacts.marks)
        fd = os.open(artifacts.marks / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LabStableError(
            f"{artifacts.marks}: {error.strerror}: run `lab results upload` as the user whose folder it is",
            failure="artifacts",
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._+@]+")  # e.g. the slashes of `init`, which may be /bin/sh
SUFFIXES: Final = {CONSOLE_LOG: ".log", CONSOLE_INDEX: ".idx"}


def write_recordings(attempts: Sequence[Attempt], artifacts: ArtifactStore, folder: Path) -> list[Path]:
    """Write the recordings of attempts into a folder, each as a log and its index.

    Returns:
        The paths of the logs.

    Raises:
        ConfigurationError: none of the attempts has a recording.
        LabStableError: an artifact is missing or damaged, or the folder cannot be written.
    """
    logs = []
    for attempt in attempts:
        params = (_NOT_IN_A_NAME.sub("_", value) for value in attempt.params.values())
        base = folder / "-".join(
            [f"run{attempt.run_id}", *params, f"cycle{attempt.cycle}", f"attempt{attempt.number}"]
        )
        for kind, suffix in SUFFIXES.items():
            ref, path = attempt.artifact(kind), base.with_name(base.name + suffix)
            if ref is None:
                break
            data = artifacts.read(ref.sha256)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            except OSError as error:
                raise LabStableError(
                    f"cannot write {path}: {error.strerror}; choose another folder with -o"
                ) from error
        else:  # the attempt has both files
            logs.append(base.with_name(base.name + SUFFIXES[CONSOLE_LOG]))
    if not logs:
        raise ConfigurationError(
            "no such attempt has a recording; `lab results show ID` lists cycles and failed attempts"
        )
    return logs
