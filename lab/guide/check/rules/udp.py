"""Rules for UDP: definition of throughput, collapses, rounded rates, stuck searches."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from lab.guide.check import udp_tables
from lab.guide.measurements import MeasuredGuide
from lab.guide.rulebook import Effect, Remark, Severity, rule


@rule("udp-definition", "Which bytes UDP throughput counts", Severity.INFO)
def udp_definition(sheet: MeasuredGuide, older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find the bytes that each table's throughput counts.

    UDP throughput is packets × 8 × size. 09.02 counts the datagram of a frame of the row's size, 11.01 the row's
    size itself. The second is either whole frames or datagrams of that size; only the limit of a gigabit tells
    them apart: 939.4 Mbit/s for datagrams of 1024 bytes, 980.8 for frames.

    Finding: One finding a table and board: the size that the packet rate gives, with the rows that differ, or
    `undecided`. With another size in the older guide it is a warning, and comparisons give the packets
    (`definition changed`). A row whose packets fit no size is a note.
    """
    before = {_series_key(rows[0]): rows[0].definition for rows in udp_tables.tables(older).values()} if older else {}
    for rows in udp_tables.tables(sheet).values():
        first = rows[0]
        if first.definition is not None:
            yield _remark(first, before.get(_series_key(first)), rows)
        for row in rows:
            is_average = row.throughput.cell.value.low is not None
            if not row.fits and row.packets is not None and not is_average:
                yield Remark(
                    f"{row.throughput.cell.value.text} Mbit/s and {row.packets.cell.value.text} thousand packets a "
                    "second are packets of "
                    f"{1000 / 8 * (row.throughput.number or 0) / (row.packets.number or 1):.0f} bytes, neither "
                    f"{row.frame} nor {row.frame - udp_tables.OVERHEAD_BYTES}; one of the two may be of another run, "
                    "or both averages over runs, which the guide does not tell",
                    row.throughput,
                    also=(row.packets,),
                    severity=Severity.NOTE,
                )


def _remark(
    first: udp_tables.UdpRow, before: udp_tables.Definition | None, rows: tuple[udp_tables.UdpRow, ...]
) -> Remark:
    text = f"UDP throughput of {first.throughput.board or 'this table'} {_definition_text(rows)}"
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
    udp_tables.Definition.PAYLOAD: "packets * 8 * the payload of frames of the row's size",
    udp_tables.Definition.FRAME: "packets * 8 * the row's size",
}


def _definition_text(rows: tuple[udp_tables.UdpRow, ...]) -> str:
    """Describe the counted bytes.

    The first row's definition comes first, then the rows that differ, then the meaning of the packets.
    """
    common = rows[0].definition or udp_tables.Definition.PAYLOAD
    others = [row for row in rows if row.definition not in {common, None}]
    text = f"counts {_BY[common]}" + "".join(f", but row {row.size} {_BY[row.definition or common]}" for row in others)
    named = [(row, *udp_tables.meaning(row)) for row in rows if row.definition is udp_tables.Definition.FRAME]
    decided = [(row, word, why) for row, word, why in named if word is not udp_tables.ColumnMeaning.UNDECIDED]
    if not named:
        return text
    if not decided:
        row, _, why = max(named, key=lambda item: item[0].throughput.number or 0.0)
        return f"{text}; whether whole frames or datagrams of that size is undecided (row {row.size}: {why})"
    meant = {
        udp_tables.ColumnMeaning.FRAME: "whole frames are counted",
        udp_tables.ColumnMeaning.DATAGRAM: "the datagrams have the size that the column calls the frame's",
    }
    meanings = "; ".join(f"row {row.size}: {meant[word]}, as {why}" for row, word, why in decided)
    return f"{text}; {meanings}" + ("; the other rows allow both" if len(decided) < len(named) else "")


def _series_key(row: udp_tables.UdpRow) -> tuple[str | None, str, str]:
    params = row.throughput.params
    return row.throughput.board, params.get("direction", ""), params.get("loss", "")


_COLLAPSE = 0.2  # of the bits that a smaller frame carries
_LOST = 50.0  # percent


