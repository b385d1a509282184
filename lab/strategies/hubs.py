"""One write at a time on the USB devices of a hub: two would share its bandwidth, and stall each other into a time limit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyudev

from lab.host import locks, process
from lab.provision.snagboot import hub_of, hub_of_disk, turn_at
from lab.provision.writer import Plan


def hub_of_write(plan: Plan, device: str | None, id_path: Callable[[str], str]) -> str:
    """The hub of what is written: of the multiplexer's reader, else of the console's adapter; empty: neither hangs on one of this host's.

    Args:
        device: of the console. id_path: asks udev for a device's.
    """
    if plan.target.host:  # which takes its turns itself, `lab.provision.ways.sd_mux`
        return ""
    return hub_of_disk(plan.target.identity) or (hub_of(id_path(device)) if device else "")


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

    with locks.turn(turn_at(hub), who, waits):
        yield
