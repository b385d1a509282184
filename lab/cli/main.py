"""Entry point: one command, lazy groups, one-line errors, exit codes.

Exit codes: 0 done · 1 the board, the lab or the test failed · 2 a wrong option, argument, file or URL ·
130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from lab.cli.groups import COMMAND_GROUPS, CommandGroup, add_groups, completes, words
from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.shown import echo, tell

FAULT: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})  # a full or broken disk behind the output


def main(arguments: Sequence[str] | None = None, groups: Sequence[CommandGroup] = COMMAND_GROUPS) -> int:
    """Run `lab`; returns the exit code.

    Args:
        arguments: the words after `lab`; None: this process's.
        groups: what `lab` consists of.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no "±" is no reason to fail
    try:
        build(words(given), groups)(args=given, prog_name="lab")
    except BoardlabError as error:
        tell(error)
        return USAGE if isinstance(error, ConfigurationError) else FAULT
    except OSError as error:  # typer itself ends well where a pipe is closed
        if error.errno not in _UNWRITABLE:
            raise
        _give_up_output()
        tell(LabStableError(f"cannot write: {error.strerror}; make room or write elsewhere, and begin anew"))
        return FAULT
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # how typer ends, well or after a wrong word
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def build(arguments: Sequence[str], groups: Sequence[CommandGroup]) -> typer.Typer:
    """The command with the group that the arguments name loaded."""
    app = typer.Typer(
        name="lab",
        help="The performance lab for boards. Measure with: pytest --lg-env am62x.yaml.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    add_groups(app, groups, arguments)
    if completes():
        from lab.cli import completion  # noqa: PLC0415 - only for this

        completion.attach(app)
    return app


def _open_closed_streams() -> None:
    """Open closed standard streams (`<&-`, `>&-`) on /dev/null.

    Else the next opened file takes their number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _give_up_output() -> None:
    """Discard Python's unwritten output.

    It would fail once more at the process's end.
    """
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - slow, and only for this

        echo(f"boardlab {version('boardlab')}")
        raise typer.Exit


def _options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options before a group's name."""
