"""Options that several commands share."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab.errors import ConfigurationError, LabStableError

if TYPE_CHECKING:  # the results take a while to import
    from lab.results import Store

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})


def write_output(path: Path, text: str, option: str) -> None:
    """Write a file that an option names.

    Raises:
        ConfigurationError: the file cannot be there.
        LabStableError: the disk is full or broken.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        kind = LabStableError if error.errno in _DISK else ConfigurationError
        raise kind(f"cannot write {path}: {error.strerror}; choose another file with {option}") from error


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
        help=(
            "Wait so many seconds at most for a board that a job holds; for results that do not answer 5 minutes at "
            "most."
        ),
    ),
]
BootMedium = Annotated[str, typer.Option(metavar="NAME", help="It boots from this (default: the env's).")]
Effect = Annotated[
    float, typer.Option(min=0.05, max=50.0, metavar="PERCENT", help="Smallest difference that matters.")
]
LATEST: Final = "latest"
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


def run_number(store: Store, run: str) -> int:
    """The run that a person names by its number or as "latest".

    Raises:
        ConfigurationError: it is neither, or there are no runs.
    """
    from lab.results.records import LAST_ID  # noqa: PLC0415 - with all results, which few commands need

    if run == LATEST:
        runs = store.runs(1)
        if not runs:
            raise ConfigurationError(f"no runs yet in {store.url}; measure something first")
        return runs[0].id
    if not re.fullmatch(r"[0-9]{1,10}", run) or not 1 <= int(run) <= LAST_ID:
        raise ConfigurationError(f"no run {run!r}; give its number, as `lab results list` has it, or {LATEST}")
    return int(run)


def make_folder(folder: Path) -> Path:
    """Create an output folder if it is missing.

    Raises:
        ConfigurationError: it cannot be, e.g. since a file has its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{folder}: cannot be made: {error.strerror}; name another folder") from error
    return folder
