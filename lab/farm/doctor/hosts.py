"""The hosts of a farm.yaml: on each of them `lab doctor`, through ssh; what keeps it from that is a finding as well."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import cattrs
from attrs import frozen

from lab.errors import BoardlabError
from lab.farm.config import HERE, Farm
from lab.farm.doctor.finding import Finding
from lab.farm.doctor.software import VERSIONS
from lab.host.runtime import prepare, runtime_dir
from lab.host.sshlink import SshLink

AREA: Final = "host"
LIMIT_S: Final = 300.0
_AT_ONCE: Final = 16
_NOT_THERE: Final = 127  # the shell's, where there is no such program
_LAST: Final = 300  # characters of what a program said
_IN_FOLDER: Final = 'cd "$1" && shift && exec "$@"'
# Only the first host runs these; with the same farm.yaml, `lab doctor` on another one misses them.
_ELSEWHERE: Final = frozenset({("services", "exporter"), ("services", "alertmanager")})


@frozen
class Found:
    """What was found on a host."""

    host: str
    finding: Finding


def names(farm: Farm) -> list[str]:
    """The hosts of a farm; one that names none is this host."""
    return [host.name for host in farm.hosts] or [HERE]


def examine(farm: Farm, here: Callable[[], Sequence[Finding]]) -> list[Found]:
    """All hosts at the same time, in the order of farm.yaml.

    Args:
        here: what `lab doctor` finds on this host, which needs no ssh.
    """
    hosts = names(farm)
    own = {HERE, socket.gethostname()}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = {host: pool.submit(_asked, farm, host) for host in hosts if host not in own}
        found = {host: list(here()) if host in own else asked[host].result() for host in hosts}
    for host in hosts[1:]:
        found[host] = [each for each in found[host] if (each.area, each.subject) not in _ELSEWHERE]
    for host, finding in _apart(found):
        found[host].append(finding)
    return [Found(host, finding) for host in hosts for finding in found[host]]


def _asked(farm: Farm, host: str) -> list[Finding]:
    """What `lab doctor` says there."""
    by_hand = f"ssh {host}, then: cd {farm.directory} && {farm.program} doctor"
    words = ["sh", "-c", _IN_FOLDER, "sh", farm.directory, farm.program, "doctor", "--json"]
    try:
        done = SshLink.to(host, prepare(runtime_dir())).ran(words, LIMIT_S)
    except subprocess.TimeoutExpired:
        return [Finding(AREA, host, "bad", f"`lab doctor` did not end within {LIMIT_S:g} s there", by_hand)]
    except BoardlabError as error:
        mend = f"is it up? What `ssh {host}` needs, as a key or another name, belongs into ~/.ssh/config of this user"
        return [Finding(AREA, host, "bad", f"cannot be reached: {error}", mend)]
    try:
        return cattrs.structure(json.loads(done.stdout), list[Finding])
    except (ValueError, TypeError, KeyError, cattrs.BaseValidationError):
        said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-_LAST:]
    if done.returncode == _NOT_THERE:
        mend = f"install boardlab there as {farm.program}, or change `program` of farm.yaml, which is the same on all hosts"
        return [Finding(AREA, host, "bad", f"there is no {farm.program}: {said}", mend)]
    return [Finding(AREA, host, "bad", f"`lab doctor` ended with {done.returncode} there: {said}", by_hand)]


def _apart(found: Mapping[str, Sequence[Finding]]) -> Iterator[tuple[str, Finding]]:
    """Hosts whose boardlab is another than the first one's that says its own."""
    versions = {
        host: each.said.partition(",")[0]
        for host, of_host in found.items()
        for each in of_host
        if (each.area, each.subject) == (VERSIONS, "boardlab")
    }
    for host, version in versions.items():
        first, its = next(iter(versions.items()))
        if version != its:
            said = f"boardlab {version}, and {first} has {its}: their numbers may not be comparable"
            yield host, Finding(AREA, host, "doubtful", said, f"install boardlab {its} there, or {version} on {first}")
