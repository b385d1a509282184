"""A farm on one machine without root, kept alive by supervisord."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xmlrpc.client import Error as XmlRpcError

from attrs import frozen
from supervisor.childutils import getRPCInterface

from lab.console.client import ConsoleClient
from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.farm import buildbot, config
from lab.farm.buildbot import BuildbotSite
from lab.farm.config import Farm, VirtualBoards
from lab.farm.labfolder import scalar, template
from lab.farm.services import FARM_VARIABLE, RUNTIME_VARIABLE, SUPERVISORD
from lab.host import process, runtime
from lab.host.clock import utc_now
from lab.host.runtime import socket_path
from lab.jobs import listing
from lab.jobs.records import BY_WEB
from lab.places.records import with_port
from lab.results.store import open_store
from lab.virtual import ports
from lab.virtual.ports import LOOPBACK
from lab.virtual.sim.kind import SimOptions, board_specs
from lab.virtual.state import STATE

FILE: Final = Path(".lab", "farm", "farm.yaml")  # where none is named
_VARIABLES: Final = ("HOME", "LANG", "LOGNAME", "PATH", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "TMPDIR", "TZ", "USER")
_VARIABLE_PREFIXES: Final = ("BOARDLAB_", "LAB_", "LC_", "XDG_")
_QUEUE: Final = ("buildbot", "worker")
_POLL_S: Final = 0.1
_log = logging.getLogger(__name__)
_LAB: Final = Path(sys.executable).with_name("lab")


@frozen
class LocalFarm:
    """A farm of one user on one machine.

    Attributes:
        file: its farm.yaml, an absolute path; the farm's data is in the same folder.
    """

    file: Path

    @property
    def folder(self) -> Path:
        """Folder of the farm's data."""
        return self.file.parent

    @property
    def runtime(self) -> Path:
        """Folder of the console server and of supervisord."""
        return (self.folder / SUPERVISORD).parent

    @property
    def bench(self) -> Path:
        """Folder of the virtual boards."""
        return self.folder / "virtual"

    @property
    def buildbot(self) -> BuildbotSite:
        """Folders of Buildbot's master and worker."""
        return BuildbotSite(self.folder / "buildbot")

    def up(self, boards: VirtualBoards, *, queued: bool = False) -> tuple[Farm, bool]:
        """Start the farm; return whether something was started.

        Args:
            boards: for the farm.yaml that is written where there is none.
            queued: with a Buildbot there.

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
                buildbot.write(farm, farm.buildbot, self.buildbot, self.environ(farm))
                buildbot.prepare(farm.buildbot, self.buildbot)
        return farm, Supervisor(self.runtime).up(
            programs(farm, self),
            {
                **{
                    name: value
                    for name, value in os.environ.items()
                    if name in _VARIABLES or name.startswith(_VARIABLE_PREFIXES)
                },
                **self.environ(farm),
            },
        )

    def environ(self, farm: Farm) -> Mapping[str, str]:
        """Environment variables that point `lab` and pytest to this farm."""
        return {RUNTIME_VARIABLE: str(self.runtime), FARM_VARIABLE: str(self.file), **farm.environ}

    def states(self) -> list[ProgramState]:
        """States of its programs; none: it is down."""
        return Supervisor(self.runtime).states()

    def down(self) -> bool:
        """Stop the farm; False: it was down.

        No new run starts, runs on this host end as by Ctrl-C (board off), then the programs end.

        Raises:
            LabTransientError: something does not end.
        """
        supervised = Supervisor(self.runtime)
        if not supervised.states():
            return False
        supervised.stop(_QUEUE)
        try:
            _end_jobs(config.load(self.file).database)
        except BoardlabError as error:
            _log.warning("runs that go on cannot be told: %s", error)
        down = supervised.down()
        # A session starts its own console server if the farm's was just killed.
        with contextlib.suppress(BoardlabError), ConsoleClient(socket_path(self.runtime)) as client:
            client.stop()
        return down

    def _write(self, boards: VirtualBoards, program: Path | None) -> None:
        board_specs(SimOptions(boards.types, boards.count, "", 0, boards.time_scale))  # a wrong type is named now
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = template(
            "local-farm.yaml",
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


def programs(farm: Farm, local: LocalFarm) -> list[Program]:
    """Programs of a farm, in the order of their start."""
    lab, runtime, database = str(_LAB), ("--runtime", str(local.runtime)), ("--db", farm.database)
    all_programs = []
    if farm.virtual is not None:
        bench = [lab, "virtual", "up", "sim", "--foreground", "--dir", str(local.bench), "--switch-port", "0"]
        bench += ["--pdu-port", farm.pdudaemon.address.rpartition(":")[2]]
        bench += [word for board_type in farm.virtual.types for word in ("--type", board_type)]
        bench += ["--count", str(farm.virtual.count), "--time-scale", f"{farm.virtual.time_scale:g}"]
        all_programs.append(Program("boards", tuple(bench), farm.pdudaemon.address, file=local.bench / STATE))
    elif farm.pdudaemon.program:
        all_programs.append(
            Program("pdudaemon", (farm.pdudaemon.program, "--conf", farm.pdudaemon.config), farm.pdudaemon.address)
        )
    all_programs.append(Program("console", (lab, "console", "serve", *runtime)))
    all_programs.append(
        Program("exporter", (lab, "exporter", "--farm", str(local.file), *runtime, *database), farm.exporter.listen)
    )
    web = ("web", *farm.web.words, "--farm", str(local.file), *runtime, *database)
    all_programs.append(Program("web", (lab, *web), farm.web.listen))
    if farm.exports:
        words: tuple[str, ...] = (lab, "farm", "export", farm.exports, "--coordinator", farm.coordinator, *runtime)
        host = buildbot.hosts(farm)[0]
        if farm.hosts:
            words += ("--name", host, "--hostname", host)
        all_programs.append(Program("rails", (lab, "rails", "serve", *runtime)))
        all_programs.append(Program("export", words, needs=with_port(farm.coordinator)))
    if farm.coordinator:
        all_programs.append(Program("janitor", (lab, "farm", "janitor", str(local.file))))
    if farm.buildbot is not None:
        queue = buildbot.commands(farm.buildbot, local.buildbot, buildbot.hosts(farm)[0])
        all_programs.append(Program("buildbot", queue["buildbot"], farm.buildbot.www))
        all_programs.append(Program("worker", queue["worker"]))
    return all_programs


def _end_jobs(database: str) -> None:
    with open_store(database) as store:
        active = [view.job for view in listing.jobs(store, 0, utc_now()) if view.job.state in {"queued", "running"}]
    asked = [job for job in active if job.program != BY_WEB and process.ask_to_end(job.holder)]
    deadline = time.monotonic() + STOP_S
    while any(process.has_died(job.holder) is False for job in asked):
        if time.monotonic() > deadline:
            raise LabTransientError(f"does not end: {', '.join(f'{job.called} on {job.board}' for job in asked)}")
        time.sleep(_POLL_S)


def _address() -> str:
    return f"{LOOPBACK}:{ports.free_port()}"


START_S: Final = 180.0  # of eight Python programs at once, on a busy host
STOP_S: Final = 180.0  # a job that is asked to end switches its board off first
_NOT_IN_INI: Final = "%;#\"'\\\n"
_GIVEN_UP: Final = ("FATAL", "UNKNOWN")
_ENDED: Final = ("BACKOFF", "EXITED")  # supervisord starts it again
_TRIES: Final = 3  # of a program that is brought up


@frozen
class Program:
    """A supervised program.

    Attributes:
        command: its words, the first one a path.
        address: host:port at which it answers once it has started; empty: none.
        needs: host:port of a server that it waits for; empty: none.
        file: that it writes anew once it has started; None: none.
    """

    name: str
    command: tuple[str, ...]
    address: str = ""
    needs: str = ""
    file: Path | None = None

    @property
    def ready(self) -> bool:
        """True once it has started."""
        return _answers(self.address) and (self.file is None or self.file.exists())


@frozen
class ProgramState:
    """State of a program.

    Attributes:
        state: as supervisord has it: RUNNING, STARTING, BACKOFF (it ended and is started again), FATAL (given up),
            STOPPED.
        text: supervisord's own words, e.g. "pid 4711, uptime 0:01:02".
        begun_at: when it was started last, in seconds since the epoch; 0: never.
    """

    name: str
    state: str
    pid: int
    text: str
    begun_at: int = 0


@frozen
class Supervisor:
    """A folder with a supervisord, its programs and their logs.

    Attributes:
        folder: this user's alone; its path is short enough for a socket (unix(7)).
    """

    folder: Path

    def up(self, programs: Sequence[Program], environ: Mapping[str, str]) -> bool:
        """Start the programs; False: all of them ran already.

        Raises:
            ConfigurationError: the folder is no good, or other programs run in it.
            LabStableError: a program did not start; the message has its last words.
        """
        text, config = self._config(programs), self.folder / SUPERVISORD.name
        if self.states():
            if config.read_text(encoding="utf-8") != text:
                raise ConfigurationError(
                    f"{self.folder}: the farm is up with other programs: take it down first (`lab farm down`)"
                )
            return False
        runtime.prepare(self.folder)
        _require_free(programs)
        (self.folder / "logs").mkdir(exist_ok=True)
        config.write_text(text, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "supervisor.supervisord", "-c", str(config)]
        started = subprocess.run(
            command, env=dict(environ), check=False, capture_output=True, text=True, timeout=START_S
        )
        if started.returncode:
            raise LabStableError(f"supervisord did not start: {_last(started.stdout + started.stderr)}")
        self._wait_until_ready(programs)
        return True

    def states(self) -> list[ProgramState]:
        """States of all programs; none: no supervisord runs here."""
        try:
            process_infos: Any = self._supervisor().getAllProcessInfo()
        except (OSError, XmlRpcError):
            return []
        return [
            ProgramState(info["name"], info["statename"], info["pid"], info["description"], info["start"])
            for info in process_infos
        ]

    def log(self, name: str) -> Path:
        """Path of a program's log.

        Raises:
            ConfigurationError: there is no such program.
        """
        logs = {path.stem: path for path in sorted(self.folder.glob("logs/*.log"))}
        if name not in logs:
            raise ConfigurationError(f"no program {name!r}; there are: {', '.join(logs) or 'none (`lab farm up`)'}")
        return logs[name]

    def stop(self, names: Sequence[str]) -> None:
        """Stop some programs for good; stopped ones are ignored."""
        for name in names:
            with contextlib.suppress(OSError, XmlRpcError):
                self._supervisor().stopProcess(name)

    def down(self) -> bool:
        """End all programs and supervisord; False: none ran.

        Raises:
            LabTransientError: something does not end.
        """
        try:
            pid: Any = self._supervisor().getPID()
            process = os.pidfd_open(pid)
            self._supervisor().shutdown()
        except (OSError, XmlRpcError):
            return False
        with os.fdopen(process):
            if select.select([process], [], [], STOP_S)[0]:
                return True
        raise LabTransientError(f"supervisord (pid {pid}) does not end; {self.folder / 'supervisord.log'} says why")

    def _supervisor(self) -> Any:
        # Its socket; supervisord makes it beside, with its pid behind the name: that is no longer than console.sock.
        return getRPCInterface({"SUPERVISOR_SERVER_URL": f"unix://{self.folder / 's'}"}).supervisor

    def _config(self, programs: Sequence[Program]) -> str:
        for text in (str(self.folder), *(word for program in programs for word in program.command)):
            if any(c in _NOT_IN_INI for c in text):
                raise ConfigurationError(
                    f"{text!r}: supervisord's configuration cannot have it: no %, ;, #, \\ and quotes"
                )
        commands = {program.name: shlex.join(program.command) for program in programs}
        return template("supervisord.conf", folder=self.folder, commands=commands)

    def _wait_until_ready(self, programs: Sequence[Program]) -> None:
        deadline = time.monotonic() + START_S
        waiting, begun = list(programs), set[tuple[str, int]]()
        while waiting:
            states = {state.name: state for state in self.states()}
            begun |= {(state.name, state.begun_at) for state in states.values() if state.begun_at}
            starts = Counter(name for name, _ in begun)
            for program in waiting:
                state = states.get(program.name)
                if state is None:
                    continue
                failures = starts[program.name] - (state.state not in _ENDED)
                if state.state in _GIVEN_UP or failures >= _TRIES:
                    raise LabStableError(
                        f"{program.name} does not run: {self._last_words(program)}; `lab farm logs {program.name}` "
                        "has more, `lab farm down` ends the others"
                    )
            running = {state.name for state in states.values() if state.state == "RUNNING"}
            waiting = [p for p in waiting if p.name not in running or not p.ready]
            if waiting and time.monotonic() > deadline:
                late = ", ".join(program.name for program in waiting)
                raise LabStableError(f"not started within {START_S:.0f} s: {late}; `lab farm logs NAME` says why")
            time.sleep(_POLL_S)
        for program in programs:
            if not _answers(program.needs):
                _log.warning("%s: no answer at %s yet; it waits for one", program.name, program.needs)

    def _last_words(self, program: Program) -> str:
        try:
            return _last((self.folder / "logs" / f"{program.name}.log").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return _last("")


def _require_free(programs: Sequence[Program]) -> None:
    addresses = [program.address for program in programs if program.address]
    for program in programs:
        if program.address and (addresses.count(program.address) > 1 or _answers(program.address)):
            raise ConfigurationError(
                f"{program.name}: another program has {program.address}: give it another address in farm.yaml, or "
                "end that one (`ss -ltnp` names it)"
            )


def _answers(address: str) -> bool:
    """Return whether a server answers there; without an address: true."""
    if not address:
        return True
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 1).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
