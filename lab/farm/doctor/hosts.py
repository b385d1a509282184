"""The hosts of a farm.yaml: on each of them `lab doctor`, through ssh, and its wall clock; what keeps it from that is a finding as well."""

from __future__ import annotations

import base64
import gzip
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import cattrs
from attrs import frozen

from lab import yamlfile
from lab.errors import BoardlabError
from lab.farm.config import HERE, SSH_VARIABLE, Farm
from lab.farm.doctor.finding import Finding
from lab.farm.doctor.machine import APART_S, CLOCKS, SAME_SERVERS
from lab.farm.doctor.software import VERSIONS
from lab.host.clock import utc_now
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink

AREA: Final = "host"
LIMIT_S: Final = 300.0
CLOCK_LIMIT_S: Final = 10.0  # of `date`
_AT_ONCE: Final = 16
_NOT_THERE: Final = 127  # the shell's, where there is no such program
_LAST: Final = 300  # characters of what a program said
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
    """What was found on a host."""

    host: str
    finding: Finding


@frozen
class _Answer:
    """A host's findings, and how far its wall clock is ahead of this host's: at least and at most, in seconds; None: nobody knows."""

    findings: list[Finding]
    ahead_s: tuple[float, float] | None = None


def names(farm: Farm) -> list[str]:
    """The hosts of a farm; one that names none is this host."""
    return [host.name for host in farm.hosts] or [HERE]


def is_here(farm: Farm) -> bool:
    """Whether this is one of them."""
    return not _own().isdisjoint(names(farm))


def _own() -> set[str]:
    return {HERE, socket.gethostname()}


def examine(farm: Farm, file: Path, here: Callable[[str], Sequence[Finding]]) -> list[Found]:
    """All hosts at the same time, in the order of farm.yaml.

    Args:
        file: the farm.yaml, with which each host is looked at.
        here: what `lab doctor` finds on this host, which needs no ssh; it is told which of the hosts that is.
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
    away = any(each.area == AREA for each in findings)
    return _Answer(findings, None if away else _ahead_s(link))


def _ahead_s(link: SshLink) -> tuple[float, float] | None:
    """How far a host's wall clock is ahead of this one's: the answer was made between the question and its arrival."""
    asked_s = utc_now().timestamp()
    try:
        there_s = float(link.ran(["date", "+%s.%N"], CLOCK_LIMIT_S).stdout)
    except (BoardlabError, subprocess.TimeoutExpired, ValueError):
        return None
    return there_s - utc_now().timestamp(), there_s - asked_s


def _examined(link: SshLink, farm: Farm, packed: str) -> list[Finding]:
    """Findings of `lab doctor` on a host."""
    host = link.host
    by_hand = f"ssh {host}, then: cd {farm.directory} && {farm.program} doctor --host {host} --farm FILE"
    words = ["sh", "-c", _IN_FOLDER, "sh", farm.directory, packed, farm.program, "doctor", "--json", "--host", host]
    try:
        done = link.ran(words, LIMIT_S)
    except subprocess.TimeoutExpired:
        return [Finding(AREA, host, "bad", f"`lab doctor` did not end within {LIMIT_S:g} s there", by_hand)]
    except BoardlabError as error:
        place = farm.ssh_config or "~/.ssh/config of this user"
        mend = f"is it up? What `ssh {host}` needs, as a key or another name, belongs into {place}"
        return [Finding(AREA, host, "bad", f"cannot be reached: {error}", mend)]
    try:
        return cattrs.structure(json.loads(done.stdout), list[Finding])
    except (ValueError, TypeError, KeyError, cattrs.BaseValidationError):
        said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-_LAST:]
    if done.returncode == _NOT_THERE:
        mend = f"install boardlab there as {farm.program}, or change `program` of farm.yaml, which is the same on all hosts"
        return [Finding(AREA, host, "bad", f"there is no {farm.program}: {said}", mend)]
    return [Finding(AREA, host, "bad", f"`lab doctor` ended with {done.returncode} there: {said}", by_hand)]


def ssh_environ(farm: Farm) -> dict[str, str]:
    """This process's environment for ssh; where it names no configuration, the services' is taken, if this user may read it."""
    own = dict(os.environ)
    if SSH_VARIABLE not in own and farm.ssh_config and os.access(farm.ssh_config, os.R_OK):
        own[SSH_VARIABLE] = farm.ssh_config
    return own


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


def _clocks_apart(ahead_s: Mapping[str, tuple[float, float]]) -> Iterator[tuple[str, Finding]]:
    """Hosts whose wall clock is not that of most; of two that differ, the second one."""

    def apart_s(one: str, other: str) -> float:
        """How far the first one is ahead for certain; negative: behind."""
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
            said = (
                f"is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} that of {right}: runs get wrong times"
            )
            yield host, Finding(CLOCKS, "wall clock", "doubtful", said, SAME_SERVERS)
