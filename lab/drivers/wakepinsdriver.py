"""Pins that wake the board, driven through labgrid's digital outputs."""

from __future__ import annotations

import time
from typing import Any

import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.protocol import DigitalOutputProtocol
from labgrid.step import step

from lab.boards import WAKE_SOURCES
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import SWITCH_LIMIT_S, WAKE_PIN
from lab.errors import ConfigurationError
from lab.host.clock import Clock, MonotonicRaw


def _pins(_instance: object, _attribute: object, pins: object) -> None:
    if not isinstance(pins, dict) or not pins:
        raise ConfigurationError("WakePinsDriver: pins must map a wake-up source to a digital output's name")
    for source, name in pins.items():
        if source not in WAKE_SOURCES or not isinstance(name, str):
            raise ConfigurationError(
                f"WakePinsDriver: pins: {source!r}: {name!r} is not `source: output name`; sources: "
                f"{', '.join(WAKE_SOURCES)}"
            )


@target_factory.reg_driver
@attr.s(eq=False)
class WakePinsDriver(Driver):
    """WakePinsDriver - wakes the board, one DigitalOutputProtocol per wake-up source.

    Args:
        pins (dict): wake-up source ("gpio", "can") -> name of the driver of its output
        pulse (float): seconds until the output is deasserted again
        timeout (float): seconds until an output must have answered
    """

    pins: dict[str, str] = attr.ib(validator=_pins)
    pulse: float = attr.ib(default=0.05, validator=attr.validators.instance_of(float))
    timeout: float = attr.ib(default=SWITCH_LIMIT_S, validator=attr.validators.instance_of(float))

    def __attrs_post_init__(self) -> None:
        self.bindings = {source: Driver.NamedBinding(DigitalOutputProtocol) for source in self.pins}
        if self.target is not None:
            self.target.set_binding_map(dict(self.pins))
        super().__attrs_post_init__()
        self.clock: Clock = MonotonicRaw()

    @Driver.check_active
    @step(args=["source"])
    def press(self, source: str) -> tuple[int, int]:
        """Assert the source's output, and deassert it after `pulse` seconds.

        Returns: the clock just before the output was asked for, and when it had answered (ns).

        Raises:
            LabError: the output does not obey (`wake_pin_timeout`, `wake_pin_unreachable` …).
        """
        output: Any = getattr(self, source)

        def assert_output() -> tuple[int, int]:  # the limit's own time stays out of the edge
            requested_ns = self.clock.now_ns()
            output.set(True)
            return requested_ns, self.clock.now_ns()

        edge = guarded_calls.call(output, WAKE_PIN, f"assert {source}", assert_output, self.timeout)
        time.sleep(self.pulse)
        guarded_calls.call(output, WAKE_PIN, f"deassert {source}", lambda: output.set(False), self.timeout)
        return edge
