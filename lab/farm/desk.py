"""A farm on one machine, without root: its folder, its farm.yaml where there is none, and the programs that run for it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.console.client import ConsoleClient
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.farm import buildbot, config
from lab.farm.buildbot import Site
from lab.farm.config import Farm
from lab.farm.labfolder import scalar, template
from lab.farm.services import SUPERVISORD
from lab.farm.serving import VirtualBoards
from lab.farm.supervised import STOP_S, Program, ProgramState, Supervised
from lab.host import process
from lab.host.clock import utc_now
from lab.host.runtime import socket_path
from lab.jobs import listing
from lab.jobs.records import BY_WEB
from lab.results.store import open_store
from virtual import ports
from virtual.guard import LOOPBACK
from virtual.sim.order import SimOptions, board_specs

FILE: Final = Path(".lab", "farm", "farm.yaml")  # where none is named
_KEPT: Final = ("HOME", "LANG", "LOGNAME", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "USER")
_KEPT_PREFIXES: Final = ("BOARDLAB_", "LAB_", "LC_", "XDG_")
_QUEUE: Final = ("buildbot", "worker")
_POLL_S: Final = 0.1
_log = logging.getLogger(__name__)
_LAB: Final = Path(sys.executable).with_name("lab")


@frozen
class Desk:
    """A farm of one user on one machine.

    Attributes:
        file: its farm.yaml, an absolute path; what the farm keeps is in the same folder.
    """

    file: Path

    @property
    def folder(self) -> Path:
        """Of all that it keeps."""
        return self.file.parent

    @property
    def runtime(self) -> Path:
        """The console server's folder, and supervisord's."""
        return (self.folder / SUPERVISORD).parent

    @property
    def bench(self) -> Path:
        """Of the virtual boards."""
        return self.folder / "virtual"

    @property
    def buildbot(self) -> Site:
        """Of Buildbot's master and worker."""
        return Site(self.folder / "buildbot")

    def up(self, boards: VirtualBoards, *, queued: bool = False) -> tuple[Farm, bool]:
        """Bring it up; whether something was started.

        Args:
            boards: for the farm.yaml that is written where there is none. queued: with a Buildbot there.

        Raises:
            ConfigurationError: farm.yaml is wrong, or the folder is.
            LabError: a program did not start.
        """
        if not self.file.exists():
            self._write(boards, buildbot.find() if queued else None)
        farm = config.load(self.file)
        if not self.states():
            open_store(farm.database).close()
            if farm.buildbot is not None:
                buildbot.write(farm, farm.buildbot, self.buildbot, self.environ(farm), self.file)
                buildbot.prepare(farm.buildbot, self.buildbot)
        return farm, Supervised(self.runtime).up(programs(farm, self), {**_own_environ(), **self.environ(farm)})

    def environ(self, farm: Farm) -> Mapping[str, str]:
        """What a person's shell needs so that `lab` and pytest mean this farm."""
        return {"BOARDLAB_RUNTIME": str(self.runtime), **farm.environ}

    def states(self) -> list[ProgramState]:
        """What became of its programs; none: it is down."""
        return Supervised(self.runtime).states()

    def down(self) -> bool:
        """Take it down: no new runs, those on this host ended as Ctrl-C would (board off), then the programs; False: it was.

        Raises:
            LabTransientError: something does not end.
        """
        supervised = Supervised(self.runtime)
        if not supervised.states():
            return False
        supervised.stop(_QUEUE)
        try:
            _end_jobs(config.load(self.file).database)
        except BoardlabError as error:
            _log.warning("runs that go on cannot be told: %s", error)
        down = supervised.down()
        # A session has started one of its own where the farm's had just been killed.
        with contextlib.suppress(BoardlabError), ConsoleClient(socket_path(self.runtime)) as client:
            client.stop()
        return down

    def _write(self, boards: VirtualBoards, program: Path | None) -> None:
        board_specs(SimOptions(boards.types, boards.count, "", 0, boards.time_scale))  # a wrong type is named now
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = template(
            "desk.yaml",
            user=process.person(),
            directory=scalar(self.folder),
            program=scalar(_LAB),
            database=f"sqlite:///{self.folder / 'results.db'}",
            exporter=_address(),
            web=_address(),
            pdudaemon=_address(),
            boards=boards,
            bench=self.bench.name,
            buildbot=program and {"program": scalar(program), "www": _address(), "workers": _address()},
        )
        draft = self.file.with_name(f"{self.file.name}.new")
        draft.write_text(text, encoding="utf-8")
        try:
            config.load(draft)
        except ConfigurationError:
            draft.unlink()
            raise
        draft.replace(self.file)


