"""The noise of a metric, i.e. the difference between equal runs, by noise.toml or by a board's history."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import math
import re
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

from attrs import evolve, field, frozen, validators

from lab.metrics import uncertainty

CPU_CLOCK: Final = "cpu.clock"  # metric of the processor's clock
_MAD: Final = 1.4826  # standard deviation of a normal distribution over its median absolute deviation
_MAD_EFFICIENCY: Final = 0.37  # efficiency of the median absolute deviation (Huber, Robust Statistics, 1981, 5.1)
_MEDIAN: Final = math.pi / 2  # variance of a median over that of a mean


@frozen
class Noise:
    """The noise of a metric between two equal runs.

    Attributes:
        relative: largest relative change that means nothing, e.g. 0.05.
        slack: largest difference that means nothing, in the metric's unit.
        reason: reason for the size; empty: it is the spread of equal runs.
        follows_clock: True if the number scales with the processor's clock.
        is_load: True if the number depends on the work that was done meanwhile.
        judged: False if the number is a parameter of the test, and is not judged.
        runs: number of the board's runs or releases (see `of`) that it was learned from; 0: it is of noise.toml.
        of: what `runs` counts, "runs" or "releases".
    """

    relative: float
    slack: float = 0.0
    reason: str = ""
    follows_clock: bool = False
    is_load: bool = False
    judged: bool = True
    runs: int = 0
    of: str = "runs"


@frozen
class HistoryRules:
    """Rules for noise that is learned from a board's own runs; noise.toml explains them."""

    window: int = field(validator=validators.ge(1))
    enough: int = field(validator=validators.ge(2))
    longest: int = field(validator=validators.ge(2))
    least: float = field(validator=validators.ge(0))
    releases: int = field(validator=validators.ge(2))
    widest: float = field(validator=validators.ge(1))


@frozen
class ClockRules:
    """Rules for two speeds of one processor; noise.toml explains them.

    Attributes:
        together: rows that one clock slows down differ by less than this, as logarithms of their factors.
    """

    together: float = field(validator=validators.gt(0))


@frozen
class SpikeRules:
    """Rules for a number that is far from its neighbours; noise.toml explains them.

    Attributes:
        far: the number is at least so many times its neighbours.
        noises: its distance is at least so many times the noise.
        agree: its neighbours differ by at most this share of the distance.
    """

    far: float = field(validator=validators.gt(1))
    noises: float = field(validator=validators.gt(0))
    agree: float = field(validator=validators.gt(0))


@frozen
class _Entry:
    """One entry of noise.toml: the noise of some metrics with some parameters."""

    metric: re.Pattern[str]
    params: Mapping[str, re.Pattern[str]]
    noise: Noise

    def fits(self, params: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(params.get(name, "")) for name, pattern in self.params.items())


