"""Boot partitions and boot settings of an eMMC, from Linux.

Linux keeps the boot partitions read-only, each by a file `force_ro` (Documentation/driver-api/mmc/mmc-dev-parts.rst);
the boot settings are set by `mmc` of mmc-utils, whose texts are those of its sources (mmc_cmds.c of 2022 to 2024).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.errors import ConfigurationError
from lab.provision.errors import ExtCsdNotSetError, ImageTooLargeError, MediaVerifyFailedError, MediaWriteFailedError
from lab.provision.release import Content, ExtCsd
from lab.provision.writer import Area, Step
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers.command import Command, CommandPrompt, carry_out, quote

DEVICE: Final = re.compile(r"/dev/mmcblk\d+")
BOOT: Final = ("boot0", "boot1")
_REGISTERS: Final = ("PARTITION_CONFIG", "BOOT_BUS_CONDITIONS")
_MODES: Final = ("single_backward", "single_hs", "dual")
_RESETS: Final = ("x1", "retain")
_WIDTHS: Final = ("x1", "x4", "x8")


def partition(device: str, hardware: str) -> str:
    """The device of a hardware partition, e.g. "/dev/mmcblk0boot0"."""
    return device if hardware == "user" else f"{device}{hardware}"


def writable(device: str, command: Command) -> Command:
    """The same command while a boot partition may be written."""
    lock = f"/sys/class/block/{device.rpartition('/')[2]}/force_ro"
    text = f"echo 0 > {lock} && {command.text}; s=$?; echo 1 > {lock}; (exit $s)"
    return Command(text, command.judge, command.limit_s)


def check(prompt: CommandPrompt, device: str, content: Content, planned: Sequence[Step]) -> None:
    """Make sure that boot parts fit and the board has `mmc`.

    It is called before the first byte.

    Raises:
        MediaMissingError: it has no such boot partition. ImageTooLargeError: a part does not fit into it.
        ConfigurationError: the board's Linux has no `mmc`.
    """
    for hardware in sorted({step.place.hardware for step in planned if step.place} & set(BOOT)):
        name = partition(device, hardware)
        room = answers.sectors(carry_out(prompt, answers.size_of(name)), name)
        for step in planned:
            end = (step.place.offset or 0) + step.bytes if step.place and step.place.hardware == hardware else 0
            if end > room:
                raise ImageTooLargeError(
                    f"{step.name}: it ends at {end:#x}, and {name} has {room:#x} bytes; nothing was written"
                )
    if content.extcsd.given:
        registers(prompt, device)


def read(prompt: CommandPrompt, device: str) -> ExtCsd:
    """Read the boot settings of the eMMC, without the partition access.

    Raises:
        ConfigurationError: the board's Linux has no `mmc`. MediaWriteFailedError: the answer lacks them.
    """
    values = registers(prompt, device)
    config, bus = values["PARTITION_CONFIG"], values["BOOT_BUS_CONDITIONS"]
    return ExtCsd([config >> 6 & 1, config >> 3 & 7, 0], [bus & 3, bus >> 2 & 1, bus >> 3 & 3])


def holds(prompt: CommandPrompt, device: str, hardware: str, area: Area) -> bool:
    """Return whether a boot partition has these bytes.

    Raises:
        BoardlabError: it could not be read.
    """
    name = partition(_check_device(device), hardware)
    try:
        carry_out(prompt, answers.compare(name, area.offset, area.count, area.sha256, name))
    except MediaVerifyFailedError:
        return False
    return True


def registers(prompt: CommandPrompt, device: str) -> dict[str, int]:
    """Read PARTITION_CONFIG and BOOT_BUS_CONDITIONS of the EXT_CSD.

    Raises as `read`.
    """
    text = f"mmc extcsd read {_check_device(device)} | grep -e {' -e '.join(_REGISTERS)}"

    def judge(lines: Sequence[str], status: int) -> None:
        if any(line.strip() == "no mmc" for line in lines):
            raise ConfigurationError(
                "the board's Linux has no program mmc, which tells the eMMC how to boot; nothing was written. Install "
                "mmc-utils there, or write this medium from U-Boot"
            )
        answers.refuse(lines, status, text)
        if missing := [name for name in _REGISTERS if not any(f"[{name}: 0x" in line for line in lines)]:
            raise MediaWriteFailedError(
                f"{text}: it does not tell {' and '.join(missing)}: {quote(lines)}. Is it an eMMC?"
            )

    lines = carry_out(prompt, Command(f"command -v mmc >/dev/null || echo 'no mmc'; {text}", judge))
    return {name: int(value, 16) for name, value in re.findall(r"\[(\w+): (0x[0-9a-f]+)\]", "\n".join(lines))}


def set_extcsd(prompt: CommandPrompt, device: str, wanted: ExtCsd) -> None:
    """Set the boot settings of the eMMC, the partition last.

    Each is read back. Write-once bits are never touched.

    Raises:
        ExtCsdNotSetError: it reads back something else; it boots from the same partition as before.
    """
    if wanted.bootbus:
        width, reset, mode = wanted.bootbus
        settings = f"{_MODES[mode]} {_RESETS[reset]} {_WIDTHS[width]}"
        text = f"mmc bootbus set {settings} {_check_device(device)}"
        carry_out(prompt, Command(text, answers.done(text)))
        _check_taken(prompt, device, "BOOT_BUS_CONDITIONS", mode << 3 | reset << 2 | width, 0x1F)
    if wanted.partconf:
        ack, boot, _access = wanted.partconf
        text = f"mmc bootpart enable {boot} {ack} {_check_device(device)}"
        carry_out(prompt, Command(text, answers.done(text)))
        _check_taken(prompt, device, "PARTITION_CONFIG", ack << 6 | boot << 3, 0x78)  # who accesses is the kernel's


def check_extcsd(wanted: ExtCsd) -> None:
    """Make sure that `mmc` can express the settings.

    Raises:
        ConfigurationError: it cannot.
    """
    if wanted.bootbus and not all(
        value in range(len(words)) for value, words in zip(wanted.bootbus, (_WIDTHS, _RESETS, _MODES), strict=True)
    ):
        raise ConfigurationError(
            f"extcsd: bootbus {wanted.bootbus}: from Linux, the width is 0 to 2, the reset 0 or "
            "1, the mode 0 to 2; mend the release file"
        )


def _check_taken(prompt: CommandPrompt, device: str, name: str, value: int, counts: int) -> None:
    """counts: which bits of the register count."""
    register_value = registers(prompt, device)[name]
    if register_value & counts != value:
        raise ExtCsdNotSetError(
            f"{device}: {name} was set to {value:#04x}, and it says {register_value:#04x}: the eMMC boots from the "
            "partition that it booted from before. Try again; then change the eMMC, or the board"
        )


def _check_device(device: str) -> str:
    if not DEVICE.fullmatch(device):
        raise ConfigurationError(
            f"{device!r:.60}: extcsd is an eMMC's, e.g. /dev/mmcblk0; mend the release file or the env"
        )
    return device
