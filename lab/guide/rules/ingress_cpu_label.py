"""CPU load of an ingress test under netperf's word for the other side."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """For ingress the client runs on the tester, so the board is netperf's remote side."""
    loads = [
        r
        for r in sheet.of("ethernet.udp.cpu_load")
        if r.params.get("direction") == "ingress" and "LOCAL_CPU_UTIL" in (r.cell.metric or "")
    ]
    for readings in group(loads, lambda r: r.cell.table).values():
        yield Remark(
            "LOCAL_CPU_UTIL of an ingress test would be the tester's load; the numbers are the board's, which netperf calls "
            "REMOTE_CPU_UTIL there",
            readings[0],
            also=readings[1:],
        )


RULE = Rule(id="ingress-cpu-label", title="The load of the other side", severity=Severity.INFO, check=check)
