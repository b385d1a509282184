"""Where a board's rails are measured: a labgrid resource."""

from __future__ import annotations

from typing import Any, Final

import attr
from labgrid.factory import target_factory
from labgrid.resource import Resource

from lab import boards
from lab.errors import ConfigurationError
from lab.rails import RailsConfig, from_env

AT_CONSOLE: Final = "console"


def _rails(_instance: object, _attribute: object, rails: object) -> None:
    if not isinstance(rails, dict) or not all(
        isinstance(name, str) and isinstance(each, (dict, type(None))) for name, each in rails.items()
    ):
        raise ConfigurationError(
            "RailSensors: rails: expected `NAME: {address: 0x40, shunt_mohm: 2.0}` for each rail; docs/rails.md has the keys"
        )


@target_factory.reg_resource
@attr.s(eq=False)
class RailSensors(Resource):
    """RailSensors - the current monitors on a board's supply rails

    Args:
        backend (str): what measures them, one of lab.rails.config.BACKENDS
        port (str): /dev/i2c-N, ftdi://..., a serial port, local: or ip:HOST, a folder of hwmon
        rails (dict): rail -> what its board type does not know of it: address, shunt_mohm, tolerance, volts, shared_with,
            offset_uv, channel
        bus_khz (int): clock of the I2C bus
        dut (str): how the Automation Interface calls the board
        at (str): the host that they are plugged into: empty, this one; "console", that of the board's console
    """

    backend: str = attr.ib(validator=attr.validators.instance_of(str))
    port: str = attr.ib(validator=attr.validators.instance_of(str))
    rails: dict[str, Any] = attr.ib(factory=dict, validator=_rails)
    bus_khz: int = attr.ib(default=400, validator=attr.validators.instance_of(int))
    dut: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    at: str = attr.ib(default="", validator=attr.validators.in_(["", AT_CONSOLE]))

    def config(self, board: str, board_type: str) -> RailsConfig:
        """The wiring of this board's rails.

        Raises:
            ConfigurationError: something is missing or wrong.
        """
        return from_env(
            board, self.backend, self.port, self.rails, boards.load(board_type), bus_khz=self.bus_khz, dut=self.dut
        )
