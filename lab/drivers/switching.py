"""What power switches have in common: when they switched, and a word to who watches the lab's outlets."""

from __future__ import annotations

import time

import attr
from labgrid.driver import Driver
from labgrid.protocol import PowerProtocol
from labgrid.step import step

from lab import statusfiles
from lab.benchmarks.boot import PowerEdge
from lab.clock import Clock, MonotonicRaw, utc_now
from lab.console.runtime import runtime_dir
from lab.statusfiles import OutletStatus


@attr.s(eq=False)
class EdgePowerDriver(Driver, PowerProtocol):
    """A power switch that keeps when it switched (`edge`), and counts for `lab exporter` what it was told.

    A driver of it gives its orders in `order`, and says in `outlet` which one it switches.

    Args:
        delay (float): seconds between off and on in `cycle`
    """

    delay: float = attr.ib(default=2.0, validator=attr.validators.instance_of(float))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.clock: Clock = MonotonicRaw()
        self.edge: PowerEdge | None = None

    @property
    def outlet(self) -> tuple[str, str]:
        """The switch's name and its outlet."""
        raise NotImplementedError

    def order(self, command: str) -> None:
        """Tell the switch "on" or "off"; returns when it has answered.

        Raises:
            LabError: it did not obey.
        """
        raise NotImplementedError

    @Driver.check_active
    @step()
    def on(self) -> None:
        """Switch on; `edge` then bounds the instant."""
        self._switch("on")

    @Driver.check_active
    @step()
    def off(self) -> None:
        """Switch off. Returning means that the switch was told, not that the board is off."""
        self._switch("off")

    @Driver.check_active
    @step()
    def cycle(self) -> None:
        """Off, `delay` seconds, on."""
        self.off()
        time.sleep(self.delay)
        self.on()

    def _switch(self, command: str) -> None:
        requested_ns, at = self.clock.now_ns(), utc_now().timestamp()
        done = False
        try:
            self.order(command)
            self.edge = PowerEdge(requested_ns, self.clock.now_ns())
            done = True
        finally:
            self._tell(command, at, (self.clock.now_ns() - requested_ns) / 1e9, done=done)

    def _tell(self, command: str, at: float, duration_s: float, *, done: bool) -> None:
        folder, (switch, outlet) = runtime_dir() / statusfiles.OUTLETS, self.outlet
        told = statusfiles.read_all(folder, OutletStatus)
        before = next((o for o in told if (o.pdu, o.outlet) == (switch, outlet)), None)
        commands, failures = (before.commands, before.failures) if before else (0, 0)
        status = OutletStatus(switch, outlet, command, at, duration_s, commands + 1, failures + (not done))
        statusfiles.write(folder, f"{switch}/{outlet}", status)
