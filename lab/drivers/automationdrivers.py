"""TI's Automation Interface: power switch with resets, and boot-mode straps."""

from __future__ import annotations

import re

import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.protocol import ResetProtocol
from labgrid.resource import Resource
from labgrid.step import step

from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import POWER_LIMIT_S, STRAP
from lab.drivers.powerdriver import EdgePowerDriver, OutletId
from lab.errors import ConfigurationError, LabTransientError
from lab.rails.automation import AutomationInterface

_SETTINGS = re.compile(r"Sysboot settings: 0x([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2})")
_EXPANDER_BITS = 24  # TCA6424A


@target_factory.reg_resource
@attr.s(eq=False)
class AutomationPort(Resource):
    """AutomationPort - the serial port of a TI Automation Interface

    Args:
        port (str): e.g. /dev/serial/by-id/usb-Texas_Instruments_XDS110-if00
        dut (str): how the interface calls the board, e.g. am654x-evm; empty: it was told before
    """

    port: str = attr.ib(validator=attr.validators.instance_of(str))
    dut: str = attr.ib(default="", validator=attr.validators.instance_of(str))


def _open_interface(port: AutomationPort) -> AutomationInterface:
    interface = AutomationInterface(port.port)
    if port.dut:
        interface.command(f"auto set dut {port.dut}")
    return interface


@target_factory.reg_driver
@attr.s(eq=False)
class AutomationPowerDriver(EdgePowerDriver, ResetProtocol):
    """AutomationPowerDriver - switches a board through TI's Automation Interface

    Like `StampedPDUDaemonDriver` it keeps when the switching happened (`edge`); the interface cannot tell the board's
    state.

    Args:
        delay (float): seconds between off and on in `cycle`
    """

    bindings = {"port": AutomationPort}

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._interface: AutomationInterface | None = None

    def on_deactivate(self) -> None:
        self._interface = None

    @property
    def outlet(self) -> OutletId:
        return OutletId("", "automation", str(self.port.port))

    def order(self, command: str) -> None:
        self._command(f"auto power {command}")

    @Driver.check_active
    @step()
    def reset(self) -> None:
        """Warm reset."""
        self._command("auto reset")

    @Driver.check_active
    @step()
    def power_on_reset(self) -> None:
        """Pulse PORz; the board reads its straps anew, its supplies stay."""
        self._command("auto por")

    def _command(self, text: str) -> None:
        if self._interface is None:
            self._interface = _open_interface(self.port)
        self._interface.command(text)


def _pins(_instance: object, _attribute: object, pins: object) -> None:
    if not isinstance(pins, dict) or not all(
        type(strap) is int and type(pin) is int and 0 <= pin < _EXPANDER_BITS for strap, pin in pins.items()
    ):
        raise ConfigurationError(
            f"AutomationBootModeDriver: pins must map a strap to a pin of the expander (0 to 23), got {pins!r}"
        )


@target_factory.reg_driver
@attr.s(eq=False)
class AutomationBootModeDriver(Driver):
    """AutomationBootModeDriver - sets the boot-mode straps through TI's Automation Interface

    The straps are inputs that the board latches at power on or reset; set them while it is off.

    Args:
        pins (dict): strap -> pin of the board's expander, where they are not in the same order; compare once with
            what the board latched (`lab/boards` media, U-Boot's md.l of the boot-mode register)
    """

    bindings = {"port": AutomationPort}
    pins: dict[int, int] = attr.ib(factory=dict, validator=_pins)

    @Driver.check_active
    @step(args=["value"])
    def set(self, value: int) -> None:
        """Put `value` on the straps and read the expander back.

        Raises:
            LabTransientError: it did not take the value, or does not answer (`strap_timeout`, `strap_unreachable` …).
        """
        guarded_calls.call(self, STRAP, f"set {value:#x}", lambda: self._set(value), POWER_LIMIT_S)

    def _set(self, value: int) -> None:
        pins = sum((value >> strap & 1) << self.pins.get(strap, strap) for strap in range(_EXPANDER_BITS))
        answer = _open_interface(self.port).command(f"auto sysboot {pins:06x}")
        banks = next((match for line in answer if (match := _SETTINGS.fullmatch(line))), None)
        got = None if banks is None else sum(int(banks[bank + 1], 16) << 8 * bank for bank in range(3))
        if got != pins:
            raise LabTransientError(
                f"{self.port.port}: boot mode {value:#x} was set as {pins:06x}, the expander reads back "
                f"{'nothing' if got is None else f'{got:06x}'}: check the test header's boot-mode bus and its supply",
                failure="strap_mismatch",
            )