def programs(farm: Farm, desk: Desk) -> list[Program]:
    """What runs for a farm, in the order in which it is started."""
    lab, runtime, database = str(_LAB), ("--runtime", str(desk.runtime)), ("--db", farm.database)
    found = []
    if farm.virtual is not None:
        found.append(Program("boards", (lab, *_bench(farm, farm.virtual, desk)), farm.pdudaemon.address))
    elif farm.pdudaemon.program:
        found.append(
            Program("pdudaemon", (farm.pdudaemon.program, "--conf", farm.pdudaemon.config), farm.pdudaemon.address)
        )
    found.append(Program("console", (lab, "console", "serve", *runtime)))
    found.append(
        Program("exporter", (lab, "exporter", "--farm", str(desk.file), *runtime, *database), farm.exporter.listen)
    )
    web = ("web", *farm.web.words, "--farm", str(desk.file), *runtime, *database)
    found.append(Program("web", (lab, *web), farm.web.listen))
    if farm.exports:
        words: tuple[str, ...] = (lab, "farm", "export", farm.exports, "--coordinator", farm.coordinator, *runtime)
        host = buildbot.hosts(farm)[0]
        if farm.hosts:
            words += ("--name", host, "--hostname", host)
        from lab.places.holding import with_port  # noqa: PLC0415 - gRPC takes a while to import

        found.append(Program("rails", (lab, "rails", "serve", *runtime)))
        found.append(Program("export", words, needs=with_port(farm.coordinator)))
    if farm.coordinator:
        found.append(Program("janitor", (lab, "farm", "janitor", str(desk.file))))
    if farm.buildbot is not None:
        queue = buildbot.commands(farm.buildbot, desk.buildbot, buildbot.hosts(farm)[0])
        found.append(Program("buildbot", queue["buildbot"], farm.buildbot.www))
        found.append(Program("worker", queue["worker"]))
    return found


def _own_environ() -> dict[str, str]:
    """Of the user's environment what the programs need: a shell's may have passwords that are none of their business."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}


def _end_jobs(database: str) -> None:
    with open_store(database) as store:
        active = [view.job for view in listing.jobs(store, 0, utc_now()) if view.job.state in {"queued", "running"}]
    asked = [job for job in active if job.program != BY_WEB and process.ask_to_end(job.holder)]
    deadline = time.monotonic() + STOP_S
    while any(process.has_died(job.holder) is False for job in asked):
        if time.monotonic() > deadline:
            raise LabTransientError(f"does not end: {', '.join(f'{job.called} on {job.board}' for job in asked)}")
        time.sleep(_POLL_S)


def _bench(farm: Farm, boards: VirtualBoards, desk: Desk) -> list[str]:
    words = ["virtual", "up", "sim", "--foreground", "--dir", str(desk.bench), "--switch-port", "0"]
    words += ["--pdu-port", farm.pdudaemon.address.rpartition(":")[2]]
    words += [word for board_type in boards.types for word in ("--type", board_type)]
    return [*words, "--count", str(boards.count), "--time-scale", f"{boards.time_scale:g}"]


def _address() -> str:
    return f"{LOOPBACK}:{ports.free_port()}"
