"""Folders of a Buildbot's master and workers, made from farm.yaml."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from lab import package_data
from lab.errors import ConfigurationError, LabStableError
from lab.farm import job_request
from lab.farm.config import DAYS, HERE, Buildbot, Farm, Schedule
from lab.host.process import PERSON_VARIABLE
from lab.run.options import PROVISION, arguments

SECRETS: Final = "secrets.json"
EVERYBODY: Final = "lab"  # a login of Buildbot that is nobody's own
TOKENS: Final = "secrets"  # folder in the master's: a file for each token that farm.yaml names
_MODULES: Final = ("master.cfg", "boardlab.py")
UPGRADE_S: Final = 300  # for the master's database
WAIT_S: Final = 14_400  # for a board that a person measures on
REFERENCE_WAIT_S: Final = 1800  # for the reference board, whose check the night's runs wait for
_MASTER_TAC: Final = """\
import sys
from twisted.application import service
from twisted.python.log import FileLogObserver, ILogObserver
from buildbot.master import BuildMaster

application = service.Application('buildmaster')  # Buildbot looks for these words
application.setComponent(ILogObserver, FileLogObserver(sys.stdout).emit)  # to the journal, or `lab farm logs`
BuildMaster({folder!r}, "master.cfg", umask=0o077).setServiceParent(application)
"""
_WORKER_TAC: Final = """\
import sys
from twisted.application import service
from twisted.python.log import FileLogObserver, ILogObserver
from buildbot_worker.bot import Worker

application = service.Application('buildbot-worker')
application.setComponent(ILogObserver, FileLogObserver(sys.stdout).emit)
password = open({secret!r}).read().strip()
Worker({host!r}, {port}, {name!r}, password, {folder!r}, 60, umask=0o077).setServiceParent(application)
"""


@frozen
class BuildbotSite:
    """Folders of a Buildbot.

    Attributes:
        folder: with `master`, and `worker-HOST` of each host.
    """

    folder: Path

    @property
    def master(self) -> Path:
        """Folder of the master."""
        return self.folder / "master"

    def worker(self, host: str) -> Path:
        """Folder of a worker, on its host."""
        return self.folder / f"worker-{host}"


def hosts(farm: Farm) -> list[str]:
    """Names of the hosts."""
    return [host.name for host in farm.hosts] or [HERE]


def describe(farm: Farm, buildbot: Buildbot, environ: Mapping[str, str]) -> dict[str, Any]:
    """Content of farm.json, which master.cfg reads.

    Args:
        environ: the environment variables that the runs get beside those of the worker.
    """
    receivers = {"github": buildbot.github, "gitlab": buildbot.gitlab, "webhook": buildbot.webhook}
    boards = [{"name": b.name, "env": b.env, "host": farm.host_of(b), "hub": b.hub} for b in farm.boards]
    return {
        "program": farm.program,
        "directory": farm.directory,
        "environ": dict(environ),
        "hosts": hosts(farm),
        "boards": boards,
        "suites": sorted(job_request.GUIDE),
        "schedules": [_schedule(schedule, Path(farm.directory)) for schedule in farm.schedules],
        "listen": _endpoint(buildbot.www),
        "www": f"http://{buildbot.www}/",
        "workers": _endpoint(buildbot.workers),
        "database": buildbot.database,
        "parallel": buildbot.parallel,
        "wait_s": WAIT_S,
        "attempts": buildbot.attempts,
        "reference": _reference(farm),
        "users": buildbot.users,
        "person": PERSON_VARIABLE,
        "alertmanager": farm.alertmanager,
        "documents": farm.documents,
        "told": {name: receiver and asdict(receiver) for name, receiver in receivers.items()},
    }


def write(farm: Farm, buildbot: Buildbot, site: BuildbotSite, environ: Mapping[str, str]) -> None:
    """Write the folders; existing passwords stay.

    Args:
        environ: as of `describe`.

    Raises:
        ConfigurationError: the file of passwords is damaged, or a token is not there.
        LabStableError: the folder cannot be written.
    """
    document = describe(farm, buildbot, environ)
    machine, _, port = buildbot.workers.rpartition(":")
    try:
        site.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        site.master.mkdir(exist_ok=True, mode=0o700)
        passwords = _passwords(site.master / SECRETS, [EVERYBODY, *buildbot.users], document["hosts"])
        _write(site.master / "farm.json", json.dumps(document, indent=1))
        for module in _MODULES:
            source = package_data.folder(package_data.FARM) / "buildbot" / module
            _write(site.master / module, source.read_text(encoding="utf-8"))
        (site.master / TOKENS).mkdir(exist_ok=True, mode=0o700)
        _write(site.master / "buildbot.tac", _MASTER_TAC.format(folder=str(site.master)))
        for name in document["hosts"]:
            folder = site.worker(name)
            folder.mkdir(exist_ok=True, mode=0o700)
            (folder / "info").mkdir(exist_ok=True)
            _write(folder / "password", passwords["workers"][name] + "\n")
            _write(folder / "info" / "host", name + "\n")
            values = {"host": machine.strip("[]"), "port": int(port), "name": name, "folder": str(folder)}
            _write(folder / "buildbot.tac", _WORKER_TAC.format(secret=str(folder / "password"), **values))
    except OSError as error:
        raise LabStableError(f"{error.filename}: {error.strerror}; choose another folder") from error
    missing = [
        str(site.master / TOKENS / name) for name in buildbot.secrets if not (site.master / TOKENS / name).is_file()
    ]
    if missing:
        raise ConfigurationError(
            f"no token in {', '.join(missing)}: write it there (`umask 077; cat > FILE`), then run this again; it "
            "does not belong into farm.yaml"
        )


def hand_over(site: BuildbotSite, user: str) -> bool:
    """Give the folders to the services' user, if run as root.

    Returns: False: there is no such user, and the folders stay root's.

    Raises:
        LabStableError: the kernel refuses it.
    """
    if os.geteuid() != 0:
        return True
    try:
        owner = pwd.getpwnam(user)
    except KeyError:
        return False
    ids = owner.pw_uid, owner.pw_gid
    try:
        # os.fwalk follows no symbolic link: one of a worker's user would give away a file of root.
        for _, folders, files, folder_fd in os.fwalk(site.folder):
            for name in (*folders, *files):
                os.chown(name, *ids, dir_fd=folder_fd, follow_symlinks=False)
        os.chown(site.folder, *ids, follow_symlinks=False)
    except OSError as error:
        raise LabStableError(f"{site.folder}: {error.strerror}; chown -R {user}: {site.folder}") from error
    return True


def find() -> Path:
    """Path of Buildbot from `./run setup test`, else from PATH.

    Raises:
        ConfigurationError: it is not there.
    """
    checkout = package_data.checkout()
    own = (checkout / ".cache" / "buildbot" if checkout else Path(sys.prefix) / "buildbot") / "bin" / "buildbot"
    for candidate in (own, shutil.which("buildbot")):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    requirements = package_data.folder(package_data.FARM) / "buildbot" / "requirements.txt"
    where = own.parents[1]
    raise ConfigurationError(
        f"Buildbot is not installed ({own} is no program). Into an environment of its own: python3 -m venv "
        f"{shlex.quote(str(where))} && "
        f"{shlex.quote(str(where / 'bin' / 'pip'))} install --no-deps -r {shlex.quote(str(requirements))}"
    )


def prepare(buildbot: Buildbot, site: BuildbotSite) -> None:
    """Make the master's database, or bring it up to date.

    Raises:
        LabStableError: Buildbot cannot be started, or finds something wrong; the message has its last words.
    """
    command = [buildbot.program, "upgrade-master", "--quiet", str(site.master)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=UPGRADE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabStableError(f"buildbot: {buildbot.program}: {error}") from error
    if done.returncode:
        raise LabStableError(f"buildbot upgrade-master {site.master}: {(done.stdout + done.stderr).strip()[-400:]}")


def commands(buildbot: Buildbot, site: BuildbotSite, host: str) -> dict[str, tuple[str, ...]]:
    """Commands of the master and of a host's worker."""
    worker = str(Path(buildbot.program).with_name("buildbot-worker"))
    return {
        "buildbot": (buildbot.program, "start", "--nodaemon", str(site.master)),
        "worker": (worker, "start", "--nodaemon", str(site.worker(host))),
    }


