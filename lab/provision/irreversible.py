"""Commands that nothing undoes. None of them is ever issued, by whatever way: they are refused where commands are sent."""

from __future__ import annotations

import re
from typing import Final

from lab.errors import TestStableError

# Of U-Boot (cmd/mmc.c, cmd/fuse.c, cmd/sf.c, cmd/otp), of Linux (mmc-utils, spi-nor), of fastboot. A pattern -> what it would do.
IRREVERSIBLE: Final[dict[str, str]] = {
    r"\bmmc\s+rst-function\b": "writes EXT_CSD[162], which can be written once",
    r"\bmmc\s+hwpartition\b.*\bcomplete\b": "fixes the eMMC's hardware partitions for ever",
    r"\bmmc\s+(?:bootpart-resize|wp|rpmb\s+key)\b": "changes the eMMC's boot partitions, its protection or its RPMB key for ever",
    r"\bmmc\s+(?:hwreset|bkops|cache)\s+(?:enable|disable)\b": "writes registers of the eMMC that can be written once",
    r"\bmmc\s+bkops-enable\b": "writes EXT_CSD[163], part of which can be written once",
    r"\bmmc\s+(?:gp|enh_area)\s+\w+.*-y\b|\bmmc\s+write_reliability\b": "completes the eMMC's partitioning for ever",
    r"\bmmc\s+writeprotect\s+(?:boot|user)\s+set\b": "may protect the eMMC for ever",
    r"\bmmc\s+extcsd\s+write\b": "writes any register of the eMMC",
    r"\b(?:fuse|efuse)\s+(?:prog|override|writebuff|sense-prog)\b|\bfuse\s+prog\b": "burns fuses of the SoC",
    r"\b(?:otp|keywriter|mac_efuse)\b": "burns one-time memory",
    r"\bsf\s+(?:protect|lock|otp)\b|\bflash_(?:lock|otp_(?:write|lock|erase))\b": "locks the flash or writes its one-time area",
    r"\b(?:nand|mtd)\s+(?:markbad|otp\w*)\b|\bnand\s+(?:lock|scrub)\b": "marks blocks bad, or loses their marks, for ever",
    r"\bnand\s+erase\.(?:part|chip)\b.*\bscrub\b": "loses the marks of bad blocks for ever",
    r"\b(?:flashing|oem)\s+(?:lock|lock_critical)\b": "locks the bootloader",
}
_COMPILED: Final = [(re.compile(pattern), does) for pattern, does in IRREVERSIBLE.items()]


def irreversible(command: str) -> str:
    """What of a command nothing undoes; empty: everything can be undone."""
    text = " ".join(command.split())
    return next((does for pattern, does in _COMPILED if pattern.search(text)), "")


def refused_if_irreversible(command: str) -> str:
    """The command, if it may be issued.

    Raises:
        TestStableError: it may not, ever.
    """
    if does := irreversible(command):
        raise TestStableError(
            f"`{command:.80}` {does}; boardlab never issues it. If it must be, a person types it",
            failure="irreversible",
        )
    return command
