"""All checks of a lab, each registered once with its commands.

A check yields findings and changes nothing. `lab doctor`, `lab farm check`, `lab env check` and `lab upgrade check` run
their checks in the order of `CHECKS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm import services
from lab.farm.checks import Finding, files, hosts, machine, results
from lab.farm.checks import services as service_checks
from lab.farm.config import Farm
from lab.farm.services import SUPERVISORD, HostFile, Service
from lab.host.runtime import recordings_dir, runtime_dir
from lab.results.location import locate

DOCTOR: Final = "lab doctor"
ENV: Final = "lab env check"
FARM: Final = "lab farm check"
HERE: Final = "lab farm check --here"  # its part that `lab doctor` does where farm.yaml names hosts
UPGRADE: Final = "lab upgrade check"


@frozen
class CheckTarget:
    """The host, farm.yaml or environment that the checks look at.

    Attributes:
        db: the value of `--db`; None: the default database.
        host: the farm.yaml, and which of its hosts this one is.
        runtime: the console server's folder.
        folder: the lab's folder, with `envs/`.
        dev: the folder of the device files.
        sys: where sysfs is mounted.
        serves: True: this host runs services of the farm.yaml, so their checks apply.
        file: the farm.yaml to check, as a person named it; None: the programs of any farm.yaml are checked.
        env: the environment file to check; None: none.
    """

    db: str | None = None
    host: HostFile = field(factory=lambda: HostFile(None, installed=False))
    runtime: Path = field(factory=runtime_dir)
    folder: Path = field(factory=Path.cwd)
    dev: Path = Path("/dev")
    sys: Path = Path("/sys")
    serves: bool = False
    file: Path | None = None
    env: Path | None = None

    @property
    def farm(self) -> Farm:
        """The farm.yaml, else one that names nothing."""
        return self.host.farm or Farm()

    @cached_property
    def console(self) -> tuple[Service, ServerStatus | None]:
        """The console server, which is asked once."""
        return services.console_server(self.runtime)

    @property
    def sockets_user(self) -> str:
        """Name of the user whose sockets this user cannot see; empty: none."""
        return service_checks.sockets_user(self.host, self.runtime)

    def ports(self) -> Iterator[Finding]:
        """Check the serial ports, with what the console server has open."""
        status = self.console[1]
        devices = {os.path.realpath(port.info.meta.device) for port in status.ports} if status else set()
        return machine.ports(devices, (status.pid,) if status else (), self.dev, self.sys)

    def folders(self) -> dict[str, Path]:
        """The folders that grow, by their content."""
        recordings = {"recordings": recordings_dir(self.runtime)}
        try:
            location = locate(self.db)
        except BoardlabError:  # the check of the results says why
            return recordings
        store = {} if location.path is None else {"results": location.path.parent}
        return {**store, "artifacts": location.artifacts, **recordings}


@frozen
class Check:
    """A check, and the commands that run it.

    Attributes:
        find: yields the findings about a target.
        commands: the commands that run it, e.g. `DOCTOR`.
    """

    find: Callable[[CheckTarget], Iterable[Finding]]
    commands: tuple[str, ...]


CHECKS: Final = (
    Check(lambda lab: files.environment(lab.env) if lab.env else (), (ENV,)),
    Check(lambda lab: files.boards(lab.farm), (FARM,)),
    Check(lambda lab: files.schedules(lab.farm), (FARM,)),
    Check(lambda lab: files.names(lab.farm), (FARM,)),
    Check(lambda lab: files.places(lab.farm), (FARM,)),
    Check(lambda lab: files.receivers(lab.farm), (FARM,)),
    Check(lambda lab: files.farm_environments(lab.farm, lab.host.name if lab.serves else ""), (HERE,)),
    Check(lambda lab: results.farm_results(lab.farm, lab.file or Path()), (HERE,)),
    Check(lambda lab: results.schema_change(lab.db), (UPGRADE,)),
    Check(lambda lab: machine.copies(lab.folder), (UPGRADE,)),
    Check(lambda lab: files.environments(lab.folder), (UPGRADE,)),
    Check(lambda lab: lab.ports(), (DOCTOR,)),
    Check(lambda lab: machine.clocks(lab.sys), (DOCTOR,)),
    Check(lambda _lab: machine.timing(), (DOCTOR,)),
    Check(lambda lab: machine.runtime(lab.runtime), (DOCTOR,)),
    Check(lambda lab: machine.disks(lab.folders()), (DOCTOR,)),
    Check(lambda lab: service_checks.console(lab.console[0], lab.host, lab.sockets_user), (DOCTOR,)),
    Check(
        lambda lab: () if lab.sockets_user else service_checks.console_version(lab.console[1], lab.host),
        (DOCTOR, UPGRADE),
    ),
    Check(lambda lab: service_checks.listeners(lab.host), (DOCTOR,)),
    Check(lambda lab: service_checks.programs(lab.host, lab.runtime), (DOCTOR,)),
    Check(
        lambda lab: service_checks.program_versions(lab.host, lab.runtime, lab.file) if lab.serves else (),
        (DOCTOR, HERE, UPGRADE),
    ),
    Check(lambda lab: service_checks.buildbot_file(lab.host), (DOCTOR,)),
    Check(lambda lab: service_checks.unit_files(lab.host), (DOCTOR, UPGRADE)),
    Check(lambda lab: service_checks.ssh_file(lab.farm) if lab.serves else (), (DOCTOR, HERE)),
    Check(lambda _lab: machine.versions(), (DOCTOR,)),
    Check(lambda lab: results.results(lab.db), (DOCTOR,)),
    Check(
        lambda lab: results.last_backup(lab.db) if lab.farm.backup and lab.host.name == lab.farm.first_host else (),
        (DOCTOR,),
    ),
    Check(lambda lab: files.environments(lab.folder, files.paths_of(lab.farm, lab.host.name)), (DOCTOR,)),
    Check(lambda lab: files.alerts(lab.farm), (FARM,)),
    Check(lambda lab: files.warn_of_no_authentication(lab.farm), (FARM,)),
    Check(lambda lab: files.access(lab.farm), (FARM,)),
)


def examine(examined: CheckTarget, *commands: str) -> Iterator[Finding]:
    """Yield the findings of the checks of these commands."""
    for check in CHECKS:
        if not set(commands).isdisjoint(check.commands):
            yield from check.find(examined)


def load_host(db: str | None, farm: Path | None, runtime: Path | None, name: str = "") -> CheckTarget:
    """Return this host as the target of checks.

    Args:
        name: which of the hosts of its farm.yaml it is, as for `services.host_file`.

    Raises:
        ConfigurationError: its farm.yaml is wrong, or has no such host.
    """
    host = services.host_file(farm, name)
    folder = runtime or services.runtime_of(host)
    if host.installed and (folder / SUPERVISORD.name).exists():
        host = evolve(host, supervised=True)
    return CheckTarget(services.database(db, host.farm), host, folder, host.folder, serves=host.installed)


def load_farm(file: Path) -> CheckTarget:
    """Return a farm.yaml as the target of checks.

    Raises:
        ConfigurationError: it is wrong.
    """
    host = services.host_file(file)
    return CheckTarget(
        host=host, runtime=services.runtime_of(host), serves=hosts.is_here(CheckTarget(host=host).farm), file=file
    )
