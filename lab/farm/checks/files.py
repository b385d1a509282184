"""Checks of a lab's files: farm.yaml with all that it names, and environments."""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
import json
import os
import queue
import socket
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab import package_data
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.farm import job_request, notify, validators
from lab.farm.checks import Finding
from lab.farm.config import HERE, Farm
from lab.http import web_config
from lab.places.records import may_be_one, with_port

if TYPE_CHECKING:
    from lab.places.coordinator import Coordinator

AREA: Final = "farm.yaml"
ENVIRONMENTS: Final = "environments"
BEWARE: Final = "BEWARE"
ANSWER_S: Final = 5.0
RESOLVE_S: Final = 5.0  # of all names together: a resolver that does not answer takes longer


def _bad(text: str) -> Finding:
    return Finding.of_text(AREA, "bad", text)


def boards(farm: Farm) -> Iterator[Finding]:
    """Check that each board's environment is its own."""
    for entry in farm.boards:
        try:
            board = envfile.arguments_of(envfile.find(entry.env, Path(farm.directory)), "BoardStrategy").get("board")
        except BoardlabError as error:
            yield _bad(f"boards: {entry.name}: {error}")
            continue
        if board != entry.name:
            yield _bad(f"boards: {entry.name}: {entry.env} is of board {board!r}")


def schedules(farm: Farm) -> Iterator[Finding]:
    """Check that schedules name suites, environments and boards that fit."""
    folder = Path(farm.directory)
    tests = package_data.tests(folder)
    for schedule in farm.schedules:
        try:
            suites = job_request.expand(schedule.suites)
            for suite in suites:
                job_request.files(tests, suite)
            path = envfile.find(schedule.env, folder)
            board = envfile.arguments_of(path, "BoardStrategy").get("board")
        except BoardlabError as error:
            yield _bad(f"schedules: {schedule.name}: {error}")
            continue
        problems = list(job_request.problems(tests, suites, schedule.options, path))
        if board != schedule.board:
            problems = [f"{schedule.env} is of board {board!r}, not {schedule.board!r}"]
        for problem in problems:
            yield _bad(f"schedules: {schedule.name}: {problem}")


def receivers(farm: Farm) -> Iterator[Finding]:
    """Check that a configured Alertmanager has a receiver."""
    if farm.alertmanager:
        try:
            notify.alertmanager(farm).ready_receivers()
        except BoardlabError as error:
            yield _bad(f"alertmanager: {error}")


def alerts(farm: Farm) -> Iterator[Finding]:
    """Warn of a farm that sends none."""
    if not farm.alertmanager:
        text = "farm.yaml names no `alertmanager`, see docs/farm/alerts.md"
        yield Finding(AREA, "no alerts are sent", "doubtful", text)


def places(farm: Farm) -> Iterator[Finding]:
    """Check the boards' places at the coordinator."""
    if not farm.coordinator:
        return
    from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

    coordinator = Coordinator(with_port(farm.coordinator))
    try:
        yield from list(_places_at(coordinator, farm))
    except BoardlabError as error:
        where = {"": "its host", HERE: "this host"}.get(farm.coordinator_at, farm.coordinator_at)
        yield _bad(
            f"coordinator: {error}; on {where}: systemctl start boardlab-coordinator; the connection from here (ssh "
            "-N -L, WireGuard) must be up, too"
        )


def _places_at(coordinator: Coordinator, farm: Farm) -> Iterator[Finding]:
    """Check the boards' places.

    Raises:
        LabTransientError: the coordinator does not answer.
    """
    place_names = sorted(coordinator.holders(ANSWER_S))
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
            place, other = envfile.place_of(path), envfile.coordinator_of(path)
        except BoardlabError:  # `lab farm check` reports a wrong environment itself
            continue
        if place in {"", envfile.RESERVATION}:
            continue
        where = f"boards: {board}: {env}"
        if other and not may_be_one(with_port(other), coordinator.address):
            yield _bad(
                f"{where}: its coordinator is {other}, and farm.yaml's {coordinator.address}: the janitor looks "
                "after places of the latter only; let both name the same one"
            )
        elif place not in place_names:
            close = difflib.get_close_matches(place, place_names, n=1)
            meant = f" (is {close[0]!r} meant?)" if close else ""
            yield _bad(
                f"{where}: no place {place!r} at the coordinator {coordinator.address}{meant}: correct `RemotePlace` "
                f"there, or make the place: labgrid-client -p {place} create, then add-match HOST/GROUP/CLASS"
            )
        else:
            for match in coordinator.find_unmatched(place):
                yield _bad(
                    f"{where}: place {place!r} wants {match}, and no exporter offers that now: correct the group's "
                    "name in `exports` of its host, "
                    f"or the match (labgrid-client -p {place} show), or start boardlab-export there"
                )


