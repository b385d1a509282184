"""The provenance of a run: its board, host, software and images."""

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

_BLOCK: Final = 1 << 20  # bytes read at once


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
    """Collect the provenance of a run.

    Args:
        board: name of the board.
        release: release label of the software on it.
        env: file of the labgrid environment; its hash identifies it.
        images: name -> file, from the environment's `images:`; each file is hashed.
        console: device of the console; a board on a pseudo terminal counts as virtual.
        simulated: True if the console is a pseudo terminal of another host.
        confirms: number of the run that this one measures again (`lab.judge.run_judge`).
        provisioned: medium -> contents that boardlab has written to it (`lab.provision.history.run_document`).

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
    """Return the SHA-256 of a file in hexadecimal digits.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {error.strerror}; correct its path in `images:` of the env"
        ) from error
    return digest.hexdigest()
