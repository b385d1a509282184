"""Checks of farm.yaml's boards, schedules, places and addresses."""

from __future__ import annotations

import difflib
import ipaddress
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from lab import package_data
from lab.env import envfile
from lab.errors import BoardlabError
from lab.farm import job_request, notify, validators
from lab.farm.config import HERE, BoardEntry, Farm
from lab.farm.doctor import DoctorFinding, software
from lab.host.process import user_name
from lab.places.records import may_be_one, with_port

if TYPE_CHECKING:
    from lab.places.coordinator import Coordinator


_FILES: Final = re.compile(
    r"^sqlite:///(.+)|[?&]passfile=([^&]+)"
)  # files of the results: SQLite's, and libpq's passwords


def problems(farm: Farm) -> list[str]:
    """Find schedules and boards with missing or wrong names."""
    folder = Path(farm.directory)
    found = [problem for entry in farm.boards for problem in wrong_board(folder, entry)]
    for schedule in farm.schedules:
        try:
            wanted = job_request.expand(schedule.suites)
            for suite in wanted:
                job_request.files(package_data.tests(folder), suite)
            path = envfile.find(schedule.env, folder)
            board = envfile.arguments_of(path, "BoardStrategy").get("board")
        except BoardlabError as error:
            found.append(f"schedules: {schedule.name}: {error}")
            continue
        if board != schedule.board:
            found.append(f"schedules: {schedule.name}: {schedule.env} is of board {board!r}, not {schedule.board!r}")
            continue
        wrong = job_request.problems(package_data.tests(folder), wanted, schedule.options, path)
        found += [f"schedules: {schedule.name}: {problem}" for problem in wrong]
    return found


def environment_problems(farm: Farm, host: str) -> Iterator[str]:
    """Check the farm's environments as `lab env check` does.

    Args:
        host: this one's name in farm.yaml, where devices are looked for; empty: it is none of the farm's.
    """
    from lab.env import power_state  # noqa: PLC0415 - it loads labgrid

    here = farm.environments_at(host) if host else {}
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
        except BoardlabError:  # `problems` reports it
            continue
        if found := power_state.run_problems(path, elsewhere=board not in here):
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            yield f"{board}: {found[0]}{more}; see lab env check --env {path}"


def wrong_board(folder: Path, entry: BoardEntry) -> Iterator[str]:
    """Check that an environment belongs to its board."""
    try:
        board = envfile.arguments_of(envfile.find(entry.env, folder), "BoardStrategy").get("board")
    except BoardlabError as error:
        yield f"boards: {entry.name}: {error}"
        return
    if board != entry.name:
        yield f"boards: {entry.name}: {entry.env} is of board {board!r}"


def results(farm: Farm, file: Path) -> Iterator[DoctorFinding]:
    """Check that the results can be read; missing results are no finding.

    Args:
        file: the farm.yaml.
    """
    path = next((Path(found[1] or found[2]) for found in _FILES.finditer(farm.database)), None)
    if path is not None and _is_hidden(path):
        text = f"{user_name(os.getuid())} may not read {path}, so the state of the results is unknown"
        hint = f"look as the services' user: sudo -u {farm.user} {farm.program} farm check {file}"
        yield DoctorFinding(software.STORE, "database", "doubtful", text, hint)
        return
    made_by_systemd = Path("/var/lib", farm.state)  # the services' StateDirectory=
    if path is None or path.parent != made_by_systemd or made_by_systemd.exists():
        yield from (each for each in software.results(farm.database) if each.level != "ok")


def _is_hidden(path: Path) -> bool:
    """Return whether this user may not read or see a file."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def alerting_problems(farm: Farm) -> list[str]:
    """Check that a configured Alertmanager has a receiver."""
    if not farm.alertmanager:
        return []
    try:
        notify.alertmanager(farm).ready_receivers()
    except BoardlabError as error:
        return [f"alertmanager: {error}"]
    return []


# --- Places of the boards at labgrid's coordinator: farm.yaml names environments, and these name places ---


ANSWER_S: Final = 5.0


@frozen
class _Named:
    """Place that a board's environment names, with its coordinator (may be empty)."""

    board: str
    env: str
    place: str
    coordinator: str


def wiring_problems(farm: Farm) -> list[str]:
    """Check the boards' places at the coordinator."""
    if not farm.coordinator:
        return []
    from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

    coordinator = Coordinator(with_port(farm.coordinator))
    try:
        known = sorted(coordinator.holders(ANSWER_S))
        return [problem for each in _named(farm) for problem in _wrong(each, coordinator, known)]
    except BoardlabError as error:
        where = {"": "its host", HERE: "this host"}.get(farm.coordinator_at, farm.coordinator_at)
        return [
            f"coordinator: {error}; on {where}: systemctl start boardlab-coordinator; the connection from here (ssh -N -L, WireGuard) must be up, too"
        ]


def _named(farm: Farm) -> Iterator[_Named]:
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
            place, its = envfile.place_of(path), envfile.coordinator_of(path)
        except BoardlabError:  # `lab farm check` reports a wrong environment itself
            continue
        if place not in {"", envfile.RESERVATION}:
            yield _Named(board, env, place, its)


