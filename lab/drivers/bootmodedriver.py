"""Boot-mode straps, set through labgrid's digital outputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.protocol import DigitalOutputProtocol
from labgrid.step import step

from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import STRAP, SWITCH_LIMIT_S
from lab.errors import ConfigurationError, LabTransientError


def _lines(_instance: object, _attribute: object, lines: object) -> None:
    if not isinstance(lines, dict) or not lines:
        raise ConfigurationError("BootModeDriver: lines must map a bit to a digital output's name, e.g. {0: BOOT0}")
    for bit, name in lines.items():
        if type(bit) is not int or not 0 <= bit < 32 or not isinstance(name, str):
            raise ConfigurationError(f"BootModeDriver: lines: {bit!r}: {name!r} is not `bit (0 to 31): output name`")


@target_factory.reg_driver
@attr.s(eq=False)
class BootModeDriver(Driver):
    """BootModeDriver - sets boot-mode straps, one DigitalOutputProtocol per strap.

    Args:
        lines (dict): bit number -> name of the driver that controls this strap
        fixed (int): the straps that no line drives, as the board's switches hold them
        timeout (float): seconds until an output must have answered

    The straps are inputs that the board latches at power on or reset; set them while it is off.
    """

    lines: dict[int, str] = attr.ib(validator=_lines)
    fixed: int = attr.ib(default=0, validator=attr.validators.instance_of(int))
    timeout: float = attr.ib(default=SWITCH_LIMIT_S, validator=attr.validators.instance_of(float))

    def __attrs_post_init__(self) -> None:
        # One named binding a strap, so that labgrid activates the outputs with this driver.
        self.bindings = {f"bit{bit}": Driver.NamedBinding(DigitalOutputProtocol) for bit in self.lines}
        if self.target is not None:
            self.target.set_binding_map({f"bit{bit}": name for bit, name in self.lines.items()})
        super().__attrs_post_init__()

    @property
    def driven(self) -> int:
        """Mask of the straps that this driver controls."""
        return sum(1 << bit for bit in self.lines)

    @Driver.check_active
    @step(args=["value"])
    def set(self, value: int) -> None:
        """Put `value` on the straps and read it back.

        Raises:
            ConfigurationError: the value needs a strap that no line drives and that is fixed otherwise.
            LabTransientError: an output did not take its value, or does not answer (`strap_timeout`,
                `strap_unreachable` …).
            LabStableError: an output cannot be used until somebody mends it.
        """
        wrong = (value ^ self.fixed) & ~self.driven
        if wrong:
            raise ConfigurationError(
                f"boot mode {value:#x} needs strap(s) {bits(wrong)} which no line drives and which are fixed to "
                f"{self.fixed:#x}: wire them and add them to `lines`, or set the switches and `fixed`"
            )
        for bit in self.lines:
            output, level = self._output(bit), bool(value >> bit & 1)
            guarded_calls.call(output, STRAP, f"set bit {bit} to {level:d}", partial(output.set, level), self.timeout)
        got = self.get()
        if got != value:
            raise LabTransientError(
                f"boot mode {value:#x} was set, the outputs read back {got:#x}: "
                f"check the strap line(s) {bits(got ^ value)}",
                failure="strap_mismatch",
            )

    @Driver.check_active
    @step(result=True)
    def get(self) -> int:
        """The value on the straps, as the outputs report it."""
        value = self.fixed & ~self.driven
        for bit in self.lines:
            output = self._output(bit)
            level = guarded_calls.call(output, STRAP, f"read bit {bit}", output.get, self.timeout)
            value |= bool(level) << bit
        return value

    def _output(self, bit: int) -> Any:
        return getattr(self, f"bit{bit}")


def bits(mask: int) -> str:
    """The bits that are set, for a message, e.g. "0, 5"."""
    return ", ".join(str(bit) for bit in range(mask.bit_length()) if mask >> bit & 1)
