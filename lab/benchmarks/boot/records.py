"""The records of a boot."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

START = "starting_kernel"
EFI_START = "efi_stub"  # of a kernel that EFI starts
ENDS = ("login", "shell")  # whichever comes first


class MomentLike(Protocol):
    """The package's interface of a moment (lab.console.moments.Moment)."""

    @property
    def name(self) -> str: ...
    @property
    def t_ns(self) -> int: ...
    @property
    def uncertainty_ns(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def text(self) -> str: ...


@frozen
class PowerEdge:
    """A power-on between its request and its acknowledgement.

    Times are in ns of the console's clock.

    Attributes:
        off_verified: the board was alive before it was switched off, so that its silence proves power off.
        on_verified: other boots or the rails confirm the instant.
        rose_ns: earliest and latest instant at which the first rail rose; None: not sensed.
    """

    requested_ns: int
    acknowledged_ns: int
    off_verified: bool = True
    on_verified: bool = True
    rose_ns: tuple[int, int] | None = None
