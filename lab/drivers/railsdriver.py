"""A board's rails, as tests and the strategy use them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attr
from labgrid.driver import Driver
from labgrid.exceptions import NoStrategyFoundError
from labgrid.factory import target_factory
from labgrid.resource import Resource

from lab import boards
from lab.drivers.consoleport import ConsolePort
from lab.drivers.networkports import BareNetworkPort, RemotePort, port_of
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import MonotonicRaw
from lab.rails import AdcRange, RailsConfig, Sampler, from_env, live, sampling
from lab.rails.process import end, spawn

GLANCE_S = 1.0  # the slowest backend reads each rail once


@target_factory.reg_driver
@attr.s(eq=False)
class RailsDriver(Driver):
    """RailsDriver - samples the power of a board's rails

    The sampler is a process of its own. The target's strategy names the board.
    """

    bindings = {"sensors": "RailSensors"}

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._adapter = ""  # of the first sampling: later ones must have the same
        self._spawned: tuple[Path, subprocess.Popen[bytes]] | None = None

    def on_deactivate(self) -> None:
        if self._spawned is not None and self._spawned[1].poll() is None:
            end(self._spawned[1])
        self._spawned = None

    @Driver.check_active
    def prepare(self, trace: Path) -> None:
        """Start the process that samples into this trace each time.

        Only a process of this host is started; the caller goes on meanwhile.
        """
        port = self._port()
        is_remote = isinstance(port, RemotePort) and not port.published.is_here
        path, process = self._spawned or (None, None)
        if not is_remote and (path != trace or process is None or process.poll() is not None):
            self.on_deactivate()
            self._spawned = trace, spawn(trace)

    @property
    def config(self) -> RailsConfig:
        """Wiring of the rails.

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
    @contextmanager
    def sampling(self, trace: Path, wanted: AdcRange = AdcRange.ACTIVE, *, reported: bool = True) -> Iterator[Sampler]:
        """Sample the rails in a context (see `lab.rails.sampling`).

        If the console is on another host, the samples have stamps of that host's clock. Later samplings need the
        adapter of the first.

        Args:
            reported: see `RailsConfig`.
        """
        config = attr.evolve(self.config, reported=reported, adapter=self._adapter)
        port, relation = self._port(), getattr(self._console(), "relation", None)
        if isinstance(port, RemotePort) and (relation is not None or not port.published.is_here):
            line = relation.line if relation is not None else ""
            context = port.rails_server().sampling(config, trace, wanted, line)
        else:
            path, process = self._spawned or (None, None)
            is_waiting = path == trace and wanted is AdcRange.ACTIVE and process is not None and process.poll() is None
            context = sampling(config, trace, wanted, process if is_waiting else None)
        with context as sampler:
            self._adapter = self._adapter or sampler.trace().meta.adapter
            yield sampler

    def check_clock(self) -> None:
        """Make sure that one clock stamps samples and console moments.

        Raises:
            LabStableError: two unrelated clocks do (`clock_unrelated`).
            ConfigurationError: as `sampling`.
        """
        if getattr(self._console(), "relation", None) is not None and self._port() is None:
            raise LabStableError(
                "the console is on another host than the sensors of the rails: their clocks differ, so that the power "
                "of a phase cannot be told. Plug the sensors in where the console is, "
                "and write `at: console` into RailSensors",
                failure="clock_unrelated",
            )

    def volts(self, seconds: float = GLANCE_S) -> dict[str, float]:
        """Read each rail now, without silent sensors; nothing is stored.

        Raises:
            ConfigurationError, LabError: as of `lab.rails.live.watch`.
        """
        port = self._port()
        if isinstance(port, RemotePort) and not port.published.is_here:
            return port.rails_server().volts(self.config, seconds)
        views = live.watch(self.config, AdcRange.ACTIVE, MonotonicRaw(), seconds)
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
        """Console's port with the sensors; None: they are this host's.

        Raises:
            ConfigurationError: the console's host runs no boardlab; or an exporter offers sensors, whose port is
                another host's.
        """
        if self.sensors.at != AT_CONSOLE:
            if getattr(self.sensors, "parent", None) is not None:
                raise ConfigurationError(
                    "RailSensors of a place: their port is the exporter's host's. List them in the env, with `at: "
                    "console`, and not in the exporter's file"
                )
            return None
        console = self._console()
        if not isinstance(console, StampedConsoleDriver):
            raise ConfigurationError("RailSensors: `at: console` needs a StampedConsoleDriver as the board's console")
        port = port_of(console.port, console.runtime, console.transport)
        if isinstance(port, BareNetworkPort):
            raise ConfigurationError(
                f"RailSensors: `at: console`: the console ({port.label}) is served by labgrid's own exporter; sensors "
                "there are read by `lab rails serve`, beside `lab farm export` (docs/farm/remote-boards.md)"
            )
        return port


AT_CONSOLE: Final = "console"


def _rails(_instance: object, _attribute: object, rails: object) -> None:
    if not isinstance(rails, dict) or not all(
        isinstance(name, str) and isinstance(keys, (dict, type(None))) for name, keys in rails.items()
    ):
        raise ConfigurationError(
            "RailSensors: rails: expected `NAME: {address: 0x40, shunt_mohm: 2.0}` for each rail; docs/rails.md has "
            "the keys"
        )


@target_factory.reg_resource
@attr.s(eq=False)
class RailSensors(Resource):
    """RailSensors - the current monitors on a board's supply rails

    Args:
        backend (str): what measures them, one of lab.rails.config.BACKENDS
        port (str): /dev/i2c-N, ftdi://..., a serial port, local: or ip:HOST, a folder of hwmon
        rails (dict): rail -> what its board type does not know of it: address, shunt_mohm, tolerance, volts,
            shared_with, offset_uv, channel, input
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
