"""Commands of a writing Linux, and their answers.

The programs are busybox's or coreutils' wget, dd and sha256sum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.errors import BoardStableError, ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaBadBlockError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    MediaWriteProtectedError,
    TargetRefusedError,
    TftpTimeoutError,
)
from lab.provision.writers.command import Command, Judge, limit_s, quote

SPOOL: Final = "/run/boardlab-piece"  # in the memory of the board, where nobody but root writes
_SYSFS: Final = "/sys/class/block/"
_ROOT: Final = "/dev/root"
DEVICE: Final = re.compile(r"/dev/[\w-]+")
RUNNING_LIMIT_S: Final = 60.0
# At the rate of the slowest medium it is 17 minutes, in which an SD card takes all that Linux holds back
_CACHED_BYTES: Final = 64 << 20
SECTOR_BYTES: Final = 512  # of sysfs, and what every block device takes
_SIZES: Final = (1 << 20, 4096, SECTOR_BYTES)
_COMPLAINTS: Final = (
    (
        re.compile(r"[Rr]ead-only|[Oo]peration not permitted|write.protect"),
        MediaWriteProtectedError,
        "take the protection away",
    ),
    (
        re.compile(r"No space left|does not fit|won't fit|will not fit|too large", re.IGNORECASE),
        ImageTooLargeError,
        "take a larger medium or a smaller image",
    ),
    (
        re.compile(r"bad (?:erase)?block", re.IGNORECASE),
        MediaBadBlockError,
        "let the part lie in UBI, or change the board",
    ),
    (
        re.compile(r"No such (?:file|device)|can't open '/dev|cannot get information about"),
        MediaMissingError,
        "is its name in the env right?",
    ),
    (
        re.compile(r"verif\w+ data.*(?:fail|differ|mismatch)|does not match", re.IGNORECASE),
        MediaVerifyFailedError,
        "try again",
    ),
)


_ROOM: Final = re.compile(r"\s[1-9]\d*\s+\d+\s+(\d+)\s+\d+%\s+/")  # of df(1p); a ramfs has no size, so no limit either
_FULL: Final = re.compile(r"No space left", re.IGNORECASE)


def refuse(lines: Sequence[str], status: int, what: str) -> None:
    """Raise what an answer complains of; return where it does not complain."""
    text = "\n".join(lines)
    if re.search(r"(?:not found|applet not found)$", text, re.MULTILINE) and status == 127:
        raise ConfigurationError(
            f"{what}: the board's Linux has no such program. Choose another way for the medium in the env"
        )
    for pattern, kind, hint in _COMPLAINTS:
        if pattern.search(text):
            raise kind(f"{what}: {quote(lines)}; {hint}")
    if status != 0:
        raise MediaWriteFailedError(
            f"{what}: exit status {status}, {quote(lines)}. Try again; then look at the medium"
        )


def done(what: str) -> Judge:
    """The judge of a command that must only not complain."""
    return lambda lines, status: refuse(lines, status, what)


def fetch(url: str, count: int) -> Command:
    """Load a piece into the board's memory."""
    return Command(f"wget -q -O {SPOOL} {url}", judge_fetch(url), RUNNING_LIMIT_S + limit_s(count), loads=True)


def digest(count: int, sha256: str, what: str) -> Command:
    """Compute the digest of the piece in memory."""
    return Command(f"sha256sum {SPOOL}", digest_is(sha256, what), RUNNING_LIMIT_S + limit_s(count))