def names(
    farm: Farm, resolve: Callable[[str], list[str]] | None = None, limit_s: float = RESOLVE_S
) -> Iterator[Finding]:
    """Resolve the names in unguarded addresses of farm.yaml.

    A name with an address outside private networks is bad, one that this host cannot resolve doubtful.

    Args:
        resolve: name -> addresses, or an OSError; None: as this host does.
    """
    addresses = {"coordinator": farm.coordinator, "pdudaemon: address": farm.pdudaemon.address}
    machines = {key: _machine(address) for key, address in addresses.items()}
    asked = {key: machine for key, machine in machines.items() if machine and not _is_literal(machine)}
    answers = _resolve(set(asked.values()), resolve or _addresses, limit_s)
    for key, machine in asked.items():
        answer = answers.get(machine, f"no answer within {limit_s:g} s")
        place = f"{key}: {addresses[key]!r}: {machine}"
        if isinstance(answer, str):
            text = (
                f"is no name that this host knows ({answer}), so it is unknown here whether other hosts than the "
                "lab's reach it"
            )
            yield Finding.of_text(AREA, "doubtful", f"{place} {text}")
        elif public := [address for address in answer if not validators.is_guarded(ipaddress.ip_address(address))]:
            yield _bad(f"{place} is {', '.join(public)}: {validators.UNGUARDED}")


def warn_of_no_authentication(farm: Farm) -> Iterator[Finding]:
    """Warn of services without authentication."""
    if farm.coordinator:
        text = (
            f"{BEWARE}: labgrid's coordinator at {farm.coordinator} knows neither users nor passwords: EVERY HOST "
            "THAT REACHES IT can acquire, release and "
            "delete every place. Keep it on loopback, with ssh between the hosts, or on WireGuard: "
            'docs/farm/several-hosts.md, "Between hosts"'
        )
        yield Finding.of_text(AREA, "doubtful", text)
    text = (
        f"{BEWARE}: pdudaemon at {farm.pdudaemon.address} switches boards for EVERY user of this host, unless a "
        f"firewall rule lets only {farm.user} reach it: "
        f"{package_data.folder(package_data.FARM) / 'nftables' / 'boardlab-pdudaemon.nft'}, see docs/farm/security.md"
    )
    yield Finding.of_text(AREA, "doubtful", text)


def access(farm: Farm) -> Iterator[Finding]:
    """Check access to exporter and site, and their files of passwords and tokens."""
    for name, server in (("exporter", farm.exporter), ("web", farm.web)):
        path = Path(server.web_config)
        is_here = bool(server.web_config) and os.access(path, os.R_OK)
        if server.web_config and not is_here:  # another host's, or another user's
            continue
        try:
            config = web_config.load(path) if is_here else None
            if server is not farm.web or config is None or config.tls_server_config is None:  # the site has users, too
                web_config.check_address(_machine(server.listen), config)
        except ConfigurationError as error:
            yield Finding(AREA, name, "bad", str(error))
            continue
        if config is not None and config.basic_auth_users and path.stat().st_mode & stat.S_IROTH:
            text = f"every user of this host may read the password hashes in {path}"
            yield Finding(AREA, name, "doubtful", text, f"chmod o= {path}")
    users = Path(farm.web.users)
    if not farm.web.users or not os.access(users, os.R_OK):
        return
    if users.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Finding(AREA, "web", "bad", f"others may read the password hashes in {users}", f"chmod 600 {users}")
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):  # `lab web` names what is wrong in it
        entries = json.loads(users.read_text(encoding="utf-8"))
        if programs := sorted(name for name, entry in entries.items() if entry.get("token")):
            text = f"the tokens of {', '.join(programs)} have no end: remove those that are no longer needed"
            yield Finding(AREA, "web", "doubtful", text, f"lab web user remove NAME --users {users}")


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


