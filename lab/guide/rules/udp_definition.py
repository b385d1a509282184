"""UDP throughput counts payload bytes in some releases and frame bytes in others."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import udp
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet


def check(sheet: Sheet, older: Sheet | None) -> Iterator[Remark]:
    """Say for each table and board what its throughput counts, row by row where rows differ, and which rows fit nothing."""
    before = _definitions(older) if older else {}
    for rows in udp.tables(sheet).values():
        first = rows[0]
        if first.definition is not None:
            yield _remark(first, before.get(_place(first)), rows)
        for row in rows:
            is_average = row.throughput.cell.value.low is not None
            if not row.fits and row.packets is not None and not is_average:
                yield Remark(
                    f"{row.throughput.cell.value.text} Mbit/s and {row.packets.cell.value.text} thousand packets a second are "
                    f"packets of {1000 / 8 * (row.throughput.number or 0) / (row.packets.number or 1):.0f} bytes, neither "
                    f"{row.frame} nor {row.frame - udp.OVERHEAD_BYTES}; one of the two may be of another run, or both averages "
                    "over runs, which the guide does not tell",
                    row.throughput,
                    also=(row.packets,),
                    severity=Severity.NOTE,
                )


def _remark(first: udp.UdpRow, before: udp.Definition | None, rows: tuple[udp.UdpRow, ...]) -> Remark:
    text = f"UDP throughput of {first.throughput.board or 'this table'} {_counted(rows)}"
    also = tuple(row.throughput for row in rows[1:])
    if before is None or before is first.definition:
        return Remark(f"{text}; compare packets per second only", first.throughput, also=also)
    return Remark(
        f"{text}; the older guide counts {_BY[before]}: the two are not comparable, packets per second are",
        first.throughput,
        also=also,
        severity=Severity.WARNING,
    )


_BY = {
    udp.Definition.PAYLOAD: "packets * 8 * the payload of frames of the row's size",
    udp.Definition.FRAME: "packets * 8 * the row's size",
}


def _counted(rows: tuple[udp.UdpRow, ...]) -> str:
    """What is counted, by the first row's definition; then the rows that differ; then what the packets are."""
    common = rows[0].definition or udp.Definition.PAYLOAD
    others = [row for row in rows if row.definition not in {common, None}]
    text = f"counts {_BY[common]}" + "".join(f", but row {row.size} {_BY[row.definition or common]}" for row in others)
    named = [(row, *udp.meaning(row)) for row in rows if row.definition is udp.Definition.FRAME]
    decided = [(row, word, why) for row, word, why in named if word is not udp.Meaning.UNDECIDED]
    if not named:
        return text
    if not decided:
        row, _, why = max(named, key=lambda one: one[0].throughput.number or 0.0)
        return f"{text}; whether whole frames or datagrams of that size is undecided (row {row.size}: {why})"
    meant = {
        udp.Meaning.FRAME: "whole frames are counted",
        udp.Meaning.DATAGRAM: "the datagrams have the size that the column calls the frame's",
    }
    found = "; ".join(f"row {row.size}: {meant[word]}, as {why}" for row, word, why in decided)
    return f"{text}; {found}" + ("; the other rows allow both" if len(decided) < len(named) else "")


def _definitions(sheet: Sheet) -> dict[tuple[str | None, str, str], udp.Definition | None]:
    return {_place(rows[0]): rows[0].definition for rows in udp.tables(sheet).values()}


def _place(row: udp.UdpRow) -> tuple[str | None, str, str]:
    params = row.throughput.params
    return row.throughput.board, params.get("direction", ""), params.get("loss", "")


RULE = Rule(id="udp-definition", title="Which bytes UDP throughput counts", severity=Severity.INFO, check=check)
