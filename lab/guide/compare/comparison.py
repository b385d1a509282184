"""Comparison of two guides of one family: changes, directions and significance.

Guides of earlier releases, if given, show the usual scatter of a number and its earlier values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from lab.guide import measurements as guide_sheet
from lab.guide.catalogue import CellReading
from lab.guide.check import annotations as guide_annotations
from lab.guide.check.annotations import AnnotatedGuide, GuideFinding, Pair, RuleDecision, cell_key
from lab.guide.check.findings import Finding
from lab.guide.check.rules import resolution as rules_resolution
from lab.guide.check.udp import Definition
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind, decimals
from lab.guide.rulebook import Effect, Severity
from lab.judge import noise
from lab.judge.baseline import judge_release
from lab.judge.number import Number, NumberEvidence, Work
from lab.judge.verdicts import Judgement, Verdict

_MOST_NAMES = 3


@frozen
class Change:
    """One measurement in two guides.

    Attributes:
        board: None where neither guide names one.
        old, new: recovered where a rule could, as printed otherwise; in `unit`.
        ratio: new over old; None where old is zero.
        interval: of the relative change, at 95 %, with the noise between runs; None where there is none.
        uncertainties: of both, as far as the guides print it: half of the range, else of the last digit.
        printed: both cells as they stand in the guides.
        lines: of the two cells.
        rule: of the judge, the one that decided ("clock"); "moved" where it got worse or better.
        decision: of our own rules on the two numbers, where they decided.
        returns_to: the earlier release whose level the new number only is again; empty where there is none.
        crept_from: the earlier release since which small steps of one direction have added up; empty where they have not.
        clocks: of the board's processor in both guides, in MHz, where they differ and the number follows it.
    """

    board: str | None
    metric: str
    params: Mapping[str, str]
    unit: str
    old: float
    new: float
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    reason: str
    uncertainties: tuple[float, float]
    printed: tuple[str, str]
    lines: tuple[int, int]
    rule: str = "moved"
    decision: RuleDecision | None = None
    returns_to: str = ""
    crept_from: str = ""
    clocks: tuple[float, float] | None = None

    @property
    def follows_clock(self) -> bool:
        """Return whether the number scales with the processor's clock."""
        return noise.load().of(self.metric, self.params).follows_clock


@frozen
class Comparison:
    """Common results of two guides, most important first, and the unmatched ones.

    Attributes:
        names: of the older and the newer guide in sentences. paths: their files.
        faults: findings of the rules in the newer guide.
        clocks: board -> clock of its processor in the newer guide, in MHz.
        earlier: names of the releases before the older one that were looked at, the oldest first.
    """

    changes: tuple[Change, ...]
    only_old: tuple[CellReading, ...]
    only_new: tuple[CellReading, ...]
    names: tuple[str, str] = ("", "")
    paths: tuple[str, str] = ("", "")
    faults: tuple[GuideFinding, ...] = ()
    clocks: Mapping[str | None, float] = field(factory=dict)
    earlier: tuple[str, ...] = ()

    @property
    def looked_at(self) -> str:
        """The earlier releases for a sentence; empty without any."""
        if len(self.earlier) <= _MOST_NAMES:
            return ", ".join(self.earlier)
        return f"{len(self.earlier)} releases, {self.earlier[0]} to {self.earlier[-1]}"


@frozen
class _Key:
    """Key of a result.

    `place` is its column in a short row whose boards are not known, else 0.
    """

    board: str | None
    metric: str
    params: tuple[tuple[str, str], ...]
    place: int = 0

    @property
    def what(self) -> tuple[str, tuple[tuple[str, str], ...], int]:
        return self.metric, self.params, self.place


def compare(
    old: MeasuredGuide, new: MeasuredGuide, board: str | None = None, earlier: Earlier | None = None
) -> Comparison:
    """Compare all results of two guides.

    Args:
        board: only this one, as a header spells it, and what may be of it (rows whose board is not known).
        earlier: the numbers of the releases before the older guide.
    """
    earlier = earlier or Earlier()
    before, after = guide_annotations.annotate(old), guide_annotations.annotate(new)
    olds, news = _results(before), _results(after)
    partners = _partners(olds, news)
    used = set(partners.values())
    pairs = [(olds[partner], news[key]) for key, partner in partners.items() if partner is not None]
    changes = (_change(_pair(a, b, before, after), earlier) for a, b in pairs)
    return Comparison(
        tuple(sorted((c for c in changes if _concerns(board, c.board)), key=_weight)),
        tuple(r for key, r in olds.items() if key not in used and _concerns(board, r.board)),
        tuple(news[key] for key, partner in partners.items() if partner is None and _concerns(board, key.board)),
        names=_names(before, after),
        paths=(old.guide.path, new.guide.path),
        faults=tuple(fault for fault in guide_annotations.of(after, before) if _concerns(board, fault.board)),
        clocks=after.conditions.clocks_mhz,
        earlier=earlier.names,
    )


