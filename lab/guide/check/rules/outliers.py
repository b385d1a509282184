"""One board far from the others of the same guide."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from lab.guide.boards import product_of
from lab.guide.catalogue import CellReading
from lab.guide.check import udp_tables
from lab.guide.check.rules.labels import has_usual_unit
from lab.guide.measurements import (
    Conditions,
    MeasuredGuide,
    Neighbours,
    conditions_of,
    group,
    media_of,
    medium_differs,
)
from lab.guide.rulebook import Remark, Severity, rule
from lab.judge import noise

_Key = tuple[str | None, str, tuple[tuple[str, str], ...]]
_FAR = 3.0  # times, beyond the board's usual distance
_VERY_FAR = 5.0  # times: beyond what another memory chip or another flash explains
_PERHAPS = (
    "; a fault of this run or a property of the board (another memory, another flash), which one guide cannot tell"
)
_ROWS_THAT_SHOW_A_HABIT = 4
_IDLE = 0.5  # of the other boards' CPU load
_LOADS = ("ethernet.tcp.cpu_load",)  # of rows that a link limits, which all boards have
_NOT_COMPARED = ("ethernet.udp.", "ipsec.", "power.", "cpu.", "lmbench.lat_ctx", "lmbench.lat_mem_rd")
_ENDS_NOT_COMPARED = ("cpu_load",)


@rule("outlier-boards", "One board far from the others", Severity.NOTE)
def outlier_boards(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find numbers far from the product's other boards.

    Boards of one product have a usual distance from each other in a metric. A number far from it is a fault of
    that run more often than a property of the board.

    Finding: A note beyond three times the usual distance. A suspicion beyond five times, where four other rows
    show that the board is no different, and of a slow network whose CPU load is less than half of the other boards'.
    Two boards need four rows, and the worse one is named. UDP, IPSec, powers, context switches, cache edges and loads
    are left out.

    Limits: Another memory or flash looks the same in a note.
    """
    loads = {_key(r): r.number for r in sheet.of(*_LOADS)}
    for metric in sheet.by_metric:
        if metric.startswith(_NOT_COMPARED) or metric.endswith(_ENDS_NOT_COMPARED):
            continue
        by_key = group(
            (r for r in sheet.of(metric) if r.board and (r.number or 0) > 0), lambda r: (product_of(r.board), r.key)
        )
        distances = {key: _distances(readings) for key, readings in by_key.items()}
        for key, readings in by_key.items():
            for reading in readings:
                yield from _judge(reading, distances[key], distances.values(), _load_beside(reading, readings, loads))


def _load_beside(reading: CellReading, everywhere: Sequence[CellReading], loads: Mapping[_Key, float | None]) -> float:
    """A row's CPU load over the other boards' median; 1: unknown."""
    key = (f"{reading.metric.rpartition('.')[0]}.cpu_load", reading.key[1])
    own = loads.get((reading.board, *key))
    others = [load for r in everywhere if r.board != reading.board and (load := loads.get((r.board, *key)))]
    return own / statistics.median(others) if own and others else 1.0


def _distances(readings: Sequence[CellReading]) -> dict[str, float]:
    """Board -> log of its number over the others' median."""
    distances = {}
    for reading in readings:
        others = [r.number for r in readings if r.board != reading.board and r.number]
        if others and reading.number and reading.board:
            distances[reading.board] = math.log(reading.number / statistics.median(others))
    return distances


