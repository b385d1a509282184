"""Checks of other hosts of a farm.yaml: each examines itself, asked through ssh."""

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
from lab.farm.checks import Finding
from lab.farm.checks.machine import APART_S, CLOCKS, SAME_SERVERS, VERSIONS
from lab.farm.config import HERE, SSH_VARIABLE, Farm
from lab.host.clock import utc_now
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink

AREA: Final = "host"
LIMIT_S: Final = 300.0
CLOCK_LIMIT_S: Final = 10.0  # of `date`
_AT_ONCE: Final = 16
_NOT_THERE: Final = 127  # the shell's, where there is no such program
_LAST: Final = 300  # characters of a program's output
# In the lab's folder, with the farm.yaml that is checked, whatever farm.yaml is there: it travels as one word, of
# which the kernel takes 128 KiB.
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
class _Answer:
    """A host's findings and the lead of its wall clock.

    `ahead_s`: least and most seconds ahead of this host's; None: unknown.
    """

    findings: list[Finding]
    ahead_s: tuple[float, float] | None = None


def names(farm: Farm) -> list[str]:
    """The hosts of a farm; one that names none is this host."""
    return [host.name for host in farm.hosts] or [HERE]


def is_here(farm: Farm) -> bool:
    """Return whether this host is one of them."""
    return not _own().isdisjoint(names(farm))


def _own() -> set[str]:
    return {HERE, socket.gethostname()}


def examine(farm: Farm, file: Path, here: Callable[[str], Sequence[Finding]]) -> dict[str, list[Finding]]:
    """Findings by host, all asked at the same time, in the order of farm.yaml.

    Args:
        file: the farm.yaml, given to each host.
        here: findings of `lab doctor` on this host, by its name in farm.yaml; they need no ssh.
    """
    # Its paths begin at its own folder, which it leaves: where they begin is written into it.
    text = json.dumps({**yamlfile.load(file), "directory": farm.directory})
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    hosts, own = names(farm), _own()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = {host: pool.submit(_ask, farm, packed, host) for host in hosts if host not in own}
        answers = {
            host: _Answer(list(here(host)), (0.0, 0.0)) if host in own else asked[host].result() for host in hosts
        }
    findings = {host: answer.findings for host, answer in answers.items()}
    for host in hosts[1:]:
        findings[host] = [finding for finding in findings[host] if (finding.area, finding.subject) not in _ELSEWHERE]
    ahead_s = {host: answer.ahead_s for host, answer in answers.items() if answer.ahead_s is not None}
    for host, finding in (*_apart(findings), *_clocks_apart(ahead_s)):
        findings[host].append(finding)
    return findings


def _ask(farm: Farm, packed: str, host: str) -> _Answer:
    """Ask `lab doctor` and `date` on another host."""
    link = SshLink.to(host, prepare(runtime_dir()), ssh_environ(farm))
    findings = _examine(link, farm, packed)
    away = any(finding.area == AREA for finding in findings)
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


def _examine(link: SshLink, farm: Farm, packed: str) -> list[Finding]:
    """Ask `lab doctor` on a host for its findings."""
    host = link.host
    by_hand = f"ssh {host}, then: cd {farm.directory} && {farm.program} doctor --host {host} --farm FILE"
    argv = ["sh", "-c", _IN_FOLDER, "sh", farm.directory, packed, farm.program, "doctor", "--json", "--host", host]
    try:
        done = link.ran(argv, LIMIT_S)
    except subprocess.TimeoutExpired:
        return [Finding(AREA, host, "bad", f"`lab doctor` did not end within {LIMIT_S:g} s there", by_hand)]
    except BoardlabError as error:
        place = farm.ssh_config or "~/.ssh/config of this user"
        hint = f"is it up? The key and the host name for `ssh {host}` belong into {place}"
        return [Finding(AREA, host, "bad", f"cannot be reached: {error}", hint)]
    try:
        return cattrs.structure(json.loads(done.stdout), list[Finding])
    except (ValueError, TypeError, KeyError, cattrs.BaseValidationError):
        text = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-_LAST:]
    if done.returncode == _NOT_THERE:
        hint = (
            f"install boardlab there as {farm.program}, or change `program` of farm.yaml, which is the same on all "
            "hosts"
        )
        return [Finding(AREA, host, "bad", f"there is no {farm.program}: {text}", hint)]
    return [Finding(AREA, host, "bad", f"`lab doctor` ended with {done.returncode} there: {text}", by_hand)]


def ssh_environ(farm: Farm) -> dict[str, str]:
    """Environment for ssh, with the services' configuration as default.

    The user must be able to read that.
    """
    own = dict(os.environ)
    if SSH_VARIABLE not in own and farm.ssh_config and os.access(farm.ssh_config, os.R_OK):
        own[SSH_VARIABLE] = farm.ssh_config
    return own


def _apart(findings: Mapping[str, Sequence[Finding]]) -> Iterator[tuple[str, Finding]]:
    """Find hosts with another boardlab than the first one."""
    versions = {
        host: finding.said.partition(",")[0]
        for host, of_host in findings.items()
        for finding in of_host
        if (finding.area, finding.subject) == (VERSIONS, "boardlab")
    }
    for host, version in versions.items():
        first, first_version = next(iter(versions.items()))
        if version != first_version:
            text = f"boardlab {version}, and {first} has {first_version}: their numbers may not be comparable"
            yield (
                host,
                Finding(
                    AREA, host, "doubtful", text, f"install boardlab {first_version} there, or {version} on {first}"
                ),
            )


def _clocks_apart(ahead_s: Mapping[str, tuple[float, float]]) -> Iterator[tuple[str, Finding]]:
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
            yield host, Finding(CLOCKS, "wall clock", "doubtful", text, SAME_SERVERS)
