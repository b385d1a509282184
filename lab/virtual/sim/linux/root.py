"""The root file system: which one the command line names, and what the kernel says when it mounts it.

The words follow fs/ext4/super.c: mount options until 5.16, the quota mode from 5.13, the UUID from 6.2, and whether it is
writable from 6.4; of the boards' kernels those of 4.9, 5.10, 6.1, 6.6 and 6.12. The remount of 6.12 is that of a public
log, which leaves the quota mode out.
"""

from __future__ import annotations

from lab.virtual.sim.model import Model
from lab.virtual.sim.storage import DISK_IDS

_UUID = "5d6ff3a1-0c44-4cb6-9d1a-2d2b7be2ad1f"
_OPTIONS_UNTIL, _QUOTA_FROM, _UUID_FROM, _STATE_FROM, _NO_QUOTA_AGAIN = (5, 16), (5, 13), (6, 2), (6, 4), (6, 12)


def medium_of(model: Model, root: str, booted: str) -> str:
    """The medium that `root=` names; the one that was booted where it names none that the board has."""
    for name, disk in DISK_IDS.items():
        if root.startswith(f"PARTUUID={disk}-") and name in model.board.media:
            return name
    for number, name in model.mmc_media.items():
        if root.startswith(f"/dev/mmcblk{number}p"):
            return name
    return next((name for name, medium in model.board.media.items() if medium.root == root), booted)


def device_on(model: Model, medium: str) -> str:
    """The block device with the root file system of a medium; empty where it is in flash."""
    partition = {"sd": 2, "emmc": 1}
    return next((f"mmcblk{n}p{partition[name]}" for n, name in model.mmc_media.items() if name == medium), "")


def mounted(version: tuple[int, ...], *, writable: bool) -> str:
    """What stands behind "mounted filesystem" of ext4."""
    return f"{_named(version, writable=writable)}with ordered data mode.{_options(version)}{_quota(version)}"


def remounted(version: tuple[int, ...]) -> str:
    """What stands directly behind "re-mounted", which always makes it writable."""
    quota = "" if version >= _NO_QUOTA_AGAIN else _quota(version)
    name = _named(version, writable=True).rstrip()
    return f"{' ' if name else ''}{name}.{_options(version)}{quota}"


def _named(version: tuple[int, ...], *, writable: bool) -> str:
    state = ("r/w " if writable else "ro ") if version >= _STATE_FROM else ""
    return f"{_UUID} {state}" if version >= _UUID_FROM else ""


def _options(version: tuple[int, ...]) -> str:
    text = " Opts: (null)" if version <= _OPTIONS_UNTIL else ""
    return f"{text}." if text and version >= _QUOTA_FROM else text


def _quota(version: tuple[int, ...]) -> str:
    return " Quota mode: none." if version >= _QUOTA_FROM else ""
