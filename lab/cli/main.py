"""Entry point: one command, lazy groups, one-line errors, exit codes.

Exit codes: 0 done · 1 the board, the lab or the test failed · 2 a wrong option, argument, file or URL ·
130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer
from attrs import Factory, field, frozen
from typer.exceptions import TyperException

from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.terminal import drop_output, echo, tell

HELP: Final = frozenset({"-h", "--help"})
FAULT: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})  # a full or broken disk behind the output


# Messages of pydantic, which checks typer's numbers -> ours.
_LIMITS: Final = {
    r"Input should be greater than or equal to (\S+)": r"give \1 or more",
    r"Input should be greater than (\S+)": r"give more than \1",
    r"Input should be less than or equal to (\S+)": r"give \1 at most",
    r"Input should be less than (\S+)": r"give less than \1",
    r"Input should be a valid integer\b.*": "give a whole number",
    r"Input should be a (?:valid|finite) number\b.*": "give a number",
}


@frozen
class CommandGroup:
    """A word after `lab`.

    Attributes:
        help: one line, what `lab --help` says; the same as the module's own.
        panel: heading below which `lab --help` lists it; empty: the first, which most people need.
        module: holds a `typer.Typer`. Where that has one command and no callback, `lab NAME` is this command.
        app: the Typer's name in the module.
    """

    name: str
    help: str
    module: str = field(default=Factory(lambda self: f"lab.cli.{self.name}", takes_self=True))
    panel: str = ""
    app: str = "app"


BOARDS: Final = "Boards and their software"
NUMBERS: Final = "Releases compared"
HOST: Final = "A lab's host"
COMMAND_GROUPS: Final = (
    CommandGroup("init", "Write a lab's folder: an environment per board type, tests_perf, farm.yaml."),
    CommandGroup("status", "The lab on one screen: boards, their jobs, results, failures, services."),
    CommandGroup("doctor", "Find what is wrong with this lab host, and how to mend it."),
    CommandGroup("run", "Measure a board: one job at a time, resumable after any interruption."),
    CommandGroup("jobs", "Jobs that measure or wait for a board: list, show and cancel them."),
    CommandGroup("reserve", "Reserve a board, or put it in maintenance; show and end that."),
    CommandGroup("results", "Measured numbers, and the evidence behind each."),
    CommandGroup("report", "Write a run as one HTML page that needs no network."),
    CommandGroup("judge", "Numbers that moved: by how much, and what else moved with them."),
    CommandGroup("power", "Switch a board on or off, and ask for its power."),
    CommandGroup("console", "Serial consoles: server, live view, recordings and their replay."),
    CommandGroup("web", "The lab and all results in a browser."),
    CommandGroup("boards", "Board types that boardlab knows; a draft of a new one.", panel=BOARDS),
    CommandGroup("env", "labgrid environments: list them, check them.", panel=BOARDS),
    CommandGroup("health", "Boards' health: which can take runs, and why not; check one.", panel=BOARDS),
    CommandGroup("rails", "Supply rails: sample them, watch them, test their sensors.", panel=BOARDS),
    CommandGroup("provision", "Put a release on a board's media, read it back, boot it and compare.", panel=BOARDS),
    CommandGroup("release", "Releases as files: draft them, check them, list them.", panel=BOARDS),
    CommandGroup(
        "virtual",
        "Virtual boards, powered and wired like real ones: QEMU with real software, and simulated ones by the dozen.",
        panel=BOARDS,
    ),
    CommandGroup("ab", "Compare two releases on one board by pairs of boots, until it is decided.", panel=NUMBERS),
    CommandGroup("bisect", "Find the build that made a board's boot slower, by paired boots.", panel=NUMBERS),
    CommandGroup("guide", "Performance guides: read, check, compare, write.", panel=NUMBERS),
    CommandGroup("farm", "A lab host: check farm.yaml, write systemd units from it, bring a farm up.", panel=HOST),
    CommandGroup("watch", "`lab status`, live, until q or Ctrl-C.", panel=HOST),
    CommandGroup("exporter", "Results and farm for Prometheus.", panel=HOST),
    CommandGroup("backup", "Back up results, recordings, farm.yaml and environments to a folder.", panel=HOST),
    CommandGroup(
        "restore",
        "Restore a backup: results, recordings, files; or only check it.",
        module="lab.cli.backup",
        panel=HOST,
        app="restore_app",
    ),
    CommandGroup(
        "upgrade", "Before an upgrade: what it will change.", module="lab.cli.doctor", panel=HOST, app="upgrade_app"
    ),
)
# Apart from the other commands of `lab farm`, `lab farm card` starts in a sixth of the time.
FARM_CARD: Final = CommandGroup("farm", "", module="lab.cli.farm_card")


def add_groups(app: typer.Typer, groups: Sequence[CommandGroup], arguments: Sequence[str]) -> None:
    """Add all groups to `app`, and load the one to run."""
    for group in groups:
        if arguments[:1] != [group.name]:
            app.command(group.name, help=group.help, rich_help_panel=group.panel or None)(_stand_in)
            continue
        commands = _app(FARM_CARD if list(arguments[:2]) == ["farm", "card"] else group)
        if not HELP.isdisjoint(arguments):
            from lab.cli.examples import add_examples  # noqa: PLC0415 - only for this

            add_examples(commands, group.name)
        only = len(commands.registered_commands) == 1 and not commands.registered_groups
        if only and not commands.registered_callback:
            app.add_typer(commands)  # without a name: its one command becomes ours
        else:
            app.add_typer(commands, name=group.name)


def _app(group: CommandGroup) -> typer.Typer:
    """Import the commands of a group."""
    collects = gc.isenabled()
    gc.disable()  # what modules make while they load is no garbage; looking through it takes a tenth of the time
    try:
        app: typer.Typer = getattr(import_module(group.module), group.app)
    finally:
        if collects:
            gc.enable()
    return app


def words(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Arguments after `lab`, or those that a shell completes."""
    line = environ.get("_TYPER_COMPLETE_ARGS") or environ.get("COMP_WORDS")
    return line.split()[1:] if line and completes(environ) else list(arguments)


