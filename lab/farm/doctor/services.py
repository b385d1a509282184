"""Checks of the services that an installed farm.yaml requires here.

All must run, and the coordinator must know the exports.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import pwd
import re
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version as metadata_version
from pathlib import Path
from typing import Final

import cattrs
from attrs import frozen

from lab import yamlfile
from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm import buildbot, services
from lab.farm.config import HERE, SSH_VARIABLE, Buildbot, Farm
from lab.farm.doctor.software import APART_S, CLOCKS, SAME_SERVERS, VERSIONS, DoctorFinding
from lab.farm.loaded_config import digest, notes
from lab.farm.local import Supervised
from lab.farm.services import ANSWER_S, CONSOLE_SERVER, COORDINATOR, HostFile, Service, hint
from lab.farm.systemd import always_running, units
from lab.host.clock import utc_now
from lab.host.process import user_name
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink
from lab.places.records import with_port

AREA: Final = "services"
SYSTEMD_S: Final = 10.0
UNITS: Final = Path("/etc/systemd/system")
STATE: Final = Path("/var/lib")  # of systemd's StateDirectory=
_OF_THE_HOST: Final = frozenset({"environ"})  # of Buildbot's file: where it runs
_ANSWERING: Final = frozenset(
    {"console", "rails", "export", "exporter", "pdudaemon", COORDINATOR}
)  # they are asked themselves, or the coordinator is
_FARM_OF_UNIT: Final = re.compile(r'^ExecStart=.* exporter --farm ("[^"]*"|\S+)', re.MULTILINE)


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


def unseen(user: str) -> DoctorFinding:
    """Finding: only the services' user can see their state."""
    me = user_name(os.getuid())
    text = f"they run as {user}, and {me} does not see whether they answer"
    return DoctorFinding(
        AREA, "console server, rails", "doubtful", text, f"look as that user: sudo -u {user} lab doctor"
    )


def console(server: Service, host: HostFile) -> Service:
    """The console server; exported boards require it."""
    if server.state != "absent" or not host.installed or host.farm is None or not host.farm.exports:
        return server
    text = f"does not run as {host.farm.user}, so nothing of what {host.farm.exports} lists is exported"
    return Service(CONSOLE_SERVER, "bad", text, hint("console", host))


def check(host: HostFile, runtime: Path) -> Iterator[DoctorFinding]:
    """Check the other services of an installed farm.yaml."""
    farm = host.farm
    if farm is None or not host.installed:
        return
    if farm.exports:
        if not sockets_user(host, runtime):
            yield _rails(host, runtime)
        yield _exported(farm, host)
    names = [name for name in always_running(farm, host.name) if name not in _ANSWERING]
    yield from _supervised(host, runtime) if host.supervised else _units(names, host)
    yield from outdated(host, runtime)
    if farm.buildbot is not None:
        yield from _queued(farm, farm.buildbot, host)
    if not host.supervised:
        yield from written(farm, host)


def versions(status: ServerStatus | None, host: HostFile) -> Iterator[DoctorFinding]:
    """Check for a console server older than the installed boardlab.

    It goes on after an upgrade, since it has the ports.
    """
    installed = metadata_version("boardlab")
    if status is None or status.version == installed:
        return
    text = f"goes on with {_boardlab(status.version)} since {status.started}, and {installed} is installed"
    kept_here = host.installed and host.farm is not None and not host.supervised
    again = "systemctl restart boardlab-console" if kept_here else "lab console stop; the next command starts one"
    yield DoctorFinding(AREA, CONSOLE_SERVER, "doubtful", text, f"when nothing measures: {again}")


def outdated(host: HostFile, runtime: Path, file: Path | None = None) -> Iterator[DoctorFinding]:
    """Find programs with an older farm.yaml or another boardlab.

    Args:
        runtime: the folder of their records. file: only those of this farm.yaml; None: all.
    """
    if host.farm is None:
        return
    now, installed = digest(host.farm), metadata_version("boardlab")
    services_own = services.RUN / host.farm.runtime
    if (
        host.installed
        and not host.supervised
        and services_own.exists()
        and not os.access(services_own, os.R_OK | os.X_OK)
    ):
        me, user = user_name(os.getuid()), user_name(services_own.stat().st_uid)
        text = f"{me} does not see with which farm.yaml they run as {user}"
        yield DoctorFinding(
            AREA, "exporter, janitor", "doubtful", text, f"look as that user: sudo -u {user} lab doctor"
        )
    for note in (note for folder in dict.fromkeys((runtime, services_own)) for note in notes(folder)):
        if file is not None and note.file != str(file.absolute()):
            continue
        again = f"restart it: {_restart(note.program, host)}"
        if note.digest != now:
            text = f"runs with what {note.file} said before"
            yield DoctorFinding(AREA, note.program, "bad", text, f"{again}; its log says why it has not loaded it")
        elif note.version != installed:
            text = f"goes on with {_boardlab(note.version)}, and {installed} is installed"
            yield DoctorFinding(AREA, note.program, "doubtful", text, again)