def _reference(farm: Farm) -> dict[str, Any] | None:
    """Nightly check of the reference board; None: there is no such board."""
    board = farm.health.reference
    if not board:
        return None
    where = {"board": board, "host": farm.reference_host, "env": farm.environments.get(board, "")}
    return {**where, "when": _when(farm.health.at), "wait_s": REFERENCE_WAIT_S}


def _schedule(schedule: Schedule, directory: Path) -> dict[str, Any]:
    """A schedule for master.cfg; `words` are the arguments of its `lab run`."""
    options = {name: value for name, value in schedule.options.items() if name != PROVISION}
    order = ["--suite", schedule.suite, "--env", schedule.env, "--cycles", str(schedule.cycles)]
    order += ["--release", schedule.release] if schedule.release else []
    return {
        "name": schedule.name,
        "board": schedule.board,
        "suite": schedule.suite,
        "env": schedule.env,
        "words": [*order, *arguments(options)],
        "provision": schedule.options.get(PROVISION, ""),
        "releases": str(directory / schedule.releases) if schedule.releases else "",
        "when": _when(schedule.at, schedule.day if schedule.every == "week" else ""),
    }


def _when(at: str, day: str = "") -> dict[str, int]:
    """Time of Buildbot's `Nightly`, daily or weekly."""
    hour, minute = map(int, at.split(":"))
    return {"hour": hour, "minute": minute, **({"dayOfWeek": DAYS.index(day)} if day else {})}


def _passwords(path: Path, users: Iterable[str], workers: Iterable[str]) -> dict[str, dict[str, str]]:
    """The passwords of users and workers by name.

    Those in the file stay; it gets the new ones.

    Raises:
        ConfigurationError: the file is no JSON.
    """
    try:
        old: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise ConfigurationError(
            f"{path}: {error}; remove it: new passwords are made, and `lab farm buildbot` gives them to the workers"
        ) from error
    passwords = {
        kind: {name: old.get(kind, {}).get(name) or secrets.token_urlsafe() for name in accounts}
        for kind, accounts in (("users", users), ("workers", workers))
    }
    _write(path, json.dumps(passwords, indent=1))
    return passwords


def _endpoint(address: str) -> str:
    """Twisted's name of an address (`twisted.internet.endpoints.serverFromString`)."""
    machine, _, port = address.rpartition(":")
    return f"tcp:port={port}:interface={machine.strip('[]').replace(':', chr(92) + ':')}"


def _write(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner alone."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
