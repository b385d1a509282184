"""The judges of a change, one after the other: the first that has something to say decides."""

from __future__ import annotations

import math
from collections.abc import Callable

from lab.guide import conditions
from lab.guide.annotated import Pair, cell_key
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect, Severity
from lab.guide.rules import sensor_resolution
from lab.guide.verdicts import Judgement, Verdict


def judge(pair: Pair) -> Judgement:
    """The verdict on a pair."""
    for ask in _JUDGES:
        judgement = ask(pair)
        if judgement is not None:
            return judgement
    return _moved(pair)


def _incomparable(pair: Pair) -> Judgement | None:
    loose = [e.name for r, e in pair.sides() if r.cell.kind is CellKind.UNATTRIBUTED and r.cell.likely_board is None]
    wrong = [f"{e.name} {f.message}" for r, e in pair.sides() if (f := e.effect(r, Effect.INCOMPARABLE))]
    if not loose and not wrong:
        return None
    why = [f"the row is short in {' and '.join(loose)}, so its boards are not known"] if loose else []
    return Judgement(Verdict.NOT_COMPARABLE, "; ".join(why + wrong))


def _broken(pair: Pair) -> Judgement | None:
    for reading, side in (pair.sides()[1], pair.sides()[0]):
        if found := side.effect(reading, Effect.BROKEN):
            return Judgement(Verdict.BROKEN_RUN, f"{side.name}: {found.message}")
    return None


def _unknown(pair: Pair) -> Judgement | None:
    if pair.new.quantity is not None or _is_within(pair, pair.noise):
        return None
    return Judgement(
        Verdict.NOT_COMPARABLE, "boardlab does not know what this row measures, nor which direction is better"
    )


def _udp_definition(pair: Pair) -> Judgement | None:
    old, new = pair.before.udp_rows.get(cell_key(pair.old.cell)), pair.after.udp_rows.get(cell_key(pair.new.cell))
    if pair.new.metric != "ethernet.udp.throughput" or old is None or new is None:
        return None
    if old.definition is None or new.definition is None or old.definition is new.definition:
        return None
    share = f" ({new.packets_k / old.packets_k:.2f} times)" if old.packets_k else ""
    return Judgement(
        Verdict.DEFINITION_CHANGED,
        f"{pair.before.name} counts the bytes of the {old.definition}, {pair.after.name} those of the {new.definition}; in "
        f"packets it is {old.packets_k:.1f} to {new.packets_k:.1f} thousand a second{share}",
    )


def _unchanged(pair: Pair) -> Judgement | None:
    return Judgement(Verdict.NOISE, "unchanged") if pair.old_number == pair.new_number else None


def _resolution(pair: Pair) -> Judgement | None:
    limits = [f for reading, side in pair.sides() for f in side.about(reading) if f.resolution is not None]
    worst = max(limits, key=lambda finding: finding.resolution or 0.0, default=None)
    difference = abs(pair.new_number - pair.old_number)
    if worst is not None and difference <= (worst.resolution or 0.0):
        text = f"{difference:.4g} {pair.unit} of difference are within the resolution, {worst.resolution:.4g}"
        return Judgement(
            Verdict.BELOW_RESOLUTION,
            f"{text}: {worst.reading.cell.value.text if worst.reading else ''} {worst.message}",
        )
    step = sensor_resolution.step_mw(pair.new) if pair.new.metric == "power.rail" else None
    if step and difference <= 2 * step:
        text = f"{difference:.3g} mW of difference are {difference / step:.1f} steps of the current sensor"
        return Judgement(Verdict.BELOW_RESOLUTION, text)
    return None


def _rounding(pair: Pair) -> Judgement | None:
    step = pair.new.quantity.slack if pair.new.quantity else 0.0
    difference = abs(pair.new_number - pair.old_number)
    if not step or difference > step:
        return None
    return Judgement(
        Verdict.NOISE, f"the difference of {difference:.3g} {pair.unit} is within {step:g}, which says nothing here"
    )


def _load_of_other_work(pair: Pair) -> Judgement | None:
    """A CPU load says something only where the same work was done."""
    if not pair.new.metric.endswith("cpu_load"):
        return None
    work = pair.new.metric.replace("cpu_load", "packets" if ".udp." in pair.new.metric else "throughput")
    old, new = pair.before.sibling(pair.old, work), pair.after.sibling(pair.new, work)
    if old is None or new is None or new.quantity is None:
        return None
    did, does = pair.before.number(old), pair.after.number(new)
    if not did or not does or abs(math.log(does / did)) <= math.log(1 + new.quantity.noise):
        return None
    return Judgement(Verdict.NOT_COMPARABLE, f"the load belongs to {does / did:.2f} times the work (see {work})")


def _loss_of_other_load(pair: Pair) -> Judgement | None:
    """A loss says something only where the tester sent as much."""
    if pair.new.metric != "ethernet.udp.loss":
        return None
    sent = []
    for reading, side in pair.sides():
        row = side.udp_rows.get(cell_key(reading.cell))
        arrived = 1 - (reading.number or 0.0) / 100
        sent.append(row.packets_k / arrived if row is not None and arrived > 0 else 0.0)
    if not all(sent) or abs(math.log(sent[1] / sent[0])) <= math.log(1 + pair.noise):
        return None
    return Judgement(
        Verdict.NOT_COMPARABLE,
        f"the tester sent {sent[1]:.0f} thousand packets a second in {pair.after.name} and {sent[0]:.0f} in {pair.before.name}",
    )


