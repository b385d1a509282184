"""Checks of the services that a farm.yaml requires here, and of their units, files and keys."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version as metadata_version
from pathlib import Path
from typing import Final

from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm import buildbot, services
from lab.farm.checks import Finding
from lab.farm.config import HERE, Farm
from lab.farm.loaded_config import digest, notes
from lab.farm.local import Supervisor
from lab.farm.services import ANSWER_S, CONSOLE_SERVER, COORDINATOR, HostFile, Service, hint
from lab.farm.systemd import always_running, units
from lab.host.process import user_name
from lab.places.records import with_port

AREA: Final = "services"
SSH: Final = "ssh"
SYSTEMD_S: Final = 10.0
UNITS: Final = Path("/etc/systemd/system")
STATE: Final = Path("/var/lib")  # of systemd's StateDirectory=
_OF_THE_HOST: Final = frozenset({"environ"})  # of Buildbot's file: where it runs
# They are asked themselves, or the coordinator is
_ANSWERING: Final = frozenset({"console", "rails", "export", "exporter", "pdudaemon", COORDINATOR})
_FARM_OF_UNIT: Final = re.compile(r'^ExecStart=.* exporter --farm ("[^"]*"|\S+)', re.MULTILINE)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_KEYS: Final = 'docs/farm/several-hosts.md, "Keys for the services"'


def sockets_user(host: HostFile, runtime: Path) -> str:
    """User of an exporting host's sockets; empty: nothing to report.

    It is reported if it is another user, and its folder is not the examined one (`runtime`).
    """
    if host.farm is None or not host.farm.exports or not host.installed or host.supervised:
        return ""
    folder = services.RUN / host.farm.runtime
    try:
        user = folder.stat().st_uid
    except OSError:
        return ""
    return "" if folder == runtime or user == os.getuid() else user_name(user)


def console(server: Service, host: HostFile, hidden: str = "") -> Iterator[Finding]:
    """Check the console server; exported boards require it.

    Args:
        hidden: the `sockets_user`, who alone sees its state and that of the rails.
    """
    if hidden:
        text = f"they run as {hidden}, and {user_name(os.getuid())} does not see whether they answer"
        look = f"look as that user: sudo -u {hidden} lab doctor"
        yield Finding(AREA, "console server, rails", "doubtful", text, look)
    elif server.state == "absent" and host.installed and host.farm is not None and host.farm.exports:
        text = f"does not run as {host.farm.user}, so nothing of what {host.farm.exports} lists is exported"
        yield Finding(AREA, CONSOLE_SERVER, "bad", text, hint("console", host))
    else:
        yield _of_service(server)


def _of_service(service: Service) -> Finding:
    return Finding(AREA, service.name, "bad" if service.state == "bad" else "ok", service.said, service.hint)


def console_version(status: ServerStatus | None, host: HostFile) -> Iterator[Finding]:
    """Check for a console server older than the installed boardlab.

    It goes on after an upgrade, since it has the ports.
    """
    installed = metadata_version("boardlab")
    if status is not None and status.version != installed:
        text = f"goes on with {_boardlab(status.version)} since {status.started}, and {installed} is installed"
        is_unit = host.installed and host.farm is not None and not host.supervised
        again = "systemctl restart boardlab-console" if is_unit else "lab console stop; the next command starts one"
        yield Finding(AREA, CONSOLE_SERVER, "doubtful", text, f"when nothing measures: {again}")


def listeners(host: HostFile) -> Iterator[Finding]:
    """Check the services with a port."""
    yield from map(_of_service, services.listening(host))


def programs(host: HostFile, runtime: Path) -> Iterator[Finding]:
    """Check the other services of an installed farm.yaml."""
    farm = host.farm
    if farm is None or not host.installed:
        return
    if farm.exports:
        if not sockets_user(host, runtime):
            yield _check_rails(host, runtime)
        yield _check_exports(farm, host)
    names = [name for name in always_running(farm, host.name) if name not in _ANSWERING]
    if not host.supervised:
        yield from _check_units(names, host)
        return
    for state in Supervisor(runtime).states():
        if state.name not in _ANSWERING:
            text = f"{state.state.lower()}  {state.text}".strip()
            yield _of_program(state.name, text, host, runs=state.state == "RUNNING")


def _check_rails(host: HostFile, runtime: Path) -> Finding:
    from lab.rails.server import rails_socket  # noqa: PLC0415 - it loads what samples

    path = rails_socket(runtime)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_S)
        try:
            line.connect(os.fspath(path))
        except OSError as error:
            return Finding(AREA, "rails", "bad", f"{path}: {error.strerror or error}", hint("rails", host))
    return Finding(AREA, "rails", "ok", f"listens at {path}")


def _check_exports(farm: Farm, host: HostFile) -> Finding:
    """Check that the coordinator lists this host's exports."""
    from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

    name = socket.gethostname() if host.name == HERE and not farm.hosts else host.name
    try:
        offered = Coordinator(with_port(farm.coordinator)).state().exporters.get(name, 0)
    except BoardlabError as error:
        return Finding(AREA, "export", "bad", f"its listing is unknown: {error}", hint("export", host))
    if not offered:
        text = (
            f"the coordinator at {farm.coordinator} has nothing from an exporter {name!r}: no board of this host can "
            "be had"
        )
        return Finding(AREA, "export", "bad", text, hint("export", host))
    return Finding(AREA, "export", "ok", f"the coordinator lists {offered} resources of {name}")


