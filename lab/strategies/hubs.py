"""One write at a time on the USB devices of a hub: two would share its bandwidth, and stall each other into a time limit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyudev

from lab.host import process, turns
from lab.provision.way import Plan

# udev's path_id: the controller, "usb", the number of its root hub, the ports from there to the device, its interface.
_ID_PATH: Final = re.compile(r"(?P<root>\S+-usb-\d+):(?P<ports>\d+(?:\.\d+)*)(?:[:-]\S*)?")


def hub_of(id_path: str) -> str:
    """The hub that a USB device is plugged into, as the ID_PATH of its own socket; empty: it is no USB device's ID_PATH."""
    found = _ID_PATH.fullmatch(id_path)
    if found is None:
        return ""
    above = found["ports"].rpartition(".")[0]
    return f"{found['root']}:{above}" if above else found["root"]


def hub_of_write(plan: Plan, device: str | None, id_path: Callable[[str], str]) -> str:
    """The hub of what is written: of the multiplexer's reader, else of the console's adapter; empty: neither hangs on one of this host's.

    Args:
        device: of the console. id_path: asks udev for a device's.
    """
    of_disk = (hub_of(word) for word in plan.target.identity.split())
    return next(filter(None, of_disk), "") or (hub_of(id_path(device)) if device else "")


def id_path_of(device: str) -> str:
    """A device's ID_PATH; empty where udev knows none."""
    try:
        return str(pyudev.Devices.from_device_file(pyudev.Context(), device).properties.get("ID_PATH", ""))
    except (pyudev.DeviceNotFoundError, OSError):
        return ""


@contextmanager
def writing(board: str, device: str | None, say: Callable[[str], None], plan: Plan) -> Iterator[None]:
    """Be the only one who writes at the plan's hub, for this block; who waits says for whom."""
    hub = hub_of_write(plan, device, id_path_of)
    if not hub:
        yield
        return
    who = f"{board}, process {os.getpid()} of {process.person()}"
    medium = plan.target.medium

    def waits(holder: str) -> None:
        say(f"{medium}: waits for the write of {holder}: it is at the same USB hub ({hub})")

    with turns.turn(f"hub {hub}", who, waits):
        yield
