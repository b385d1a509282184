"""All checks, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from lab.console.status import ServerStatus
from lab.errors import BoardlabError
from lab.farm import services
from lab.farm.doctor import services as doctor_services
from lab.farm.doctor import software
from lab.farm.doctor.software import DoctorFinding
from lab.farm.services import SUPERVISORD, HostFile, Service
from lab.host.runtime import check_owner, recordings_dir
from lab.results.location import locate

SERVICES: Final = "services"
RUNTIME: Final = "runtime"


@frozen
class ExaminedHost:
    """Object of an examination.

    Attributes:
        db: as `--db`; None: the default. host: its farm.yaml.
        runtime: the console server's folder. folder: of the lab, with `envs/`. dev, sys: where devices and sysfs are.
    """

    db: str | None
    host: HostFile
    runtime: Path
    folder: Path
    dev: Path = Path("/dev")
    sys: Path = Path("/sys")


def examined_host(db: str | None, farm: Path | None, runtime: Path | None, name: str = "") -> ExaminedHost:
    """This host.

    Args:
        name: which of the hosts of its farm.yaml it is, as for `services.host_file`.

    Raises:
        ConfigurationError: its farm.yaml is wrong, or has no such host.
    """
    host = services.host_file(farm, name)
    folder = runtime or services.runtime_of(host)
    if host.installed and (folder / SUPERVISORD.name).exists():
        host = evolve(host, supervised=True)
    return ExaminedHost(services.database(db, host.farm), host, folder, host.folder)


def examine(examined: ExaminedHost) -> Iterator[DoctorFinding]:
    """Yield the findings of all checks, area by area."""
    server, status = services.console_server(examined.runtime)
    yield from software.check(_devices(status), {status.pid} if status else (), examined.dev, examined.sys)
    yield from software.clocks(examined.sys)
    yield from software.timing()
    yield from _runtime(examined.runtime)
    yield from software.disks(_folders(examined))
    if user := doctor_services.sockets_user(examined.host, examined.runtime):
        yield doctor_services.unseen(user)
    else:
        yield _of_service(doctor_services.console(server, examined.host))
        yield from doctor_services.versions(status, examined.host)
    for service in services.listening(examined.host):
        yield _of_service(service)
    yield from doctor_services.check(examined.host, examined.runtime)
    if examined.host.farm is not None and examined.host.installed:
        yield from doctor_services.ssh_file_findings(examined.host.farm)
    yield from software.versions()
    yield from software.results(examined.db)
    farm = examined.host.farm
    if farm is not None and farm.backup is not None and examined.host.name == farm.first_host:
        yield from software.backed_up(examined.db)
    yield from software.environments(examined.folder, farm, examined.host.name)


def _of_service(service: Service) -> DoctorFinding:
    return DoctorFinding(SERVICES, service.name, "bad" if service.state == "bad" else "ok", service.said, service.hint)


def _devices(status: ServerStatus | None) -> set[str]:
    return {os.path.realpath(port.info.meta.device) for port in status.ports} if status else set()


def _runtime(folder: Path) -> Iterator[DoctorFinding]:
    if not folder.exists():
        return
    try:
        check_owner(folder)
    except BoardlabError as error:
        text, _, hint = str(error).partition("; ")
        yield DoctorFinding(RUNTIME, str(folder), "bad", text, hint)


def _folders(examined: ExaminedHost) -> dict[str, Path]:
    try:
        location = locate(examined.db)
    except BoardlabError:  # the check of the results says why
        return {"recordings": recordings_dir(examined.runtime)}
    store = {} if location.path is None else {"results": location.path.parent}
    return {**store, "artifacts": location.artifacts, "recordings": recordings_dir(examined.runtime)}
