"""A command at a board's prompt, together with what its answer must say. What the answer says decides, never its exit status alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from attrs import frozen

from lab.errors import BoardTransientError
from lab.provision.failures import TftpTimeoutError, WriteStalledError
from lab.provision.irreversible import refused_if_irreversible

SHORT_S = 30.0
_SHOWN_CHARACTERS = 160
_SLOWEST = 64 * 1024  # bytes a second: a NOR flash that erases and writes (Snagfactory: 64 MB in 426 s is 150 kB/s)
_LEAST_S = 30.0

Judge: TypeAlias = Callable[[Sequence[str], int], None]
"""Takes the lines of an answer and the exit status; raises one of lab.provision.failures where it is not the good one."""


class Prompt(Protocol):
    """A prompt of U-Boot or of Linux, e.g. `lab.drivers.prompt.Prompt`."""

    def run(self, cmd: str, timeout: float = ...) -> tuple[list[str], list[str], int]:
        """The lines of a command's output, those of its errors, and its exit status."""


@frozen
class Command:
    """A command and how its answer is judged.

    Attributes:
        limit_s: seconds until it must have ended. loads: it waits for the network and writes nothing.
    """

    text: str
    judge: Judge
    limit_s: float = SHORT_S
    loads: bool = False


def carry_out(prompt: Prompt, command: Command) -> list[str]:
    """Type a command, judge its answer, and return its lines.

    Raises:
        WriteStalledError: it did not end in time; TftpTimeoutError, where it loads.
        BoardlabError: as the prompt raised it, or as the answer was judged.
    """
    try:
        out, err, status = prompt.run(refused_if_irreversible(command.text), timeout=command.limit_s)
    except BoardTransientError as error:
        if not error.failure.endswith("_timeout"):
            raise
        if command.loads:
            raise TftpTimeoutError(
                f"`{command.text}` did not end within {command.limit_s:.0f} s: the network carries nothing any more, or the board started anew "
                "meanwhile; the console's log shows what it said. Is the board's cable plugged in, and the network not full? The next try "
                "switches the board off and on"
            ) from error
        raise WriteStalledError(
            f"`{command.text}` did not end within {command.limit_s:.0f} s, or the board started anew meanwhile; the console's log shows what it "
            "said. The next try switches it off and on, and writes anew; if it stalls again there, look at the medium and at the supply"
        ) from error
    lines = [*out, *err]
    command.judge(lines, status)
    return lines


def fits(value: int, most: int) -> int:
    """A number for a command, which must lie from 0 to `most`."""
    if not 0 <= value <= most:
        raise ValueError(f"{value:#x}: expected a number from 0 to {most:#x}")
    return value


def limit_s(count: int) -> float:
    """Seconds that a command may take for so many bytes on the slowest medium."""
    return _LEAST_S + count / _SLOWEST


def said(lines: Sequence[str]) -> str:
    """The end of an answer, for a message."""
    text = " / ".join(line.strip() for line in lines if line.strip())
    return f"it said {text[-_SHOWN_CHARACTERS:]!r}" if text else "it said nothing"