def completes(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a shell completes a line."""
    return "_LAB_COMPLETE" in environ


def _stand_in() -> None:
    """Stands for a group's commands in `lab --help`."""


def main(arguments: Sequence[str] | None = None, groups: Sequence[CommandGroup] = COMMAND_GROUPS) -> int:
    """Run `lab`; returns the exit code.

    Args:
        arguments: the words after `lab`; None: this process's.
        groups: what `lab` consists of.
    """
    own_arguments = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no "±" is no reason to fail
    try:
        code = build(words(own_arguments), groups)(args=own_arguments, prog_name="lab", standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else _command(own_arguments, groups)
        message = error.format_message().rstrip(".")
        for pydantics, ours in _LIMITS.items():
            message = re.sub(pydantics, ours, message)
        if message:  # else its help is on the screen
            tell(ConfigurationError(f"{message} (`{command} -h` shows what it takes)"))
        return USAGE
    except BoardlabError as error:
        tell(error)
        return USAGE if isinstance(error, ConfigurationError) else FAULT
    except OSError as error:  # typer itself ends well where a pipe is closed
        if error.errno not in _UNWRITABLE:
            raise
        drop_output()
        tell(LabStableError(f"cannot write: {error.strerror}; make room or write elsewhere, and begin anew"))
        return FAULT
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # how typer ends, well or after a wrong word
        return ended.code if isinstance(ended.code, int) else 0
    return code if isinstance(code, int) else 0


def _command(arguments: Sequence[str], groups: Sequence[CommandGroup]) -> str:
    """The command that the arguments name, where typer does not say it."""
    group = next((group for group in groups if arguments[:1] == [group.name]), None)
    if group is None:
        return "lab"
    commands = _app(group).registered_commands
    names = {command.name or getattr(command.callback, "__name__", "").replace("_", "-") for command in commands}
    return " ".join(["lab", group.name, *(name for name in arguments[1:2] if len(commands) > 1 and name in names)])


def build(arguments: Sequence[str], groups: Sequence[CommandGroup]) -> typer.Typer:
    """The command with the group that the arguments name loaded."""
    app = typer.Typer(
        name="lab",
        help="The performance lab for boards. Measure with: pytest --lg-env am62x.yaml.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": sorted(HELP)},
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


def _version(wanted: bool) -> None:
    """Print the version and end, if the option is there."""
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
