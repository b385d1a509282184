"""The board's own bmaptool: it fetches an image over HTTP, unpacks it, writes what its block map names, and compares the map's checksums with
what came. What the medium then has is read back by us. The texts: bmaptool 3.6, recorded (tests/unit/provision/test_bmaptool.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.provision.failures import ImageDamagedError, MediaVerifyFailedError, MediaWriteFailedError, TftpTimeoutError
from lab.provision.ways.command import Command, limit_s, said
from lab.provision.ways.linuxanswers import SPOOL, refuse

_LOG: Final = f"{SPOOL}.log"
_SHOWN_LINES: Final = 6  # the rest are the steps of a Python traceback
_COLOURS: Final = re.compile(r"\x1b\[\d*m")
_COPIED: Final = re.compile(r"bmaptool: info: copying time: ")
_UNREACHED: Final = re.compile(r"cannot open (?:URL|image|bmap)|urlopen error|timed out")


def ask() -> Command:
    """Whether the board has it."""
    return Command("command -v bmaptool; true", lambda lines, status: refuse(lines, status, "command -v bmaptool"))


def there(lines: Sequence[str]) -> bool:
    """Of `ask`."""
    return any(line.strip().endswith("/bmaptool") for line in lines)


def copy(url: str, bmap_url: str, device: str, count: int) -> Command:
    """Write an image of `count` mapped bytes to a block device."""
    text = f"bmaptool copy --bmap {bmap_url} {url} {device}"

    def judge(lines: Sequence[str], status: int) -> None:
        plain = [_COLOURS.sub("", line) for line in lines]
        words = "\n".join(plain)
        if status == 0 and _COPIED.search(words):
            return
        if "checksum mismatch for bmap file" in words:
            raise ImageDamagedError(f"{text}: {said(plain)}. Make the block map anew (`bmaptool create`)")
        if "checksum mismatch for blocks range" in words:
            raise MediaVerifyFailedError(f"{text}: what came is not what the block map says: {said(plain)}. Try again")
        if _UNREACHED.search(words):
            raise TftpTimeoutError(
                f"{text}: {said(plain)}. Is the board's cable plugged in, and does a firewall let it reach the lab host?"
            )
        refuse(plain, status, text)
        raise MediaWriteFailedError(f"{text}: it did not say that it copied: {said(plain)}. Try again")

    whole = f"{text} >{_LOG} 2>&1; s=$?; tail -n {_SHOWN_LINES} {_LOG}; (exit $s)"
    return Command(whole, judge, limit_s(count))
