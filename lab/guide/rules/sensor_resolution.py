"""Rail powers of a few steps of the current sensor."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_SHUNT_LSB_V = 2.5e-6  # INA226/INA231, shunt voltage register; the offset is up to 4 of them, of some types 20
_SHUNT_OHM = 0.010  # of the rails of the vendor's evaluation boards
_CORE_SHUNT_OHM = 0.002
_CORE_RAILS = frozenset({"vdd_core", "vdd_mpu", "vdd_cpu"})
LEAST_STEPS = 5
_LEAST_COUNT = 0.5  # of a sensor that does not average


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Below five steps an unaveraged reading has no second digit; a table with a value below half a step was averaged."""
    for readings in group(sheet.of("power.rail"), lambda r: r.cell.table).values():
        steps = [(r, r.number / step) for r in readings if (step := step_mw(r)) and r.number is not None]
        if any(0 < count < _LEAST_COUNT for _, count in steps):
            continue
        for reading, count in steps:
            if 0 <= count < LEAST_STEPS:
                step = step_mw(reading) or 0.0
                yield Remark(
                    f"would be {count:.1f} steps of a current sensor with the usual shunt ({step:.2f} mW each at this rail's "
                    "nominal voltage); whether the sensor averaged, and over which shunt, the guide does not tell",
                    reading,
                    resolution=2 * LEAST_STEPS * step,  # of a difference: each of the two readings may be off
                )


def step_mw(reading: CellReading) -> float | None:
    """One step of the sensor, in mW at the rail's nominal voltage; None where that is unknown or zero."""
    nominal = next((text for name, text in reading.cell.params.items() if "voltage" in name.lower()), "")
    try:
        volts = float(nominal)
    except ValueError:
        return None
    shunt = _CORE_SHUNT_OHM if reading.params.get("rail") in _CORE_RAILS else _SHUNT_OHM
    return _SHUNT_LSB_V / shunt * volts * 1000 or None


RULE = Rule(id="sensor-resolution", title="A few steps of the current sensor", severity=Severity.NOTE, check=check)
