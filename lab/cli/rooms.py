"""Which room of the house has which commands. Rooms are named, not imported: only the one asked for is loaded."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import typer
from attrs import frozen


@frozen
class Room:
    """A word after `lab`.

    Attributes:
        module: holds a `typer.Typer` called `app`. Where that has one command, `lab NAME` is this command.
        help: one line, what `lab --help` says; the same as the room's own.
        more: further commands of this word from other modules, each of which is loaded only when its command is asked for.
    """

    name: str
    module: str
    help: str
    more: tuple[Room, ...] = ()


ROOMS: Final = (
    Room("init", "lab.farm.init", "Write a lab's folder: an environment per board type, tests_perf, farm.yaml."),
    Room("boards", "lab.boards.commands", "The board types that boardlab knows."),
    Room("env", "lab.drivers.commands", "labgrid environments: which there are, and what is wrong with them."),
    Room(
        "console",
        "lab.console.commands",
        "Serial consoles: server, live view, recordings and their replay.",
        more=(
            Room("attach", "lab.console.livecommands", "Open a terminal on a port, through the server."),
            Room("tail", "lab.console.livecommands", "Print what comes from a port, until Ctrl-C."),
            Room("wait", "lab.console.livecommands", "Wait until somebody can type at a port."),
            Room("replay", "lab.console.recordingcommands", "Find the moments of a recorded boot."),
            Room("show", "lab.console.recordingcommands", "Print a recording, each line with its time."),
            Room(
                "check", "lab.run.check.commands", "Which moments and evidence does a board type find in a bare log?"
            ),
            Room("torture", "lab.run.torture.commands", "Does any mutation of a good boot give a wrong number?"),
        ),
    ),
    Room("power", "lab.drivers.powercommands", "Switch a board on or off, and ask whether it has power."),
    Room("rails", "lab.drivers.railscommands", "Supply rails: sample them, watch them, test their sensors."),
    Room("results", "lab.results.commands", "What was measured, and the evidence behind each number."),
    Room("guide", "lab.guide.commands", "Performance guides: read, check, compare, write."),
    Room("report", "lab.report.commands", "Write a run as one HTML page that needs no network."),
    Room("run", "lab.farm.run", "Measure a board: one job at a time, resumable after any interruption."),
    Room("farm", "lab.farm.commands", "A lab host: farm.yaml, checked, and made into systemd units."),
    Room("exporter", "lab.farm.exporter", "Results and farm for Prometheus."),
    Room(
        "virtual",
        "virtual.commands",
        "Virtual boards, powered and wired like real ones: QEMU with real software, and simulated ones by the dozen.",
    ),
)


def add_rooms(app: typer.Typer, rooms: Sequence[Room], arguments: Sequence[str]) -> None:
    """Give `app` all rooms; the one that the arguments begin with is loaded, the others are only named."""
    for room in rooms:
        if arguments[:1] != [room.name]:
            app.command(room.name, help=room.help)(_named_only)
            continue
        commands = _loaded(room, arguments[1:2])
        if len(commands.registered_commands) == 1 and not commands.registered_groups:
            app.add_typer(commands)  # without a name: its one command becomes ours
        else:
            app.add_typer(commands, name=room.name)


def _loaded(room: Room, asked: Sequence[str]) -> typer.Typer:
    """A room's commands. Where one of `more` is asked for, only its module; else the room's own, and the others by name."""
    if not room.more:
        return _app(room)
    joined = typer.Typer(help=room.help, no_args_is_help=True)
    found = next((each for each in room.more if asked == [each.name]), room)
    joined.add_typer(_app(found))  # without a name: its commands become ours
    for each in room.more if found is room else ():
        joined.command(each.name, help=each.help)(_named_only)
    return joined


def _app(room: Room) -> typer.Typer:
    collects = gc.isenabled()
    gc.disable()  # what modules make while they load is no garbage; looking through it takes a tenth of the time
    try:
        app: typer.Typer = import_module(room.module).app
    finally:
        if collects:
            gc.enable()
    return app


def words(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """The words after `lab`: the arguments, or what a shell wants to have completed."""
    line = environ.get("_TYPER_COMPLETE_ARGS") or environ.get("COMP_WORDS")
    return line.split()[1:] if line and "_LAB_COMPLETE" in environ else list(arguments)


def _named_only() -> None:
    """Stands for a room's commands in `lab --help`."""
