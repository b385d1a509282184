"""Giving recordings back as the two files that `lab console replay` takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lab.errors import ConfigurationError, LabStableError
from lab.results.artifacts import ArtifactStore
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG, Attempt

_UNSAFE = re.compile(r"[^A-Za-z0-9._+@]+")  # a value is no path, whoever wrote it into the store: `init` is /bin/sh
SUFFIXES = {CONSOLE_LOG: ".log", CONSOLE_INDEX: ".idx"}


def write_recordings(attempts: Sequence[Attempt], artifacts: ArtifactStore, folder: Path) -> list[Path]:
    """Write the recording of each attempt into `folder`; returns the logs, beside each of which is its index.

    Raises:
        ConfigurationError: none of the attempts has a recording.
        LabStableError: an artifact is missing or damaged, or the folder cannot be written.
    """
    written = []
    for attempt in attempts:
        params = (_UNSAFE.sub("_", value) for value in attempt.params.values())
        base = folder / "-".join(
            [f"run{attempt.run_id}", *params, f"cycle{attempt.cycle}", f"attempt{attempt.number}"]
        )
        contents = {kind: attempt.artifact(kind) for kind in SUFFIXES}
        for kind, ref in contents.items():
            if ref is None:
                break
            _write(base.with_name(base.name + SUFFIXES[kind]), artifacts.read(ref.sha256))
        else:
            written.append(base.with_name(base.name + SUFFIXES[CONSOLE_LOG]))
    if not written:
        raise ConfigurationError(
            "no such attempt has a recording; `lab results show ID` lists cycles and failed attempts"
        )
    return written


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise LabStableError(f"cannot write {path}: {error.strerror}; choose another folder with -o") from error
