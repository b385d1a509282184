"""The machine: its clocks, its priorities, its disks."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from lab.farm.doctor.finding import Finding
from lab.host.process import user_name
from lab.host.scheduling import DEVICE, PRIORITY

CLOCKS: Final = "clocks"
APART_S: Final = 5.0  # between two hosts' wall clocks; NTP keeps them within milliseconds
SAME_SERVERS: Final = "sudo timedatectl set-ntp true, or install chrony, with the same servers on all hosts; then look at `timedatectl status`"
TIMING: Final = "timing"
DISKS: Final = "disks"
GIB: Final = 1 << 30
_FULL_BYTES: Final = GIB  # a run of 60 cycles keeps some 50 MB
_SCARCE_BYTES: Final = 10 * GIB
_TIME_ERROR: Final = 5  # the clock is not synchronised, adjtimex(2)
_TIMEX_BYTES: Final = 512  # more than a struct timex has on any architecture; modes, its first field, 0: only ask
_GOOD_SOURCES: Final = frozenset({"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"})
_LIMITS: Final = "/etc/security/limits.d/boardlab.conf"


def clock_state() -> int:
    """The state of the kernel's clock as adjtimex(2) returns it; -1: it cannot be asked."""
    return ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))  # type: ignore[no-any-return]


def clocks(sys: Path, state: Callable[[], int] = clock_state) -> Iterator[Finding]:
    """The wall clock, which labels results, and the clock source, which stamps them."""
    found = state()
    if found == _TIME_ERROR:
        mend = "sudo timedatectl set-ntp true, or install chrony; `timedatectl status` says what it waits for"
        said = "is not synchronised: runs would be labelled with a wrong time, and hosts could not be compared"
        yield Finding(CLOCKS, "wall clock", "doubtful", said, mend)
    elif found >= 0:
        yield Finding(CLOCKS, "wall clock", "ok", "synchronised")
    try:
        source = (sys / "devices/system/clocksource/clocksource0/current_clocksource").read_text("ascii").strip()
    except OSError:
        return
    if source in _GOOD_SOURCES:
        yield Finding(CLOCKS, "clock source", "ok", source)
    else:
        mend = "look for `tsc` in `dmesg`: the kernel says why it does not use it; a BIOS update or `tsc=reliable` may help"
        yield Finding(CLOCKS, "clock source", "doubtful", f"{source}, which is slow to read", mend)


def timing(device: Path = DEVICE, limit: Callable[[int], tuple[int, int]] = resource.getrlimit) -> Iterator[Finding]:
    """Whether the console server may go before other programs, and keep processors awake."""
    me = user_name(os.getuid())
    if os.geteuid() == 0 or limit(resource.RLIMIT_RTPRIO)[0] in {resource.RLIM_INFINITY, *range(PRIORITY, 100)}:
        yield Finding(TIMING, "real-time priority", "ok", f"SCHED_FIFO {PRIORITY} is permitted")
    else:
        yield Finding(
            TIMING,
            "real-time priority",
            "doubtful",
            "is not permitted: on a busy host stamps are late, and their ± is larger",
            f"echo '{me} - rtprio {PRIORITY}' | sudo tee -a {_LIMITS}, then log in again and `lab console stop`",
        )
    if not device.exists() or os.access(device, os.W_OK):
        return
    said = "may not be opened: processors sleep deeply while measuring, and wake late"
    mend = f'echo \'KERNEL=="{device.name}", GROUP="dialout", MODE="0660"\' | sudo tee /etc/udev/rules.d/99-boardlab-idle.rules'
    yield Finding(TIMING, str(device), "doubtful", said, mend)


def disks(folders: Mapping[str, Path]) -> Iterator[Finding]:
    """Room for what is kept there.

    Args:
        folders: what is kept -> where; one that is not there yet counts as its parent.
    """
    for what, folder in folders.items():
        there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
        try:
            usage = shutil.disk_usage(there)
        except OSError as error:
            yield Finding(DISKS, what, "bad", f"{there}: {error.strerror}", "is its disk mounted?")
            continue
        said = f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f} in {folder}"
        if not os.access(there, os.W_OK):
            owner = user_name(there.stat().st_uid)
            yield Finding(
                DISKS, what, "bad", f"{there}: {user_name(os.getuid())} may not write there", f"it is {owner}'s"
            )
        elif usage.free < _FULL_BYTES:
            yield Finding(
                DISKS, what, "bad", said, f"make room: du -xh {there} | sort -h | tail; or keep it elsewhere ($LAB_DB)"
            )
        elif usage.free < _SCARCE_BYTES:
            yield Finding(DISKS, what, "doubtful", said, f"make room soon: du -xh {there} | sort -h | tail")
        else:
            yield Finding(DISKS, what, "ok", said)
