"""Serial ports: may this user open them, does another program read them, and how long do their adapters hold bytes back?"""

from __future__ import annotations

import grp
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from lab.console.holders import holders
from lab.farm.doctor.finding import Finding
from lab.host.process import user_name

AREA: Final = "ports"
_KINDS: Final = ("ttyUSB", "ttyACM")
_LATENCY_MS: Final = 1
_UDEV: Final = "/etc/udev/rules.d/99-boardlab.rules"


def check(open_devices: Collection[str], servers: Collection[int], dev: Path, sys: Path) -> Iterator[Finding]:
    """USB serial adapters of this host.

    Args:
        open_devices: real paths of what the console server has open. servers: process ids of console servers.
        dev, sys: where devices and sysfs are.
    """
    found = sorted(path for kind in _KINDS for path in dev.glob(f"{kind}*"))
    if not found:
        yield Finding(AREA, "USB adapters", "ok", "none is plugged in")
    for device in found:
        wrong = [*_permission(device), *_strangers(device, servers)]
        yield from wrong
        latency = _latency_ms(device, sys)
        is_open = os.fspath(device) in open_devices
        if latency is not None and latency > _LATENCY_MS and is_open:
            yield Finding(
                AREA,
                os.fspath(device),
                "bad",
                f"holds bytes back for up to {latency} ms (latency_timer), though the console server asked for less",
                f"echo 1 | sudo tee {_timer(device, sys)}; for good: a line in {_UDEV}: "
                'ACTION=="add", SUBSYSTEM=="usb-serial", DRIVER=="ftdi_sio", ATTR{latency_timer}="1"',
            )
        elif not wrong:
            state = "open in the console server" if is_open else "free"
            timer = "no latency timer" if latency is None else f"latency timer {latency} ms"
            later = ", which the console server sets to 1 when it opens it" if (latency or 0) > _LATENCY_MS else ""
            yield Finding(AREA, os.fspath(device), "ok", f"{state}, {timer}{later}")


def _permission(device: Path) -> Iterator[Finding]:
    if os.access(device, os.R_OK | os.W_OK):
        return
    status = device.stat()
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    me = user_name(os.getuid())
    yield Finding(
        AREA,
        os.fspath(device),
        "bad",
        f"{me} may not open it: it belongs to {user_name(status.st_uid)}:{group}, mode {status.st_mode & 0o777:o}",
        f"sudo usermod -aG {group} {me}, then log in again",
    )


def _strangers(device: Path, servers: Collection[int]) -> Iterator[Finding]:
    for holder in holders(device, servers):
        if holder.reads:
            yield Finding(
                AREA,
                os.fspath(device),
                "bad",
                f"another program reads it and takes bytes away: {holder}",
                f"kill {holder.pid}, or stop the service that starts it (ModemManager, ser2net, a getty); read along with "
                "`lab console tail`",
            )


def _timer(device: Path, sys: Path) -> Path:
    return sys / "bus/usb-serial/devices" / device.name / "latency_timer"


def _latency_ms(device: Path, sys: Path) -> int | None:
    """How long the adapter may hold bytes back; None: it has no such timer."""
    try:
        return int(_timer(device, sys).read_text("ascii"))
    except (OSError, ValueError):
        return None
