"""Programs of a processor: generators of effects.

They print, wait and listen.

Programs know no clock and no file. A `Machine` carries their effects out, in real or in virtual time.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, TypeVar

from attrs import frozen

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

T = TypeVar("T")


@frozen
class Pause:
    """Do nothing for that long."""

    ns: int


@frozen
class Say:
    """Send bytes; goes on when the FIFO took the last."""

    uart: str
    data: bytes


@frozen
class Drain:
    """Wait until the UART has sent all that it was given."""

    uart: str


@frozen
class Hear:
    """Wait for a byte on any of these UARTs.

    The answer is a `Typed`, or None when the time is over.

    Attributes:
        timeout_ns: 0 takes only what is there already; None waits for ever.
    """

    uarts: tuple[str, ...]
    timeout_ns: int | None = None


@frozen
class Typed:
    """A byte that came in."""

    uart: str
    byte: int


Effect: TypeAlias = Pause | Say | Drain | Hear
Program: TypeAlias = Generator[Effect, Typed | None, T]


class CpuResetError(Exception):
    """The processor resets and restarts at the boot ROM; power stays."""


class WarmRestartError(Exception):
    """U-Boot starts anew, without the boot ROM and SPL."""


class KexecError(Exception):
    """Another kernel takes over from the running one, without U-Boot."""


class PowerDownError(Exception):
    """The board switched itself off; the power input brings it back.

    Args:
        wakes: UARTs and pins that still bring it back as a cold boot (partial I/O, RTC only).
        mode: the low-power mode that it is in; empty: none.
        alarm_ns: time until its RTC brings it back; None: it does not.
    """

    def __init__(self, *wakes: str, mode: str = "", alarm_ns: int | None = None) -> None:
        super().__init__(*wakes)
        self.wakes = wakes
        self.mode = mode
        self.alarm_ns = alarm_ns


# --- Programs that end early ---


# Options whose next word is a duration or an amount of work: iperf3, netperf, cyclictest, cangen, stress-ng.
_AMOUNTS: Final = frozenset({"-t", "-l", "-D", "-n", "--timeout"})


@frozen
class Interruption:
    """A program that ends before its time.

    Attributes:
        share: of the time that it was asked for.
        text: its error; empty: it says nothing.
        status: its exit status.
    """

    share: float
    text: str
    status: int

    def shortened(self, arguments: Sequence[str]) -> list[str]:
        """The arguments of a program that does that share of its work."""
        words = list(arguments)
        for at, word in enumerate(words):
            option = words[at - 1] if at else ""
            if (option in _AMOUNTS and word.rstrip("s").isdigit()) or word.startswith(("--runtime=", "--time=")):
                words[at] = re.sub(
                    r"\d+", lambda number: str(max(1, round(int(number[0]) * self.share))), word, count=1
                )
        return words
