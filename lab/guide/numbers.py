"""What the judge is given of a guide's reading: its number, and whatever the rules and the conditions say about it."""

from __future__ import annotations

import functools

from lab.guide import conditions
from lab.guide.annotated import AnnotatedGuide, cell_key
from lab.guide.catalogue import CellReading
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect, Finding, Severity
from lab.guide.rules import sensor_resolution
from lab.guide.text import decimals
from lab.guide.udp import Definition
from lab.judge import noise
from lab.judge.number import Evidence, Number, Work

_UDP = "ethernet.udp."
_COUNTS = {
    Definition.PAYLOAD: "counts the bytes of the payload",
    Definition.FRAME: "counts the row's size for each packet",
}


def number_of(reading: CellReading, side: AnnotatedGuide, board: str | None) -> Number:
    """A reading with its evidence.

    Args:
        board: whose it is; a table may not name it.
    """
    metric = reading.quantity.metric if reading.quantity else None
    return Number(side.name, metric, reading.params, side.number(reading), None, evidence(reading, side, board))


def evidence(reading: CellReading, side: AnnotatedGuide, board: str | None) -> Evidence:
    """What is known about a reading beyond its number."""
    broken, recovered = (side.effect(reading, effect) for effect in (Effect.BROKEN, Effect.RECOVERED))
    value = reading.cell.value
    definition, definition_text = _definition(reading, side)
    resolution, resolution_note = _resolution(reading, side)
    return Evidence(
        low=_recovered(recovered, -1) if recovered else value.low,
        high=_recovered(recovered, 1) if recovered else value.high,
        definition=definition,
        definition_text=definition_text,
        conditions=conditions.media_of(reading, side.conditions),
        resolution=resolution,
        resolution_note=resolution_note,
        work=_work(reading, side),
        clock_mhz=side.conditions.clocks_mhz.get(board) or side.conditions.clocks_mhz.get(reading.board),
        broken=broken.message if broken else "",
        incomparable=_incomparable(reading, side),
        recovered=recovered is not None,
        notes=tuple(
            f.message
            for f in side.about(reading)
            if f.severity is Severity.NOTE and f.rule.id != sensor_resolution.RULE.id
        ),
        suspicions=tuple(f"{f.message} ({f.rule.id})" for f in side.suspicions(reading)),
    )


def uncertainty(reading: CellReading, side: AnnotatedGuide) -> float:
    """Half of the printed range, at least half of the last printed digit; how many samples it is of is not published.

    Of a recovered number what its rule says.
    """
    value = reading.cell.value
    digit = 0.5 * _digit(reading, side)
    recovered = side.effect(reading, Effect.RECOVERED)
    if recovered is not None:
        return max(digit, recovered.uncertainty or 0.0)
    if value.low is None or value.high is None:
        return digit
    return max(digit, (value.high - value.low) / 2)


def _digit(reading: CellReading, side: AnnotatedGuide) -> float:
    """One step of the last digit that says something."""
    return float(10.0 ** -side.digits.get(reading.metric, decimals(reading.cell.value.text)))


def _recovered(found: Finding, side: int) -> float | None:
    """An end of what a recovered number may be; None where it is exact."""
    if found.corrected is None or found.uncertainty is None:
        return None
    return found.corrected + side * found.uncertainty


def _incomparable(reading: CellReading, side: AnnotatedGuide) -> str:
    if reading.cell.kind is CellKind.UNATTRIBUTED and reading.cell.likely_board is None:
        return "the row is short, so its boards are not known"
    found = side.effect(reading, Effect.INCOMPARABLE)
    return found.message if found else ""


def _definition(reading: CellReading, side: AnnotatedGuide) -> tuple[str, str]:
    """In a word, and as the end of a sentence."""
    if reading.metric == f"{_UDP}throughput":
        row = side.udp_rows.get(cell_key(reading.cell))
        if row is not None and row.definition is not None:
            return str(row.definition), _COUNTS[row.definition]
    way = conditions.way_into_sleep(reading, side.conditions)
    return (way, f"enters MCU Only by {way}") if way else ("", "")


def _resolution(reading: CellReading, side: AnnotatedGuide) -> tuple[float | None, str]:
    found = [(f.resolution, f.message) for f in side.about(reading) if f.resolution is not None]
    limits = [(size, f"{reading.cell.value.text} {message}") for size, message in found]
    limits.append((_digit(reading, side), "one step of the last printed digit"))
    step = sensor_resolution.step_mw(reading) if reading.metric == "power.rail" else None
    if step:
        limits.append((2 * step, f"two steps of the current sensor, {step:.3g} mW each"))
    return max(limits, key=lambda limit: limit[0], default=(None, ""))


def _work(reading: CellReading, side: AnnotatedGuide) -> Work | None:
    """What was done while this was measured: the packets of a rate, of a loss those that were sent, the throughput of a load."""
    row = side.udp_rows.get(cell_key(reading.cell))
    if reading.metric == f"{_UDP}throughput" and row is not None:
        return Work(row.packets_k, "packets", "thousand a second", _noise(reading))
    if reading.metric == f"{_UDP}loss" and row is not None:
        arrived = 1 - (reading.number or 0.0) / 100
        return (
            Work(row.packets_k / arrived, "packets sent", "thousand a second", _noise(reading))
            if arrived > 0
            else None
        )
    if reading.metric.endswith("cpu_load"):
        work = reading.metric.replace("cpu_load", "packets" if reading.metric.startswith(_UDP) else "throughput")
        done = side.sibling(reading, work)
        amount = side.number(done) if done is not None else None
        if done is not None and done.quantity is not None and amount:
            return Work(amount, work, done.quantity.metric.unit, _noise(done))
    return None


def _noise(reading: CellReading) -> float:
    return _noise_of(*reading.key)


@functools.lru_cache(maxsize=4096)
def _noise_of(metric: str, params: tuple[tuple[str, str], ...]) -> float:
    """Guides print the same few hundred numbers again and again."""
    return noise.load().of(metric, dict(params)).relative
