"""The provenance of a run: board, host, software and images."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from lab.boards import BoardType
from lab.console.serial_port import is_pty
from lab.errors import ConfigurationError
from lab.host.clock import Clock

_BLOCK: Final = 1 << 20  # bytes of a file that are read at once


def collect(
    *,
    board_type: BoardType,
    board: str,
    release: str,
    env: Path,
    images: Mapping[str, Path],
    clock: Clock,
    console: str | None = None,
    simulated: bool = False,
    confirms: int | None = None,
    provisioned: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The provenance of a run.

    Args:
        env: the labgrid environment; its hash identifies it.
        images: name -> file, as the environment's `images:` has them; each is hashed.
        console: its device; a board on a pseudo terminal is not real.
        simulated: it is on another host's pseudo terminal.
        provisioned: medium -> contents written by boardlab (`lab.provision.history.run_document`).
        confirms: the run that this one confirms (`lab.judge.run_judge`).

    Raises:
        ConfigurationError: a named image cannot be read.
    """
    return {
        "board_type": board_type.name,
        "board_title": board_type.title,
        "board": board,
        "virtual": board_type.virtual or simulated or (console is not None and is_pty(Path(console))),
        "release": release,
        "host": socket.gethostname(),
        "host_kernel": platform.release(),
        "host_cpus": os.cpu_count(),
        "python": platform.python_version(),
        "boardlab": version("boardlab"),
        "labgrid": version("labgrid"),
        "clock": clock.name,
        "env": env.name,
        "env_sha256": sha256_of(env),
        "images_sha256": {name: sha256_of(path) for name, path in images.items()},
        **({} if confirms is None else {"confirms": confirms}),
        **({"provisioned": dict(provisioned)} if provisioned else {}),
    }


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content.

    Raises:
        ConfigurationError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; mend `images:` in the env") from error
    return digest.hexdigest()
