"""Conditions, findings and evidence that belong to the numbers of a guide."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Collection, Mapping, Sequence

from attrs import evolve, frozen

from lab.guide import measurements
from lab.guide.boards import product_of
from lab.guide.catalogue import CellReading
from lab.guide.check import udp_tables
from lab.guide.check.findings import RuleFinding, run_rules
from lab.guide.check.rules import resolution
from lab.guide.check.rules.cpu_load import background_of, is_of_all_cores
from lab.guide.check.rules.outliers import outlier_older
from lab.guide.check.udp_tables import ColumnMeaning, Definition, UdpRow
from lab.guide.measurements import Conditions, MeasuredGuide
from lab.guide.model import Cell, CellKind, decimals
from lab.guide.rulebook import Effect, Severity
from lab.judge import noise
from lab.judge.number import Number, NumberEvidence, Work

# These rules compare a number with the older guide's, which the comparison itself does: a number is not suspect because
# it moved.
_COMPARING_RULES = frozenset({outlier_older.id})
_UNSURE = frozenset({Severity.SUSPECT, Severity.NOTE})
_ENOUGH = 4  # numbers that all end in zeros by chance once in 10,000 times
_ZEROS = re.compile(r"(?<=[.\d])0+\s*$")
_UDP = "ethernet.udp."
_COUNTS = {
    Definition.PAYLOAD: "counts the bytes of the payload",
    Definition.FRAME: "counts the row's size for each packet",
}
_FRAMES_OF = {
    ColumnMeaning.PAYLOAD: "each packet in one frame",
    ColumnMeaning.DATAGRAM: "each packet in two frames, as its datagram has the size of the row",
}
_CellKey = tuple[int, int, int]
_ReadingKey = tuple[str | None, tuple[str, tuple[tuple[str, str], ...]]]


@frozen
class AnnotatedGuide:
    """A guide with everything that is known about its numbers.

    Attributes:
        findings: the rules' findings, without those of rules that compare with an older guide (`_COMPARING_RULES`).
        findings_by_cell: cell -> the findings about it.
        udp_rows: cell of a UDP result -> its row.
        readings: board and key -> reading.
        backgrounds: board -> what its cores did beside the tests.
        udp_meaning: of its UDP rows' sizes.
        digits: metric -> significant decimals of its numbers (61.00, 38.00 and 54.00 have none); a metric with fewer
            numbers than `_ENOUGH` is missing.
    """

    sheet: MeasuredGuide
    conditions: Conditions
    findings: tuple[RuleFinding, ...]
    findings_by_cell: Mapping[_CellKey, Sequence[RuleFinding]]
    udp_rows: Mapping[_CellKey, UdpRow]
    udp_meaning: ColumnMeaning
    readings: Mapping[_ReadingKey, CellReading]
    digits: Mapping[str, int]
    backgrounds: Mapping[str | None, str]

    @property
    def name(self) -> str:
        """Name of the guide in sentences."""
        return self.sheet.guide.release or self.sheet.guide.path

    def findings_about(self, reading: CellReading) -> Sequence[RuleFinding]:
        """Findings of the rules about a cell."""
        return self.findings_by_cell.get(_cell_key(reading.cell), ())

    def finding_with(self, effect: Effect, reading: CellReading) -> RuleFinding | None:
        """Return the certain finding with this effect on a cell, or None."""
        findings = self.findings_about(reading)
        if not findings:  # as of most cells
            return None
        certain = (finding for finding in findings if finding.severity not in _UNSURE)
        return next((finding for finding in certain if finding.rule.effect is effect), None)

    def suspicions(self, reading: CellReading) -> Sequence[RuleFinding]:
        """Findings that make a cell doubtful without correcting it.

        These are suspicions, and errors of rules that neither know the right number nor say that the run failed.
        """
        return [
            f
            for f in self.findings_about(reading)
            if (f.severity is Severity.SUSPECT and f.rule.effect is not Effect.HARMLESS)
            or (f.severity is Severity.ERROR and f.rule.effect is None)
        ]

    def without_clocks(self, boards: Collection[str | None]) -> AnnotatedGuide:
        """The guide without the clocks of some boards."""
        clocks = {board: mhz for board, mhz in self.conditions.clocks_mhz.items() if board not in boards}
        return evolve(self, conditions=evolve(self.conditions, clocks_mhz=clocks))

    def value(self, reading: CellReading) -> float | None:
        """The recovered value, or the printed one."""
        recovery = self.finding_with(Effect.RECOVERED, reading)
        return recovery.corrected if recovery is not None and recovery.corrected is not None else reading.number

    def uncertainty(self, reading: CellReading) -> float:
        """Half of the printed range, at least half of the last digit.

        A recovered number has the ± of its rule. Guides do not publish the number of samples.
        """
        value = reading.cell.value
        half_digit = 0.5 * self._digit(reading)
        recovery = self.finding_with(Effect.RECOVERED, reading)
        if recovery is not None:
            return max(half_digit, recovery.uncertainty or 0.0)
        if value.low is None or value.high is None:
            return half_digit
        return max(half_digit, (value.high - value.low) / 2)

    def number(self, reading: CellReading, board: str | None) -> Number:
        """A reading with its evidence, for the judge.

        Args:
            board: whose it is; a table may not name it.
        """
        evidence = self.evidence(reading, board)
        return Number(self.name, reading.quantity, reading.params, self.value(reading), None, evidence)

    def evidence(self, reading: CellReading, board: str | None) -> NumberEvidence:
        """Collect the evidence about a reading besides its number."""
        broken, recovery = (self.finding_with(effect, reading) for effect in (Effect.BROKEN, Effect.RECOVERED))
        low, high = reading.cell.value.low, reading.cell.value.high
        if recovery:  # an exact one has no range
            low = high = None
            if recovery.corrected is not None and recovery.uncertainty is not None:
                low, high = recovery.corrected - recovery.uncertainty, recovery.corrected + recovery.uncertainty
        definition, definition_text = self._definition(reading)
        step, step_note = self._resolution(reading)
        clocks_mhz = self.conditions.clocks_mhz
        return NumberEvidence(
            low=low,
            high=high,
            definition=definition,
            definition_text=definition_text,
            conditions=measurements.media_of(reading, self.conditions),
            background=self.backgrounds.get(reading.board, "") if is_of_all_cores(reading.metric) else "",
            resolution=step,
            resolution_note=step_note,
            work=self._work(reading),
            clock_mhz=clocks_mhz.get(board) or clocks_mhz.get(reading.board),
            beside=self._beside(reading),
            broken=broken.message if broken else "",
            incomparable=self._incomparable(reading),
            recovered=recovery is not None,
            notes=tuple(
                f.message
                for f in self.findings_about(reading)
                if f.severity is Severity.NOTE and f.rule.id != resolution.sensor_resolution.id
            ),
            suspicions=tuple(f"{f.message} ({f.rule.id})" for f in self.suspicions(reading)),
        )

    def _beside(self, reading: CellReading) -> float | None:
        """Return the median of the product's other boards with this clock.

        None: no other board has that clock and a sound value.
        """
        clocks_mhz = self.conditions.clocks_mhz
        own_mhz = clocks_mhz.get(reading.board)
        others = [
            self.readings[board, reading.key]
            for board, mhz in clocks_mhz.items()
            if own_mhz and board != reading.board and product_of(board) == product_of(reading.board)
            if not noise.is_another_clock(mhz, own_mhz) and (board, reading.key) in self.readings
        ]
        sound = (other for other in others if not self.finding_with(Effect.BROKEN, other))
        values = [value for other in sound if (value := self.value(other))]
        return statistics.median(values) if values else None

    def _digit(self, reading: CellReading) -> float:
        """Return one step of the last significant digit."""
        printed = decimals(reading.cell.value.text)
        return float(10.0 ** -min(self.digits.get(reading.metric, printed), printed))

    def _definition(self, reading: CellReading) -> tuple[str, str]:
        """Return the definition's name, and the definition as a sentence's end.

        Both are empty if the metric has one definition, or it is unknown.
        """
        row = self.udp_rows.get(_cell_key(reading.cell))
        if row is not None and row.definition is not None:
            if reading.metric == f"{_UDP}throughput":
                return str(row.definition), _COUNTS[row.definition]
            if row.size > udp_tables.LARGEST_DATAGRAM and self.udp_meaning in _FRAMES_OF:
                return _FRAMES_OF[self.udp_meaning], f"sends {_FRAMES_OF[self.udp_meaning]}"
        way = measurements.way_into_sleep(reading, self.conditions)
        return (way, f"enters MCU Only by {way}") if way else ("", "")

    def _resolution(self, reading: CellReading) -> tuple[float | None, str]:
        """Return the coarsest step that limits a reading, and its reason."""
        limits = [
            (f.resolution, f"{reading.cell.value.text} {f.message}")
            for f in self.findings_about(reading)
            if f.resolution is not None
        ]
        limits.append((self._digit(reading), "one step of the last printed digit"))
        step_mw = resolution.step_mw(reading) if reading.metric == "power.rail" else None
        if step_mw:
            limits.append((2 * step_mw, f"two steps of the current sensor, {step_mw:.3g} mW each"))
        return max(limits, key=lambda limit: limit[0])

    def _work(self, reading: CellReading) -> Work | None:
        """Return the work that was done for a reading; None: unknown.

        For a UDP throughput it is the packet rate, for a loss the rate of sent packets, for a CPU load the packet rate
        (UDP) or the throughput.
        """
        row = self.udp_rows.get(_cell_key(reading.cell))
        if reading.metric == f"{_UDP}throughput" and row is not None:
            return Work(row.packets_k, "packets", "thousand a second", _noise_of(*reading.key))
        if reading.metric == f"{_UDP}loss" and row is not None:
            arrived = 1 - (reading.number or 0.0) / 100
            if arrived <= 0:
                return None
            sent = _noise_of(f"{_UDP}packets", reading.key[1])
            return Work(row.packets_k / arrived, "packets sent", "thousand a second", sent)
        if reading.metric.endswith("cpu_load"):
            metric = reading.metric.replace("cpu_load", "packets" if reading.metric.startswith(_UDP) else "throughput")
            sibling = self.readings.get((reading.board, (metric, reading.key[1])))
            amount = self.value(sibling) if sibling is not None else None
            if sibling is not None and sibling.quantity is not None and amount:
                return Work(amount, metric, sibling.quantity.unit, _noise_of(*sibling.key))
        return None

    def _incomparable(self, reading: CellReading) -> str:
        if reading.cell.kind is CellKind.UNATTRIBUTED and reading.cell.likely_board is None:
            return "the row is short, so its boards are not known"
        finding = self.finding_with(Effect.INCOMPARABLE, reading)
        return finding.message if finding else ""


def annotate(sheet: MeasuredGuide, older: MeasuredGuide | None = None) -> AnnotatedGuide:
    """Run the rules over a guide, beside an older one where it is given."""
    findings = tuple(f for f in run_rules(sheet, older) if f.rule.id not in _COMPARING_RULES)
    findings_by_cell: dict[_CellKey, list[RuleFinding]] = {}
    for finding in findings:
        for cell in finding.cells:
            findings_by_cell.setdefault(_cell_key(cell), []).append(finding)
    tables = udp_tables.tables(sheet).values()
    udp_rows = {_cell_key(r.cell): row for table in tables for row in table for r in row.readings}
    readings = {(r.board, r.key): r for r in sheet.of(*sheet.by_metric)}
    digits = {
        metric: max(
            len(_ZEROS.sub("", r.cell.value.text.split("(")[0]).partition(".")[2].strip()) for r in readings_of_metric
        )
        for metric, readings_of_metric in sheet.by_metric.items()
        if len(readings_of_metric) >= _ENOUGH
    }
    conditions = measurements.conditions_of(sheet)
    return AnnotatedGuide(
        sheet,
        conditions,
        findings,
        findings_by_cell,
        udp_rows,
        udp_tables.meaning_of(row for table in tables for row in table),
        readings,
        digits,
        background_of(sheet),
    )


def _cell_key(cell: Cell) -> _CellKey:
    return cell.table, cell.line, cell.column


@functools.lru_cache(maxsize=4096)
def _noise_of(metric: str, params: tuple[tuple[str, str], ...]) -> float:
    """Return the relative noise of a metric.

    Cached: guides have the same few hundred metrics and parameters again and again.
    """
    return noise.load().of(metric, dict(params)).relative
