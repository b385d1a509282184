"""Boot settings of an eMMC, from U-Boot.

Registers: JEDEC JESD84-B51; commands: cmd/mmc.c of v2023.01 to v2025.01.

`mmc partconf` prints U-Boot's copy of the settings; so the eMMC is read anew (`mmc rescan`) before each check. Only
`mmc reg read` prints BOOT_BUS_CONDITIONS (v2023.10, CONFIG_CMD_MMC_REG, which few builds have).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.provision.errors import MediaVerifyFailedError, MediaWriteFailedError
from lab.provision.release import ExtCsd
from lab.provision.writer import Area
from lab.provision.writers import ubootanswers as answers
from lab.provision.writers.command import Command, CommandPrompt, carry_out, fits, limit_s, quote
from lab.provision.writers.ubootmedia import UBootBlocks
from lab.provision.writers.ubootsession import Session

BOOT_BUS: Final = 177  # EXT_CSD[177], BOOT_BUS_CONDITIONS
_MOST_DEVICE: Final = 31
_READS: Final = re.compile(r"\bmmc reg read\b")
_VALUES: Final = {"BOOT_ACK": (0, 1), "BOOT_PARTITION_ENABLE": (0, 1, 2, 7)}  # the others are reserved
_ROW: Final = re.compile(r"^\s*(\d{3}):((?:\s+[0-9a-fA-F]{2})+)\s*$")
NOT_READ_BACK: Final = (
    "how wide the eMMC's bus is while it boots (bootbus) was set and not read back: this U-Boot "
    "has no `mmc reg read` (CONFIG_CMD_MMC_REG)"
)


def read(prompt: CommandPrompt, device: int) -> ExtCsd:
    """Read the eMMC's boot settings; `bootbus` may be empty.

    This U-Boot cannot tell it then. The partition access is left out.

    Raises:
        MediaWriteFailedError: the answer lacks some; a line may be damaged on the console. MediaMissingError: there is
            no such eMMC.
    """
    text = f"mmc partconf {fits(device, _MOST_DEVICE)}"
    lines = carry_out(prompt, Command(text, answers.done(text)))
    partconf = [*(_value(lines, name, text) for name in _VALUES), 0]
    bus = _boot_bus(prompt, device) if _can_read(prompt) else None
    return ExtCsd(partconf, [bus & 3, bus >> 2 & 1, bus >> 3 & 3] if bus is not None else [])


def holds(prompt: CommandPrompt, device: int, partition: str, area: Area) -> bool:
    """Return whether a boot partition has these bytes, by their CRC-32.

    Raises:
        BoardlabError: it could not be read.
    """
    session, blocks = Session.begin(prompt), UBootBlocks("mmc", device, partition)
    session.spoil(bytes(area.count), session.back)
    session.run([*blocks.select(), *blocks.read(session.back, area.offset, area.count), *blocks.finish()])
    text = f"crc32 {session.back:#x} {area.count:#x}"
    try:
        carry_out(
            prompt, Command(text, answers.digest_is(area.crc32, text, (session.back, area.count)), limit_s(area.count))
        )
    except MediaVerifyFailedError:
        return False
    return True


def set_extcsd(prompt: CommandPrompt, device: int, wanted: ExtCsd) -> str:
    """Set the boot settings of the eMMC, the partition last.

    They are read back. Write-once bits are never touched.

    Returns: a sentence about settings that could not be read back; empty: none.

    Raises:
        ExtCsdNotSetError: it reads back something else.
        MediaWriteFailedError: U-Boot did not do it.
    """
    note = ""
    if wanted.bootbus:
        width, reset, mode = wanted.bootbus
        text = f"mmc bootbus {fits(device, _MOST_DEVICE)} {width} {reset} {mode}"
        carry_out(prompt, Command(text, answers.says("Set to BOOT_BUS_WIDTH", text)))
        if _can_read(prompt):
            answers.check_boot_bus(_boot_bus(prompt, device), mode << 3 | reset << 2 | width)
        else:
            note = NOT_READ_BACK
    if wanted.partconf:
        ack, boot, access = wanted.partconf
        text = f"mmc partconf {fits(device, _MOST_DEVICE)}"
        carry_out(prompt, Command(f"{text} {ack} {boot} {access}", answers.done(text)))
        for command in (_select(device), Command("mmc rescan", answers.done("mmc rescan"))):
            carry_out(prompt, command)
        carry_out(prompt, Command(text, answers.partition_config(ack, boot, text)))
    return note


def register(lines: Sequence[str], number: int) -> int | None:
    """Byte of `mmc reg read extcsd all`; None: it is not there.

    A row has ten bytes behind the number of the first.
    """
    for line in lines:
        row = _ROW.match(line)
        if row and int(row[1]) <= number < int(row[1]) + len(row[2].split()):
            return int(row[2].split()[number - int(row[1])], 16)
    return None


def _value(lines: Sequence[str], name: str, what: str) -> int:
    values = [int(match[1], 16) for line in lines if (match := re.fullmatch(rf"\s*{name}: (0x[0-9a-fA-F]+)\s*", line))]
    if len(values) != 1 or values[0] not in _VALUES[name]:
        raise MediaWriteFailedError(
            f"{what}: U-Boot does not say {name}: {quote(lines)}; nothing was written. Try again; if it stays so, "
            "look at the console's cable"
        )
    return values[0]


def _select(device: int) -> Command:
    text = f"mmc dev {fits(device, _MOST_DEVICE)} 0"
    return Command(text, answers.says("OK|is current device", text))


def _can_read(prompt: CommandPrompt) -> bool:
    return bool(_READS.search("\n".join(carry_out(prompt, Command("help mmc", lambda _lines, _status: None)))))


def _boot_bus(prompt: CommandPrompt, device: int) -> int | None:
    carry_out(prompt, _select(device))
    text = "mmc reg read extcsd all"
    return register(carry_out(prompt, Command(text, answers.done(text))), BOOT_BUS)