def _judge(
    reading: CellReading, here: Mapping[str, float], everywhere: Collection[Mapping[str, float]], load: float
) -> Iterator[Remark]:
    board = reading.board or ""
    if board not in here:
        return
    usual = [row[board] for row in everywhere if board in row]
    habit = statistics.median(usual) if len(usual) >= _ROWS_THAT_SHOW_A_HABIT else 0.0
    excess = here[board] - habit
    has_habit = len(usual) >= _ROWS_THAT_SHOW_A_HABIT
    if abs(excess) < math.log(_FAR):
        return
    is_higher_better = reading.quantity is not None and reading.quantity.better == "higher"
    if len(here) == 2 and not (has_habit and (here[board] < 0) == is_higher_better):
        return  # of two boards either may be the odd one, or they differ (NOR and NAND flash); the worse is named
    if len(here) > 2 and abs(here[board]) < max(map(abs, here.values())):
        return  # another board is the odd one
    is_alone = has_habit and abs(excess) >= math.log(_VERY_FAR) and abs(habit) < math.log(_FAR) / 2
    is_idle = load < _IDLE and here[board] < 0
    yield Remark(
        f"is {_times(here[board])} the median of the other boards"
        + (f", and usually {_times(habit)}" if has_habit else "")
        + (
            f" at {load:.2f} times their CPU load: neither the link nor the processor was busy"
            if is_idle
            else "; the board's other rows are not, so a fault of this run is likely"
            if is_alone
            else _PERHAPS
        ),
        reading,
        severity=Severity.SUSPECT if is_alone or is_idle else Severity.NOTE,
    )


def _times(log: float) -> str:
    return f"{math.exp(log):.2f} times"


_FAR_MOVE = 2.0  # times, beyond how far the metric usually moved
_NOT_FOLLOWED = (
    "ethernet.udp.",
    "ipsec.",
    "power.",
    "cpu.",
    "lmbench.lat_mem_rd",
    "lmbench.bw_mem",
    "whetstone.",
)


@rule("outlier-older", "Far from the older release", Severity.NOTE)
def outlier_older(sheet: MeasuredGuide, older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find numbers far from the older guide's, without another explanation.

    A number that moves far while its neighbours and the other boards do not is a fault of one of the two runs more
    often than a change of the software.

    Finding: With `--against`: beyond twice, and twice away from the other boards and the metric's median. Other SD
    cards, UDP's definition, IPSec and sensor steps have their own rules.

    Limits: A driver that only one board has can move so. In the guide of a single board a change of the software
    is as likely: precision.
    """
    if older is None:
        return
    before = {(r.board, r.key): r.number for r in older.of(*older.by_metric) if r.number and r.number > 0}
    conditions = conditions_of(older), conditions_of(sheet)
    for metric, readings in group(sheet.of(*sheet.by_metric), lambda r: r.metric).items():
        if metric.startswith(_NOT_FOLLOWED) or metric.endswith(_ENDS_NOT_COMPARED):
            continue
        moves = [
            (reading, math.log(reading.number / old))
            for reading in readings
            if (old := before.get((reading.board, reading.key))) and reading.number and reading.number > 0
            if reading.cell.metric is not None and not medium_differs(reading, *conditions)
        ]
        for reading, move in moves:
            usual = statistics.median(m for r, m in moves)
            others = [
                m
                for r, m in moves
                if r.key == reading.key
                and r.board != reading.board
                and product_of(r.board) == product_of(reading.board)
            ]
            expected = statistics.median(others) if others else usual
            if min(abs(move), abs(move - expected), abs(move - usual)) >= math.log(_FAR_MOVE):
                yield Remark(
                    f"is {math.exp(move):.2f} times the older guide's {before[reading.board, reading.key]:g}, while "
                    + (f"the other boards moved {math.exp(expected):.2f} times and " if others else "")
                    + f"{metric} {math.exp(usual):.2f} times in the median; measure again, or say why it moved",
                    reading,
                )


# Rates that a search finds, sums of two operations, and numbers that scatter at cache edges; the clock is another
# rule's.
_NO_SPIKES = ("ethernet.udp.", "ipsec.", "cpu.", "lmbench.bw_mem", "lmbench.lat_mem_rd", "lmbench.lat_ctx")
_ENDS_NO_SPIKES = ("cpu_load", ".loss", ".datagram")


@rule("spike", "Far from both neighbours in time", Severity.NOTE)
def spike(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find numbers far from both neighbouring releases.

    A run failed in part: a worn card, a low clock, another program. The releases before and after are sound.

    Finding: `lab guide check FILE --history` compares each number with the nearest releases before and after in
    the store. A spike is 1.5 times or more away from both, on the same side, beyond three times the noise of the
    metric; the neighbours lie at most a third of that apart. Boards that moved alike are named. Another SD card is
    no spike; UDP, IPSec, `bw_mem`, cache edges and loads are left out.

    Limits: The release may have been slower, and the next one corrected it; boards that moved alike make that
    likely.
    """
    conditions = conditions_of(sheet)
    for metric in sheet.by_metric:
        if metric.startswith(_NO_SPIKES) or metric.endswith(_ENDS_NO_SPIKES):
            continue
        readings = [r for r in sheet.of(metric) if (r.board, r.key) in sheet.neighbours]
        moves = [(r, move) for r in readings if (move := _move(r, sheet.neighbours[r.board, r.key], conditions))]
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
                f"is {math.exp(move):.2f} times both neighbours in time, {here.before.value:g} in "
                f"{here.before.release} and {here.after.value:g} in {here.after.release}"
                + (
                    f", and so is that of {', '.join(alike)}: the release may have done it, and the next one taken "
                    "it back"
                    if alike
                    else "; a fault of this run, or a change that the next release took back: the guides cannot tell"
                ),
                reading,
            )