def _wrong(named: _Named, coordinator: Coordinator, known: list[str]) -> Iterator[str]:
    """Check one board's place.

    Raises:
        LabTransientError: the coordinator does not answer.
    """
    where = f"boards: {named.board}: {named.env}"
    if named.coordinator and not may_be_one(with_port(named.coordinator), coordinator.address):
        yield (
            f"{where}: its coordinator is {named.coordinator}, and farm.yaml's {coordinator.address}: the janitor looks after places of the "
            "latter only; let both name the same one"
        )
        return
    if named.place not in known:
        close = difflib.get_close_matches(named.place, known, n=1)
        meant = f" (is {close[0]!r} meant?)" if close else ""
        yield (
            f"{where}: no place {named.place!r} at the coordinator {coordinator.address}{meant}: correct `RemotePlace` there, or make the place: "
            f"labgrid-client -p {named.place} create, then add-match HOST/GROUP/CLASS"
        )
        return
    for match in coordinator.unmatched(named.place):
        yield (
            f"{where}: place {named.place!r} wants {match}, and no exporter offers that now: correct the group's name in `exports` of its host, or the "
            f"match (labgrid-client -p {named.place} show), or start boardlab-export there"
        )


# --- Services without authentication, and the addresses behind their names in farm.yaml ---


RESOLVE_S: Final = 5.0  # of all names together: a resolver that does not answer takes longer


@frozen
class CheckedNames:
    """Results of resolving the names in unguarded addresses.

    Attributes:
        public: names with an address outside private networks. unknown: names that this host cannot resolve,
        with the reason.
    """

    public: tuple[str, ...]
    unknown: tuple[str, ...]


def names(farm: Farm, resolve: Callable[[str], list[str]] | None = None, limit_s: float = RESOLVE_S) -> CheckedNames:
    """Resolve the names in unguarded addresses of farm.yaml.

    Args:
        resolve: name -> addresses, or an OSError; None: as this host does.
    """
    addresses = {"coordinator": farm.coordinator, "pdudaemon: address": farm.pdudaemon.address}
    machines = {key: _machine(address) for key, address in addresses.items()}
    asked = {key: machine for key, machine in machines.items() if machine and not _is_literal(machine)}
    found = _resolved(set(asked.values()), resolve or _addresses, limit_s)
    public, unknown = [], []
    for key, machine in asked.items():
        its = found.get(machine, f"no answer within {limit_s:g} s")
        if isinstance(its, str):
            unknown.append(
                f"{key}: {addresses[key]!r}: {machine} is no name that this host knows ({its}), so it is unknown here whether "
                "other hosts than the lab's reach it"
            )
        elif bad := [each for each in its if not validators.is_guarded(ipaddress.ip_address(each))]:
            public.append(f"{key}: {addresses[key]!r}: {machine} is {', '.join(bad)}: {validators.UNGUARDED}")
    return CheckedNames(tuple(public), tuple(unknown))


def warnings(farm: Farm) -> Iterator[str]:
    """Warn of services without authentication."""
    if farm.coordinator:
        yield (
            f"BEWARE: labgrid's coordinator at {farm.coordinator} knows neither users nor passwords: EVERY HOST THAT REACHES IT can acquire, release and "
            'delete every place. Keep it on loopback, with ssh between the hosts, or on WireGuard: docs/farm/several-hosts.md, "Between hosts"'
        )
    yield (
        f"BEWARE: pdudaemon at {farm.pdudaemon.address} switches boards for EVERY user of this host, unless a firewall rule "
        f"lets only {farm.user} reach it: {package_data.folder(package_data.FARM) / 'nftables' / 'boardlab-pdudaemon.nft'}, see docs/farm/security.md"
    )


def _machine(address: str) -> str:
    """Host part of host:port, [::1]:port or a host alone."""
    machine, _, port = address.rpartition(":")
    return (machine if port.isdecimal() and machine else address).removeprefix("[").removesuffix("]")


def _is_literal(machine: str) -> bool:
    try:
        ipaddress.ip_address(machine)
    except ValueError:
        return False
    return True


def _resolved(
    machines: set[str], resolve: Callable[[str], list[str]], limit_s: float
) -> Mapping[str, list[str] | str]:
    """Addresses by name, or the reason of a failure, until the limit."""
    answers: queue.SimpleQueue[tuple[str, list[str] | str]] = queue.SimpleQueue()

    def ask(machine: str) -> None:
        try:
            answers.put((machine, resolve(machine)))
        except (OSError, UnicodeError) as error:
            answers.put((machine, getattr(error, "strerror", None) or str(error)))

    for machine in machines:
        threading.Thread(target=ask, args=(machine,), daemon=True).start()
    found: dict[str, list[str] | str] = {}
    deadline = time.monotonic() + limit_s
    while len(found) < len(machines):
        try:
            machine, its = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[machine] = its
    return found


def _addresses(machine: str) -> list[str]:
    infos = socket.getaddrinfo(machine, None, type=socket.SOCK_STREAM)
    return sorted({str(info[4][0]).partition("%")[0] for info in infos})