def _boardlab(found: str) -> str:
    return f"boardlab {found}" if found else "an older boardlab"


def _restart(program: str, host: HostFile) -> str:
    if not host.supervised:
        return f"systemctl restart boardlab-{program}"
    return "`lab farm down`, then `lab farm up`"


def _queued(farm: Farm, queue: Buildbot, host: HostFile) -> Iterator[DoctorFinding]:
    """Compare Buildbot's `farm.json` with farm.yaml.

    It yields nothing if this user cannot read the folder.
    """
    folder = STATE / farm.state / "buildbot" if host.runtime is None else host.runtime.parent / "buildbot"
    with suppress(OSError, ValueError, AttributeError):
        path = buildbot.BuildbotSite(folder).master / "farm.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(buildbot.described(farm, queue, {})))
        if any(found.get(key) != now[key] for key in now.keys() - _OF_THE_HOST):
            again = f"lab farm buildbot FILE --output {folder}, and restart it: {_restart('buildbot', host)}"
            if host.supervised:
                again = f"{_restart('buildbot', host)}, which writes it"
            yield DoctorFinding(AREA, "buildbot", "bad", f"{path} has what farm.yaml said before", again)


def written(farm: Farm, host: HostFile) -> Iterator[DoctorFinding]:
    """Compare the installed units, if there are any, with farm.yaml."""
    found = None
    with suppress(OSError):
        found = _FARM_OF_UNIT.search((UNITS / "boardlab-exporter.service").read_text(encoding="utf-8"))
    if found is None:
        return
    path = found[1].strip('"')
    again = f"lab farm units {path}{f' --host {host.name}' if farm.hosts else ''} --output {UNITS} && systemctl daemon-reload"
    if not Path(path).is_file():
        text = f"they name {path}, and there is no such file"
        yield DoctorFinding(AREA, "units", "bad", text, f"put farm.yaml there, or write them for another one: {again}")
        return
    old = []
    for name, text in units(farm, path, host.name if farm.hosts else "").items():
        with suppress(OSError):
            if (UNITS / name).read_text(encoding="utf-8") == text:
                continue
        old.append(name)
    if old:
        text = f"not what this boardlab writes for farm.yaml: {', '.join(old)}"
        yield DoctorFinding(AREA, "units", "bad", text, f"{again}; then enable new units, and restart changed ones")


def exporter_name(farm: Farm, host: str) -> str:
    """By which name the exporter of a host is known to labgrid."""
    return socket.gethostname() if host == HERE and not farm.hosts else host


def _exported(farm: Farm, host: HostFile) -> DoctorFinding:
    """Check that the coordinator lists this host's exports."""
    from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

    name = exporter_name(farm, host.name)
    try:
        offered = Coordinator(with_port(farm.coordinator)).state().exporters.get(name, 0)
    except BoardlabError as error:
        return DoctorFinding(AREA, "export", "bad", f"its listing is unknown: {error}", hint("export", host))
    if not offered:
        text = f"the coordinator at {farm.coordinator} has nothing from an exporter {name!r}: no board of this host can be had"
        return DoctorFinding(AREA, "export", "bad", text, hint("export", host))
    return DoctorFinding(AREA, "export", "ok", f"the coordinator lists {offered} resources of {name}")


def _rails(host: HostFile, runtime: Path) -> DoctorFinding:
    from lab.rails.server import rails_socket  # noqa: PLC0415 - it loads what samples

    path = rails_socket(runtime)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_S)
        try:
            line.connect(os.fspath(path))
        except OSError as error:
            return DoctorFinding(AREA, "rails", "bad", f"{path}: {error.strerror or error}", hint("rails", host))
    return DoctorFinding(AREA, "rails", "ok", f"listens at {path}")


def _units(names: list[str], host: HostFile) -> Iterator[DoctorFinding]:
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
        by_hand = f"systemctl status {' '.join(units)}"
        yield DoctorFinding(AREA, ", ".join(names), "doubtful", text, by_hand)
        return
    for name, state in zip(names, states, strict=True):
        again = ": it ends, and is started again" if state == "activating" else ""
        level, repair = ("ok", "") if state == "active" else ("bad", hint(name, host))
        yield DoctorFinding(AREA, name, "ok" if level == "ok" else "bad", f"systemd has it as {state}{again}", repair)


