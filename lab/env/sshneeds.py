"""What of an environment needs ssh to the board's host, however its console is reached: there commands run, which TLS does not carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labgrid.resource import SerialPort

from lab.drivers.multiplexedcarddriver import MultiplexedCardDriver
from lab.drivers.railsensors import AT_CONSOLE
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.drivers.transport import SSH
from lab.env.wiring import REMOTE, TargetComponent


def remarks(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """One for each driver of a target that needs it; none where the console is this host's, or goes through ssh itself."""
    consoles = [each.arguments.get("transport") for each in drivers if issubclass(each.cls, StampedConsoleDriver)]
    if SSH in consoles or any(issubclass(each.cls, SerialPort) for each in resources):
        return
    is_place = any(each.cls.__name__ == REMOTE for each in resources)
    for driver in drivers:
        if driver.arguments.get("at") == AT_CONSOLE:
            what = "its commands run on the console's host"
        elif is_place and issubclass(driver.cls, MultiplexedCardDriver):
            what = "`lab farm card` writes the card on the multiplexer's host"
        else:
            continue
        yield (
            f"{driver.place}: {what}, through ssh: `ssh HOST true` must work without a password, also where console, rails and power go by TLS"
        )
