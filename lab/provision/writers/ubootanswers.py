"""Parsers of U-Boot's answers.

The texts: its sources of v2023.01 to v2025.01 (cmd/mmc.c, cmd/nvme.c, cmd/virtio.c, cmd/sf.c, cmd/mtd.c, cmd/ubi.c,
cmd/flash.c, drivers/mtd/cfi_flash.c, net/tftp.c, cmd/mem.c, common/hash.c).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from lab.errors import BoardStableError, ConfigurationError
from lab.provision.errors import (
    ExtCsdNotSetError,
    ImageTooLargeError,
    MediaBadBlockError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    MediaWriteProtectedError,
    TftpTimeoutError,
)
from lab.provision.writers.command import Judge, quote

_UNKNOWN: Final = re.compile(r"Unknown command '([^']*)'")
_MISSING: Final = re.compile(
    r"\*\* Bad device|\*\* Invalid partition|unknown device|no mmc device|MMC: no card present|No (?:such "
    r")?device|MTD device \S+ not found"
    r"|Failed to initialize SPI flash|No SPI flash selected|Volume \S+ not found|Cannot find mtd|missing or unknown "
    r"FLASH type"
    r"|blocks (?:written|read): ERROR.*-19|-19 blocks (?:written|read)",
    re.IGNORECASE,
)
_PROTECTED: Final = re.compile(
    r"write.?protected|protected sectors will not be erased|protected Flash sectors|read-only", re.IGNORECASE
)
_BAD_BLOCK: Final = re.compile(r"Skipping bad block|bad block at|marked as bad|Bad eraseblock", re.IGNORECASE)
_TOO_LARGE: Final = re.compile(
    r"past flash size|block number 0x[0-9a-f]+ exceeds max|exceeds? (?:the )?(?:device|partition|chip) size|exit not "
    r"enough size|Size exceeds",
    re.IGNORECASE,
)
_FAILED: Final = re.compile(
    r"\bERROR\b|Failure while|failed with error|failed in (?:erase|write|read) step|timeout at address|Timeout writing"
    r"|not aligned|Failed\b|Not Erased|General Flash|mmc (?:write|read) failed|Card did not respond|Transfer data "
    r"timeout",
)
_DIGEST: Final = re.compile(r"\b(?:crc32|sha256) for ([0-9a-f]+) \.\.\. ([0-9a-f]+) ==> ([0-9a-f]{8,64})\b")
_TRANSFERRED: Final = re.compile(r"Bytes transferred = (\d+) \(")
# cmd/mmc.c and cmd/blk_common.c, before they move anything
_MOVED: Final = re.compile(r"\bblock # (\d+), count (\d+)\b")
_BLOCKS: Final = re.compile(r"(-?\d+) blocks (?:written|read): (OK|ERROR)")


def refuse(lines: Sequence[str], status: int, what: str) -> None:
    """Raise the error that an answer complains of, if any."""
    text = "\n".join(lines)
    if unknown := _UNKNOWN.search(text):
        raise ConfigurationError(
            f"{what}: this U-Boot has no command `{unknown[1]}`. Choose another way for the "
            "medium in the env, or build U-Boot with it"
        )
    if _MISSING.search(text):
        raise MediaMissingError(
            f"{what}: U-Boot does not see the medium: {quote(lines)}. Is it there, and its number in the env right?"
        )
    if _PROTECTED.search(text):
        raise MediaWriteProtectedError(
            f"{what}: the medium is write-protected: {quote(lines)}. Take the protection away; nothing else helps"
        )
    if _TOO_LARGE.search(text):
        raise ImageTooLargeError(f"{what}: {quote(lines)}. The release's part is too large for its place")
    if _BAD_BLOCK.search(text):
        raise MediaBadBlockError(
            f"{what}: a bad block where the release needs a good one: {quote(lines)}. Let "
            "the part lie in UBI, or change the board"
        )
    if _FAILED.search(text) or status != 0:
        _fail(lines, what)


def done(what: str) -> Judge:
    """The judge of a command that must only not complain."""
    return lambda lines, status: refuse(lines, status, what)


def says(pattern: str, what: str) -> Judge:
    """Judge that expects a line with `pattern` and no complaint.

    The pattern is a regular expression.
    """
    good = re.compile(pattern)

    def judge(lines: Sequence[str], status: int) -> None:
        refuse(lines, status, what)
        if not any(good.search(line) for line in lines):
            _fail(lines, what)

    return judge


def blocks(count: int, what: str, first: int | None = None) -> Judge:
    """Judge of `mmc|nvme|virtio write|read`: all blocks, and OK.

    The blocks begin at `first`, if U-Boot prints that.
    """

    def judge(lines: Sequence[str], status: int) -> None:
        text = "\n".join(lines)
        if first is not None and (moved := _MOVED.search(text)) and (int(moved[1]), int(moved[2])) != (first, count):
            raise misread(lines, what)
        refuse(lines, status, what)
        result = _BLOCKS.search(text)
        if result is None or (int(result[1]), result[2]) != (count, "OK"):
            _fail(lines, what)

    return judge


def judge_dhcp(lines: Sequence[str], _status: int) -> None:
    """The judge of `dhcp`: the board has an address.

    Raises:
        ConfigurationError: this U-Boot has no `dhcp`. TftpTimeoutError: nobody gave it one.
    """
    text = "\n".join(lines)
    if _UNKNOWN.search(text):
        raise ConfigurationError(
            "dhcp: this U-Boot has no such command: give the board an address (`board_address` in the env)"
        )
    if "DHCP client bound" not in text:
        raise TftpTimeoutError(
            f"dhcp: the board got no address in U-Boot: {quote(lines)}. Is its cable plugged in, and a DHCP server on "
            "that network? Else give it one (`board_address` in the env)"
        )


def judge_load(count: int, name: str) -> Judge:
    """The judge of `tftpboot`: all bytes came."""

    def judge(lines: Sequence[str], status: int) -> None:
        text = "\n".join(lines)
        if unknown := _UNKNOWN.search(text):
            raise ConfigurationError(
                f"{name}: this U-Boot has no command `{unknown[1]}`: it has no network. Use the console, or USB"
            )
        transferred = _TRANSFERRED.search(text)
        if transferred and int(transferred[1]) == count and status == 0:
            return
        if "TFTP error" in text:
            raise TftpTimeoutError(
                f"{name}: the TFTP server refused it: {quote(lines)}. Was its "
                "folder emptied by somebody else? Try again"
            )
        if "No ethernet found" in text or "address not set" in text:
            raise MediaMissingError(
                f"{name}: the board has no network in U-Boot: {quote(lines)}. Is its cable plugged in?"
            )
        got = f"{transferred[1]} of {count} bytes came" if transferred else "it did not come"
        raise TftpTimeoutError(
            f"{name}: {got} over TFTP: {quote(lines)}. Is the board's cable plugged in, and does "
            "a firewall let UDP pass to the lab host?"
        )

    return judge


def misread(lines: Sequence[str], what: str) -> MediaWriteFailedError:
    """Error for a place or count other than the command's.

    The command lost characters on the console.
    """
    return MediaWriteFailedError(
        f"`{what}`: U-Boot took it for another place or count: {quote(lines)}. The console lost or changed characters "
        "of the command; where it was a write, the data there is lost. Look at the console's cable, then try again"
    )


def digest_is(expected: str, what: str, of: tuple[int, int] | None = None) -> Judge:
    """The judge of `crc32` and `hash sha256`: this digest (hexadecimal).

    Args:
        of: address and count of the bytes that it must be of.
    """

    def judge(lines: Sequence[str], status: int) -> None:
        result = _DIGEST.search("\n".join(lines))
        if result is None:
            refuse(lines, status, what)
            _fail(lines, what)
        if of and (int(result[1], 16), int(result[2], 16)) != (of[0], of[0] + of[1] - 1):
            raise misread(lines, what)
        if result[3] != expected:
            raise MediaVerifyFailedError(
                f"{what}: the board computes {result[3]}, expected {expected}. Try again; then look at the medium"
            )

    return judge


def partition_config(ack: int, boot: int, what: str) -> Judge:
    """Judge of `mmc partconf DEV`: the settings were taken.

    They are EXT_CSD[179] (JEDEC JESD84-B51).
    """

    def judge(lines: Sequence[str], status: int) -> None:
        text = "\n".join(lines)
        values = {
            name: int(value, 16)
            for name, value in re.findall(r"(BOOT_ACK|BOOT_PARTITION_ENABLE): (0x[0-9a-f]+)", text)
        }
        if values != {"BOOT_ACK": ack, "BOOT_PARTITION_ENABLE": boot} or status != 0:
            raise ExtCsdNotSetError(
                f"{what}: expected BOOT_ACK {ack} and BOOT_PARTITION_ENABLE {boot}: {quote(lines)}. The eMMC boots as "
                "that says (1: boot0, 2: boot1), not as it was told. Try again; then change the eMMC, or the board"
            )

    return judge


def check_boot_bus(found: int | None, wanted: int) -> None:
    """Make sure that EXT_CSD[177] reads back as set.

    Bits 0 to 4 count.

    Raises:
        ExtCsdNotSetError: it has another value, or was not read (None).
    """
    if found is None or found & 0x1F != wanted:
        answer = "U-Boot did not show it" if found is None else f"it says {found:#04x}"
        raise ExtCsdNotSetError(
            f"BOOT_BUS_CONDITIONS (EXT_CSD[177]) was set to {wanted:#04x}, and {answer}; the partition that the eMMC "
            "boots from was not changed. Try again; then change the eMMC, or the board"
        )


def partition_blocks(lines: Sequence[str]) -> int:
    """Blocks, of `part start` or `part size`, which print hexadecimal digits alone."""
    return next(int(line, 16) for line in lines if re.fullmatch(r"\s*[0-9a-f]+\s*", line))


def has_command(lines: Sequence[str]) -> bool:
    """Return whether U-Boot has a command, by `help COMMAND`."""
    return not _UNKNOWN.search("\n".join(lines))


def ram(lines: Sequence[str]) -> tuple[int, int]:
    """Free memory for loads, from `bdinfo`.

    It begins at U-Boot's `loadaddr` and ends below U-Boot's own stack.

    Raises:
        BoardStableError: the answer has no memory bank.
    """
    text = "\n".join(lines)
    start = re.search(r"-> start\s+= (0x[0-9a-f]+)", text)
    size = re.search(r"-> size\s+= (0x[0-9a-f]+)", text)
    if start is None or size is None:
        raise BoardStableError(f"`bdinfo` told of no memory: {quote(lines)}", failure="media_write_failed")
    begin = int(start[1], 16)
    end = begin + int(size[1], 16)
    addresses = [
        int(address, 16) for address in re.findall(r"(?:\[|= )(?:0x)?([0-9a-f]{8,16})(?:-0x[0-9a-f]+\])?", text)
    ]
    inside = [address for address in addresses if begin + (end - begin) // 2 < address < end]
    return begin, min([end, *inside])


def _fail(lines: Sequence[str], what: str) -> NoReturn:
    raise MediaWriteFailedError(
        f"{what}: U-Boot did not do it: {quote(lines)}. Try again; if it stays so, look at the medium"
    )
