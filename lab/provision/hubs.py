"""The USB hub that a device is plugged into: two writes there would share its bandwidth, and stall each other into a time limit."""

from __future__ import annotations

import re
from typing import Final

# udev's path_id: the controller, "usb", the number of its root hub, the ports from there to the device, its interface.
_ID_PATH: Final = re.compile(r"(?P<root>\S+-usb-\d+):(?P<ports>\d+(?:\.\d+)*)(?:[:-]\S*)?")


def hub_of(id_path: str) -> str:
    """The hub that a USB device is plugged into, as the ID_PATH of its own socket; empty: it is no USB device's ID_PATH."""
    found = _ID_PATH.fullmatch(id_path)
    if found is None:
        return ""
    above = found["ports"].rpartition(".")[0]
    return f"{found['root']}:{above}" if above else found["root"]


def hub_of_disk(identity: str) -> str:
    """The same of a disk, by the words that udev knows it by; empty: it hangs on no USB hub."""
    return next(filter(None, map(hub_of, identity.split())), "")


def turn_at(hub: str) -> str:
    """What programs of a host take turns at (`lab.host.locks`) that write at a hub."""
    return f"hub {hub}"
