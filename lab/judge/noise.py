"""The noise between equal runs: from noise.toml or a board's history."""

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

CPU_CLOCK: Final = "cpu.clock"  # the metric that tells the clock of a processor
_MAD: Final = 1.4826  # of a normal distribution: its standard deviation over its median absolute deviation
_MAD_EFFICIENCY: Final = 0.37  # so much of the runs a median is worth (Huber, Robust Statistics, 1981, 5.1)
_MEDIAN: Final = math.pi / 2  # variance of a median over that of a mean


@frozen
class Noise:
    """The noise of a metric between two equal runs.

    Attributes:
        relative: change, e.g. 0.05.
        slack: difference, in the metric's unit.
        reason: for its size; empty: the spread of equal runs.
        follows_clock: the number scales with the CPU clock.
        is_load: it depends on the work done meanwhile.
        judged: False: a parameter of the test.
        runs: number of the board's runs, or releases (`of`), behind it; 0: from the catalogue.
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
    """Limits for noise from a board's own runs; see noise.toml."""

    window: int = field(validator=validators.ge(1))
    enough: int = field(validator=validators.ge(2))
    longest: int = field(validator=validators.ge(2))
    least: float = field(validator=validators.ge(0))
    releases: int = field(validator=validators.ge(2))
    widest: float = field(validator=validators.ge(1))


@frozen
class ClockRules:
    """Tolerances between two speeds of one processor; see noise.toml.

    Attributes:
        together: of the logarithm of two factors: rows that one clock slows down differ by less.
    """

    together: float = field(validator=validators.gt(0))


@frozen
class SpikeRules:
    """Limits for a number far from its neighbours; see noise.toml.

    Attributes:
        far: times.
        noises: times the catalogue's noise.
        agree: share of the way to the number.
    """

    far: float = field(validator=validators.gt(1))
    noises: float = field(validator=validators.gt(0))
    agree: float = field(validator=validators.gt(0))


@frozen
class _Entry:
    metric: re.Pattern[str]
    params: Mapping[str, re.Pattern[str]]
    noise: Noise

    def fits(self, params: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(params.get(name, "")) for name, pattern in self.params.items())


@frozen
class NoiseModel:
    """The whole of noise.toml."""

    default: Noise
    history: HistoryRules
    clock: ClockRules
    spike: SpikeRules
    entries: tuple[_Entry, ...] = field(repr=False)
    _by_metric: dict[str, tuple[_Entry, ...]] = field(factory=dict, init=False, repr=False, eq=False)

    def of(self, metric: str, params: Mapping[str, str]) -> Noise:
        """The catalogue's noise of a metric, or its default."""
        if metric not in self._by_metric:
            self._by_metric[metric] = tuple(entry for entry in self.entries if entry.metric.fullmatch(metric))
        return next((entry.noise for entry in self._by_metric[metric] if entry.fits(params)), self.default)

    def knows(self, metric: str) -> bool:
        """True if the metric has its own entry."""
        return any(entry.metric.fullmatch(metric) for entry in self.entries)

    def learn(self, noise: Noise, values: Sequence[float], errors: Sequence[float], compared: int) -> Noise:
        """The latest run's noise against `compared` runs, from their history.

        The spread between runs comes from the differences of neighbours (of logarithms, robustly), so that one step in
        the history is no noise; the runs' own ± are subtracted. It adds to the ± of both.

        Args:
            noise: of the catalogue; returned if the runs are too few, or not all above 0.
            values: averages of the runs before, the oldest first.
            errors: their relative ±, at 95 %.
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
        """A published number's noise from its board's earlier releases.

        Never less than the catalogue's, and bounded. Releases are few, and some of their differences are real. So the
        smaller of the middle differences between neighbours (of logarithms) counts: one step in the history is no
        noise, and numbers that move to and fro are. Numbers that only rise or only fall drift, and a drift does not
        excuse itself.

        Args:
            noise: of the catalogue; returned if the releases are too few, or not all above 0.
            values: of the releases before the new one, the oldest first.
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
    """True if two clocks differ by more than `cpu.clock`'s noise."""
    return abs(math.log(other_mhz / one_mhz)) > math.log1p(load().of(CPU_CLOCK, {}).relative)


@functools.cache
def load() -> NoiseModel:
    """The noise that boardlab ships; read once."""
    return parse((resources.files("lab.judge") / "noise.toml").read_text(encoding="utf-8"))


def parse(text: str) -> NoiseModel:
    """Parse noise.toml's text."""
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
