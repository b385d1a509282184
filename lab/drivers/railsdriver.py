"""A board's rails, as tests and the strategy use them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attr
from labgrid.driver import Driver
from labgrid.exceptions import NoStrategyFoundError
from labgrid.factory import target_factory

from lab.drivers.consoleport import ConsolePort
from lab.drivers.networkports import BareNetworkPort, ServedPort, port_of
from lab.drivers.railsensors import AT_CONSOLE
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import MonotonicRaw
from lab.rails import RailsConfig, Range, Sampler, live, sampling

GLANCE_S = 1.0  # the slowest backend reads each rail once


@target_factory.reg_driver
@attr.s(eq=False)
class RailsDriver(Driver):
    """RailsDriver - samples the power of a board's rails, in a process of its own

    Which board it is, the target's strategy knows.
    """

    bindings = {"sensors": "RailSensors"}

    @property
    def config(self) -> RailsConfig:
        """How the rails are wired.

        Raises:
            ConfigurationError: the environment says too little or something wrong.
        """
        try:
            strategy = self.target.get_strategy()
        except NoStrategyFoundError as error:
            raise ConfigurationError(
                "RailsDriver: add a BoardStrategy to the target; it says which board this is"
            ) from error
        config: RailsConfig = self.sensors.config(strategy.board, strategy.board_type)
        return config

    @Driver.check_active
    def sampling(self, trace: Path, wanted: Range = Range.ACTIVE) -> AbstractContextManager[Sampler]:
        """See `lab.rails.sampling`; where the console is another host's, the samples have stamps of that host's clock."""
        port, relation = self._port(), getattr(self._console(), "relation", None)
        if isinstance(port, ServedPort) and (relation is not None or not port.published.is_here):
            line = relation.line if relation is not None else ""
            return port.rails_server().sampling(self.config, trace, wanted, line)
        return sampling(self.config, trace, wanted)

    def check_clock(self) -> None:
        """See that samples and console moments are stamped by one clock.

        Raises:
            LabStableError: they are not (`clock_unrelated`).
            ConfigurationError: as `sampling`.
        """
        if getattr(self._console(), "relation", None) is not None and self._port() is None:
            raise LabStableError(
                "the console is on another host than the sensors of the rails: their clocks differ, so that the power of a phase cannot be "
                "told. Plug the sensors in where the console is, and write `at: console` into RailSensors",
                failure="clock_unrelated",
            )

    def volts(self, seconds: float = GLANCE_S) -> dict[str, float]:
        """What each rail reads now, without those whose sensor does not answer; nothing is kept.

        Raises:
            ConfigurationError, LabError: as of `lab.rails.live.watch`.
        """
        port = self._port()
        if isinstance(port, ServedPort) and not port.published.is_here:
            return port.rails_server().volts(self.config, seconds)
        views = live.watch(self.config, Range.ACTIVE, MonotonicRaw(), seconds)
        try:
            return {now.rail: now.volts for now in next(views) if now.volts is not None}
        finally:
            views.close()

    def _console(self) -> Any:
        try:
            return getattr(self.target.get_strategy(), "console", None)
        except NoStrategyFoundError:
            return None

    def _port(self) -> ConsolePort | None:
        """The console's port, beside which the sensors are; None: they are this host's.

        Raises:
            ConfigurationError: no program of ours is where the console is; or an exporter offers sensors, whose port is another host's.
        """
        if self.sensors.at != AT_CONSOLE:
            if getattr(self.sensors, "parent", None) is not None:
                raise ConfigurationError(
                    "RailSensors of a place: their port is the exporter's host's. List them in the env, with `at: console`, and not in the "
                    "exporter's file"
                )
            return None
        console = self._console()
        if not isinstance(console, StampedConsoleDriver):
            raise ConfigurationError("RailSensors: `at: console` needs a StampedConsoleDriver as the board's console")
        port = port_of(console.port, console.runtime, console.transport)
        if isinstance(port, BareNetworkPort):
            raise ConfigurationError(
                f"RailSensors: `at: console`: the console ({port.shown}) is served by labgrid's own exporter; sensors there are read by "
                "`lab rails serve`, beside `lab farm export` (docs/farm/remote-boards.md)"
            )
        return port