def _check_units(names: list[str], host: HostFile) -> Iterator[Finding]:
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
        text = f"systemd does not say whether they run: {why or 'it said nothing'}"
        yield Finding(AREA, ", ".join(names), "doubtful", text, f"systemctl status {' '.join(units)}")
        return
    for name, state in zip(names, states, strict=True):
        again = ": it ends, and is started again" if state == "activating" else ""
        yield _of_program(name, f"systemd has it as {state}{again}", host, runs=state == "active")


def _of_program(name: str, text: str, host: HostFile, *, runs: bool) -> Finding:
    return Finding(AREA, name, "ok", text) if runs else Finding(AREA, name, "bad", text, hint(name, host))


def program_versions(host: HostFile, runtime: Path, file: Path | None = None) -> Iterator[Finding]:
    """Find programs with an older farm.yaml or another boardlab.

    Args:
        runtime: the folder of their records.
        file: only those of this farm.yaml; None: all.
    """
    if host.farm is None:
        return
    now, installed = digest(host.farm), metadata_version("boardlab")
    folder = services.RUN / host.farm.runtime
    is_of_units = host.installed and not host.supervised and folder.exists()
    if is_of_units and not os.access(folder, os.R_OK | os.X_OK):
        user = user_name(folder.stat().st_uid)
        text = f"{user_name(os.getuid())} does not see with which farm.yaml they run as {user}"
        look = f"look as that user: sudo -u {user} lab doctor"
        yield Finding(AREA, "exporter, janitor", "doubtful", text, look)
    for note in (note for place in dict.fromkeys((runtime, folder)) for note in notes(place)):
        if file is not None and note.file != str(file.absolute()):
            continue
        again = f"restart it: {_restart(note.program, host)}"
        if note.digest != now:
            text = f"runs with what {note.file} said before"
            yield Finding(AREA, note.program, "bad", text, f"{again}; its log says why it has not loaded it")
        elif note.version != installed:
            text = f"goes on with {_boardlab(note.version)}, and {installed} is installed"
            yield Finding(AREA, note.program, "doubtful", text, again)


def _boardlab(version: str) -> str:
    return f"boardlab {version}" if version else "an older boardlab"


def _restart(program: str, host: HostFile) -> str:
    return "`lab farm down`, then `lab farm up`" if host.supervised else f"systemctl restart boardlab-{program}"


