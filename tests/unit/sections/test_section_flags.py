"""Flags that a benchmark itself sets on its numbers reach the store's samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define
from support.scripted_host import ScriptedHost, section_run, session
from support.section_outputs import recorded

from lab.benchmarks import ethernet, realtime
from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.section import Section
from lab.metrics import Flag
from lab.results import Store, open_store
from lab.run.sections import KIND
from lab.run.session import CommandResult

_STREAM = """MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.168.0.1 () port 0 AF_INET : demo
DIRECTION=Send
THROUGHPUT=5.33
MEAN_LATENCY=27.02
LOCAL_CPU_UTIL=10.12
REMOTE_CPU_UTIL=-1.00
LOCAL_BYTES_SENT={sent}
REMOTE_BYTES_RECVD={received}
LOCAL_SEND_SIZE={size}
ELAPSED_TIME={seconds}.00
"""


@define
class LossyLink(ScriptedHost):
    """A board whose netperf loses what is beyond the link's capacity; the first long trials lose something else too."""

    capacity_pps: float = 200_000.0
    disturbed: int = 0

    def run(self, command: str, timeout_s: float) -> CommandResult:
        asked = re.search(r"-l (\d+) .*-b (\d+) .* -m (\d+)", command)
        if asked is None:
            return super().run(command, timeout_s)
        seconds, pps, size = int(asked[1]), int(asked[2]) * 100, int(asked[3])
        sent = seconds * pps * size
        loss = max(0.0, 1 - self.capacity_pps / pps)
        if seconds == ethernet.LONG_S and self.disturbed:
            self.disturbed -= 1
            loss = 1e-3
        return CommandResult(
            _STREAM.format(sent=sent, received=round(sent * (1 - loss)), size=size, seconds=seconds).splitlines(), 0
        )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as opened:
        yield opened


def flags(store: Store, section: Section, host: ScriptedHost, site: LabSite | None = None) -> set[str]:
    """Of all samples of a run of the section."""
    begun = store.begin_run(KIND, "am62xx_sk", "sk-1", "11.01", plan={}, provenance={})
    section_run(store, begun, lambda _section: session(host, ScriptedHost(), site)).measure(section)
    samples = store.samples(begun.id)
    assert samples
    return {str(flag) for sample in samples for flag in sample.flags}


@pytest.mark.parametrize(("seconds", "expected"), [(10, {Flag.SHORTENED}), (60, set())])
def test_a_program_that_ran_shorter_than_its_definition_says_so(
    store: Store, seconds: int, expected: set[Flag]
) -> None:
    host = ScriptedHost({"cyclictest": recorded("cyclictest-2.4.txt").decode()})
    assert flags(store, realtime.SECTION, host, LabSite(seconds=seconds)) == expected


@pytest.mark.parametrize(("disturbed", "expected"), [(3, {Flag.NOT_MONOTONIC}), (0, set())])
def test_packets_that_are_lost_below_a_rate_that_lost_none_are_said(
    store: Store, disturbed: int, expected: set[Flag]
) -> None:
    section = next(section for section in ethernet.SECTIONS if section.name == "udp-egress")
    assert flags(store, section, LossyLink(disturbed=disturbed)) == expected
