"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.errors import ConfigurationError

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
BoardEnv = Annotated[
    str,
    typer.Option(
        "--env",
        metavar="NAME",
        envvar="LAB_ENV",
        help="The board's environment, as of pytest --lg-env; a bare name is looked up in envs/.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="S",
        help="Wait so many seconds at most for a board that a job holds; for results that do not answer 5 minutes at most.",
    ),
]
BootMedium = Annotated[str, typer.Option(metavar="NAME", help="It boots from this (default: the env's).")]
Effect = Annotated[
    float, typer.Option(min=0.05, max=50.0, metavar="PERCENT", help="Smallest difference that matters.")
]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as `lab results list` numbers it, or latest.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The results: a path, sqlite:///PATH or postgresql://… (default: $LAB_DB, else ~/.local/share/boardlab).",
    ),
]
HostDatabase = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="The results (default: $LAB_DB, farm.yaml's, else ~/.local/share/boardlab)."
    ),
]
FarmFile = Annotated[
    Path | None,
    typer.Option(
        "--farm", metavar="FILE", help="The host's farm.yaml (default: $LAB_FARM, here, or in /etc/boardlab)."
    ),
]
ServerRuntime = Annotated[
    Path | None,
    typer.Option(
        "--runtime",
        metavar="DIR",
        help="The server's folder (default: $BOARDLAB_RUNTIME, $XDG_RUNTIME_DIR/boardlab, /tmp/boardlab-UID).",
    ),
]
Runtime = Annotated[
    Path | None,
    typer.Option("--runtime", metavar="DIR", help="The console server's folder (default: as `lab console`)."),
]
WebConfigFile = Annotated[
    Path | None,
    typer.Option("--web-config", metavar="FILE", help="TLS and users, as Prometheus' exporter toolkit has it."),
]
OutputFolder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the files.")]
BenchFolder = Annotated[
    Path | None, typer.Option("--dir", help="The bench's folder (default: $BOARDLAB_VIRTUAL, .lab/virtual).")
]


def made(folder: Path) -> Path:
    """Create an output folder if it is missing.

    Raises:
        ConfigurationError: it cannot be, e.g. since a file has its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{folder}: cannot be made: {error.strerror}; name another folder") from error
    return folder