def _sleep_mode(pair: Pair) -> Judgement | None:
    ways = conditions.mode_change(pair.new, pair.before.conditions, pair.after.conditions)
    if ways is None:
        return None
    return Judgement(
        Verdict.DEFINITION_CHANGED,
        f"MCU Only is entered by {ways[1]} in {pair.after.name} and was by {ways[0]} in {pair.before.name}",
    )


def _medium(pair: Pair) -> Judgement | None:
    media = conditions.medium_change(pair.new, pair.before.conditions, pair.after.conditions)
    if media is None:
        return None
    return Judgement(
        Verdict.CONDITIONS_CHANGED,
        f"another medium: {media[0]!r} in {pair.before.name}, {media[1]!r} in {pair.after.name}",
    )


def _noise(pair: Pair) -> Judgement | None:
    if ranges := _overlap(pair):
        return Judgement(Verdict.NOISE, ranges)
    if not _is_within(pair, pair.noise):
        return None
    because = pair.new.quantity.noise_reason if pair.new.quantity else ""
    return Judgement(
        Verdict.NOISE,
        f"within the {100 * pair.noise:g} % by which equal runs differ" + (f": {because}" if because else ""),
    )


def _clock(pair: Pair) -> Judgement | None:
    clocks = _clocks(pair)
    if clocks is None or pair.new.quantity is None:
        return None
    old, new = clocks
    text = f"the CPU clock is {new:g} MHz instead of {old:g}"
    if pair.new.metric == "cpu.clock":
        return Judgement(Verdict.CONDITIONS_CHANGED, text)
    per_clock = (pair.ratio or 0.0) / _expected(pair, old, new)
    if not pair.new.quantity.follows_clock or per_clock <= 0:
        return None
    steps = [f.resolution for reading, side in pair.sides() for f in side.about(reading) if f.resolution is not None]
    is_one_step = abs(pair.new_number - pair.old_number * _expected(pair, old, new)) <= max(steps, default=0.0)
    if abs(math.log(per_clock)) > math.log(1 + pair.noise) and not is_one_step:
        return None
    what = "one step of the method" if is_one_step else "noise"
    return Judgement(Verdict.CONDITIONS_CHANGED, f"{text}; per clock it is {per_clock:.2f} times, which is {what}")


def _moved(pair: Pair) -> Judgement:
    higher_is_better = pair.new.quantity is None or pair.new.quantity.metric.better == "higher"
    is_better = (pair.new_number > pair.old_number) == higher_is_better
    change = f"{pair.ratio:.2f} times" if pair.ratio is not None else f"from zero to {pair.new_number:g} {pair.unit}"
    notes = [f"{change}, beyond the {100 * pair.noise:g} % by which equal runs differ"]
    if any(side.effect(reading, Effect.RECOVERED) for reading, side in pair.sides()):
        notes.append("own values, recovered from the printed averages")
    if (clocks := _clocks(pair)) and pair.new.quantity and pair.new.quantity.follows_clock and pair.ratio:
        notes.append(f"{pair.ratio / _expected(pair, *clocks):.2f} times per clock, which changed too")
    for reading, side in pair.sides():
        notes += [
            f"suspect in {side.name}: {f.message}" for f in side.about(reading) if f.severity is Severity.SUSPECT
        ]
    return Judgement(Verdict.IMPROVEMENT if is_better else Verdict.REGRESSION, "; ".join(notes))


def _clocks(pair: Pair) -> tuple[float, float] | None:
    """The clocks of the board, if they differ."""
    old = pair.before.conditions.clocks_mhz.get(pair.new.board)
    new = pair.after.conditions.clocks_mhz.get(pair.new.board)
    return (old, new) if old and new and old != new else None


def _expected(pair: Pair, old_mhz: float, new_mhz: float) -> float:
    """The ratio that the clock alone gives."""
    higher_is_better = pair.new.quantity is not None and pair.new.quantity.metric.better == "higher"
    return new_mhz / old_mhz if higher_is_better else old_mhz / new_mhz


def _is_within(pair: Pair, relative: float) -> bool:
    return pair.ratio is not None and pair.ratio > 0 and abs(math.log(pair.ratio)) <= math.log(1 + relative)


def _overlap(pair: Pair) -> str:
    """Why the printed ranges say that nothing moved; empty where they do not, or are no ranges of this number."""
    if any(side.effect(reading, Effect.RECOVERED) for reading, side in pair.sides()):
        return ""
    old, new = pair.old.cell.value, pair.new.cell.value
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return ""
    if old.low <= new.high and new.low <= old.high:
        return f"the ranges overlap: {old.low:g} to {old.high:g} and {new.low:g} to {new.high:g}"
    return ""


_JUDGES: tuple[Callable[[Pair], Judgement | None], ...] = (
    _incomparable,
    _broken,
    _unknown,
    _udp_definition,
    _medium,
    _unchanged,
    _resolution,
    _rounding,
    _load_of_other_work,
    _loss_of_other_load,
    _sleep_mode,
    _noise,
    _clock,
)