def _names(before: AnnotatedGuide, after: AnnotatedGuide) -> tuple[str, str]:
    """Releases of both guides, or their files if the releases are equal."""
    if before.name != after.name:
        return before.name, after.name
    return before.sheet.guide.path, after.sheet.guide.path


def _concerns(wanted: str | None, board: str | None) -> bool:
    """Return whether a row belongs to the wanted board, or may."""
    return wanted is None or board is None or board == wanted


def _results(evidence: AnnotatedGuide) -> dict[_Key, CellReading]:
    found: dict[_Key, CellReading] = {}
    for reading in evidence.sheet.readings:
        quantity, cell = reading.quantity, reading.cell
        if reading.number is None or reading.is_alias or not noise.load().of(*_metric_of(reading)).judged:
            continue
        if quantity is not None:
            metric, params = reading.key
        elif cell.metric and not reading.table.columns[cell.column].is_key:
            metric, params = cell.metric.lower(), (("row", cell.row), ("table", reading.table.title.lower()))
        else:
            continue
        place = cell.column if cell.kind is CellKind.UNATTRIBUTED and reading.board is None else 0
        found.setdefault(_Key(reading.board, metric, params, place), reading)
    return found


def _partners(olds: Mapping[_Key, CellReading], news: Mapping[_Key, CellReading]) -> dict[_Key, _Key | None]:
    """Newer key -> the older guide's.

    Where one guide names no board (a table of powers headed "Power (mW)") and the other names exactly one, they belong
    together.
    """
    old_by_what, new_by_what = _by_what(olds), _by_what(news)
    partners: dict[_Key, _Key | None] = {}
    for key in news:
        there = old_by_what.get(key.what, [])
        alone = len(there) == 1 and len(new_by_what[key.what]) == 1 and (there[0].board is None) != (key.board is None)
        partners[key] = key if key in olds else there[0] if alone else None
    return partners


def _by_what(keys: Iterable[_Key]) -> dict[tuple[str, tuple[tuple[str, str], ...], int], list[_Key]]:
    found: dict[tuple[str, tuple[tuple[str, str], ...], int], list[_Key]] = {}
    for key in keys:
        found.setdefault(key.what, []).append(key)
    return found


def _pair(old: CellReading, new: CellReading, before: AnnotatedGuide, after: AnnotatedGuide) -> Pair:
    return Pair(old, new, before, after, before.number(old) or 0.0, after.number(new) or 0.0)


def judge(pair: Pair, earlier: Earlier) -> Judgement:
    """The verdict on a pair, by the judge that everything asks."""
    board = pair.new.board or pair.old.board
    old, new = (number_of(reading, side, board) for reading, side in pair.sides())
    return judge_release(earlier.of(key_of(pair.new, board)), old, new, noise.load())


def _metric_of(reading: CellReading) -> tuple[str, Mapping[str, str]]:
    return reading.metric, reading.params


def _change(pair: Pair, earlier: Earlier) -> Change:
    judgement = judge(pair, earlier)
    cell = pair.new.cell
    short = [side.name for r, side in pair.sides() if r.cell.kind is CellKind.UNATTRIBUTED and r.board is not None]
    note = f"; the row is short in {' and '.join(short)}, its board follows from the columns that boards leave empty"
    return Change(
        board=pair.new.board or pair.old.board,
        metric=pair.new.metric or f"{cell.row}: {cell.metric}",
        params=pair.new.params or cell.params,
        unit=pair.unit,
        old=pair.old_number,
        new=pair.new_number,
        ratio=pair.ratio,
        interval=None if judgement.low is None or judgement.high is None else (judgement.low, judgement.high),
        verdict=judgement.verdict,
        reason=judgement.reason + (note if short else ""),
        uncertainties=(uncertainty(pair.old, pair.before), uncertainty(pair.new, pair.after)),
        printed=(pair.old.cell.value.text, cell.value.text),
        lines=(pair.old.cell.line, cell.line),
        rule=judgement.rule,
        decision=guide_annotations.decision_of(pair, judgement.rule),
        returns_to=judgement.returns_to,
        crept_from=judgement.crept_from,
        clocks=_clocks(pair),
    )


