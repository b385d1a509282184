"""Pipes that a Linux on the board runs: fetched and written, or read and its digest computed.

A shell tells the exit status of a pipe's last command only, and `pipefail` is not in every ash: so the first command's is printed behind it,
and what went wrong decides the class of a failure, at whichever end of the pipe it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.provision.failures import MediaVerifyFailedError, MediaWriteFailedError, TftpTimeoutError
from lab.provision.ways.command import Command, Judge, limit_s, said
from lab.provision.ways.linuxanswers import RUNNING_LIMIT_S, checked_device, digest_is, fetched, refuse, unit

_SLOWEST_STREAM: Final = 512 * 1024  # bytes a second; an eMMC, a card or a network below that is taken for stalled
_FIRST: Final = "boardlab-first"  # and the exit status of the pipe's first command
_FIRST_LINE: Final = re.compile(rf"{_FIRST} (\d+)")
_SIGPIPE: Final = 128 + 13  # the second command had enough; busybox's dd says so, too
_ENOUGH: Final = re.compile(r"Broken pipe|EPIPE", re.IGNORECASE)


def _piped(first: str, then: str) -> str:
    return f"{{ {first}; echo {_FIRST} $? >&2; }} | {then}"


def _ends(lines: Sequence[str]) -> tuple[int | None, list[str]]:
    """The first command's exit status (None: it is not there), and the other lines."""
    found = [match for line in lines if (match := _FIRST_LINE.fullmatch(line.strip()))]
    return int(found[0][1]) if found else None, [line for line in lines if not _FIRST_LINE.fullmatch(line.strip())]


def stream(url: str, device: str, offset: int, count: int) -> Command:
    """Write what is fetched while it comes, and do not wait until the device has it: `linuxanswers.flush` does."""
    size = unit(offset)
    text = _piped(
        f"wget -q -O - {url}", f"dd of={checked_device(device)} ibs=64k obs={size} seek={offset // size} conv=notrunc"
    )
    return Command(text, _streamed(url, count, size, text), RUNNING_LIMIT_S + count / _SLOWEST_STREAM)


def compare(device: str, offset: int, count: int, sha256: str, what: str) -> Command:
    """Read back and compute the digest."""
    size = unit(offset)
    blocks = -(-count // size)
    text = _piped(
        f"dd if={checked_device(device)} bs={size} skip={offset // size} count={blocks}",
        f"head -c {count} | sha256sum",
    )
    return Command(text, _compared(sha256, what), limit_s(count))


def compare_start(device: str, count: int, sha256: str, what: str) -> Command:
    """The same of the start of a device that cannot be read in blocks of ours, e.g. a UBI volume."""
    text = _piped(f"head -c {count} {device}", "sha256sum")
    return Command(text, _compared(sha256, what), limit_s(count))


def _streamed(url: str, count: int, size: int, what: str) -> Judge:
    def judge(lines: Sequence[str], status: int) -> None:
        first, told = _ends(lines)
        if status:  # of `dd`; what wget says of it then is of no interest
            refuse([line for line in told if not line.startswith("wget:")], status, what)
        if first:
            fetched(url)(told, first)
        refuse(told, status, what)
        out = re.search(r"(\d+)\+(\d+) records out", "\n".join(told))
        if out is None:
            raise MediaWriteFailedError(f"{what}: {said(told)}. Try again; then look at the medium")
        if (int(out[1]), int(out[2])) != (count // size, int(count % size > 0)):
            raise TftpTimeoutError(
                f"{url}: not all of {count} bytes came to the board: {said(told)}. Try again; then look at its network"
            )

    return judge


def _compared(sha256: str, what: str) -> Judge:
    def judge(lines: Sequence[str], status: int) -> None:
        first, told = _ends(lines)
        try:
            digest_is(sha256, what)(told, status)
        except MediaVerifyFailedError:
            if first and first != _SIGPIPE and not any(map(_ENOUGH.search, told)):
                refuse([line for line in told if not _DIGEST.match(line)], first, f"{what}: the medium cannot be read")
            raise

    return judge


_DIGEST: Final = re.compile(r"\s*[0-9a-f]{64}\b")