def _resolve(machines: set[str], resolve: Callable[[str], list[str]], limit_s: float) -> Mapping[str, list[str] | str]:
    """Addresses by name, or the reason of a failure, until the limit."""
    answers: queue.SimpleQueue[tuple[str, list[str] | str]] = queue.SimpleQueue()

    def ask(machine: str) -> None:
        try:
            answers.put((machine, resolve(machine)))
        except (OSError, UnicodeError) as error:
            answers.put((machine, getattr(error, "strerror", None) or str(error)))

    for machine in machines:
        threading.Thread(target=ask, args=(machine,), daemon=True).start()
    answers_by_name: dict[str, list[str] | str] = {}
    deadline = time.monotonic() + limit_s
    while len(answers_by_name) < len(machines):
        try:
            machine, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        answers_by_name[machine] = answer
    return answers_by_name


def _addresses(machine: str) -> list[str]:
    infos = socket.getaddrinfo(machine, None, type=socket.SOCK_STREAM)
    return sorted({str(info[4][0]).partition("%")[0] for info in infos})


def environment(path: Path) -> Iterator[Finding]:
    """Find what a run would refuse in an environment, and what labgrid ignores."""
    from lab.env import power_state  # noqa: PLC0415 - it loads drivers

    for problem in power_state.run_problems(path):
        yield Finding.of_text(ENVIRONMENTS, "bad", problem)
    if not any(envfile.problems(path)):
        for remark in envfile.remarks(path):
            yield Finding.of_text(ENVIRONMENTS, "doubtful", remark)
        if not envfile.names(path, "BoardStrategy", *envfile.BOARD_OPTIONS):  # no run of boardlab's refuses it
            for refusal in envfile.refusals(path):
                yield Finding.of_text(ENVIRONMENTS, "doubtful", refusal)


def environments(folder: Path, of_farm: Collection[Path] = ()) -> Iterator[Finding]:
    """The environments of a lab's folder, and those that farm.yaml names.

    What a run would refuse is bad in those of farm.yaml; others may be templates.
    """
    from lab.env import power_state  # noqa: PLC0415 - it loads drivers

    paths = sorted({*(folder / package_data.ENVS).absolute().glob("*.yaml"), *of_farm})
    if not paths:
        hint = "run this in a lab's folder; `lab init DIR` writes one"
        yield Finding(ENVIRONMENTS, package_data.ENVS, "doubtful", f"none in {folder / package_data.ENVS}", hint)
        return
    sound = []
    for path in paths:
        if problems := power_state.run_problems(path) if path in of_farm else list(envfile.problems(path)):
            text = first_of(problems).removeprefix(f"{path}: ")
            yield Finding(ENVIRONMENTS, path.name, "bad", text, f"lab env check --env {path}")
        else:
            sound.append(path)
    templates = [path.name for path in sound if path not in of_farm and any(envfile.refusals(path))]
    if templates:
        text = f"a run would refuse {len(templates)} that farm.yaml does not name: {', '.join(templates)}"
        yield Finding(ENVIRONMENTS, package_data.ENVS, "doubtful", text, "lab env check --env NAME")
    if good := len(sound) - len(templates):
        yield Finding(ENVIRONMENTS, package_data.ENVS, "ok", f"{good} of {len(paths)} have nothing wrong")


def first_of(problems: Sequence[str]) -> str:
    """The first problem, and the number of others."""
    return problems[0] + (f", and {len(problems) - 1} more" if len(problems) > 1 else "")


def paths_of(farm: Farm, host: str) -> set[Path]:
    """The environments of a host's boards.

    Those that do not exist are left out: `lab farm check` names them.
    """
    paths = set()
    for env in farm.environments_at(host).values():
        with contextlib.suppress(ConfigurationError):
            paths.add(envfile.find(env, Path(farm.directory)).absolute())
    return paths


def farm_environments(farm: Farm, host: str) -> Iterator[Finding]:
    """Check the farm's environments as `lab env check` does.

    Args:
        host: this one's name in farm.yaml, where devices are looked for; empty: it is none of the farm's.
    """
    from lab.env import power_state  # noqa: PLC0415 - it loads drivers

    here = farm.environments_at(host) if host else {}
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
        except BoardlabError:  # `boards` reports it
            continue
        if problems := power_state.run_problems(path, elsewhere=board not in here):
            yield Finding(ENVIRONMENTS, board, "bad", first_of(problems), f"see lab env check --env {path}")
