"""Checks of a machine: its serial ports, clocks, priorities, disks and installed software."""

from __future__ import annotations

import ctypes
import grp
import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from lab import package_data
from lab.console.holders import holders
from lab.errors import BoardlabError
from lab.farm.checks import Finding
from lab.host.process import user_name
from lab.host.runtime import check_owner
from lab.host.scheduling import DEVICE, PRIORITY
from lab.virtual import pdudaemon

PORTS: Final = "ports"
CLOCKS: Final = "clocks"
TIMING: Final = "timing"
DISKS: Final = "disks"
UPGRADE: Final = "upgrade"
GIB: Final = 1 << 30
APART_S: Final = 5.0  # between two hosts' wall clocks; NTP keeps them within milliseconds
SAME_SERVERS: Final = (
    "sudo timedatectl set-ntp true, or install chrony, with the same servers on all hosts; then look at `timedatectl "
    "status`"
)
_KINDS: Final = ("ttyUSB", "ttyACM")
_LATENCY_MS: Final = 1
_UDEV: Final = "/etc/udev/rules.d/99-boardlab.rules"
_FULL_BYTES: Final = GIB  # a run of 60 cycles keeps some 50 MB
_SCARCE_BYTES: Final = 10 * GIB
_TIME_ERROR: Final = 5  # the clock is not synchronised, adjtimex(2)
_TIMEX_BYTES: Final = 512  # more than a struct timex has on any architecture; modes, its first field, 0: only ask
_GOOD_SOURCES: Final = frozenset({"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"})
VERSIONS: Final = "versions"
_PROGRAMS: Final = {"setpriv": "sudo apt install util-linux"}  # name -> how it is installed; `lab run` calls it
_KERNEL: Final = (5, 10)  # of the oldest distribution that is tested
_LIMITS: Final = "/etc/security/limits.d/boardlab.conf"


def ports(open_devices: Collection[str], servers: Collection[int], dev: Path, sysfs: Path) -> Iterator[Finding]:
    """USB serial adapters of this host.

    Args:
        open_devices: real paths of the console server's devices.
        servers: process ids of console servers.
        dev: where devices are.
        sysfs: where the kernel's are.
    """
    devices = sorted(path for kind in _KINDS for path in dev.glob(f"{kind}*"))
    if not devices:
        yield Finding(PORTS, "USB adapters", "ok", "none is plugged in")
    for device in devices:
        name, is_open = os.fspath(device), os.fspath(device) in open_devices
        wrong = [*_permission(device), *_strangers(device, servers)]
        yield from wrong
        timer = sysfs / "bus/usb-serial/devices" / device.name / "latency_timer"
        latency_ms = _latency_ms(timer)
        is_slow = latency_ms is not None and latency_ms > _LATENCY_MS
        if is_slow and is_open:
            text = (
                f"holds bytes back for up to {latency_ms} ms (latency_timer), though the console server asked for less"
            )
            rule = 'ACTION=="add", SUBSYSTEM=="usb-serial", DRIVER=="ftdi_sio", ATTR{latency_timer}="1"'
            yield Finding(PORTS, name, "bad", text, f"echo 1 | sudo tee {timer}; for good: a line in {_UDEV}: {rule}")
        elif not wrong:
            state = "open in the console server" if is_open else "free"
            text = "no latency timer" if latency_ms is None else f"latency timer {latency_ms} ms"
            later = ", which the console server sets to 1 when it opens it" if is_slow else ""
            yield Finding(PORTS, name, "ok", f"{state}, {text}{later}")


def _permission(device: Path) -> Iterator[Finding]:
    if os.access(device, os.R_OK | os.W_OK):
        return
    status = device.stat()
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    me, owner = user_name(os.getuid()), user_name(status.st_uid)
    text = f"{me} may not open it: it belongs to {owner}:{group}, mode {status.st_mode & 0o777:o}"
    yield Finding(PORTS, str(device), "bad", text, f"sudo usermod -aG {group} {me}, then log in again")