@rule("udp-link-broken", "One frame size loses everything", Severity.ERROR, Effect.BROKEN)
def udp_link_broken(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find collapses at larger frames.

    Larger frames need fewer packets for the same bits. A collapse at one large size is the run or the link: 98 %
    loss at 1518 bytes, where 1024 bytes carry 900 Mbit/s.

    Finding: Less than a fifth of the bits of a smaller frame, with more than half lost.

    Limits: A link whose MTU is below 1518 bytes looks the same.
    """
    for rows in udp_tables.tables(sheet).values():
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


_FEW_K = 10  # below it, half a thousand is more than 5 %


@rule("udp-packets-rounded", "Packets in whole thousands", Severity.INFO, Effect.RECOVERED)
def udp_packets_rounded(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find packet rates that are rounded to thousands.

    Packets are printed in thousands with the decimals .00: 200 packets a second are `0.00`.

    Finding: Below 10 thousand the rate is recovered from the throughput, where both agree.
    """
    for rows in udp_tables.tables(sheet).values():
        for row in rows:
            if row.packets is None or row.packets.number is None or row.definition is None or not row.fits:
                continue
            is_whole = row.packets.number == round(row.packets.number)
            if is_whole and row.packets.number < _FEW_K and row.packets_k > 0:
                yield Remark(
                    f"{row.packets.cell.value.text} thousand packets a second is rounded to whole thousands; the "
                    f"throughput gives {row.packets_k:.2f}",
                    row.packets,
                    corrected=round(row.packets_k, 2),
                    resolution=0.01,
                )


_BROKEN = 0.25  # of what the same table proves possible
_SUSPECT = 0.7
_STUCK = 0.1  # of the packets that arrive although more are lost: a sound search finds a fifth of them at least
_LITTLE_LOSS = 1.0  # percent: almost the rate without loss


@rule("udp-search-stuck", "The search for the rate without loss got stuck", Severity.ERROR, Effect.BROKEN)
def udp_search_stuck(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find searches without loss that stopped too early.

    One lost packet ends the vendor's search far below the board's rate: 6 to 8 thousand packets a second, where
    the unlimited test passes 90 to 133 thousand with less than 1 % loss. A smaller frame allows at least the
    packet rate of a larger one.

    Finding: Below a quarter of what the same board proves, without loss at a larger frame or with up to 1 % in the
    unlimited test. Below 0.7 is suspect. Where the unlimited test loses more at every size, its packets count if each
    size without loss has less than a tenth of them. A row with at most 0.6 of the packets and of the CPU load of the
    other sizes' median, and 0.6 of the bits that the port carries, is suspect, too: nothing was busy.

    Limits: A board that loses single packets at any rate looks the same.
    """
    tables = list(udp_tables.tables(sheet).values())
    for rows in tables:
        if rows[0].throughput.params.get("loss") == "0 loss":
            other = (
                t
                for t in tables
                if t[0].throughput.params.get("loss") == "possible loss" and _link_key(t) == _link_key(rows)
            )
            early = list(_search(rows, [row for table in other for row in table]))
            yield from early
            early_readings = [remark.reading for remark in early]
            yield from (r for r in _idle(rows, _most_of_port(rows, tables)) if r.reading not in early_readings)


def _link_key(rows: Sequence[udp_tables.UdpRow]) -> tuple[str | None, str | None, str | None]:
    first = rows[0].throughput
    return first.board, first.params.get("direction"), first.params.get("port")


def _search(rows: Sequence[udp_tables.UdpRow], unlimited: Sequence[udp_tables.UdpRow]) -> Iterator[Remark]:
    losses = [(row, row.loss.number if row.loss is not None else None) for row in unlimited]
    sure = [pair for pair in losses if pair[1] is not None and pair[1] <= _LITTLE_LOSS]
    if not sure and _is_stuck_everywhere(rows, unlimited):
        sure = losses
    proofs = [(row, "without loss") for row in rows]
    proofs += [(row, "with possible loss" if loss is None else f"with {loss:.2f} % loss") for row, loss in sure]
    for row in rows:
        larger, how = max((p for p in proofs if p[0].frame >= row.frame), key=lambda p: p[0].packets_k)
        smaller, how_smaller = max((p for p in proofs if p[0].frame <= row.frame), key=lambda p: _bytes(p[0]))
        share = row.packets_k / larger.packets_k if larger.packets_k else 1.0
        bits = _bytes(row) / _bytes(smaller) if _bytes(smaller) else 1.0
        if min(share, bits) >= _SUSPECT:
            continue
        if share <= bits:
            why = (
                f"{row.packets_k:.1f} thousand packets a second, but the board does {larger.packets_k:.0f} with "
                f"frames of {larger.frame} bytes {how}, which are no easier"
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


_IDLE = 0.6  # of the other sizes' load and packets, and of the port's bits
_ENOUGH_SIZES = 3  # that a median is taken of


def _idle(rows: Sequence[udp_tables.UdpRow], most_mbit_s: float) -> Iterator[Remark]:
    loads = {row.frame: row.cpu.number for row in rows if row.cpu is not None and row.cpu.number}
    for row in rows:
        others = [other for other in rows if other.frame != row.frame and other.frame in loads]
        if row.frame not in loads or len(others) < _ENOUGH_SIZES:
            continue
        load = statistics.median(loads[other.frame] for other in others)
        packets_k = statistics.median(other.packets_k for other in others)
        is_slow = row.packets_k <= _IDLE * packets_k and (row.throughput.number or 0.0) <= _IDLE * most_mbit_s
        if is_slow and loads[row.frame] <= _IDLE * load:
            yield Remark(
                f"{row.packets_k:.1f} thousand packets a second at {loads[row.frame]:.0f} % CPU load, where the other "
                f"sizes have {packets_k:.0f} at {load:.0f} %, and the port carries {most_mbit_s:.0f} Mbit/s: nothing "
                "was busy, so the search for the rate without loss may have stopped early",
                row.throughput,
                also=row.readings[1:],
                severity=Severity.SUSPECT,
            )


def _most_of_port(rows: Sequence[udp_tables.UdpRow], tables: Iterable[Sequence[udp_tables.UdpRow]]) -> float:
    board, _, port = _link_key(rows)
    same = (row for table in tables if _link_key(table)[::2] == (board, port) for row in table)
    return max(row.throughput.number or 0.0 for row in same)


def _is_stuck_everywhere(rows: Sequence[udp_tables.UdpRow], unlimited: Sequence[udp_tables.UdpRow]) -> bool:
    arrived_k = {row.frame: row.packets_k for row in unlimited}
    shared = [row for row in rows if arrived_k.get(row.frame)]
    return len(shared) > 1 and all(row.packets_k < _STUCK * arrived_k[row.frame] for row in shared)


def _bytes(row: udp_tables.UdpRow) -> float:
    return row.packets_k * row.frame


_LARGEST_FRAME = 1518
_CLOCKS = 1.0005  # two ends' clocks


@rule("udp-size-label", "Frames that are datagrams", Severity.WARNING)
def udp_size_label(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find rows that name their datagram instead of their frame.

    The column says frames, and the test was given datagrams, which are 46 bytes shorter than their frames. A row
    1472 without a row 1518 is a datagram.

    Finding: The rows; their throughput stays.
    """
    for rows in udp_tables.tables(sheet).values():
        sizes = {row.size for row in rows}
        for row in rows:
            if row.size != row.frame:
                continue  # the column says that these are datagrams
            if row.size == udp_tables.LARGEST_DATAGRAM and _LARGEST_FRAME not in sizes:
                yield Remark(
                    f"the column says frames, and {udp_tables.LARGEST_DATAGRAM} is the datagram of a frame of "
                    f"{_LARGEST_FRAME} bytes: the row, at least, names its datagram",
                    row.throughput,
                    also=row.readings[1:],
                )
                continue
            rate = row.throughput.number or 0.0
            payload, datagrams = (
                udp_tables.frame_limit(row.frame, udp_tables.Definition.PAYLOAD),
                udp_tables.datagram_limit(row.size),
            )
            if row.definition is not udp_tables.Definition.FRAME and payload * _CLOCKS < rate <= datagrams * _CLOCKS:
                yield Remark(
                    f"{rate:.2f} Mbit/s is more payload than a gigabit carries in frames of {row.frame} bytes, "
                    f"{payload:.1f} "
                    f"Mbit/s; datagrams of {row.size} bytes carry up to {datagrams:.1f}: the row names its datagram",
                    row.throughput,
                    also=row.readings[1:],
                )
