"""Writer by the board's own bmaptool, which fetches over HTTP.

It unpacks the image, writes the mapped blocks, and compares the map's checksums with the received data. boardlab reads
the medium back. The texts: bmaptool 3.6, recorded (tests/unit/provision/test_bmaptool.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from lab.provision.errors import ImageDamagedError, MediaVerifyFailedError, MediaWriteFailedError, TftpTimeoutError
from lab.provision.writer import Meter
from lab.provision.writers.command import Command, CommandPrompt, carry_out, quote
from lab.provision.writers.linuxanswers import SECTOR_BYTES, SPOOL, refuse

STALL_S: Final = 300.0  # a board unpacks a long hole for minutes, and writes nothing meanwhile
_LOG: Final = f"{SPOOL}.log"
_END: Final = f"{SPOOL}.end"
_LOOK_S: Final = 5
_SECTORS_WRITTEN: Final = 6  # of /sys/class/block/*/stat (Documentation/block/stat.rst), in 512 bytes
_STAT_FIELDS: Final = 11
_UNPACKERS: Final = {"xz": ("xz",), "zst": ("zstd",), "gz": ("pigz", "gzip")}
_SHOWN_LINES: Final = 6  # the rest are the steps of a Python traceback
_COLOURS: Final = re.compile(r"\x1b\[\d*m")
_COPIED: Final = re.compile(r"bmaptool: info: copying time: ")
_UNREACHED: Final = re.compile(r"cannot open (?:URL|image|bmap)|urlopen error|timed out")


def ask(packing: str) -> Command:
    """Ask whether the board has bmaptool and the unpacking program.

    packing: as of `lab.provision.image.packing`.
    """
    commands = [f"command -v {program}" for program in ("bmaptool", *_UNPACKERS.get(packing, ()))]
    return Command("; ".join([*commands, "true"]), lambda lines, status: refuse(lines, status, commands[0]))


def there(lines: Sequence[str], packing: str) -> bool:
    """Of `ask`."""
    programs = {line.strip().rpartition("/")[2] for line in lines if line.strip().startswith("/")}
    unpackers = _UNPACKERS.get(packing, ())
    return "bmaptool" in programs and (not unpackers or any(program in programs for program in unpackers))


def copy(prompt: CommandPrompt, url: str, bmap_url: str, device: str, count: int, meter: Meter) -> None:
    """Write an image of `count` mapped bytes, and follow the progress.

    Raises:
        WriteStalledError: nothing was written for longer than the meter allows.
        BoardlabError: as of `ask_result`.
    """
    carry_out(prompt, start(url, bmap_url, device))
    before: int | None = None
    left = count
    while True:
        now = progress(carry_out(prompt, look(device)))
        moved = min(left, now.written - before) if now.written is not None and before is not None else 0
        before = now.written if now.written is not None else before
        if moved > 0:
            left -= moved
            meter.add(moved)
        if now.ended:
            break
        meter.check()
    carry_out(prompt, ask_result(url, bmap_url, device))
    if left:
        meter.add(left)


def start(url: str, bmap_url: str, device: str) -> Command:
    """Have it begin, behind the prompt."""
    text = _text(url, bmap_url, device)
    whole = f"rm -f {_END}; ( {text} >{_LOG} 2>&1; echo $? >{_END} ) >/dev/null 2>&1 </dev/null &"
    return Command(whole, lambda lines, status: refuse(lines, status, text))


def look(device: str) -> Command:
    """Ask for bmaptool's end and the bytes written since boot.

    It waits some seconds, or until the end.
    """
    wait = f"i=0; while [ ! -s {_END} ] && [ $i -lt {_LOOK_S} ]; do sleep 1; i=$((i + 1)); done"
    text = f"{wait}; cat {_END} /sys/class/block/{device.rpartition('/')[2]}/stat 2>/dev/null; true"
    return Command(text, lambda lines, status: refuse(lines, status, "bmaptool: its progress"))


@frozen
class BmapProgress:
    """Progress of `look`.

    written: bytes since the board booted; None: not printed.
    """

    ended: bool
    written: int | None


def progress(lines: Sequence[str]) -> BmapProgress:
    """Parse the answer to `look`."""
    numbers = [line.split() for line in lines if line.replace(" ", "").strip().isdigit()]
    stat = next((fields for fields in numbers if len(fields) >= _STAT_FIELDS), None)
    written = int(stat[_SECTORS_WRITTEN]) * SECTOR_BYTES if stat else None
    return BmapProgress(any(len(fields) == 1 for fields in numbers), written)


def ask_result(url: str, bmap_url: str, device: str) -> Command:
    """Ask for bmaptool's last output and its exit status."""
    text = _text(url, bmap_url, device)

    def judge(lines: Sequence[str], status: int) -> None:
        plain = [_COLOURS.sub("", line) for line in lines]
        output = "\n".join(plain)
        if status == 0 and _COPIED.search(output):
            return
        if "checksum mismatch for bmap file" in output:
            raise ImageDamagedError(f"{text}: {quote(plain)}. Make the block map anew (`bmaptool create`)")
        if "checksum mismatch for blocks range" in output:
            raise MediaVerifyFailedError(
                f"{text}: the received data does not match the block map: {quote(plain)}. Try again"
            )
        if _UNREACHED.search(output):
            raise TftpTimeoutError(
                f"{text}: {quote(plain)}. Is the board's cable plugged in, and "
                "does a firewall let it reach the lab host?"
            )
        refuse(plain, status, text)
        raise MediaWriteFailedError(f"{text}: it did not say that it copied: {quote(plain)}. Try again")

    return Command(f"tail -n {_SHOWN_LINES} {_LOG}; (exit $(cat {_END}))", judge)


def _text(url: str, bmap_url: str, device: str) -> str:
    return f"bmaptool copy --bmap {bmap_url} {url} {device}"