def _clocks(pair: Pair) -> tuple[float, float] | None:
    if not noise.load().of(*_metric_of(pair.new)).follows_clock:
        return None
    board = pair.new.board or pair.old.board
    old, new = (side.conditions.clocks_mhz.get(board) for _, side in pair.sides())
    return (old, new) if old and new and noise.is_another_clock(old, new) else None


def _weight(change: Change) -> tuple[int, float]:
    size = abs(math.log(change.ratio)) if change.ratio and change.ratio > 0 else math.inf
    return list(Verdict).index(change.verdict), -size


# --- Readings as the judge's numbers and evidence ---


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
    metric = reading.quantity if reading.quantity else None
    return Number(side.name, metric, reading.params, side.number(reading), None, evidence(reading, side, board))


def evidence(reading: CellReading, side: AnnotatedGuide, board: str | None) -> NumberEvidence:
    """Collect the evidence about a reading besides its number."""
    broken, recovered = (side.effect(reading, effect) for effect in (Effect.BROKEN, Effect.RECOVERED))
    value = reading.cell.value
    definition, definition_text = _definition(reading, side)
    resolution, resolution_note = _resolution(reading, side)
    return NumberEvidence(
        low=_recovered(recovered, -1) if recovered else value.low,
        high=_recovered(recovered, 1) if recovered else value.high,
        definition=definition,
        definition_text=definition_text,
        conditions=guide_sheet.media_of(reading, side.conditions),
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
            if f.severity is Severity.NOTE and f.rule.id != rules_resolution.sensor_resolution.id
        ),
        suspicions=tuple(f"{f.message} ({f.rule.id})" for f in side.suspicions(reading)),
    )


def uncertainty(reading: CellReading, side: AnnotatedGuide) -> float:
    """Half of the printed range, at least half of the last digit.

    A recovered number has the ± of its rule. Guides do not publish the number of samples.
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
    """Lower or upper end of a recovered number; None: it is exact."""
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
    way = guide_sheet.way_into_sleep(reading, side.conditions)
    return (way, f"enters MCU Only by {way}") if way else ("", "")


def _resolution(reading: CellReading, side: AnnotatedGuide) -> tuple[float | None, str]:
    found = [(f.resolution, f.message) for f in side.about(reading) if f.resolution is not None]
    limits = [(size, f"{reading.cell.value.text} {message}") for size, message in found]
    limits.append((_digit(reading, side), "one step of the last printed digit"))
    step = rules_resolution.step_mw(reading) if reading.metric == "power.rail" else None
    if step:
        limits.append((2 * step, f"two steps of the current sensor, {step:.3g} mW each"))
    return max(limits, key=lambda limit: limit[0], default=(None, ""))


def _work(reading: CellReading, side: AnnotatedGuide) -> Work | None:
    """Work behind a reading.

    For a packet rate these are the packets, for a loss the packets sent, for a load the throughput.
    """
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
            return Work(amount, work, done.quantity.unit, _noise(done))
    return None


def _noise(reading: CellReading) -> float:
    return _noise_of(*reading.key)


@functools.lru_cache(maxsize=4096)
def _noise_of(metric: str, params: tuple[tuple[str, str], ...]) -> float:
    """Guides print the same few hundred numbers again and again."""
    return noise.load().of(metric, dict(params)).relative


# --- Numbers of earlier releases ---


Key = tuple[str | None, str, tuple[tuple[str, str], ...]]


@frozen
class Earlier:
    """Numbers by board, metric and parameters, of each the oldest first.

    Attributes:
        names: of the releases, the oldest first.
    """

    numbers: Mapping[Key, Sequence[Number]] = field(factory=dict)
    names: tuple[str, ...] = ()

    def of(self, key: Key) -> Sequence[Number]:
        """Of one result; empty where no release has it."""
        return self.numbers.get(key, ())


def key_of(reading: CellReading, board: str | None) -> Key:
    """Key that equal results of several releases share."""
    return (board, *reading.key)


def of_sheets(sheets: Sequence[MeasuredGuide]) -> Earlier:
    """The numbers of some guides, given the oldest first."""
    found: dict[Key, list[Number]] = {}
    names: dict[str, None] = {}
    for sheet in sheets:
        side = guide_annotations.annotate(sheet)
        names[side.name] = None
        for reading in sheet.of(*sheet.by_metric):
            found.setdefault(key_of(reading, reading.board), []).append(number_of(reading, side, reading.board))
    return Earlier(found, tuple(names))
