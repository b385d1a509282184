"""UDP without loss: a search that stopped far below what the board can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.guide import udp
from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet

_BROKEN = 0.25  # of what the same table proves possible
_SUSPECT = 0.7
_LITTLE_LOSS = 1.0  # percent: almost the rate without loss


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The work is per packet, so a smaller frame allows at least the packet rate of a larger one.

    A rate that is far below the one at a larger frame, or below the one that the unlimited test reaches there with
    almost no loss, is where the search stopped, not what the board can do. Bits per second, in turn, never fall with
    larger frames.
    """
    tables = list(udp.tables(sheet).values())
    for rows in tables:
        if rows[0].throughput.params.get("loss") == "0 loss":
            other = (
                t
                for t in tables
                if t[0].throughput.params.get("loss") == "possible loss" and _place(t) == _place(rows)
            )
            yield from _search(rows, [row for table in other for row in table])


def _place(rows: Sequence[udp.UdpRow]) -> tuple[str | None, str | None, str | None]:
    first = rows[0].throughput
    return first.board, first.params.get("direction"), first.params.get("port")


def _search(rows: Sequence[udp.UdpRow], unlimited: Sequence[udp.UdpRow]) -> Iterator[Remark]:
    proofs = [(row, "without loss") for row in rows]
    proofs += [
        (row, f"with {row.loss.number:.2f} % loss")
        for row in unlimited
        if row.loss is not None and row.loss.number is not None and row.loss.number <= _LITTLE_LOSS
    ]
    for row in rows:
        larger, how = max((p for p in proofs if p[0].frame >= row.frame), key=lambda p: p[0].packets_k)
        smaller, how_smaller = max((p for p in proofs if p[0].frame <= row.frame), key=lambda p: _bytes(p[0]))
        share = row.packets_k / larger.packets_k if larger.packets_k else 1.0
        bits = _bytes(row) / _bytes(smaller) if _bytes(smaller) else 1.0
        if min(share, bits) >= _SUSPECT:
            continue
        if share <= bits:
            why = (
                f"{row.packets_k:.1f} thousand packets a second, but the board does {larger.packets_k:.0f} with frames of "
                f"{larger.frame} bytes {how}, which are no easier"
            )
        else:
            why = f"carries {100 * bits:.0f} % of the bits that frames of {smaller.frame} bytes carry {how_smaller}"
        is_broken = min(share, bits) < _BROKEN
        yield Remark(
            f"{why}: the search for the rate without loss {'got stuck' if is_broken else 'may have stopped early'}",
            row.throughput,
            also=row.readings[1:],
            severity=Severity.ERROR if is_broken else Severity.SUSPECT,
        )


def _bytes(row: udp.UdpRow) -> float:
    return row.packets_k * row.frame


RULE = Rule(
    id="udp-search-stuck",
    title="The search for the rate without loss got stuck",
    severity=Severity.ERROR,
    check=check,
    effect=Effect.BROKEN,
)