def _supervised(host: HostFile, runtime: Path) -> Iterator[DoctorFinding]:
    """As `lab farm up` has them."""
    for state in Supervised(runtime).states():
        if state.name not in _ANSWERING:
            runs = state.state == "RUNNING"
            text = f"{state.state.lower()}  {state.text}".strip()
            yield DoctorFinding(
                AREA, state.name, "ok" if runs else "bad", text, "" if runs else hint(state.name, host)
            )


# --- Hosts of a farm.yaml, examined through ssh ---


HOSTS_AREA: Final = "host"
LIMIT_S: Final = 300.0
CLOCK_LIMIT_S: Final = 10.0  # of `date`
_AT_ONCE: Final = 16
_NOT_THERE: Final = 127  # the shell's, where there is no such program
_LAST: Final = 300  # characters of a program's output
# In the lab's folder, with the farm.yaml that is checked, whatever farm.yaml is there: it travels as one word, of which the kernel takes 128 KiB.
_IN_FOLDER: Final = """\
cd "$1" || exit
file=$(mktemp) || exit
trap 'rm -f "$file"' EXIT
printf %s "$2" | base64 -d | gzip -d > "$file" || exit
shift 2
"$@" --farm "$file"
"""
# Only the first host runs it; with the same farm.yaml, `lab doctor` on another one misses it.
_ELSEWHERE: Final = frozenset({("services", "alertmanager")})


@frozen
class Found:
    """A finding on a host."""

    host: str
    finding: DoctorFinding


@frozen
class _Answer:
    """A host's findings and the lead of its wall clock.

    `ahead_s`: least and most seconds ahead of this host's; None: unknown.
    """

    findings: list[DoctorFinding]
    ahead_s: tuple[float, float] | None = None


def names(farm: Farm) -> list[str]:
    """The hosts of a farm; one that names none is this host."""
    return [host.name for host in farm.hosts] or [HERE]


def is_here(farm: Farm) -> bool:
    """Return whether this host is one of them."""
    return not _own().isdisjoint(names(farm))


def _own() -> set[str]:
    return {HERE, socket.gethostname()}


def examine(farm: Farm, file: Path, here: Callable[[str], Sequence[DoctorFinding]]) -> list[Found]:
    """All hosts at the same time, in the order of farm.yaml.

    Args:
        file: the farm.yaml, given to each host.
        here: findings of `lab doctor` on this host, by its name in farm.yaml; they need no ssh.
    """
    # Its paths begin at its own folder, which it leaves: where they begin is written into it.
    text = json.dumps({**yamlfile.load(file), "directory": farm.directory})
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    hosts = names(farm)
    own = _own()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = {host: pool.submit(_asked, farm, packed, host) for host in hosts if host not in own}
        answers = {
            host: _Answer(list(here(host)), (0.0, 0.0)) if host in own else asked[host].result() for host in hosts
        }
    found = {host: answer.findings for host, answer in answers.items()}
    for host in hosts[1:]:
        found[host] = [each for each in found[host] if (each.area, each.subject) not in _ELSEWHERE]
    ahead_s = {host: answer.ahead_s for host, answer in answers.items() if answer.ahead_s is not None}
    for host, finding in (*_apart(found), *_clocks_apart(ahead_s)):
        found[host].append(finding)
    return [Found(host, finding) for host in hosts for finding in found[host]]


def _asked(farm: Farm, packed: str, host: str) -> _Answer:
    """Ask `lab doctor` and `date` on another host."""
    link = SshLink.to(host, prepare(runtime_dir()), ssh_environ(farm))
    findings = _examined(link, farm, packed)
    away = any(each.area == HOSTS_AREA for each in findings)
    return _Answer(findings, None if away else _ahead_s(link))


def _ahead_s(link: SshLink) -> tuple[float, float] | None:
    """Lead of a host's wall clock, between two bounds.

    The answer was made between the question and its arrival.
    """
    asked_s = utc_now().timestamp()
    try:
        there_s = float(link.ran(["date", "+%s.%N"], CLOCK_LIMIT_S).stdout)
    except (BoardlabError, subprocess.TimeoutExpired, ValueError):
        return None
    return there_s - utc_now().timestamp(), there_s - asked_s


