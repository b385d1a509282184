"""UDP at full speed: almost everything lost at one frame size only."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import udp
from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet

_COLLAPSE = 0.2  # of the bits that a smaller frame carries
_LOST = 50.0  # percent


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Larger frames need fewer packets for the same bits, so a collapse there is the link or the run, not the board."""
    for rows in udp.tables(sheet).values():
        if rows[0].throughput.params.get("loss") != "possible loss":
            continue
        for row in rows:
            best = max((r.packets_k * r.frame for r in rows if r.frame < row.frame), default=0.0)
            lost = row.loss.number if row.loss is not None else None
            if row.packets_k * row.frame < _COLLAPSE * best and (lost is None or lost > _LOST):
                yield Remark(
                    f"only {row.throughput.cell.value.text} Mbit/s arrive in frames of {row.frame} bytes"
                    + (f", {lost:.2f} % are lost" if lost is not None else "")
                    + f", while smaller frames carry {best * 8 / 1000:.0f} Mbit/s: the run or the link was broken",
                    row.throughput,
                    also=row.readings[1:],
                )


RULE = Rule(
    id="udp-link-broken",
    title="One frame size loses everything",
    severity=Severity.ERROR,
    check=check,
    effect=Effect.BROKEN,
)
