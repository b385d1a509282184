"""Commands at a board's prompt, with a judge of each answer.

The answer's text decides, never its exit status alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from attrs import frozen

from lab.errors import BoardTransientError, TestStableError
from lab.provision.errors import TftpTimeoutError, WriteStalledError

SHORT_S = 30.0
_SHOWN_CHARACTERS = 160
_SLOWEST = 64 * 1024  # bytes a second: a NOR flash that erases and writes (Snagfactory: 64 MB in 426 s is 150 kB/s)
_LEAST_S = 30.0

Judge: TypeAlias = Callable[[Sequence[str], int], None]
"""Takes the lines of an answer and the exit status; raises one of lab.provision.errors where it is not the good one."""


class CommandPrompt(Protocol):
    """A prompt of U-Boot or of Linux, e.g. `lab.drivers.prompt.Prompt`."""

    def run(self, cmd: str, timeout: float = ...) -> tuple[list[str], list[str], int]:
        """Run a command: lines of its output, of its errors, exit status."""


@frozen
class Command:
    """A command and how its answer is judged.

    Attributes:
        limit_s: seconds until it must have ended.
        loads: it waits for the network and writes nothing.
    """

    text: str
    judge: Judge
    limit_s: float = SHORT_S
    loads: bool = False


def carry_out(prompt: CommandPrompt, command: Command) -> list[str]:
    """Type a command, judge its answer, and return its lines.

    Raises:
        WriteStalledError: it did not end in time; TftpTimeoutError, where it loads.
        BoardlabError: as the prompt raised it, or as the answer was judged.
    """
    try:
        out, err, status = prompt.run(refuse_irreversible(command.text), timeout=command.limit_s)
    except BoardTransientError as error:
        if not error.failure.endswith("_timeout"):
            raise
        if command.loads:
            raise TftpTimeoutError(
                f"`{command.text}` did not end within {command.limit_s:.0f} s: the network carries nothing any more, "
                "or the board started anew meanwhile; the console's log shows what it said. Is the board's cable "
                "plugged in, and the network not full? The next try switches the board off and on"
            ) from error
        raise WriteStalledError(
            f"`{command.text}` did not end within {command.limit_s:.0f} s, or the board started anew meanwhile; the "
            "console's log shows what it said. The next try switches it off and on, and writes anew; if it stalls "
            "again there, look at the medium and at the supply"
        ) from error
    lines = [*out, *err]
    command.judge(lines, status)
    return lines


@contextmanager
def ending_on_error(end: Callable[[], None]) -> Iterator[None]:
    """End a writer whose work fails, so that it leaves the board's prompt."""
    try:
        yield
    except BaseException:
        end()
        raise


def fits(value: int, most: int) -> int:
    """Return `value` if it is in 0..`most`.

    Raises:
        ValueError: it is not.
    """
    if not 0 <= value <= most:
        raise ValueError(f"{value:#x}: expected a number from 0 to {most:#x}")
    return value


def limit_s(count: int) -> float:
    """Time limit in seconds for so many bytes on the slowest medium."""
    return _LEAST_S + count / _SLOWEST


def quote(lines: Sequence[str]) -> str:
    """The end of an answer, for a message."""
    text = " / ".join(line.strip() for line in lines if line.strip())
    return f"it said {text[-_SHOWN_CHARACTERS:]!r}" if text else "it said nothing"


# Of U-Boot (cmd/mmc.c, cmd/fuse.c, cmd/sf.c, cmd/otp), of Linux (mmc-utils, spi-nor), of fastboot. A pattern -> what
# it would do.
IRREVERSIBLE: Final[dict[str, str]] = {
    r"\bmmc\s+rst-function\b": "writes EXT_CSD[162], which can be written once",
    r"\bmmc\s+hwpartition\b.*\bcomplete\b": "fixes the eMMC's hardware partitions for ever",
    r"\bmmc\s+(?:bootpart-resize|wp|rpmb\s+key)\b": (
        "changes the eMMC's boot partitions, its protection or its RPMB key for ever"
    ),
    r"\bmmc\s+(?:hwreset|bkops|cache)\s+(?:enable|disable)\b": "writes registers of the eMMC that can be written once",
    r"\bmmc\s+bkops-enable\b": "writes EXT_CSD[163], part of which can be written once",
    r"\bmmc\s+(?:gp|enh_area)\s+\w+.*-y\b|\bmmc\s+write_reliability\b": "completes the eMMC's partitioning for ever",
    r"\bmmc\s+writeprotect\s+(?:boot|user)\s+set\b": "may protect the eMMC for ever",
    r"\bmmc\s+extcsd\s+write\b": "writes any register of the eMMC",
    r"\b(?:fuse|efuse)\s+(?:prog|override|writebuff|sense-prog)\b|\bfuse\s+prog\b": "burns fuses of the SoC",
    r"\b(?:otp|keywriter|mac_efuse)\b": "burns one-time memory",
    r"\bsf\s+(?:protect|lock|otp)\b|\bflash_(?:lock|otp_(?:write|lock|erase))\b": (
        "locks the flash or writes its one-time area"
    ),
    r"\b(?:nand|mtd)\s+(?:markbad|otp\w*)\b|\bnand\s+(?:lock|scrub)\b": (
        "marks blocks bad, or loses their marks, for ever"
    ),
    r"\bnand\s+erase\.(?:part|chip)\b.*\bscrub\b": "loses the marks of bad blocks for ever",
    r"\b(?:flashing|oem)\s+(?:lock|lock_critical)\b": "locks the bootloader",
}
_COMPILED: Final = [(re.compile(pattern), does) for pattern, does in IRREVERSIBLE.items()]


def irreversible(command: str) -> str:
    """Irreversible effect of a command; empty: everything can be undone."""
    text = " ".join(command.split())
    return next((does for pattern, does in _COMPILED if pattern.search(text)), "")


def refuse_irreversible(command: str) -> str:
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
