"""Groups of commands after `lab` and their modules, loaded on demand."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import typer
from attrs import Factory, field, frozen


@frozen
class CommandGroup:
    """A word after `lab`.

    Attributes:
        help: one line, what `lab --help` says; the same as the module's own.
        module: holds a `typer.Typer` called `app`. Where that has one command and no callback, `lab NAME` is
            this command.
    """

    name: str
    help: str
    module: str = field(default=Factory(lambda self: f"lab.cli.{self.name}", takes_self=True))


COMMAND_GROUPS: Final = (
    CommandGroup("init", "Write a lab's folder: an environment per board type, tests_perf, farm.yaml."),
    CommandGroup("status", "The lab on one screen: boards, their jobs, results, failures, services."),
    CommandGroup("watch", "The same, live, until q or Ctrl-C."),
    CommandGroup("web", "The same and all results in a browser."),
    CommandGroup("health", "Boards' health: which can take runs, and why not; check one."),
    CommandGroup("doctor", "Find what is wrong with this lab host, and how to mend it."),
    CommandGroup("boards", "Board types that boardlab knows."),
    CommandGroup("env", "labgrid environments: list them, check them."),
    CommandGroup("console", "Serial consoles: server, live view, recordings and their replay."),
    CommandGroup("power", "Switch a board on or off, and ask for its power."),
    CommandGroup("rails", "Supply rails: sample them, watch them, test their sensors."),
    CommandGroup("results", "Measured numbers, and the evidence behind each."),
    CommandGroup("judge", "Numbers that moved: by how much, and what else moved with them."),
    CommandGroup("guide", "Performance guides: read, check, compare, write."),
    CommandGroup("report", "Write a run as one HTML page that needs no network."),
    CommandGroup("release", "Releases as files: draft them, check them, list them."),
    CommandGroup("provision", "Put a release on a board's media, read it back, boot it and compare."),
    CommandGroup("run", "Measure a board: one job at a time, resumable after any interruption."),
    CommandGroup("jobs", "Jobs that measure or wait for a board: list, show and cancel them."),
    CommandGroup("reserve", "Reserve a board, or put it in maintenance; show and end that."),
    CommandGroup("farm", "A lab host: check farm.yaml, write systemd units from it, bring a farm up."),
    CommandGroup("exporter", "Results and farm for Prometheus."),
    CommandGroup(
        "virtual",
        "Virtual boards, powered and wired like real ones: QEMU with real software, and simulated ones by the dozen.",
    ),
)


def add_groups(app: typer.Typer, groups: Sequence[CommandGroup], arguments: Sequence[str]) -> None:
    """Add all groups to `app`, and load the one to run."""
    for group in groups:
        if arguments[:1] != [group.name]:
            app.command(group.name, help=group.help)(_named_only)
            continue
        commands = _app(group)
        only = len(commands.registered_commands) == 1 and not commands.registered_groups
        if only and not commands.registered_callback:
            app.add_typer(commands)  # without a name: its one command becomes ours
        else:
            app.add_typer(commands, name=group.name)


def _app(group: CommandGroup) -> typer.Typer:
    collects = gc.isenabled()
    gc.disable()  # what modules make while they load is no garbage; looking through it takes a tenth of the time
    try:
        app: typer.Typer = import_module(group.module).app
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


def _named_only() -> None:
    """Stands for a group's commands in `lab --help`."""
