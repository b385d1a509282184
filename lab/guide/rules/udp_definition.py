"""UDP throughput counts payload bytes in some releases and frame bytes in others."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import udp
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet


def check(sheet: Sheet, older: Sheet | None) -> Iterator[Remark]:
    """Say for each table and board what its throughput counts, and which rows fit neither definition."""
    before = _definitions(older) if older else {}
    for rows in udp.tables(sheet).values():
        first = rows[0]
        if first.definition is not None:
            yield _remark(first, before.get(_place(first)), rows)
        for row in rows:
            if not row.fits and row.packets is not None:
                yield Remark(
                    f"{row.throughput.cell.value.text} Mbit/s and {row.packets.cell.value.text} thousand packets of "
                    f"{row.frame} bytes a second agree neither by payload nor by frame; one of the two may be of another run, "
                    "or an average over runs",
                    row.throughput,
                    also=(row.packets,),
                    severity=Severity.SUSPECT,
                )


def _remark(first: udp.UdpRow, before: udp.Definition | None, rows: tuple[udp.UdpRow, ...]) -> Remark:
    text = (
        f"UDP throughput of {first.throughput.board or 'this table'} counts the bytes of the {first.definition} "
        f"(packets * 8 * {first.definition} size)"
    )
    also = tuple(row.throughput for row in rows[1:])
    if before is None or before is first.definition:
        return Remark(f"{text}; compare packets per second only", first.throughput, also=also)
    return Remark(
        f"{text}, while the older guide counts the {before}: the two are not comparable, packets per second are",
        first.throughput,
        also=also,
        severity=Severity.WARNING,
    )


def _definitions(sheet: Sheet) -> dict[tuple[str | None, str, str], udp.Definition | None]:
    return {_place(rows[0]): rows[0].definition for rows in udp.tables(sheet).values()}


def _place(row: udp.UdpRow) -> tuple[str | None, str, str]:
    params = row.throughput.params
    return row.throughput.board, params.get("direction", ""), params.get("loss", "")


RULE = Rule(id="udp-definition", title="Which bytes UDP throughput counts", severity=Severity.INFO, check=check)