def _examined(link: SshLink, farm: Farm, packed: str) -> list[DoctorFinding]:
    """Findings of `lab doctor` on a host."""
    host = link.host
    by_hand = f"ssh {host}, then: cd {farm.directory} && {farm.program} doctor --host {host} --farm FILE"
    argv = ["sh", "-c", _IN_FOLDER, "sh", farm.directory, packed, farm.program, "doctor", "--json", "--host", host]
    try:
        done = link.ran(argv, LIMIT_S)
    except subprocess.TimeoutExpired:
        return [
            DoctorFinding(HOSTS_AREA, host, "bad", f"`lab doctor` did not end within {LIMIT_S:g} s there", by_hand)
        ]
    except BoardlabError as error:
        place = farm.ssh_config or "~/.ssh/config of this user"
        hint = f"is it up? The key and the host name for `ssh {host}` belong into {place}"
        return [DoctorFinding(HOSTS_AREA, host, "bad", f"cannot be reached: {error}", hint)]
    try:
        return cattrs.structure(json.loads(done.stdout), list[DoctorFinding])
    except (ValueError, TypeError, KeyError, cattrs.BaseValidationError):
        text = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-_LAST:]
    if done.returncode == _NOT_THERE:
        hint = f"install boardlab there as {farm.program}, or change `program` of farm.yaml, which is the same on all hosts"
        return [DoctorFinding(HOSTS_AREA, host, "bad", f"there is no {farm.program}: {text}", hint)]
    return [
        DoctorFinding(HOSTS_AREA, host, "bad", f"`lab doctor` ended with {done.returncode} there: {text}", by_hand)
    ]


def ssh_environ(farm: Farm) -> dict[str, str]:
    """Environment for ssh, with the services' configuration as default.

    The user must be able to read that.
    """
    own = dict(os.environ)
    if SSH_VARIABLE not in own and farm.ssh_config and os.access(farm.ssh_config, os.R_OK):
        own[SSH_VARIABLE] = farm.ssh_config
    return own


def _apart(found: Mapping[str, Sequence[DoctorFinding]]) -> Iterator[tuple[str, DoctorFinding]]:
    """Find hosts with another boardlab than the first one."""
    versions = {
        host: each.said.partition(",")[0]
        for host, of_host in found.items()
        for each in of_host
        if (each.area, each.subject) == (VERSIONS, "boardlab")
    }
    for host, version in versions.items():
        first, its = next(iter(versions.items()))
        if version != its:
            text = f"boardlab {version}, and {first} has {its}: their numbers may not be comparable"
            yield (
                host,
                DoctorFinding(
                    HOSTS_AREA, host, "doubtful", text, f"install boardlab {its} there, or {version} on {first}"
                ),
            )


def _clocks_apart(ahead_s: Mapping[str, tuple[float, float]]) -> Iterator[tuple[str, DoctorFinding]]:
    """Find hosts whose wall clock differs from most.

    Of two that differ it is the second one.
    """

    def apart_s(one: str, other: str) -> float:
        """Certain lead of the first clock; negative: behind."""
        least, most = ahead_s[one][0] - ahead_s[other][1], ahead_s[one][1] - ahead_s[other][0]
        return max(least, 0.0) + min(most, 0.0)

    def agree(one: str) -> int:
        return sum(abs(apart_s(one, other)) <= APART_S for other in ahead_s)

    if not ahead_s:
        return
    right = max(ahead_s, key=agree)  # the first of them
    for host in ahead_s:
        off_s = apart_s(host, right)
        if abs(off_s) > APART_S:
            text = (
                f"is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} that of {right}: runs get wrong times"
            )
            yield host, DoctorFinding(CLOCKS, "wall clock", "doubtful", text, SAME_SERVERS)


# --- ssh of the services: configuration and keys ---


SSH_AREA: Final = "ssh"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_DOCS: Final = 'docs/farm/several-hosts.md, "Keys for the services"'


def ssh_file_findings(farm: Farm) -> Iterator[DoctorFinding]:
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
        yield DoctorFinding(
            SSH_AREA,
            str(path),
            "ok",
            f"{me} may not look at it, which is as it should be for all but {farm.user}",
        )
        return
    except OSError as error:
        text = f"{error.strerror}: the services reach no other host"
        yield DoctorFinding(
            SSH_AREA, str(path), "bad", text, f"write it, with keys and known_hosts beside it: {_DOCS}"
        )
        return
    owner = user_name(file.st_uid)
    if owner != farm.user and not file.st_mode & stat.S_IROTH and not _reads_by_group(farm.user, file):
        text = f"is {owner}'s (mode {stat.S_IMODE(file.st_mode):o}): the services' user {farm.user} may not read it"
        yield DoctorFinding(SSH_AREA, str(path), "bad", text, f"sudo chown -R {farm.user}: {path.parent}")
    elif folder.st_mode & _OTHERS:
        text = f"others than {user_name(folder.st_uid)} may enter (mode {stat.S_IMODE(folder.st_mode):o}): keys belong to the services' user alone"
        yield DoctorFinding(SSH_AREA, str(path.parent), "doubtful", text, f"sudo chmod 700 {path.parent}")
    else:
        yield DoctorFinding(SSH_AREA, str(path), "ok", f"is there, {owner}'s")


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
