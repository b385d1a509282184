"""A number for the judge, with its evidence."""

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
    """The work done meanwhile, e.g. 80.0 "thousand a second" of "packets".

    Attributes:
        noise: relative change of the amount without meaning.
    """

    amount: float
    name: str
    unit: str
    noise: float


@frozen
class NumberEvidence:
    """The evidence about a number beyond its samples; may be empty.

    Attributes:
        low, high: the range of a number without published readings; None with samples of our own.
        definition: name of one of several definitions; empty: the metric's only one, or unknown.
        definition_text: as the end of a sentence: "counts the bytes of the payload".
        conditions: of the measurement, e.g. the SD card; numbers under others are not compared.
        background: of a load, what it has in it beside the work; empty: unknown.
        resolution: largest meaningless difference, in the number's unit.
        resolution_note: the reason.
        work: done meanwhile.
        clock_mhz: of the processor.
        beside: this number of the product's boards with that clock; None: there are none.
        broken: why its run is invalid.
        incomparable: why it must not be compared; both empty in a sound number.
        recovered: the value was recovered from the printed one.
        notes: further remarks for a reader of a change.
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
        """The evidence for JSON, without unknown fields."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", (), False)}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Evidence from JSON; fields of a newer boardlab are ignored."""
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
        source: its name in sentences, e.g. "11.01" or "run 12".
        metric: None: unknown.
        params: as the metric has them in the guides or in the store.
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
        """The ± relative to the value; 0: not stated."""
        if not self.value or self.uncertainty is None:
            return 0.0
        return abs(self.uncertainty / self.value)


def of_average(metric: Metric, params: Mapping[str, str], value: float, uncertainty: float, source: str) -> Number:
    """The number of an average and its ±."""
    evidence = NumberEvidence(
        resolution=metric.resolution, resolution_note=f"of {metric.name} the method shows no less than that"
    )
    return Number(source, metric, params, value, uncertainty, evidence)


_What: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


@frozen
class PublishedNumbers:
    """Published numbers of some runs, with their evidence.

    Attributes:
        evidence_by_number: run and number -> its guide's evidence.
        releases: run -> its release.
    """

    evidence_by_number: Mapping[tuple[int, _What], NumberEvidence]
    releases: Mapping[int, str]

    @classmethod
    def of_runs(cls, snapshot: StoreSnapshot, heads: Iterable[RunHead]) -> Self:
        """Read them from the store."""
        releases = {head.id: head.release for head in heads}
        evidence = {
            (run_id, _what(document["metric"], document["params"])): NumberEvidence.of_document(document)
            for run_id, details in snapshot.details(sorted(releases))
            for document in details.get(EVIDENCE, ())
        }
        return cls(evidence, releases)

    def number(self, average: Average, source: str = "") -> Number:
        """A number with its evidence.

        Args:
            source: its name in sentences; empty: its release.
        """
        evidence = self.evidence_by_number.get((average.run_id, _what(average.metric.name, average.params)))
        if evidence is None:
            evidence = NumberEvidence(
                incomparable="imported by an older boardlab, which kept no evidence; import the guide again"
            )
        name = source or self.releases[average.run_id]
        return Number(name, average.metric, average.params, average.value, None, evidence)


def _what(metric: str, params: Mapping[str, str]) -> _What:
    return metric, frozenset(params.items())
