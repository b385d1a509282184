"""A number far from the releases before and after, which agree."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lab.guide import conditions
from lab.guide.boards import product_of
from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Neighbours, Sheet
from lab.judge import noise

# Rates that a search finds, sums of two operations, and numbers that scatter at cache edges; the clock is another rule's.
_NOT_COMPARED = ("ethernet.udp.", "ipsec.", "cpu.", "lmbench.bw_mem", "lmbench.lat_mem_rd", "lmbench.lat_ctx")
_ENDS_NOT_COMPARED = ("cpu_load", ".loss", ".datagram")


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Only with neighbours. A change that stays is the release's; one that the next release takes back may be one run's."""
    known = conditions.of_sheet(sheet)
    for metric in sheet.by_metric:
        if metric.startswith(_NOT_COMPARED) or metric.endswith(_ENDS_NOT_COMPARED):
            continue
        readings = [r for r in sheet.of(metric) if (r.board, r.key) in sheet.neighbours]
        moves = [(r, move) for r in readings if (move := _move(r, sheet.neighbours[r.board, r.key], known))]
        for reading, move in moves:
            here = sheet.neighbours[reading.board, reading.key]
            alike = [
                r.board or ""
                for r, other in moves
                if r.key == reading.key
                and r.board != reading.board
                and product_of(r.board) == product_of(reading.board)
                and other * move > 0
            ]
            yield Remark(
                f"is {math.exp(move):.2f} times both neighbours in time, {here.before.value:g} in {here.before.release} and "
                f"{here.after.value:g} in {here.after.release}"
                + (
                    f", and so is that of {', '.join(alike)}: the release may have done it, and the next one taken it back"
                    if alike
                    else "; a fault of this run, or a change that the next release took back: the guides cannot tell"
                ),
                reading,
            )


def _move(reading: CellReading, here: Neighbours, known: conditions.Conditions) -> float:
    """Log of the number over the nearer of its neighbours; 0 where it is no spike."""
    stated = frozenset(conditions.media_of(reading, known))
    numbers = (reading.number, here.before.value, here.after.value)
    if any(number is None or number <= 0 for number in numbers) or any(
        one.conditions - stated and stated - one.conditions for one in (here.before, here.after)
    ):
        return 0.0
    value, before, after = (math.log(number or 1.0) for number in numbers)
    nearer = min(value - before, value - after, key=abs)
    model = noise.load()
    usual = math.log1p(model.of(reading.metric, reading.params).relative)
    far = max(math.log(model.spike.far), model.spike.noises * usual)
    is_spike = (value - before) * (value - after) > 0 and abs(nearer) >= far
    return nearer if is_spike and abs(after - before) <= model.spike.agree * abs(nearer) else 0.0


RULE = Rule(id="spike", title="Far from both neighbours in time", severity=Severity.NOTE, check=check)
