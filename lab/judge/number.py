"""A number that the judge compares, with its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self, TypeAlias

from attrs import asdict, field, fields_dict, frozen

from lab.metrics import Metric
from lab.results.records import EVIDENCE, RunHead
from lab.results.snapshot import StoreSnapshot
from lab.results.sums import Average

_TUPLES: Final = ("conditions", "notes", "suspicions")


@frozen
class Work:
    """The work that was done while a load was measured, e.g. 80.0 "thousand a second" of "packets".

    Attributes:
        noise: largest relative change of the amount that means nothing.
    """

    amount: float
    name: str
    unit: str
    noise: float


@frozen
class NumberEvidence:
    """The evidence about a number besides its samples; all of it may be empty.

    Attributes:
        low, high: printed range of a number whose readings are not published; None: the samples are our own.
        definition: name of the definition, if the metric has several; empty: it has one, or it is unknown.
        definition_text: the definition as the end of a sentence: "counts the bytes of the payload".
        conditions: conditions of the measurement, e.g. the SD card; numbers with other conditions are not compared.
        background: what a load includes besides the work; empty: unknown.
        resolution: largest difference that means nothing, in the number's unit; None: unknown.
        resolution_note: the reason for that resolution.
        work: work that was done meanwhile; None: unknown.
        clock_mhz: clock of the processor; None: unknown.
        beside: the same number of the product's boards with that clock; None: there are none.
        broken: why its run is invalid; empty: it is valid.
        incomparable: why it must not be compared; empty: it may be.
        recovered: True if the value was recovered from the printed one.
        notes: further remarks for the reader of a change.
        suspicions: why it is probably wrong; such a number gets neither worse nor better.
    """

    low: float | None = None
    high: float | None = None
    definition: str = ""
    definition_text: str = ""
    conditions: tuple[str, ...] = ()
    background: str = ""
    resolution: float | None = None
    resolution_note: str = ""
    work: Work | None = None
    clock_mhz: float | None = None
    beside: float | None = None
    broken: str = ""
    incomparable: str = ""
    recovered: bool = False
    notes: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the evidence for JSON, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", (), False)}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the evidence of JSON; fields of a newer boardlab are ignored."""
        fields = {name: value for name, value in document.items() if name in _EVIDENCE_FIELDS}
        fields |= {name: tuple(fields[name]) for name in _TUPLES if name in fields}
        if fields.get("work") is not None:
            fields["work"] = Work(**fields["work"])
        return cls(**fields)


_EVIDENCE_FIELDS: Final = frozenset(fields_dict(NumberEvidence))


@frozen
class Number:
    """One of two numbers that are compared.

    Attributes:
        source: name of its source in sentences, e.g. "11.01" or "run 12".
        metric: its metric; None: unknown.
        params: its parameters, as guides or the store have them.
        value: in the unit of the metric; None: every cycle failed.
        uncertainty: ± of the value at 95 %; None: not stated.
    """

    source: str
    metric: Metric | None
    params: Mapping[str, str]
    value: float | None
    uncertainty: float | None = None
    evidence: NumberEvidence = field(factory=NumberEvidence)

    @property
    def is_known(self) -> bool:
        """True if it has a finite value."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def relative_uncertainty(self) -> float:
        """The ± relative to the value; 0: it is not stated."""
        if not self.value or self.uncertainty is None:
            return 0.0
        return abs(self.uncertainty / self.value)


def of_average(metric: Metric, params: Mapping[str, str], value: float, uncertainty: float, source: str) -> Number:
    """Return the number of an average and its ±, with the metric's resolution as evidence."""
    evidence = NumberEvidence(
        resolution=metric.resolution, resolution_note=f"of {metric.name} the method shows no less than that"
    )
    return Number(source, metric, params, value, uncertainty, evidence)


_NumberKey: TypeAlias = tuple[str, frozenset[tuple[str, str]]]  # metric and parameters


@frozen
class PublishedNumbers:
    """The evidence of published numbers in some runs.

    Attributes:
        evidence_by_number: run and number -> evidence from its guide.
        releases: run -> its release.
    """

    evidence_by_number: Mapping[tuple[int, _NumberKey], NumberEvidence]
    releases: Mapping[int, str]

    @classmethod
    def of_runs(cls, snapshot: StoreSnapshot, heads: Iterable[RunHead]) -> Self:
        """Read the evidence of these runs from the store."""
        releases = {head.id: head.release for head in heads}
        evidence = {
            (run_id, _number_key(document["metric"], document["params"])): NumberEvidence.of_document(document)
            for run_id, details in snapshot.details(sorted(releases))
            for document in details.get(EVIDENCE, ())
        }
        return cls(evidence, releases)

    def number(self, average: Average, source: str = "") -> Number:
        """Return a number with its evidence.

        Args:
            source: name of its source in sentences; empty: its release.
        """
        evidence = self.evidence_by_number.get((average.run_id, _number_key(average.metric.name, average.params)))
        if evidence is None:
            evidence = NumberEvidence(
                incomparable="imported by an older boardlab, which kept no evidence; import the guide again"
            )
        name = source or self.releases[average.run_id]
        return Number(name, average.metric, average.params, average.value, None, evidence)


def _number_key(metric: str, params: Mapping[str, str]) -> _NumberKey:
    """Return the key of a number within a run."""
    return metric, frozenset(params.items())