def _strangers(device: Path, servers: Collection[int]) -> Iterator[Finding]:
    for holder in holders(device, servers):
        if holder.reads:
            text = f"another program reads it and takes bytes away: {holder}"
            end_it = f"kill {holder.pid}, or stop the service that starts it (ModemManager, ser2net, a getty)"
            yield Finding(PORTS, str(device), "bad", text, f"{end_it}; read along with `lab console tail`")


def _latency_ms(timer: Path) -> int | None:
    """Latency timer of an adapter in ms; None: it has none."""
    try:
        return int(timer.read_text("ascii"))
    except (OSError, ValueError):
        return None


def clock_state() -> int:
    """State of the kernel's clock by adjtimex(2); -1: unknown."""
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    return ctypes.CDLL(None, use_errno=True).adjtimex(timex)  # type: ignore[no-any-return]


def clocks(sysfs: Path, read_state: Callable[[], int] = clock_state) -> Iterator[Finding]:
    """Check the wall clock and the clock source.

    The first labels results, the second stamps them.
    """
    state = read_state()
    if state == _TIME_ERROR:
        hint = "sudo timedatectl set-ntp true, or install chrony; `timedatectl status` says what it waits for"
        text = "is not synchronised: runs would be labelled with a wrong time, and hosts could not be compared"
        yield Finding(CLOCKS, "wall clock", "doubtful", text, hint)
    elif state >= 0:
        yield Finding(CLOCKS, "wall clock", "ok", "synchronised")
    try:
        source = (sysfs / "devices/system/clocksource/clocksource0/current_clocksource").read_text("ascii").strip()
    except OSError:
        return
    if source in _GOOD_SOURCES:
        yield Finding(CLOCKS, "clock source", "ok", source)
    else:
        hint = (
            "look for `tsc` in `dmesg`: the kernel says why it does not use it; a BIOS update or `tsc=reliable` may "
            "help"
        )
        yield Finding(CLOCKS, "clock source", "doubtful", f"{source}, which is slow to read", hint)


def timing(device: Path = DEVICE, limit: Callable[[int], tuple[int, int]] = resource.getrlimit) -> Iterator[Finding]:
    """Check the console server's priority and processor wake-ups."""
    if os.geteuid() == 0 or limit(resource.RLIMIT_RTPRIO)[0] in {resource.RLIM_INFINITY, *range(PRIORITY, 100)}:
        yield Finding(TIMING, "real-time priority", "ok", f"SCHED_FIFO {PRIORITY} is permitted")
    else:
        text = "is not permitted: on a busy host stamps are late, and their ± is larger"
        line = f"'{user_name(os.getuid())} - rtprio {PRIORITY}'"
        hint = f"echo {line} | sudo tee -a {_LIMITS}, then log in again and `lab console stop`"
        yield Finding(TIMING, "real-time priority", "doubtful", text, hint)
    if device.exists() and not os.access(device, os.W_OK):
        text = "may not be opened: processors sleep deeply while measuring, and wake late"
        rule = f'KERNEL=="{device.name}", GROUP="dialout", MODE="0660"'
        hint = f"echo '{rule}' | sudo tee /etc/udev/rules.d/99-boardlab-idle.rules"
        yield Finding(TIMING, str(device), "doubtful", text, hint)


def runtime(folder: Path) -> Iterator[Finding]:
    """Check that other users keep out of a runtime folder."""
    if folder.exists():
        try:
            check_owner(folder)
        except BoardlabError as error:
            yield Finding.of_error("runtime", str(folder), error)


def disks(folders: Mapping[str, Path]) -> Iterator[Finding]:
    """Check the free space of the folders.

    Args:
        folders: by their content; a missing one counts as its parent.
    """
    for content, folder in folders.items():
        there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
        try:
            usage = shutil.disk_usage(there)
        except OSError as error:
            yield Finding(DISKS, content, "bad", f"{there}: {error.strerror}", "is its disk mounted?")
            continue
        text = f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f} in {folder}"
        largest = f"du -xh {there} | sort -h | tail"
        if not os.access(there, os.W_OK):
            me, owner = user_name(os.getuid()), user_name(there.stat().st_uid)
            yield Finding(DISKS, content, "bad", f"{there}: {me} may not write there", f"it is {owner}'s")
        elif usage.free < _FULL_BYTES:
            yield Finding(DISKS, content, "bad", text, f"make room: {largest}; or keep it elsewhere ($LAB_DB)")
        elif usage.free < _SCARCE_BYTES:
            yield Finding(DISKS, content, "doubtful", text, f"make room soon: {largest}")
        else:
            yield Finding(DISKS, content, "ok", text)


