"""What knows neither users nor passwords, and who reaches it: said where a farm is set up, with what the names in farm.yaml stand for."""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen

from lab import shipped
from lab.farm import values
from lab.farm.config import Farm

RESOLVE_S: Final = 5.0  # of all names together: a resolver that does not answer takes longer


@frozen
class Names:
    """What the names in farm.yaml of such addresses stand for.

    Attributes:
        public: those that whoever is outside the lab reaches. unknown: those that nobody resolves here, and why.
    """

    public: tuple[str, ...]
    unknown: tuple[str, ...]


def names(farm: Farm, resolve: Callable[[str], list[str]] | None = None, limit_s: float = RESOLVE_S) -> Names:
    """Resolve them; addresses were looked at when farm.yaml was read.

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
                f"{key}: {addresses[key]!r}: {machine} is no name that this host knows ({its}): nobody can say here whether others "
                "than the lab's hosts reach it"
            )
        elif bad := [each for each in its if not values.is_guarded(ipaddress.ip_address(each))]:
            public.append(f"{key}: {addresses[key]!r}: {machine} is {', '.join(bad)}: {values.UNGUARDED}")
    return Names(tuple(public), tuple(unknown))


def warnings(farm: Farm) -> Iterator[str]:
    """What whoever sets it up has to know."""
    if farm.coordinator:
        yield (
            f"BEWARE: labgrid's coordinator at {farm.coordinator} knows neither users nor passwords: WHOEVER REACHES IT acquires, releases and "
            'deletes every place. Keep it on loopback, with ssh between the hosts, or on WireGuard: docs/farm/several-hosts.md, "Between hosts"'
        )
    yield (
        f"BEWARE: pdudaemon at {farm.pdudaemon.address} switches boards for EVERY user of this host, unless a firewall rule "
        f"lets only {farm.user} reach it: {shipped.folder(shipped.FARM) / 'nftables' / 'boardlab-pdudaemon.nft'}, see docs/farm/security.md"
    )


def _machine(address: str) -> str:
    """Of host:port, [::1]:port or a host alone."""
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
    """Name -> its addresses, or why there are none; without those that take too long."""
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