@frozen
class NoiseModel:
    """The contents of noise.toml."""

    default: Noise
    history: HistoryRules
    clock: ClockRules
    spike: SpikeRules
    entries: tuple[_Entry, ...] = field(repr=False)
    _by_metric: dict[str, tuple[_Entry, ...]] = field(factory=dict, init=False, repr=False, eq=False)

    def of(self, metric: str, params: Mapping[str, str]) -> Noise:
        """Return the noise of a metric by noise.toml, or else the default."""
        if metric not in self._by_metric:
            self._by_metric[metric] = tuple(entry for entry in self.entries if entry.metric.fullmatch(metric))
        return next((entry.noise for entry in self._by_metric[metric] if entry.fits(params)), self.default)

    def knows(self, metric: str) -> bool:
        """Return True if noise.toml has an entry for the metric."""
        return any(entry.metric.fullmatch(metric) for entry in self.entries)

    def learn(self, noise: Noise, values: Sequence[float], errors: Sequence[float], compared: int) -> Noise:
        """Return the noise between the latest run and the median of some runs, learned from a board's history.

        The spread between runs is a robust measure of the differences between neighbours, as logarithms, so that one
        step in the history does not count as noise. The runs' own ± are subtracted from it: the comparison adds them.

        Args:
            noise: noise by noise.toml, which is returned if the runs are too few, or not all above 0.
            values: averages of the runs before, the oldest first.
            errors: their relative ± at 95 %.
            compared: number of runs that the latest one is compared with.
        """
        if len(values) < self.history.enough or not all(math.isfinite(v) and v > 0 for v in values) or compared < 1:
            return noise
        logs = [math.log(value) for value in values]
        steps = [abs(b - a) for a, b in itertools.pairwise(logs)]
        own = statistics.fmean((error / uncertainty.NORMAL_95) ** 2 for error in errors)
        variance = max(0.0, (_MAD * statistics.median(steps)) ** 2 / 2 - own)
        degrees = max(1, round(_MAD_EFFICIENCY * len(steps)))
        share = 1 + (_MEDIAN if compared > 2 else 1) / compared
        relative = math.expm1(uncertainty.student_t95(degrees) * math.sqrt(variance * share))
        return evolve(noise, relative=max(relative, self.history.least), reason="", runs=len(values))

    def of_releases(self, noise: Noise, values: Sequence[float]) -> Noise:
        """Return the noise of a published number, learned from the earlier releases of its board.

        It is never below that of noise.toml, and bounded above. Releases are few, and some of their differences are
        real. So the lower median of the differences between neighbours counts, as logarithms: one step in the history
        is not noise, but numbers that move to and fro are. Numbers that only rise or only fall drift; a drift is not
        taken for noise.

        Args:
            noise: noise by noise.toml, which is returned if the releases are too few, or not all above 0.
            values: numbers of the releases before the new one, the oldest first.
        """
        last = values[-self.history.longest :]
        if len(last) < self.history.releases or not all(math.isfinite(v) and v > 0 for v in last):
            return noise
        if list(last) in (sorted(last), sorted(last, reverse=True)):
            return noise
        middle = statistics.median_low(abs(math.log(b / a)) for a, b in itertools.pairwise(last))
        relative = min(math.expm1(uncertainty.NORMAL_95 * _MAD * middle), self.history.widest * noise.relative)
        if relative <= noise.relative:
            return noise
        return evolve(noise, relative=relative, reason="", runs=len(last), of="releases")


def is_another_clock(one_mhz: float, other_mhz: float) -> bool:
    """Return True if two clocks differ by more than the noise of `cpu.clock`."""
    return abs(math.log(other_mhz / one_mhz)) > math.log1p(load().of(CPU_CLOCK, {}).relative)


@functools.cache
def load() -> NoiseModel:
    """Return boardlab's noise.toml; it is read once."""
    return parse((resources.files("lab.judge") / "noise.toml").read_text(encoding="utf-8"))


def parse(text: str) -> NoiseModel:
    """Parse the text of noise.toml."""
    data = tomllib.loads(text)
    history = data["history"]
    rules = HistoryRules(
        history["window"],
        history["enough"],
        history["longest"],
        float(history["least_percent"]) / 100,
        history["releases"],
        float(history["widest"]),
    )
    clock, spike = data["clock"], data["spike"]
    entries = tuple(
        _Entry(
            re.compile(fnmatch.translate(entry["metric"])),
            {name: re.compile(pattern) for name, pattern in entry.get("params", {}).items()},
            Noise(
                relative=entry["percent"] / 100,
                slack=float(entry.get("slack", 0.0)),
                reason=entry.get("reason", ""),
                follows_clock=entry.get("clock", False),
                is_load=entry.get("load", False),
                judged=entry.get("judged", True),
            ),
        )
        for entry in data["noise"]
    )
    return NoiseModel(
        Noise(data["default"]["percent"] / 100),
        rules,
        ClockRules(clock["together_percent"] / 100),
        SpikeRules(float(spike["far"]), float(spike["noises"]), float(spike["agree"])),
        entries,
    )
