"""A board's rails, as tests and the strategy use them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.exceptions import NoStrategyFoundError
from labgrid.factory import target_factory

from lab.errors import ConfigurationError
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
        """See `lab.rails.sampling`."""
        return sampling(self.config, trace, wanted)

    def volts(self, seconds: float = GLANCE_S) -> dict[str, float]:
        """What each rail reads now, without those whose sensor does not answer; nothing is kept.

        Raises:
            ConfigurationError, LabError: as of `lab.rails.live.watch`.
        """
        views = live.watch(self.config, Range.ACTIVE, MonotonicRaw(), seconds)
        try:
            return {now.rail: now.volts for now in next(views) if now.volts is not None}
        finally:
            views.close()
