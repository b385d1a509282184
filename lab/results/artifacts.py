"""Files of attempts (recordings, tool output), stored once each under the hash of their contents."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import LabStableError, TestStableError
from lab.results import shared
from lab.results.location import ARTIFACTS_VARIABLE
from lab.results.records import ArtifactRef

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger(__name__)
_READ_ONLY: Final = 0o444  # contents are named by their hash, so nobody may change them


@frozen
class ArtifactStore:
    """Content-addressed files under `root`: the file of a hash ab12… is root/ab/12….

    Attributes:
        shared: where other hosts read them, see lab.results.shared; empty: nowhere. What is read from there is kept here, too.
    """

    root: Path
    shared: str = ""

    def put(self, data: bytes, *, kind: str) -> ArtifactRef:
        """Keep `data` and return what an attempt links to. The same contents are kept once.

        The file is complete and on the disk before it has its name, so a crash leaves no half of one.

        Raises:
            LabStableError: the directory cannot be written, or the disk is full.
        """
        ref = ArtifactRef(kind, hashlib.sha256(data).hexdigest(), len(data))
        path = self.path(ref.sha256)
        try:
            if not path.exists() or path.read_bytes() != data:  # a damaged one is mended
                if self.shared:
                    self.mark(ref.sha256)  # before: a mark without its artifact does no harm
                _write(path, data)
        except OSError as error:
            raise LabStableError(
                f"cannot keep an artifact of {len(data)} bytes in {path}: {error.strerror}; free space or mend the "
                f"directory's owner, or set ${ARTIFACTS_VARIABLE} to another place; then resume the run",
                failure="artifacts",
            ) from error
        return ref

    def path(self, sha256: str) -> Path:
        """Where the artifact lies, whether it is there or not.

        Raises:
            TestStableError: not a SHA-256 in lower-case hexadecimal.
        """
        if not _SHA256.fullmatch(sha256):
            raise TestStableError(f"an artifact is named by a SHA-256, 64 hexadecimal digits; got {sha256!r}")
        return self.root / sha256[:2] / sha256[2:]

    def read(self, sha256: str) -> bytes:
        """The artifact's bytes, verified.

        Raises:
            LabStableError: it is missing or damaged.
        """
        data = self.local(sha256)
        if data is not None:
            return data
        if not self.shared:
            raise LabStableError(
                f"artifact {sha256} is not in {self.root}; if it was measured on another host, let "
                f"${ARTIFACTS_VARIABLE} name a directory that both share, or ${shared.SHARED_VARIABLE} a store, or copy it from there",
                failure="artifacts",
            )
        data = shared.at(self.shared).get(sha256)
        if data is None:
            raise LabStableError(
                f"artifact {sha256} is neither in {self.root} nor in {self.shared}; the host that measured it may not have brought it yet: "
                "there, run `lab results upload`",
                failure="artifacts",
            )
        _verify(data, sha256, f"in {self.shared}")
        try:
            _write(self.path(sha256), data)
        except OSError as error:  # it can be read all the same
            _log.warning("artifact %s of %s is not kept here: %s", sha256, self.shared, error.strerror)
        return data

    def local(self, sha256: str) -> bytes | None:
        """The artifact's bytes as this host has them, verified; None: it has not.

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

    def kept(self) -> list[str]:
        """The SHA-256 of all that this host has."""
        return sorted(f"{path.parent.name}{path.name}" for path in self.root.glob("[0-9a-f][0-9a-f]/[0-9a-f]*"))

    @property
    def marks(self) -> Path:
        """The folder of marks: of what is to be brought to where artifacts are shared."""
        return self.root / ".to-share"

    def mark(self, sha256: str) -> None:
        """Note that an artifact is to be brought there; where that cannot be, it is said, as what was measured must be kept all the same."""
        try:
            self.marks.mkdir(parents=True, exist_ok=True)
            (self.marks / sha256).touch()
        except OSError as error:
            _log.warning(
                "%s: %s: artifact %s is brought only by `lab results upload --all`", self.marks, error.strerror, sha256
            )

    def unmark(self, sha256: str) -> None:
        """It lies there."""
        (self.marks / sha256).unlink(missing_ok=True)

    def marked(self) -> list[str]:
        """What is to be brought there."""
        found = (path.name for path in self.marks.glob("*")) if self.marks.is_dir() else ()
        return sorted(name for name in found if _SHA256.fullmatch(name))


def _verify(data: bytes, sha256: str, where: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise LabStableError(
            f"artifact {where} is damaged: it has {len(data)} bytes with SHA-256 {found}, not {sha256}; restore it from a copy, "
            "and check the disk",
            failure="artifacts",
        )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
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
        os.fsync(directory)  # the name itself
    finally:
        os.close(directory)
