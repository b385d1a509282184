"""What an installed farm.yaml has this host run: all of it must, and the coordinator must know of what is exported."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm import buildbot, services
from lab.farm.config import HERE, Farm
from lab.farm.doctor.finding import Finding
from lab.farm.loaded import digest, notes
from lab.farm.queueing import Buildbot
from lab.farm.services import ANSWER_S, CONSOLE_SERVER, COORDINATOR, HostFile, Service, mend
from lab.farm.supervised import Supervised
from lab.farm.units import kept, units
from lab.host.process import user_name

AREA: Final = "services"
SYSTEMD_S: Final = 10.0
UNITS: Final = Path("/etc/systemd/system")
STATE: Final = Path("/var/lib")  # of systemd's StateDirectory=
_OF_THE_HOST: Final = frozenset({"environ", "alerts"})  # of Buildbot's file: where it runs, and where farm.yaml is
_ANSWERING: Final = frozenset(
    {"console", "rails", "export", "exporter", "pdudaemon", COORDINATOR}
)  # they are asked themselves, or the coordinator is, whoever keeps them
_FARM_OF_UNIT: Final = re.compile(r'^ExecStart=.* exporter --farm ("[^"]*"|\S+)', re.MULTILINE)


def sockets_user(host: HostFile, runtime: Path) -> str:
    """Whose the folder with the sockets of a host is that exports boards, where that is another user's and not the one that is looked at (`runtime`); empty: it is not."""
    if host.farm is None or not host.farm.exports or not host.installed or host.supervised:
        return ""
    folder = services.RUN / host.farm.runtime
    try:
        user = folder.stat().st_uid
    except OSError:
        return ""
    return "" if folder == runtime or user == os.getuid() else user_name(user)


def unseen(user: str) -> Finding:
    """What nobody but the user of the services can say."""
    me = user_name(os.getuid())
    said = f"they run as {user}, and {me} does not see whether they answer"
    return Finding(AREA, "console server, rails", "doubtful", said, f"look as that user: sudo -u {user} lab doctor")


def console(server: Service, host: HostFile) -> Service:
    """The console server; where boards are exported it has to run before anybody measures."""
    if server.state != "absent" or not host.installed or host.farm is None or not host.farm.exports:
        return server
    said = f"does not run as {host.farm.user}, so nothing of what {host.farm.exports} lists is exported"
    return Service(CONSOLE_SERVER, "bad", said, mend("console", host))


def check(host: HostFile, runtime: Path) -> Iterator[Finding]:
    """What else is kept running here; nothing where no farm.yaml is installed."""
    farm = host.farm
    if farm is None or not host.installed:
        return
    if farm.exports:
        if not sockets_user(host, runtime):
            yield _rails(host, runtime)
        yield _exported(farm, host)
    names = [name for name in kept(farm, host.name) if name not in _ANSWERING]
    yield from _supervised(host, runtime) if host.supervised else _units(names, host)
    yield from outdated(host, runtime)
    if farm.buildbot is not None:
        yield from _queued(farm, farm.buildbot, host)
    if not host.supervised:
        yield from _written(farm, host)


def versions(status: ServerStatus | None, host: HostFile) -> Iterator[Finding]:
    """A console server of before an upgrade: it goes on, since it has the ports."""
    installed = version("boardlab")
    if status is None or status.version == installed:
        return
    said = f"goes on with {_boardlab(status.version)} since {status.started}, and {installed} is installed"
    kept_here = host.installed and host.farm is not None and not host.supervised
    again = "systemctl restart boardlab-console" if kept_here else "lab console stop; the next command starts one"
    yield Finding(AREA, CONSOLE_SERVER, "doubtful", said, f"when nothing measures: {again}")


def outdated(host: HostFile, runtime: Path, file: Path | None = None) -> Iterator[Finding]:
    """The programs that run with an older farm.yaml, or with another boardlab than the installed one.

    Args:
        runtime: the folder in which they have noted it. file: only those of this farm.yaml; None: all.
    """
    if host.farm is None:
        return
    now, installed = digest(host.farm), version("boardlab")
    services_own = services.RUN / host.farm.runtime
    if (
        host.installed
        and not host.supervised
        and services_own.exists()
        and not os.access(services_own, os.R_OK | os.X_OK)
    ):
        me, user = user_name(os.getuid()), user_name(services_own.stat().st_uid)
        said = f"{me} does not see with which farm.yaml they run as {user}"
        yield Finding(AREA, "exporter, janitor", "doubtful", said, f"look as that user: sudo -u {user} lab doctor")
    for note in (note for folder in dict.fromkeys((runtime, services_own)) for note in notes(folder)):
        if file is not None and note.file != str(file.absolute()):
            continue
        again = f"restart it: {_restart(note.program, host)}"
        if note.digest != now:
            said = f"runs with what {note.file} said before"
            yield Finding(AREA, note.program, "bad", said, f"{again}; its log says why it has not loaded it")
        elif note.version != installed:
            said = f"goes on with {_boardlab(note.version)}, and {installed} is installed"
            yield Finding(AREA, note.program, "doubtful", said, again)


