"""A RailsDriver without a process and a wire, for a board in virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import attr
from attrs import frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.rails import AdcRange, RailsConfig, Trace
from lab.rails.config import AUTOMATION
from support.railbench import RailBench


@frozen
class PlayedSampler:
    """Gives what the rails of a `RailBench` read in a state, as if they had been sampled for so long until now."""

    path: Path
    bench: RailBench
    state: str
    seconds: float

    def trace(self, until_ns: int) -> Trace:
        self.bench.now_ns = until_ns - round(self.seconds * 1e9)
        self.bench.record(self.path, AdcRange.ACTIVE, (self.state, self.seconds))
        return Trace.open(self.path)


@target_factory.reg_driver
@attr.s(eq=False)
class PlayedRails(Driver):
    """PlayedRails - a RailsDriver without a process and a wire"""

    bench: RailBench = attr.ib(factory=RailBench)
    plays: str = attr.ib(default="partial_io")
    seconds: float = attr.ib(default=1.1)  # a little more than the run's `sleep_s`
    sensors: SimpleNamespace = attr.ib(factory=lambda: SimpleNamespace(backend=AUTOMATION))  # not sampled at power on

    @property
    def config(self) -> RailsConfig:
        """Wiring of the rails."""
        return self.bench.config

    @contextlib.contextmanager
    def sampling(self, trace: Path, _wanted: AdcRange) -> Iterator[PlayedSampler]:
        yield PlayedSampler(trace, self.bench, self.plays, self.seconds)

    def check_clock(self) -> None:
        """Its readings are on the console's clock."""

    def volts(self) -> dict[str, float]:
        return {}