def _move(reading: CellReading, here: Neighbours, conditions: Conditions) -> float:
    """Log of the number over its nearer neighbour; 0 without a spike."""
    stated = frozenset(media_of(reading, conditions))
    numbers = (reading.number, here.before.value, here.after.value)
    if any(number is None or number <= 0 for number in numbers) or any(
        side.conditions - stated and stated - side.conditions for side in (here.before, here.after)
    ):
        return 0.0
    value, before, after = (math.log(number or 1.0) for number in numbers)
    nearer = min(value - before, value - after, key=abs)
    model = noise.load()
    usual = math.log1p(model.of(reading.metric, reading.params).relative)
    far = max(math.log(model.spike.far), model.spike.noises * usual)
    is_spike = (value - before) * (value - after) > 0 and abs(nearer) >= far
    return nearer if is_spike and abs(after - before) <= model.spike.agree * abs(nearer) else 0.0


_LEAST_NUMBERS = 4  # in a table, that a second measurement would not repeat
_LEAST_DIGITS = 3
_LEAST_TABLES = 4  # of a guide
# Programs that count whole seconds, and numbers that are set: a second run gives the same.
_REPEATS = ("whetstone.", "cpu.", "dhrystone.", "camera.", "ethernet.udp.datagram", "lmbench.lat_ops")