def versions(version: Callable[[str], str] = metadata.version) -> Iterator[Finding]:
    """Check boardlab, Python, labgrid, `serial`, pdudaemon, kernel and called programs."""
    python = platform.python_version()
    yield Finding(VERSIONS, "boardlab", "ok", f"{version('boardlab')}, Python {python}, in {sys.prefix}")
    pins = (re.fullmatch(r"labgrid==([\w.]+)", requirement) for requirement in metadata.requires("boardlab") or [])
    pinned = next((pin[1] for pin in pins if pin), None)
    labgrid = _find_version("labgrid", version) or "none"
    if pinned is not None and labgrid != pinned:
        text = f"{labgrid}, and boardlab is made for {pinned}: its console drivers' interface differs"
        yield Finding(VERSIONS, "labgrid", "bad", text, f"{sys.executable} -m pip install labgrid=={pinned}")
    else:
        yield Finding(VERSIONS, "labgrid", "ok", labgrid)
    if stranger := _find_version("pyserial", version):
        text = (
            f"{stranger} is installed beside pyserial-labgrid: both are the module `serial`, and labgrid needs its own"
        )
        pip = f"{sys.executable} -m pip"
        hint = f"{pip} uninstall -y pyserial && {pip} install --force-reinstall --no-deps pyserial-labgrid"
        yield Finding(VERSIONS, "pyserial", "bad", text, hint)
    try:
        yield Finding(VERSIONS, "pdudaemon", "ok", str(pdudaemon.find()))
    except BoardlabError as error:
        text = "is not installed; boards that it does not switch need none"
        yield Finding(VERSIONS, "pdudaemon", "doubtful", text, str(error))
    for program, hint in _PROGRAMS.items():
        if shutil.which(program) is None:
            yield Finding(VERSIONS, program, "bad", "is not installed, and `lab run` needs it", hint)
    release = platform.release()
    if tuple(map(int, re.findall(r"\d+", release)[:2])) >= _KERNEL:
        yield Finding(VERSIONS, "Linux", "ok", release)
    else:
        yield Finding(VERSIONS, "Linux", "doubtful", release, "boardlab is tested with Linux 5.10 and later")


def _find_version(name: str, version: Callable[[str], str]) -> str:
    """Version of a distribution; empty: it is not installed."""
    try:
        return version(name)
    except metadata.PackageNotFoundError:
        return ""


def copies(folder: Path) -> Iterator[Finding]:
    """Compare a lab's copies of the strategy and the suite with the installed ones.

    Args:
        folder: of the lab.
    """
    suite, strategy = package_data.folder(package_data.TESTS), package_data.strategy_file()
    installed = {folder / package_data.STRATEGIES / strategy.name: strategy}
    installed |= {folder / package_data.TESTS / path.name: path for path in sorted(suite.glob("*.py"))}
    there = {own: ours for own, ours in installed.items() if own.is_file() and own.resolve() != ours.resolve()}
    other = [own for own, ours in there.items() if own.read_bytes() != ours.read_bytes()]
    for own in other:
        text = "is another than this boardlab's: of an older one, or edited here; it stays as it is"
        yield Finding(UPGRADE, str(own.relative_to(folder)), "doubtful", text, f"diff -u {own} {there[own]}")
    if there and not other:
        yield Finding(UPGRADE, "copies", "ok", f"{len(there)} files are as this boardlab has them")
    missing = [
        own.name
        for own, ours in installed.items()
        if own.parent.is_dir() and ours.parent == suite and own not in there and own != ours
    ]
    if missing:
        text = f"lacks what this boardlab has: {', '.join(missing)}"
        hint = f"cp {suite}/NAME {folder / package_data.TESTS}"
        yield Finding(UPGRADE, package_data.TESTS, "doubtful", text, hint)
