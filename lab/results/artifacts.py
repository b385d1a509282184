"""Files of attempts (recordings, tool output), stored once each under the hash of their contents."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import LabStableError, TestStableError
from lab.results.location import ARTIFACTS_VARIABLE
from lab.results.records import ArtifactRef

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_READ_ONLY: Final = 0o444  # contents are named by their hash, so nobody may change them


@frozen
class ArtifactStore:
    """Content-addressed files under `root`: the file of a hash ab12… is root/ab/12…."""

    root: Path

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
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise LabStableError(
                f"artifact {sha256} is not in {self.root}; if it was measured on another host, let "
                f"${ARTIFACTS_VARIABLE} name a directory that both share, or copy it from there",
                failure="artifacts",
            ) from error
        except OSError as error:
            raise LabStableError(f"cannot read artifact {path}: {error.strerror}", failure="artifacts") from error
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise LabStableError(
                f"artifact {path} is damaged: it has {len(data)} bytes with SHA-256 {found}; restore it from a copy, "
                "and check the disk",
                failure="artifacts",
            )
        return data


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
