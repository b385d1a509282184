"""Small guides with one fault of a rule, and sound ones that look like it: how often a rule is right.

A sound case is as hard as what the guides in the wild had: a table that repeats, a board that is different, a release that
moved and moved back. So each rule is wrong in some of them, and the share says how sure its words may be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, field, frozen

from lab.guide import measurements
from lab.guide.check.findings import RuleFinding, run_rules
from lab.guide.measurements import Neighbour, Neighbours
from lab.guide.read import reader
from lab.guide.rulebook import Severity
from support.guide_family import TableText, mini, table

SK, LP, SIP = "am62xx_sk-fs", "am62xx_lp_sk-fs", "am62xxsip_sk-fs"
ROWS = ("assignment", "fourier", "huffman", "idea", "lu_decomposition", "numeric_sort")
_UDP_HEADER = f"Frame Size(bytes),{SK}: THROUGHPUT (Mbits/sec),{SK}: Packets Per Second (kPPS)"
_OVERHEAD = 46  # of a frame beside the payload of its datagram


@frozen
class Case:
    """A guide.

    Attributes:
        planted: text that the right finding's row or message has; empty in a sound guide.
        neighbours: (before, after) of the first row of the first table; empty without a history.
    """

    tables: Sequence[TableText]
    planted: str = ""
    older: Sequence[TableText] = ()
    neighbours: tuple[float, ...] = ()


Make = Callable[[random.Random], Case]


@frozen
class Score:
    """What a rule said of many cases.

    Attributes:
        planted, sound: how many cases there were. found: planted faults that were found.
        right, wrong: findings. sure_right, sure_wrong: those that are more than notes.
    """

    planted: int
    sound: int
    found: int
    right: int
    wrong: int
    sure_right: int
    sure_wrong: int


@frozen
class Cases:
    """How cases of a rule are made: one with its fault, and sound ones of several kinds."""

    planted: Make
    sound: Sequence[Make] = field()


def score(rule: str, count: int) -> Score:
    """Judge so many planted and so many sound cases."""
    cases, found = CASES[rule], 0
    right: list[Severity] = []
    wrong: list[Severity] = []
    for number in range(count):
        case = cases.planted(random.Random(number))
        said = [(case.planted in f"{_row(f)} {f.message}", f.severity) for f in findings(rule, case)]
        found += any(is_right for is_right, _ in said)
        right += [severity for is_right, severity in said if is_right]
        wrong += [severity for is_right, severity in said if not is_right]
        sound = cases.sound[number % len(cases.sound)](random.Random(count + number))
        wrong += [f.severity for f in findings(rule, sound)]
    sure = [sum(severity is not Severity.NOTE for severity in of) for of in (right, wrong)]
    return Score(count, count, found, len(right), len(wrong), *sure)


def findings(rule: str, case: Case) -> list[RuleFinding]:
    """What the rule says of a case; notes of a rule that does more than note are no claims."""
    one = measurements.of_guide(reader.parse("g.rst", mini(*case.tables)))
    if case.neighbours:
        first = next(r for r in one.readings if r.quantity is not None and r.number is not None)
        before, after = (
            Neighbour(name, value) for name, value in zip(("11.00", "11.02"), case.neighbours, strict=True)
        )
        one = evolve(one, neighbours={(first.board, first.key): Neighbours(before, after)})
    older = measurements.of_guide(reader.parse("older.rst", mini(*case.older))) if case.older else None
    claims = [f for f in run_rules(one, older) if f.rule.id == rule]
    return [f for f in claims if f.severity is not Severity.NOTE or f.rule.severity is Severity.NOTE]


def _row(finding: RuleFinding) -> str:
    return finding.reading.cell.row if finding.reading else ""


def _perf(title: str, rows: Mapping[str, Sequence[object]], boards: Sequence[str] = (SK,)) -> TableText:
    lines = [f"{name}," + ",".join(f'"{cell}"' for cell in cells) for name, cells in rows.items()]
    return table(",".join(["Benchmarks", *(f"{b}: perf" for b in boards)]), *lines, title=title)


def _nbench(values: Sequence[Sequence[float]], boards: Sequence[str] = (SK,)) -> TableText:
    rows = {f"{name} (Iterations)": [f"{v:.2f}" for v in of] for name, of in zip(ROWS, values, strict=True)}
    return _perf("NBench", rows, boards)


def _clock(*texts: str, boards: Sequence[str] = (SK,)) -> TableText:
    return _perf("Dhrystone", {"cpu_clock (MHz)": texts}, boards)


def _base(draw: random.Random, boards: int = 1) -> list[list[float]]:
    bases = [draw.uniform(5, 900) for _ in ROWS]
    return [[base * draw.gauss(1, 0.01) for _ in range(boards)] for base in bases]


def _again(
    draw: random.Random, values: Sequence[Sequence[float]], noise: float, factor: float = 1
) -> list[list[float]]:
    return [[v * factor * draw.gauss(1, noise) for v in of] for of in values]


# --- against an older guide ---------------------------------------------------------------------------------------------


def _carried(draw: random.Random) -> Case:
    values = _base(draw)
    return Case([_nbench(values)], "carried over", [_nbench(values)])


def _measured_again(draw: random.Random) -> Case:
    values = _base(draw)
    return Case([_nbench(_again(draw, values, 0.002))], "", [_nbench(values)])


def _few_digits(draw: random.Random) -> Case:
    values = [[draw.uniform(1, 9)] for _ in ROWS]
    return Case([_nbench(_again(draw, values, 0.004))], "", [_nbench(values)])


def _slow_clock(draw: random.Random) -> Case:
    values, real = _base(draw), draw.choice((800, 1000, 1250))
    new = [_clock("1400.00"), _nbench(_again(draw, values, 0.001, real / 1400))]
    return Case(new, f"{real} of 1400 MHz", [_clock("1400.00"), _nbench(values)])


def _printed_clock(draw: random.Random) -> Case:
    values, real = _base(draw), draw.choice((800, 1000, 1250))
    new = [_clock(f"{real}.00"), _nbench(_again(draw, values, 0.001, real / 1400))]
    return Case(new, "", [_clock("1400.00"), _nbench(values)])


def _compiler(draw: random.Random) -> Case:
    values = _base(draw)
    new = [[v * draw.uniform(0.6, 1.1) for v in of] for of in values]
    return Case([_clock("1400.00"), _nbench(new)], "", [_clock("1400.00"), _nbench(values)])


def _all_alike(draw: random.Random) -> Case:
    values = _base(draw)
    new = _again(draw, values, 0.001, draw.uniform(0.75, 0.99))
    return Case([_clock("1400.00"), _nbench(new)], "", [_clock("1400.00"), _nbench(values)])


def _one_run_failed(draw: random.Random) -> Case:
    boards, values = (SK, LP, SIP), _base(draw, 3)
    new = _again(draw, values, 0.03)
    at = draw.randrange(len(ROWS))
    new[at][draw.randrange(3)] *= draw.uniform(0.1, 0.4)
    return Case([_nbench(new, boards)], ROWS[at], [_nbench(values, boards)])


def _release_moved(draw: random.Random) -> Case:
    boards, values = (SK, LP, SIP), _base(draw, 3)
    new = _again(draw, values, 0.03)
    new[0] = [v * 0.35 for v in new[0]]
    return Case([_nbench(new, boards)], "", [_nbench(values, boards)])


def _noise(draw: random.Random) -> Case:
    boards, values = (SK, LP, SIP), _base(draw, 3)
    return Case([_nbench(_again(draw, values, 0.1), boards)], "", [_nbench(values, boards)])


def _only_board_moved(draw: random.Random) -> Case:
    values = _base(draw)
    new = _again(draw, values, 0.03)
    new[0][0] *= 0.4
    return Case([_nbench(new)], "", [_nbench(values)])


# --- one guide ----------------------------------------------------------------------------------------------------------


def _average_clock(draw: random.Random) -> Case:
    low = draw.choice((800, 1000, 1250))
    share = draw.uniform(0.1, 0.9)
    return Case([_clock(f"{low + share * (1400 - low):.2f} (min {low}.00, max 1400.00)")], "cpu_clock")


def _steady_clock(draw: random.Random) -> Case:
    low = 1400 - draw.uniform(0, 1)
    return Case([_clock(f"{(low + 1400) / 2:.2f} (min {low:.2f}, max 1400.00)")])


def _boot(low: float, high: float) -> TableText:
    header = f'Boot Configuration,"{SK}: Boot time in seconds: avg(min,max)"'
    cell = f"{(low + high) / 2:.2f} (min {low:.2f}, max {high:.2f})"
    return table(header, f'Linux boot time from MMCSD,"{cell}"', title="Linux boot time")


def _wide(draw: random.Random) -> Case:
    low = draw.uniform(3, 20)
    return Case([_boot(low, low * draw.uniform(5.1, 9))], "Linux boot time")


def _narrow(draw: random.Random) -> Case:
    low = draw.uniform(3, 20)
    return Case([_boot(low, low * draw.uniform(1, 4.5))])


def _loads(loads: Sequence[float]) -> list[TableText]:
    header = f"Buffer size (bytes),{SK}: {{}} EXT4 Throughput (Mbytes/sec),{SK}: {{}} EXT4 CPU Load (%)"
    sizes = ("1m", "4m", "4k", "256k", "512k", "64k")
    tables = []
    for number, word in enumerate(("Write", "Read")):
        rows = [f"{s},40.00,{load:.2f}" for s, load in zip(sizes, loads[6 * number :], strict=False)]
        tables.append(
            table(header.format(word, word), *rows, title=f"MMC EXT4 FIO {number}", chapter=("MMC/SD Driver",))
        )
    return tables


def _spinning(draw: random.Random) -> Case:
    return Case(_loads([25 + draw.uniform(0.2, 2), *(25 + draw.expovariate(0.2) for _ in range(11))]), "one core")


def _idle(draw: random.Random) -> Case:
    return Case(_loads([draw.uniform(1, 60) for _ in range(12)]))


def _heavy(draw: random.Random) -> Case:
    return Case(_loads([draw.uniform(22, 60) for _ in range(12)]))


def _copied(draw: random.Random) -> Case:
    values = _base(draw)
    return Case([_nbench(values), evolve(_nbench(values), title="NBench of the second run")], "was copied")


def _two_alike(draw: random.Random) -> Case:
    values = _base(draw)
    return Case([_nbench(values), evolve(_nbench(_again(draw, values, 0.002)), title="NBench of the second run")])


def _udp(draw: random.Random, last: int, full: float, counted: str) -> list[str]:
    """Rows; `full` is the share of a gigabit link of the largest frames that is reached."""
    rows = []
    for size in (64, 128, 256, 512, 1024, last):
        count = (size - _OVERHEAD if counted == "payload" else size) * 8 / 1000  # Mbit for a thousand packets
        packets = min(draw.uniform(60, 100), full * 1e6 / 8 / (max(size, 84) + 20))
        rows.append(f"{size},{round(packets, 2) * count:.2f},{packets:.2f}")
    return rows


def _udp_table(rows: Sequence[str]) -> TableText:
    return table(_UDP_HEADER, *rows, title="CPSW UDP Egress Throughput 0 loss", chapter=("Ethernet", "CPSW"))


def _datagrams(draw: random.Random) -> Case:
    return Case([_udp_table(_udp(draw, 1472, 0.8, "payload"))], "1472")


def _frames(draw: random.Random) -> Case:
    return Case([_udp_table(_udp(draw, 1518, 0.95, draw.choice(("payload", "frame"))))])


def _payload_counted(draw: random.Random) -> Case:
    return Case([_udp_table(_udp(draw, 1518, 0.8, "payload"))], "the payload of frames of the row's size")


def _frames_counted(draw: random.Random) -> Case:
    return Case([_udp_table(_udp(draw, 1518, 0.8, "frame"))], "packets * 8 * the row's size")


def _either_counted(draw: random.Random) -> Case:
    return draw.choice((_payload_counted, _frames_counted))(draw)


def _without_packets(draw: random.Random) -> Case:
    rows = [row.rpartition(",")[0] for row in _udp(draw, 1518, 0.8, "payload")]
    header = _UDP_HEADER.rpartition(",")[0]
    return Case([table(header, *rows, title="CPSW UDP Egress Throughput 0 loss", chapter=("Ethernet", "CPSW"))])


def _boards(draw: random.Random, factor: float, rows: int) -> Case:
    values = [[v * draw.gauss(1, 0.03) for v in of] for of in _base(draw, 3)]
    values[0][2] *= factor
    boards = (SK, LP, SIP)
    names = [f"bw_file_rd-io-{2**n}mb (MB/s)" for n in range(6)]
    cells = {name: [f"{v:.2f}" for v in of] for name, of in list(zip(names, values, strict=True))[:rows]}
    return Case([_perf("LMBench", cells, boards)], names[0] if rows == 6 else "")


def _one_board_failed(draw: random.Random) -> Case:
    return _boards(draw, draw.uniform(0.05, 0.18), 6)


def _other_flash(draw: random.Random) -> Case:
    return _boards(draw, draw.uniform(0.1, 0.5), 1)


def _boards_alike(draw: random.Random) -> Case:
    return evolve(_boards(draw, 1.0, 6), planted="")


def _rails(values: Sequence[float]) -> TableText:
    rows = [f"soc_dvdd_1v8_{n},1.80,{value:.2f}" for n, value in enumerate(values)]
    return table("Rail name,Rail voltage(V),Power (mW)", *rows, title="Deep Sleep Power Performance")


def _few_steps(draw: random.Random) -> Case:
    return Case([_rails([0.45 * draw.randint(20, 90) for _ in range(4)] + [0.45 * draw.randint(1, 4)])], "soc_dvdd")


def _averaged(draw: random.Random) -> Case:
    return Case([_rails([draw.uniform(3, 40), draw.uniform(0.3, 2), draw.uniform(0.01, 0.2)])])


def _averaged_above(draw: random.Random) -> Case:
    return Case([_rails([draw.uniform(3, 40), draw.uniform(0.3, 4)])])


def _audio(rates: Mapping[int, float]) -> TableText:
    rows = [f"{rate},{real * 32:.0f}" for rate, real in rates.items()]
    return table(f"Sampling Rate (Hz),{SK}: Throughput (bits/sec)", *rows, title="Audio Capture")


def _other_rate(draw: random.Random) -> Case:
    return Case([_audio({8000: 8000, 24000: 22050 * draw.gauss(1, 0.0005), 48000: 48000})], "24000")


def _right_rates(draw: random.Random) -> Case:
    return Case([_audio({rate: rate * draw.gauss(1, 0.003) for rate in (8000, 11025, 24000, 44100, 48000)})])


def _stood_still(draw: random.Random) -> Case:
    return Case([_audio({48000: 48000 * draw.uniform(0.7, 0.97)})])


def _dd(seconds: float) -> TableText:
    header = f"File size (Mbytes),{SK}: Raw Read Throughput (Mbytes/sec)"
    return table(header, f"50,{50 / seconds:.2f}", title="OSPI Raw Flash Driver")


def _ticks(draw: random.Random) -> Case:
    return Case([_dd(draw.randint(20, 90) / 100)], "clock of 10 ms")


def _between_ticks(draw: random.Random) -> Case:
    return Case([_dd(draw.randint(20, 90) / 100 + draw.uniform(0.002, 0.008))])


def _comma_in_a_cell(draw: random.Random) -> Case:
    one = _nbench(_base(draw))
    at = draw.randrange(1, len(one.lines))
    return Case([evolve(one, lines=[*one.lines[:at], f'{one.lines[at]},"3.00"', *one.lines[at + 1 :]])], "cells")


def _commas_at_the_end(draw: random.Random) -> Case:
    one = _nbench(_base(draw))
    return Case([evolve(one, lines=[one.lines[0], *(f"{line}," for line in one.lines[1:])])])


def _as_it_was(draw: random.Random) -> Case:
    return Case([_nbench(_base(draw))])


# --- in a history -------------------------------------------------------------------------------------------------------


def _in_time(draw: random.Random, before: float, here: float, after: float) -> Case:
    first = draw.uniform(20, 400)
    values = [[first * here], *([draw.uniform(20, 400)] for _ in ROWS[1:])]
    return Case(
        [_nbench(values)], "", neighbours=(first * before * draw.gauss(1, 0.02), first * after * draw.gauss(1, 0.02))
    )


def _dip(draw: random.Random) -> Case:
    return evolve(_in_time(draw, 1, draw.uniform(0.2, 0.5), 1), planted=ROWS[0])


def _step_that_stays(draw: random.Random) -> Case:
    moved = draw.uniform(0.3, 0.7)
    return _in_time(draw, 1, moved, moved)


def _drift(draw: random.Random) -> Case:
    return _in_time(draw, 1, 0.7, draw.uniform(0.4, 0.6))


def _taken_back(draw: random.Random) -> Case:
    return _in_time(draw, 1, draw.uniform(0.4, 0.9), 1)


CASES: Mapping[str, Cases] = {
    "audio-rate": Cases(_other_rate, (_right_rates, _stood_still)),
    "carried-over": Cases(_carried, (_measured_again, _few_digits)),
    "clock-average": Cases(_average_clock, (_steady_clock,)),
    "clock-ratio": Cases(_slow_clock, (_printed_clock, _compiler, _compiler, _all_alike)),
    "duplicate-table": Cases(_copied, (_two_alike, _as_it_was)),
    "load-floor": Cases(_spinning, (_idle, _idle, _heavy)),
    "outlier-boards": Cases(_one_board_failed, (_boards_alike, _boards_alike, _other_flash)),
    "outlier-older": Cases(_one_run_failed, (_noise, _release_moved, _only_board_moved)),
    "overlong-row": Cases(_comma_in_a_cell, (_commas_at_the_end, _as_it_was)),
    "quantised-dd": Cases(_ticks, (_between_ticks,)),
    "sensor-resolution": Cases(_few_steps, (_averaged, _averaged, _averaged_above)),
    "spike": Cases(_dip, (_step_that_stays, _drift, _taken_back)),
    "udp-definition": Cases(_either_counted, (_without_packets,)),
    "udp-size-label": Cases(_datagrams, (_frames,)),
    "wide-range": Cases(_wide, (_narrow,)),
}
