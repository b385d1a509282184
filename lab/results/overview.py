"""A run at a glance: its numbers, its stages, what failed and whose fault it was."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from attrs import define, frozen

from lab.metrics import Flag, Measurement, Metric, Summary, summarise
from lab.metrics.catalogue import BOOT_STAGE
from lab.results.records import Attempt, Run, SampleRecord
from lab.results.store import Store

STAGE = "stage"  # the parameter that tells the samples of boot.stage apart


@frozen
class Failure:
    """All failed attempts of one class.

    Attributes:
        outcome: the class. fault: whose it is. attempts: at least one, in the order they were recorded.
    """

    outcome: str
    fault: str
    transient: bool
    attempts: tuple[Attempt, ...]


@frozen
class Stage:
    """One stage of one series of boots.

    Attributes:
        start_s: mean of its start, from the first stage's start. summary: of its length in seconds.
    """

    name: str
    start_s: float
    summary: Summary


@define(slots=False)
class Overview:
    """A run with everything that was recorded in it."""

    run: Run
    attempts: list[Attempt]
    measurements: list[Measurement]

    @cached_property
    def numbers(self) -> dict[Metric, list[Measurement]]:
        """The run's numbers by metric, without the stages."""
        found: dict[Metric, list[Measurement]] = {}
        for measurement in self.measurements:
            if measurement.metric.name != BOOT_STAGE.name:
                found.setdefault(measurement.metric, []).append(measurement)
        return found

    @property
    def virtual(self) -> bool:
        """Whether the board was a virtual one."""
        return self.run.provenance.get("virtual") is True or any(Flag.SIMULATED in m.flags for m in self.measurements)

    @property
    def failed(self) -> list[Attempt]:
        """The attempts that gave no samples."""
        return [attempt for attempt in self.attempts if not attempt.ok]

    @property
    def failures(self) -> list[Failure]:
        """The failed attempts by class, the most frequent first."""
        groups: dict[tuple[str, str, bool], list[Attempt]] = {}
        for a in self.failed:
            groups.setdefault((a.outcome, a.fault or "", bool(a.transient)), []).append(a)
        found = [Failure(*key, tuple(attempts)) for key, attempts in groups.items()]
        return sorted(found, key=lambda failure: -len(failure.attempts))

    @cached_property
    def stages(self) -> dict[str, list[Stage]]:
        """The stages of each medium in the order of the first good attempt's, by the attempts' parameter `medium`.

        A stage's start is the mean over the attempts that have it of the lengths before it in the same attempt.
        """
        starts: dict[str, dict[str, list[float]]] = {}
        for attempt in self.attempts:
            at_s = 0.0
            for sample in attempt.samples:
                if sample.metric == BOOT_STAGE.name:
                    medium = starts.setdefault(sample.params.get("medium", ""), {})
                    medium.setdefault(sample.params[STAGE], []).append(at_s)
                    at_s += sample.value
        lengths = {
            (m.params.get("medium", ""), m.params[STAGE]): summarise(m.samples)
            for m in self.measurements
            if m.metric.name == BOOT_STAGE.name
        }
        return {
            medium: [Stage(name, sum(at) / len(at), lengths[medium, name]) for name, at in found.items()]
            for medium, found in starts.items()
        }


def overview(store: Store, run_id: int) -> Overview:
    """Everything of a run.

    Raises:
        ConfigurationError: no such run.
    """
    found = store.contents(run_id)
    return Overview(found.run, found.attempts, found.measurements)


def attempts_of(attempts: list[Attempt], measurement: Measurement) -> list[Attempt]:
    """The attempts, good and failed, that gave or would have given a measurement's samples.

    An attempt at a section, or at a row of one, has other parameters than its numbers; it belongs to those that the same
    section or row gave in any attempt.
    """
    same = {_key(a.params) for a in attempts if _gave(a, measurement)}
    return [a for a in attempts if measurement.params.items() >= a.params.items() or _key(a.params) in same]


def _key(params: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(params.items())


def _gave(attempt: Attempt, measurement: Measurement) -> bool:
    return any(s.metric == measurement.metric.name and s.params == measurement.params for s in attempt.samples)


def name_of(sample: SampleRecord) -> str:
    """How a sample is called among those of its attempt: by its stage or rail where it has one."""
    if STAGE in sample.params:
        return sample.params[STAGE]
    return f"{sample.metric} {sample.params.get('rail', '')}".strip()


def tried(attempts: list[Attempt]) -> int:
    """How many cycles were tried."""
    return len({attempt.cycle for attempt in attempts})