def _boardlab(found: str) -> str:
    return f"boardlab {found}" if found else "an older boardlab"


def _restart(program: str, host: HostFile) -> str:
    if not host.supervised:
        return f"systemctl restart boardlab-{program}"
    return "`lab farm down`, then `lab farm up`"


def _queued(farm: Farm, queue: Buildbot, host: HostFile) -> Iterator[Finding]:
    """Compare Buildbot's `farm.json` with farm.yaml.

    It yields nothing if this user cannot read the folder.
    """
    folder = STATE / farm.state / "buildbot" if host.runtime is None else host.runtime.parent / "buildbot"
    with suppress(OSError, ValueError, AttributeError):
        path = buildbot.Site(folder).master / "farm.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(buildbot.described(farm, queue, {})))
        if any(found.get(key) != now[key] for key in now.keys() - _OF_THE_HOST):
            again = f"lab farm buildbot FILE --output {folder}, and restart it: {_restart('buildbot', host)}"
            if host.supervised:
                again = f"{_restart('buildbot', host)}, which writes it"
            yield Finding(AREA, "buildbot", "bad", f"{path} has what farm.yaml said before", again)


def _written(farm: Farm, host: HostFile) -> Iterator[Finding]:
    """Compare the installed units, if there are any, with farm.yaml."""
    found = None
    with suppress(OSError):
        found = _FARM_OF_UNIT.search((UNITS / "boardlab-exporter.service").read_text(encoding="utf-8"))
    if found is None:
        return
    path = found[1].strip('"')
    again = f"lab farm units {path}{f' --host {host.name}' if farm.hosts else ''} --output {UNITS} && systemctl daemon-reload"
    if not Path(path).is_file():
        said = f"they name {path}, and there is no such file"
        yield Finding(AREA, "units", "bad", said, f"put farm.yaml there, or write them for another one: {again}")
        return
    old = []
    for name, text in units(farm, path, host.name if farm.hosts else "").items():
        with suppress(OSError):
            if (UNITS / name).read_text(encoding="utf-8") == text:
                continue
        old.append(name)
    if old:
        said = f"not what this boardlab writes for farm.yaml: {', '.join(old)}"
        yield Finding(AREA, "units", "bad", said, f"{again}; then enable what is new, and restart what has changed")


def exporter_name(farm: Farm, host: str) -> str:
    """By which name the exporter of a host is known to labgrid."""
    return socket.gethostname() if host == HERE and not farm.hosts else host


def _exported(farm: Farm, host: HostFile) -> Finding:
    """Whether the coordinator lists what this host exports."""
    from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import
    from lab.places.holding import with_port  # noqa: PLC0415

    name = exporter_name(farm, host.name)
    try:
        offered = Coordinator(with_port(farm.coordinator)).state().exporters.get(name, 0)
    except BoardlabError as error:
        return Finding(AREA, "export", "bad", f"nobody knows whether it is listed: {error}", mend("export", host))
    if not offered:
        said = f"the coordinator at {farm.coordinator} has nothing from an exporter {name!r}: no board of this host can be had"
        return Finding(AREA, "export", "bad", said, mend("export", host))
    return Finding(AREA, "export", "ok", f"the coordinator lists {offered} resources of {name}")


def _rails(host: HostFile, runtime: Path) -> Finding:
    from lab.rails.server import rails_socket  # noqa: PLC0415 - it loads what samples

    path = rails_socket(runtime)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_S)
        try:
            line.connect(os.fspath(path))
        except OSError as error:
            return Finding(AREA, "rails", "bad", f"{path}: {error.strerror or error}", mend("rails", host))
    return Finding(AREA, "rails", "ok", f"listens at {path}")


def _units(names: list[str], host: HostFile) -> Iterator[Finding]:
    """As systemd has them."""
    units = [f"boardlab-{name}.service" for name in names]
    try:
        done = subprocess.run(
            ["systemctl", "is-active", *units],
            capture_output=True,
            text=True,
            check=False,
            timeout=SYSTEMD_S,
            stdin=subprocess.DEVNULL,
        )
        states, why = done.stdout.split(), done.stderr.strip().partition("\n")[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        states, why = [], str(error)
    if len(states) != len(units):
        said = f"systemd does not say whether they run: {why or 'it said nothing'}"
        by_hand = f"systemctl status {' '.join(units)}"
        yield Finding(AREA, ", ".join(names), "doubtful", said, by_hand)
        return
    for name, state in zip(names, states, strict=True):
        again = ": it ends, and is started again" if state == "activating" else ""
        level, repair = ("ok", "") if state == "active" else ("bad", mend(name, host))
        yield Finding(AREA, name, "ok" if level == "ok" else "bad", f"systemd has it as {state}{again}", repair)


def _supervised(host: HostFile, runtime: Path) -> Iterator[Finding]:
    """As `lab farm up` has them."""
    for state in Supervised(runtime).states():
        if state.name not in _ANSWERING:
            runs = state.state == "RUNNING"
            said = f"{state.state.lower()}  {state.said}".strip()
            yield Finding(AREA, state.name, "ok" if runs else "bad", said, "" if runs else mend(state.name, host))
