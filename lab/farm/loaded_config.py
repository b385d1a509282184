"""Records of the farm.yaml that each long-running program has loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final, NoReturn

from attrs import define, field, frozen

from lab.errors import BoardlabError
from lab.farm import config
from lab.farm.config import Farm
from lab.host import process
from lab.host.runtime import prepare
from lab.host.status_files import read_all, write

LOADED: Final = "loaded"  # folder of the records, in the runtime folder


@frozen
class LoadRecord:
    """Record of a running program's farm.yaml.

    Attributes:
        file: the farm.yaml, an absolute path.
        digest: of what it said.
        holder: the process.
        version: of its boardlab.
    """

    program: str
    file: str
    digest: str
    holder: str
    version: str


@define
class LoadedFile:
    """A program's loaded farm.yaml."""

    file: Path
    digest: str
    _seen: tuple[int, ...] = field(default=(), init=False)

    def is_older(self) -> bool:
        """Return whether the file differs from what was loaded.

        Raises:
            ConfigurationError: it cannot be read, or is wrong; this program goes on with what it has.
        """
        with suppress(OSError):
            status = self.file.stat()
            state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            if state == self._seen:
                return False
            differs = digest(config.load(self.file)) != self.digest
            self._seen = () if differs else state
            return differs
        return digest(config.load(self.file)) != self.digest


def digest(farm: Farm) -> str:
    """SHA-256 of a farm.yaml's values, in hexadecimal digits."""
    return sha256(repr(farm).encode()).hexdigest()


def record_loaded(program: str, file: Path, farm: Farm, runtime: Path) -> LoadedFile:
    """Record this program's farm.yaml in the runtime folder.

    Nothing is recorded in another user's folder.

    Args:
        program: "exporter" or "janitor": they load it once; the others read it whenever they need it.
    """
    note = LoadRecord(program, str(file.absolute()), digest(farm), process.identity(), version("boardlab"))
    with suppress(BoardlabError):
        write(prepare(runtime) / LOADED, program, note)
    return LoadedFile(file.absolute(), note.digest)


def notes(runtime: Path) -> Iterator[LoadRecord]:
    """Records of the running programs, if this user may read them."""
    with suppress(OSError):
        records = sorted(read_all(runtime / LOADED, LoadRecord), key=lambda note: note.program)
        yield from (note for note in records if process.has_died(note.holder) is not True)


def restart_process() -> NoReturn:
    """Replace this process by the same command, with the same process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own program
