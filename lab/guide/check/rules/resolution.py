"""OSPI raw reads: a size over `time -p`, which has 10 ms."""

from __future__ import annotations

import string
from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.model import decimals
from lab.guide.rulebook import Remark, Severity, rule

_TICK_S = 0.01
_WORTH_SAYING = 0.01  # relative


@rule("quantised-dd", "The clock of `time -p` has 10 ms", Severity.INFO)
def quantised_dd(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find dd results with coarse steps.

    `time -p` prints hundredths of a second: 172.41 is 50 MiB in 0.29 s.

    Finding: Cells of one run where one tick is 1 % or more, with its size; a change of one tick is below
    resolution.
    """
    for reading in sheet.of("ospi.raw.throughput"):
        value = reading.number
        size = reading.params.get("file", "")
        if not value or not size.isdecimal() or int(size) == 0:
            continue
        seconds = int(size) / value
        if reading.cell.value.low is not None or not _is_one_run(seconds, value):
            continue  # an average over runs has finer steps
        step = value * _TICK_S / seconds
        if step / value >= _WORTH_SAYING:
            yield Remark(
                f"is {size} MiB in {seconds:.2f} s by a clock of 10 ms: one tick is {100 * step / value:.1f} %",
                reading,
                resolution=step,
            )


def _is_one_run(seconds: float, value: float) -> bool:
    """Return whether the time is a whole number of ticks.

    Two decimals of the throughput limit the test.
    """
    ticks = seconds / _TICK_S
    return abs(ticks - round(ticks)) <= ticks * 0.006 / value + 1e-6


_RUNS = (200e6, 100e6)  # what the vendor's program runs
_TOLERANCE = 1e-6  # it prints in single precision
_DECIMAL = 0.1  # DMIPS/MHz has one decimal


@rule("quantised-dhrystone", "Dhrystone counts whole seconds", Severity.INFO)
def quantised_dhrystone(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find Dhrystone results of whole seconds.

    The program divides 200 million Dhrystones by whole seconds, so one second is 2 to 4 %.

    Finding: Rate and DMIPS/MHz, with the size of a tick; a change of one tick, or of one decimal of DMIPS/MHz, is
    below resolution.
    """
    per_mhz = {r.board: r for r in sheet.of("dhrystone.per_mhz")}
    for reading in sheet.of("dhrystone.rate"):
        rate = reading.number
        if not rate or rate <= 0:
            continue
        runs = (
            next((n for n in _RUNS if abs(n / round(n / rate) / rate - 1) < _TOLERANCE), None) if rate < 50e6 else None
        )
        if runs is None:
            continue
        seconds = round(runs / rate)
        step = rate / seconds
        text = (
            f"is {runs / 1e6:.0f} million runs in {seconds} whole seconds: one second more or less is "
            f"{100 / seconds:.1f} %"
        )
        yield Remark(text, reading, resolution=step)
        other = per_mhz.get(reading.board)
        if other is not None and other.number:
            tick = max(_DECIMAL, other.number / seconds)
            yield Remark(f"{text}, and it is printed with one decimal", other, resolution=tick + 0.01)


@rule("quantised-uboot", "U-Boot's `time` has 1 ms", Severity.INFO)
def quantised_uboot(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find U-Boot transfers of a few milliseconds.

    U-Boot's `time` prints milliseconds: 83591.84 is 4096 KiB in 49 ms.

    Finding: Cells where one millisecond is 1 % or more; a change of one tick is below resolution.
    """
    for reading in sheet.of("uboot.throughput"):
        size = reading.params.get("file", "")
        if not reading.number or not size or set(size) - set(string.hexdigits):
            continue
        milliseconds = int(size, 16) / 1024 / reading.number * 1000
        if 1 / max(milliseconds, 1) >= _WORTH_SAYING:
            yield Remark(
                f"is {int(size, 16) // 1024} KiB in {milliseconds:.0f} ms by a clock of 1 ms: one tick is "
                f"{100 / milliseconds:.1f} %",
                reading,
                resolution=reading.number / milliseconds,
            )


_LOOPS = 10_000.0  # MIPS that one second would give
_PRINTED = 0.06  # one decimal
_MOST_SECONDS = 20


@rule("quantised-whetstone", "Whetstone counts whole seconds", Severity.INFO)
def quantised_whetstone(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find Whetstone results of whole seconds.

    The program divides by whole seconds, so a run can give only 10000, 5000, 3333.3, 2500 ... MIPS.

    Finding: The distance to the next possible result. 10000 to 5000 is below resolution, not a halving.
    """
    for reading in sheet.of("whetstone.rate"):
        value = reading.cell.value
        samples = [v for v in (value.low, value.high) if v] or [v for v in (value.number,) if v]
        if not samples or not all(_is_whole_seconds(rate) for rate in samples):
            continue
        seconds = round(_LOOPS / max(samples))
        neighbour = _LOOPS / (seconds - 1) if seconds > 1 else _LOOPS / 2
        yield Remark(
            f"is 10000 over whole seconds (here {seconds}): the next possible result is {neighbour:.1f}",
            reading,
            resolution=abs(neighbour - max(samples)),
        )


def _is_whole_seconds(rate: float) -> bool:
    seconds = round(_LOOPS / rate)
    return 1 <= seconds <= _MOST_SECONDS and abs(_LOOPS / seconds - rate) < _PRINTED


_DIGITS = 0.1  # the last printed digit is at least this share of the number


@rule("printed-resolution", "Two decimals cannot show it", Severity.INFO)
def printed_resolution(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find latencies with too few printed digits.

    LMBench results of nanoseconds vanish in two decimals of microseconds. lat_ctx prints 0.00 where its difference
    is negative.

    Finding: A latency whose last digit is a tenth of it or more; changes of one digit are below resolution. A
    latency of zero is a warning.
    """
    for reading in sheet.of("lmbench."):
        number, text = reading.number, reading.cell.value.text
        if number is None or reading.quantity is None or reading.quantity.unit not in {"us", "ns"}:
            continue
        step = 10.0 ** -decimals(text)
        if number == 0:
            why = "lmbench subtracts what the loop costs, and less than nothing is printed as zero"
            yield Remark(
                "no latency is zero: "
                f"{why if reading.metric == 'lmbench.lat_ctx' else 'it was lost in the two decimals'}",
                reading,
                resolution=step,
                severity=Severity.WARNING,
            )
        elif step / number >= _DIGITS:
            yield Remark(
                f"is printed with steps of {step:g} {reading.quantity.unit}, which is {100 * step / number:.0f} % of "
                "it",
                reading,
                resolution=step,
            )


_SHUNT_LSB_V = 2.5e-6  # INA226/INA231, shunt voltage register; the offset is up to 4 of them, of some types 20
_SHUNT_OHM = 0.010  # of the rails of the vendor's evaluation boards
_CORE_SHUNT_OHM = 0.002
_CORE_RAILS = frozenset({"vdd_core", "vdd_mpu", "vdd_cpu"})
LEAST_STEPS = 5
_LEAST_COUNT = 0.5  # of a sensor that does not average


@rule("sensor-resolution", "A few steps of the current sensor", Severity.NOTE)
def sensor_resolution(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find rail powers of less than five sensor steps.

    Rail powers come from INA226 or INA231 on shunts of 10 mΩ (2 mΩ on core rails). One step of 2.5 µV is 0.25 mA,
    0.45 mW at 1.8 V; the offset is up to 4 steps, of some types 20.

    Finding: A rail below 5 steps; a change of it within 10 steps is below resolution, of other rails within 2. A
    table with a value below half a step was averaged and is left alone.

    Limits: The guide prints neither shunt nor averaging; the shunts are those of sibling boards with public
    schematics.
    """
    for readings in group(sheet.of("power.rail"), lambda r: r.cell.table).values():
        steps = [(r, r.number / step) for r in readings if (step := step_mw(r)) and r.number is not None]
        if any(0 < count < _LEAST_COUNT for _, count in steps):
            continue
        for reading, count in steps:
            if 0 <= count < LEAST_STEPS:
                step = step_mw(reading) or 0.0
                yield Remark(
                    f"would be {count:.1f} steps of a current sensor with the usual shunt ({step:.2f} mW each at "
                    "this rail's "
                    "nominal voltage); whether the sensor averaged, and over which shunt, the guide does not tell",
                    reading,
                    resolution=2 * LEAST_STEPS * step,  # of a difference: each of the two readings may be off
                )


def step_mw(reading: CellReading) -> float | None:
    """Sensor step in mW at the rail's nominal voltage.

    None: the voltage is unknown or zero.
    """
    nominal = next((text for name, text in reading.cell.params.items() if "voltage" in name.lower()), "")
    try:
        volts = float(nominal)
    except ValueError:
        return None
    shunt = _CORE_SHUNT_OHM if reading.params.get("rail") in _CORE_RAILS else _SHUNT_OHM
    return _SHUNT_LSB_V / shunt * volts * 1000 or None