def buildbot_file(host: HostFile) -> Iterator[Finding]:
    """Compare Buildbot's `farm.json` with an installed farm.yaml.

    It yields nothing if this user cannot read the folder.
    """
    farm = host.farm
    if farm is None or farm.buildbot is None or not host.installed:
        return
    folder = STATE / farm.state / "buildbot" if host.runtime is None else host.runtime.parent / "buildbot"
    with suppress(OSError, ValueError, AttributeError):
        path = buildbot.BuildbotSite(folder).master / "farm.json"
        before = json.loads(path.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(buildbot.describe(farm, farm.buildbot, {})))
        if any(before.get(key) != now[key] for key in now.keys() - _OF_THE_HOST):
            again = _restart("buildbot", host)
            if host.supervised:
                again += ", which writes it"
            else:
                again = f"lab farm buildbot FILE --output {folder}, and restart it: {again}"
            yield Finding(AREA, "buildbot", "bad", f"{path} has what farm.yaml said before", again)


def unit_files(host: HostFile) -> Iterator[Finding]:
    """Compare the installed units, if there are any, with farm.yaml."""
    farm, unit = host.farm, None
    if farm is None or not host.installed or host.supervised:
        return
    with suppress(OSError):
        unit = _FARM_OF_UNIT.search((UNITS / "boardlab-exporter.service").read_text(encoding="utf-8"))
    if unit is None:
        return
    path = unit[1].strip('"')
    again = (
        f"lab farm units {path}{f' --host {host.name}' if farm.hosts else ''} --output {UNITS} && systemctl "
        "daemon-reload"
    )
    if not Path(path).is_file():
        text = f"they name {path}, and there is no such file"
        yield Finding(AREA, "units", "bad", text, f"put farm.yaml there, or write them for another one: {again}")
        return
    old = []
    for name, text in units(farm, path, host.name if farm.hosts else "").items():
        with suppress(OSError):
            if (UNITS / name).read_text(encoding="utf-8") == text:
                continue
        old.append(name)
    if old:
        text = f"not what this boardlab writes for farm.yaml: {', '.join(old)}"
        yield Finding(AREA, "units", "bad", text, f"{again}; then enable new units, and restart changed ones")


def ssh_file(farm: Farm) -> Iterator[Finding]:
    """Check the permissions of the services' ssh configuration.

    The services must be able to read it, and other users must not read the keys beside it.
    """
    if not farm.ssh_config:
        return
    path = Path(farm.ssh_config)
    try:
        folder, file = path.parent.stat(), path.stat()
    except PermissionError:
        me = user_name(os.getuid())
        text = f"{me} may not look at it, which is as it should be for all but {farm.user}"
        yield Finding(SSH, str(path), "ok", text)
        return
    except OSError as error:
        text = f"{error.strerror}: the services reach no other host"
        yield Finding(SSH, str(path), "bad", text, f"write it, with keys and known_hosts beside it: {_KEYS}")
        return
    owner = user_name(file.st_uid)
    if owner != farm.user and not file.st_mode & stat.S_IROTH and not _reads_by_group(farm.user, file):
        text = f"is {owner}'s (mode {stat.S_IMODE(file.st_mode):o}): the services' user {farm.user} may not read it"
        yield Finding(SSH, str(path), "bad", text, f"sudo chown -R {farm.user}: {path.parent}")
    elif folder.st_mode & _OTHERS:
        text = (
            f"others than {user_name(folder.st_uid)} may enter (mode {stat.S_IMODE(folder.st_mode):o}): keys belong "
            "to the services' user alone"
        )
        yield Finding(SSH, str(path.parent), "doubtful", text, f"sudo chmod 700 {path.parent}")
    else:
        yield Finding(SSH, str(path), "ok", f"is there, {owner}'s")


def _reads_by_group(user: str, file: os.stat_result) -> bool:
    """Return whether a user reads a file by its group.

    chown root:boardlab and chmod 640 is the usual way.
    """
    if not file.st_mode & stat.S_IRGRP:
        return False
    try:
        return file.st_gid in os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return False