def write(device: str, offset: int, count: int, conversion: str = "notrunc,fsync") -> Command:
    """Write the piece in memory to a device and flush it.

    Args:
        conversion: of `dd`; the character device of a flash knows no fsync, and needs none.
    """
    size = unit(offset)
    text = f"dd if={SPOOL} of={check_device(device)} bs={size} seek={offset // size} conv={conversion}"

    def judge(lines: Sequence[str], status: int) -> None:
        refuse(lines, status, text)
        out = re.search(r"(\d+)\+(\d+) records out", "\n".join(lines))
        if out is None or (int(out[1]), int(out[2])) != (count // size, int(count % size > 0)):
            raise MediaWriteFailedError(
                f"{text}: not all of {count} bytes were written: {quote(lines)}. Try again; then look at the medium"
            )

    return Command(text, judge, limit_s(count))


def flush(device: str) -> Command:
    """Wait until the device has all written data (fsync(2)).

    A delayed write error appears here.
    """
    text = f"dd if=/dev/null of={check_device(device)} conv=notrunc,fsync"
    return Command(text, done(text), limit_s(_CACHED_BYTES))


def forget_cache() -> Command:
    """Drop the page cache, so that reads come from the medium (proc_sys_vm(5))."""
    text = "sync; echo 3 > /proc/sys/vm/drop_caches"
    return Command(text, done(text), limit_s(0))


def memory() -> Command:
    """Ask for free memory and the free space for pieces.

    The last piece is removed first.
    """
    text = f"rm -f {SPOOL}; df -Pk {SPOOL.rpartition('/')[0]} 2>/dev/null; grep MemAvailable /proc/meminfo"
    return Command(text, done(text))


def memory_bytes(lines: Sequence[str]) -> int:
    """Bytes that a piece may have, of `memory` (proc_meminfo(5); df(1p)).

    Raises:
        BoardStableError: it does not say.
    """
    text = "\n".join(lines)
    available, room = re.search(r"MemAvailable:\s+(\d+) kB", text), _ROOM.search(text)
    if available is None:
        raise BoardStableError(
            f"the board's Linux does not say how much memory is free: {quote(lines)}", failure="media_write_failed"
        )
    return min([int(available[1]), *([int(room[1])] if room else [])]) * 1024


def size_of(device: str) -> Command:
    """Ask for the sectors of a block device."""
    name = check_device(device).rpartition("/")[2]
    return Command(f"cat /sys/class/block/{name}/size", done(device))


def sectors(lines: Sequence[str], device: str) -> int:
    """Bytes of a device, of `size_of`.

    Raises:
        MediaMissingError: it has none.
    """
    count = next((line.strip() for line in lines if line.strip().isdigit()), "0")
    if int(count) == 0:
        raise MediaMissingError(f"{device}: the board's Linux sees no medium there: {quote(lines)}")
    return int(count) * SECTOR_BYTES


def ask_uses(device: str) -> Command:
    """Ask for the mounts, swaps and holders of a device.

    The answer includes the numbers of the device and of its partitions.
    """
    folder = f"{_SYSFS}{check_device(device).rpartition('/')[2]}"
    text = (
        f"cat /proc/mounts /proc/swaps /proc/self/mountinfo; grep -H : {folder}/dev {folder}/*/dev 2>/dev/null; "
        f"ls -d {folder}/holders/* {folder}/*/holders/* 2>/dev/null; true"
    )
    return Command(text, lambda lines, status: None if lines and not status else _silent(lines))


def expect_unused(lines: Sequence[str], device: str) -> None:
    """Make sure that a device is not mounted, swapped to or held.

    The lines are the answer to `ask_uses`.

    A root that the kernel mounted itself is named `/dev/root`; only its number identifies it (proc_pid_mountinfo(5)).
    LVM, dm-crypt, dm-verity and md are `holders` of what they are made of (Documentation/ABI/testing/sysfs-block).

    Raises:
        TargetRefusedError: it is in use, e.g. since Linux runs from it; or the answer does not tell.
    """
    part = r"(?:p\d+)?" if device[-1].isdigit() else r"\d*"  # as the kernel names partitions
    used = re.compile(re.escape(device) + part)
    of_it = [line.strip() for line in lines if line.startswith(_SYSFS)]
    if held := next((line for line in of_it if "/holders/" in line), None):
        where, _, holder = held.removeprefix(_SYSFS).partition("/holders/")
        raise TargetRefusedError(
            f"{device}: {where.rpartition('/')[2]} is a part of {holder} (LVM, dm-crypt, dm-verity or md), which the "
            "board's Linux has; nothing was written. Let it run from another medium "
            "(`boot_from`) without it, or from memory"
        )
    numbers = {line.partition(":")[2].strip() for line in of_it}
    for fields in map(str.split, lines):
        name, number = (fields[0] if fields else ""), (fields[2] if len(fields) > 4 else "")
        if used.fullmatch(name) or number in numbers or (name == _ROOT and not numbers):
            what = (
                f"{name} ({fields[1] if len(fields) > 1 else ''})" if name.startswith("/") else f"it for {fields[4]}"
            )
            raise TargetRefusedError(
                f"{device}: the board's Linux uses {what}; nothing was written. Let it run from another medium "
                "(`boot_from`), or from memory"
            )


def digest_is(sha256: str, what: str) -> Judge:
    """The judge of `sha256sum`."""

    def judge(lines: Sequence[str], status: int) -> None:
        digest = next((match[0] for line in lines if (match := re.match("[0-9a-f]{64}", line.strip()))), None)
        if digest is None or status != 0:
            refuse(lines, status or 1, what)
        if digest != sha256:
            raise MediaVerifyFailedError(
                f"{what}: the board computes {digest}, expected {sha256}. Try again; then look at the medium"
            )

    return judge


def check_device(device: str) -> str:
    """A device for a command.

    Raises:
        ConfigurationError: it is none.
    """
    if not DEVICE.fullmatch(device):
        raise ConfigurationError(f"{device!r:.60}: expected a device such as /dev/mmcblk0")
    return device


def check_offset(offset: int) -> None:
    """Make sure that an offset is a multiple of a sector.

    Raises:
        ConfigurationError: it is no multiple of a sector.
    """
    unit(offset)


def unit(offset: int) -> int:
    """The largest block in which something can be written there, bytes.

    Raises:
        ConfigurationError: it is no multiple of a sector.
    """
    for size in _SIZES:
        if offset % size == 0:
            return size
    raise ConfigurationError(f"offset {offset:#x}: a part must begin at a multiple of {SECTOR_BYTES} bytes there")


def judge_fetch(url: str) -> Judge:
    """The judge of `wget`."""

    def judge(lines: Sequence[str], status: int) -> None:
        if status == 127:
            refuse(lines, status, "wget")
        if _FULL.search("\n".join(lines)):
            raise ConfigurationError(
                f"{url}: the board's Linux has no room for it in /run: {quote(lines)}. Give /run more (`mount -o "
                "remount,size=50% /run` as `prepare` in the env), or write this medium from U-Boot"
            )
        if status != 0:
            raise TftpTimeoutError(
                f"{url}: the board could not load it: {quote(lines)}. Is its cable plugged in, and does a firewall "
                "let it reach the lab host?"
            )

    return judge


def _silent(lines: Sequence[str]) -> None:
    raise BoardStableError(
        f"the board's Linux does not say what is mounted: {quote(lines)}", failure="media_write_failed"
    )


# A shell tells the exit status of a pipe's last command only, and `pipefail` is not in every ash: so the first
# command's is printed behind it, and what went wrong decides the class of a failure, at whichever end of the pipe it
# was.


_SLOWEST_STREAM: Final = 512 * 1024  # bytes a second; an eMMC, a card or a network below that is taken for stalled
_FIRST: Final = "boardlab-first"  # and the exit status of the pipe's first command
_FIRST_LINE: Final = re.compile(rf"{_FIRST} (\d+)")
_SIGPIPE: Final = 128 + 13  # the second command had enough; busybox's dd says so, too
_ENOUGH: Final = re.compile(r"Broken pipe|EPIPE", re.IGNORECASE)


def _pipe(first: str, then: str) -> str:
    return f"{{ {first}; echo {_FIRST} $? >&2; }} | {then}"


def _ends(lines: Sequence[str]) -> tuple[int | None, list[str]]:
    """Exit status of the first command, and the other lines.

    None: there is no status.
    """
    statuses = [match for line in lines if (match := _FIRST_LINE.fullmatch(line.strip()))]
    return int(statuses[0][1]) if statuses else None, [
        line for line in lines if not _FIRST_LINE.fullmatch(line.strip())
    ]


def stream(url: str, device: str, offset: int, count: int) -> Command:
    """Fetch and write at once without a flush (see `flush`)."""
    size = unit(offset)
    text = _pipe(
        f"wget -q -O - {url}", f"dd of={check_device(device)} ibs=64k obs={size} seek={offset // size} conv=notrunc"
    )

    def judge(lines: Sequence[str], status: int) -> None:
        first, output = _ends(lines)
        if status:  # of `dd`; what wget says of it then is of no interest
            refuse([line for line in output if not line.startswith("wget:")], status, text)
        if first:
            judge_fetch(url)(output, first)
        refuse(output, status, text)
        out = re.search(r"(\d+)\+(\d+) records out", "\n".join(output))
        if out is None:
            raise MediaWriteFailedError(f"{text}: {quote(output)}. Try again; then look at the medium")
        if (int(out[1]), int(out[2])) != (count // size, int(count % size > 0)):
            raise TftpTimeoutError(
                f"{url}: not all of {count} bytes came to the board: "
                f"{quote(output)}. Try again; then look at its network"
            )

    return Command(text, judge, RUNNING_LIMIT_S + count / _SLOWEST_STREAM)


def compare(device: str, offset: int, count: int, sha256: str, what: str) -> Command:
    """Read back and compute the digest."""
    size = unit(offset)
    blocks = -(-count // size)
    text = _pipe(
        f"dd if={check_device(device)} bs={size} skip={offset // size} count={blocks}",
        f"head -c {count} | sha256sum",
    )
    return Command(text, _judge_compare(sha256, what), limit_s(count))


def compare_start(device: str, count: int, sha256: str, what: str) -> Command:
    """Compare the start of a device that has other blocks.

    An example is a UBI volume.
    """
    text = _pipe(f"head -c {count} {device}", "sha256sum")
    return Command(text, _judge_compare(sha256, what), limit_s(count))


def _judge_compare(sha256: str, what: str) -> Judge:
    def judge(lines: Sequence[str], status: int) -> None:
        first, output = _ends(lines)
        try:
            digest_is(sha256, what)(output, status)
        except MediaVerifyFailedError:
            if first and first != _SIGPIPE and not any(map(_ENOUGH.search, output)):
                refuse(
                    [line for line in output if not _DIGEST.match(line)], first, f"{what}: the medium cannot be read"
                )
            raise

    return judge


_DIGEST: Final = re.compile(r"\s*[0-9a-f]{64}\b")
