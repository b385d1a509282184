"""A board's rails, as tests and the strategy use them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.exceptions import NoStrategyFoundError
from labgrid.factory import target_factory

from lab.errors import ConfigurationError
from lab.power import PowerConfig, Range, Sampler, sampling


@target_factory.reg_driver
@attr.s(eq=False)
class RailsDriver(Driver):
    """RailsDriver - samples the power of a board's rails, in a process of its own

    Which board it is, the target's strategy knows.
    """

    bindings = {"sensors": "RailSensors"}

    @property
    def config(self) -> PowerConfig:
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
        config: PowerConfig = self.sensors.config(strategy.board, strategy.board_type)
        return config

    @Driver.check_active
    def sampling(self, trace: Path, wanted: Range = Range.ACTIVE) -> AbstractContextManager[Sampler]:
        """See `lab.power.sampling`."""
        return sampling(self.config, trace, wanted)
