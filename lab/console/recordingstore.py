"""Where the server keeps the live recordings: continue one, begin another, throw the oldest away.

`NAME` is the recording being written; `older/NAME/<time it began>` are the ones before it. What belongs to a
measurement is not kept here: whoever measures stores the window of its attempt as an artifact (`encode`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from attrs import evolve, frozen

from lab.console.index import RecordingMeta
from lab.console.recording import INDEX_SUFFIX, paths
from lab.console.writer import RecordingWriter
from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import utc_now

LIMIT_BYTES = 32 << 20  # three quarters of an hour of a console that never pauses, at 115200 Bd
KEPT = 3  # older recordings of each port


@frozen
class RecordingStore:
    """The live recordings of one server.

    Attributes:
        limit_bytes: a log that reaches this size is put archived and another one begun.
    """

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    def open(self, meta: RecordingMeta) -> RecordingWriter:
        """The recording of a port: continued if it is of this boot of the host and of the same port, else a new one.

        Raises:
            LabStableError: it cannot be written.
        """
        base = self.folder / meta.name
        try:
            writer = RecordingWriter.resume(base)
        except ConfigurationError:  # none yet, or not a recording
            if any(path.exists() for path in paths(base)):
                self._move(base, self._archived(meta.name, f"damaged-{meta.started}"))
            return RecordingWriter.create(base, meta)
        old = writer.meta
        same = evolve(old, started=meta.started, start=meta.start) == meta
        if same and writer.size_bytes < self.limit_bytes:
            return writer
        position = writer.position if old.boot_id == meta.boot_id else meta.start
        writer.close()
        self._move(base, self._archived(meta.name, old.started))
        return RecordingWriter.create(base, evolve(meta, start=position))

    def rotate(self, writer: RecordingWriter) -> RecordingWriter:
        """The recording to go on with: the same, or a new one when it has reached the limit and there is room."""
        if writer.size_bytes < self.limit_bytes or writer.broken:
            return writer
        try:
            return self.change(writer, writer.meta)
        except LabStableError:
            return writer

    def change(self, writer: RecordingWriter, meta: RecordingMeta) -> RecordingWriter:
        """Put a recording archived and go on with a new one, which says `meta` of the port.

        Raises:
            LabStableError: it cannot be created; the old one can be gone on with.
        """
        archived = self._archived(writer.meta.name, writer.meta.started)
        self._move(writer.base, archived)
        try:
            fresh = RecordingWriter.create(
                writer.base, evolve(meta, start=writer.position, started=utc_now().isoformat())
            )
        except LabStableError:
            self._move(archived, writer.base)
            raise
        writer.close()
        return fresh

    def _archived(self, name: str, label: str) -> Path:
        folder = self.folder / "older" / name
        folder.mkdir(parents=True, exist_ok=True)
        older = sorted(folder.glob(f"*{INDEX_SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name))
        for index in older[: -(KEPT - 1)]:
            for path in paths(index.with_suffix("")):
                path.unlink(missing_ok=True)
        return folder / label.replace(":", "")

    @staticmethod
    def _move(base: Path, target: Path) -> None:
        for source, destination in zip(paths(base), paths(target), strict=True):
            with contextlib.suppress(FileNotFoundError):
                source.replace(destination)
