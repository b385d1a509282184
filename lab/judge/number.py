"""A number as the judge takes it, with what is known about it beyond its samples."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self, TypeAlias

from attrs import asdict, field, fields_dict, frozen

from lab.metrics import Measurement, Metric, Summary, summarise
from lab.results.averages import Average
from lab.results.records import EVIDENCE
from lab.results.snapshot import RunHead, StoreSnapshot

_TUPLES: Final = ("conditions", "notes", "suspicions")


@frozen
class Work:
    """What was done meanwhile, e.g. 80.0 "thousand a second" of "packets".

    Attributes:
        noise: relative change of the amount that says nothing.
    """

    amount: float
    name: str
    unit: str
    noise: float


@frozen
class NumberEvidence:
    """What is known about a number beyond its samples; nothing, where nobody looked.

    Attributes:
        low, high: the range of a number whose readings nobody published; None with samples of our own.
        definition: which of several definitions it follows, in a word; empty: the metric's only one, or unknown.
        definition_text: as the end of a sentence: "counts the bytes of the payload".
        conditions: under which it was taken, e.g. the SD card; numbers under others are not compared.
        resolution: a difference of at most this says nothing, in the number's unit. resolution_note: why.
        work: what was done meanwhile.
        clock_mhz: of the processor.
        broken: why its run is none. incomparable: why it may not be compared; both empty in a sound number.
        recovered: it is not what was printed, but what stands behind that.
        notes: what else a reader should know of a change.
        suspicions: why it is probably wrong; such a number got neither worse nor better.
    """

    low: float | None = None
    high: float | None = None
    definition: str = ""
    definition_text: str = ""
    conditions: tuple[str, ...] = ()
    resolution: float | None = None
    resolution_note: str = ""
    work: Work | None = None
    clock_mhz: float | None = None
    broken: str = ""
    incomparable: str = ""
    recovered: bool = False
    notes: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON; what is not known is left out."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", (), False)}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Of such JSON; what a newer boardlab wrote beside it is left alone."""
        known = {name: value for name, value in document.items() if name in _names()}
        known |= {name: tuple(known[name]) for name in _TUPLES if name in known}
        if known.get("work") is not None:
            known["work"] = Work(**known["work"])
        return cls(**known)


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(fields_dict(NumberEvidence))


@frozen
class Number:
    """One of two numbers that are compared.

    Attributes:
        source: how sentences call where it comes from, e.g. "11.01" or "run 12".
        metric: None where nobody knows what it measures.
        params: as the metric has them in the guides or in the store.
        value: in the unit of the metric; None where there is none: every cycle failed.
        uncertainty: ± of the value at 95 %; None where nobody stated one.
    """

    source: str
    metric: Metric | None
    params: Mapping[str, str]
    value: float | None
    uncertainty: float | None = None
    evidence: NumberEvidence = field(factory=NumberEvidence)

    @property
    def is_known(self) -> bool:
        """Whether there is a number at all."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def relative_uncertainty(self) -> float:
        """The ± relative to the value; 0 where nobody stated one."""
        if not self.value or self.uncertainty is None:
            return 0.0
        return abs(self.uncertainty / self.value)


def of_measurement(measurement: Measurement, source: str, evidence: NumberEvidence | None = None) -> Number:
    """A number that was measured, or imported with its evidence.

    Where the readings behind a published number are not known (its range is the evidence), its ± says nothing.
    """
    if not measurement.samples:
        return Number(source, measurement.metric, measurement.params, None)
    summary = summarise(measurement.samples)
    if evidence is not None:
        return Number(source, measurement.metric, measurement.params, summary.mean, None, evidence)
    return of_summary(measurement.metric, measurement.params, summary, source)


def of_summary(metric: Metric, params: Mapping[str, str], summary: Summary, source: str) -> Number:
    """A number of samples of our own; its method's resolution is the metric's."""
    return of_average(metric, params, summary.mean, summary.uncertainty, source)


def of_average(metric: Metric, params: Mapping[str, str], value: float, uncertainty: float, source: str) -> Number:
    """The same, of its average and ± alone."""
    known = NumberEvidence(
        resolution=metric.resolution, resolution_note=f"of {metric.name} the method shows no less than that"
    )
    return Number(source, metric, params, value, uncertainty, known)


# --- The numbers of published guides in the store, as the judge takes them: with what the guides' rules and conditions say ---


_What: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


@frozen
class PublishedNumbers:
    """What is known of the numbers of some runs.

    Attributes:
        known: run and number -> what its guide says of it. releases: run -> its release.
    """

    known: Mapping[tuple[int, _What], NumberEvidence]
    releases: Mapping[int, str]

    @classmethod
    def of_runs(cls, snapshot: StoreSnapshot, heads: Iterable[RunHead]) -> Self:
        """Read them."""
        releases = {head.id: head.release for head in heads}
        known = {
            (run_id, _what(document["metric"], document["params"])): NumberEvidence.of_document(document)
            for run_id, details in snapshot.details(sorted(releases))
            for document in details.get(EVIDENCE, ())
        }
        return cls(known, releases)

    def number(self, average: Average, source: str = "") -> Number:
        """A number with its evidence.

        Args:
            source: how sentences call where it comes from; empty: its release.
        """
        evidence = self.known.get((average.run_id, _what(average.metric.name, average.params)))
        if evidence is None:
            evidence = NumberEvidence(
                incomparable="imported by an older boardlab, which kept no evidence; import the guide again"
            )
        name = source or self.releases[average.run_id]
        return Number(name, average.metric, average.params, average.value, None, evidence)


def _what(metric: str, params: Mapping[str, str]) -> _What:
    return metric, frozenset(params.items())