@rule("carried-over", "The older release's numbers", Severity.WARNING)
def carried_over(sheet: MeasuredGuide, older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find numbers copied from the older guide.

    A table was copied into the next release's guide, or its query returned the older entries.

    Finding: With `--against OLDER`: a table of a board whose numbers of three and more digits, four at least, all
    are the older guide's. One warning says it where it holds for every table. Whole-second programs, clocks and
    arithmetic latencies are left out.

    Limits: Four stable numbers of few digits look the same.
    """
    if older is None:
        return
    before = {_key(r): r.cell.value.text for r in older.of(*older.by_metric)}
    tables = group((r for r in sheet.of(*sheet.by_metric) if _tells(r)), lambda r: (r.cell.table, r.board))
    shared = {place: [r for r in readings if _key(r) in before] for place, readings in tables.items()}
    judged = {place: readings for place, readings in shared.items() if len(readings) >= _LEAST_NUMBERS}
    same = {
        place: readings
        for place, readings in judged.items()
        if all(before[_key(r)] == r.cell.value.text for r in readings)
    }
    if len(same) == len(judged) >= _LEAST_TABLES:
        first = next(iter(same.values()))[0]
        count = sum(map(len, same.values()))
        yield Remark(
            f"all {count} numbers of {len(same)} tables that can be compared are the older guide's to the last "
            "digit: nothing was measured again",
            line=first.table.line,
        )
        return
    for (_, board), readings in same.items():
        yield Remark(
            f"all {len(readings)} numbers{f' of {board}' if board else ''} in {readings[0].table.name!r} are the "
            "older guide's to the last digit: carried over, and not measured for this release",
            readings[0],
            also=tuple(readings[1:]),
        )


_APART = math.log(1.03)  # boards that are nearer to each other tell nothing
_LEAST_ROWS = 3
_MOST_ROWS = 0.8  # as much of the rows that tell


@rule("boards-exchanged", "Two boards' columns exchanged", Severity.WARNING)
def boards_exchanged(sheet: MeasuredGuide, older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find tables in which two boards have each other's numbers.

    The columns of a table changed places and its header did not, or only its header did.

    Finding: With `--against OLDER`: of the rows of a table in which two boards were more than 3 % apart, three at
    least, 80 % have the numbers of both boards at the other's older number, within a third of that distance.

    Limits: Boards that exchanged their clocks look the same.
    """
    before = (
        {_key(r): math.log(r.number) for r in older.of(*older.by_metric) if r.number and r.number > 0} if older else {}
    )
    comparable = (r for r in sheet.of(*sheet.by_metric) if r.number and r.number > 0 and _key(r) in before)
    for table in group(comparable, lambda r: r.cell.table).values():
        pairs: dict[tuple[str | None, str | None], list[tuple[CellReading, CellReading]]] = {}
        for row in group(table, lambda r: r.key).values():
            for left, right in itertools.combinations(row, 2):
                pairs.setdefault((left.board, right.board), []).append((left, right))
        for boards, rows in pairs.items():
            telling = [(a, b) for a, b in rows if abs(before[_key(a)] - before[_key(b)]) > _APART]
            exchanged = [pair for pair in telling if _is_exchanged(*pair, before)]
            if len(telling) >= _LEAST_ROWS and len(exchanged) >= _MOST_ROWS * len(telling):
                cells = [reading for row in rows for reading in row]
                yield Remark(
                    f"{boards[0]} and {boards[1]} have each other's numbers of the older guide in {len(exchanged)} of "
                    f"{len(telling)} rows in which they differed: the columns were exchanged, or their headers",
                    cells[0],
                    also=tuple(cells[1:]),
                )


def _is_exchanged(one: CellReading, other: CellReading, before: Mapping[_Key, float]) -> bool:
    """Return whether both numbers are near the other's older one."""
    near = abs(before[_key(one)] - before[_key(other)]) / 3
    pairs = ((one, other), (other, one))
    return all(abs(math.log(new.number or 1.0) - before[_key(old)]) <= near for new, old in pairs)


def _key(r: CellReading) -> _Key:
    return (r.board, *r.key)


def _tells(r: CellReading) -> bool:
    """Return whether another run would give another text."""
    digits = sum(c.isdigit() for c in r.cell.value.text.split("(")[0].strip().lstrip("0."))
    return digits >= _LEAST_DIGITS and bool(r.number) and not r.metric.startswith(_REPEATS)


_TIMES = 5.0
# bw_mem mixes two operations, ipsec has a rule of its own, and a context switch may cost next to nothing.
_NOT_JUDGED = ("lmbench.bw_mem", "lmbench.lat_ctx", "ipsec.", "cyclictest.")
_LEAST_LOAD = 1.0  # percent: below it a tick of the accounting clock is a multiple


@rule("wide-range", "Runs that differ several times", Severity.WARNING)
def wide_range(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find averages over runs that differ too much.

    A cell averages all runs, also one that failed in part or was another test: four GLBenchmark tests print one
    range, 2.20 to 11.90.

    Finding: A cell whose largest run is five times its smallest. bw_mem and IPSec have their own rules; context
    switches, cyclictest, and loads and losses below 1 % scatter by design.

    Limits: A latency with a rare outlier has such a range although each run was sound.
    """
    for metric in sheet.by_metric:
        for reading in () if metric.startswith(_NOT_JUDGED) else sheet.of(metric):
            low, high = reading.cell.value.low, reading.cell.value.high
            if not low or not high or low < 0 or (metric.endswith("cpu_load") and low < _LEAST_LOAD):
                continue
            if metric.endswith(".loss") and high < _LEAST_LOAD:  # a few frames of many
                continue
            if high >= _TIMES * low:
                yield Remark(
                    f"averages runs from {low:g} to {high:g}, {high / low:.1f} times: some of them did something "
                    "else, and the average is of neither",
                    reading,
                )


_ROUNDING = 1.002
_MB = {"KiB/s": 1024 / 1e6, "MiB/s": 2**20 / 1e6}
_BUS_MB_S = {  # 10^6 bytes a second
    "sd": (104.0, "UHS-I SDR104: 208 MHz, 4 bits"),
    "emmc": (400.0, "eMMC HS400: 200 MHz, 8 bits, both edges"),
    "ospi": (400.0, "octal flash at 200 MHz, both edges"),
    "ufs": (1457.6, "UFS 3.0 HS-G4, one lane pair, after coding"),
    "sata": (600.0, "SATA at 6 Gbit/s, after coding"),
    "msata": (600.0, "SATA at 6 Gbit/s, after coding"),
}
_USB_HIGH_SPEED = (53.248, "USB 2.0 high speed: 13 bulk packets of 512 bytes in each of 8000 microframes")
_TCP_MBIT_S = 2 * 949.3  # 1460 of 1538 bytes on the wire, both directions
_FASTER_LINKS = 2.5  # the next step of Ethernet


@rule("physical-limit", "More than the medium can carry", Severity.ERROR)
def physical_limit(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find throughput above the limit of the bus or link.

    Limits, in MB/s: SD 104, eMMC 400, octal flash 400, UFS 1457.6, SATA 600, USB high speed 53.248. TCP has 949.3
    Mbit/s in each direction; UDP has frame/(frame + 20) of 1000 Mbit/s in the row's definition, or the capacity
    for datagrams of the row's size where that is more.

    Finding: Above the limit. Above gigabit by up to 2.5 times is suspect: the port may be faster.

    Limits: A medium of a newer standard exceeds the limits of the rule.
    """
    for reading in sheet.of(
        "storage.fio.throughput", "storage.file.throughput", "uboot.throughput", "ospi.raw.throughput"
    ):
        limit = _BUS_MB_S.get(reading.params.get("medium", "ospi"))
        rate = (reading.number or 0.0) * _MB.get(reading.quantity.unit if reading.quantity else "", 1.0)
        if limit and rate > limit[0] * _ROUNDING and has_usual_unit(reading):
            yield _remark(reading, f"{rate:.1f} MB/s", f"{limit[0]:g} MB/s ({limit[1]})")
    for reading in sheet.of("usb.device.throughput"):
        if (reading.number or 0.0) > _USB_HIGH_SPEED[0] * _ROUNDING:
            yield _remark(
                reading, f"{reading.number:.1f} MB/s", f"{_USB_HIGH_SPEED[0]:.1f} MB/s ({_USB_HIGH_SPEED[1]})"
            )
    for reading in sheet.of("ethernet.tcp.throughput"):
        yield from _ethernet(reading, _TCP_MBIT_S, "both directions of TCP")
    for rows in udp_tables.tables(sheet).values():
        for row in rows:
            by_frames = udp_tables.frame_limit(row.frame, row.definition or udp_tables.Definition.PAYLOAD)
            # The column may hold the datagram's size
            limit_mbit_s = max(by_frames, udp_tables.datagram_limit(row.size))
            yield from _ethernet(row.throughput, limit_mbit_s, f"frames of {row.frame} bytes")


def _ethernet(reading: CellReading, limit: float, what: str) -> Iterator[Remark]:
    rate = reading.number or 0.0
    if rate <= limit * _ROUNDING:
        return
    text = f"{rate:.2f} Mbit/s is more than a gigabit link carries for {what}, {limit:.1f} Mbit/s"
    if rate <= limit * _FASTER_LINKS:
        yield Remark(f"{text}; right only if the port is faster than a gigabit", reading, severity=Severity.SUSPECT)
    else:
        yield Remark(text, reading)


def _remark(reading: CellReading, rate: str, limit: str) -> Remark:
    return Remark(f"{rate} is above the limit of the medium, {limit}: it was not measured on it", reading)
