"""Interface between the bench and kinds of virtual boards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from attrs import frozen

from lab.host.clock import Clock
from lab.virtual.rails.sensors import RailTrouble
from lab.virtual.uart import UartAdapter


class BoardPower(StrEnum):
    """A board's state, as the bench has verified it.

    DEAD: the power input is on, yet the board ended by itself (QEMU crashed, was killed, or the guest shut down).
    """

    OFF = "off"
    ON = "on"
    DEAD = "dead"


@frozen
class BoardFolder:
    """Paths of a board's files.

    Attributes:
        path: the board's folder; its last part is the board's name.
    """

    path: Path

    @property
    def name(self) -> str:
        """The board's name."""
        return self.path.name

    @property
    def straps(self) -> Path:
        """The folder of the boot-mode straps (`lab.virtual.straps`)."""
        return self.path / "straps"

    @property
    def truth_log(self) -> Path:
        """Log of the true events (`lab.virtual.truth_log`)."""
        return self.path / "truth.log"

    def truth_of(self, uart: str) -> Path:
        """The truth log of a UART that is not the console."""
        return self.path / f"truth-{uart}.log"

    @property
    def rails(self) -> Path:
        """The socket of the I2C bus with the rails' sensors (`lab.virtual.rails.wiring`)."""
        return self.path / "rails.sock"

    @property
    def automation(self) -> Path:
        """The link to the pty of its Automation Interface (`lab.virtual.rails.automation`)."""
        return self.path / "automation"

    @property
    def tester(self) -> Path:
        """Process number in the tester's network namespace (`lab.virtual.qemu.cable`)."""
        return self.path / "tester.pid"

    @property
    def tftp(self) -> Path:
        """Files for the board's U-Boot, where QEMU plays the network."""
        return self.path / "tftp"

    @property
    def qemu_log(self) -> Path:
        """Output of QEMU."""
        return self.path / "qemu.log"

    def uart(self, name: str) -> Path:
        """The link to a UART's pty."""
        return self.path / name

    @property
    def media(self) -> Path:
        """The folder of the media."""
        return self.path / "media"

    @property
    def sdmux(self) -> Path:
        """Folder of the card away from the board (`lab.virtual.sdmux`)."""
        return self.path / "sdmux"

    def medium(self, name: str) -> Path:
        """The image of a medium."""
        return self.media / f"{name}.img"


class Backend(Protocol):
    """A board behind its power input, for any number of cycles.

    Attributes:
        died_hook: called with a reason when the board ends by itself.
        state_hook: called with the board's state from an instant on, in the words of `lab.virtual.rails.levels`.
        release, seed: of a simulated board; "" and 0 for others.
    """

    died_hook: Callable[[str], None]
    state_hook: Callable[[str, int], None]
    release: str
    seed: int

    def troubles(self) -> Sequence[RailTrouble]:
        """The faults at work."""
        ...

    async def power_on(self, straps: int) -> int:
        """Reset the board and release it with these boot-mode straps.

        Returns, once it runs, the clock's reading just before it was released, in nanoseconds.

        Raises:
            LabError: it does not run, and nothing of it is left.
        """
        ...

    async def power_off(self) -> None:
        """Take the power away, and wait until nothing runs any more."""
        ...


@frozen
class BoardAccess:
    """Addresses of a board of a running bench.

    Attributes:
        pdudaemon, switch: host:port of pdudaemon and of the bench's own power switch and panel.
        latency_timer_ms: of its USB adapters.
    """

    folder: BoardFolder
    pdudaemon: str
    switch: str
    latency_timer_ms: float


@runtime_checkable
class Misbehaving(Protocol):
    """A backend that can be made to misbehave while it runs."""

    def faults(self) -> Mapping[str, object]:
        """Active and planned faults of the board."""
        ...

    def inject(self, order: Mapping[str, str]) -> None:
        """Plan a fault, or start it now.

        `order` has the fault's name under "fault", and its parameters.

        Raises:
            ConfigurationError: no such fault or parameter.
        """
        ...

    def clear(self) -> None:
        """Forget all faults, those of the scenario too."""
        ...


@runtime_checkable
class Wakeable(Protocol):
    """A backend with inputs that wake its board."""

    @property
    def pins(self) -> Sequence[str]:
        """Their names."""
        ...

    def pulse(self, pin: str) -> None:
        """Activity on a pin."""
        ...


@runtime_checkable
class Signalling(Protocol):
    """A backend whose board's application shows when it is ready.

    Attributes:
        ready_hook: called when it has become so.
    """

    ready_hook: Callable[[], None]

    @property
    def ready(self) -> bool:
        """True if it is."""
        ...


class BoardKind(Protocol):
    """A kind of virtual board, under the name of its board type."""

    def prepare(self, folder: BoardFolder, *, fresh: bool, report: Callable[[str], None]) -> None:
        """Fill a board's folder before the bench starts; idempotent.

        Args:
            fresh: replace media that the board may have written.

        Raises:
            LabError, ConfigurationError: something is missing and cannot be had.
        """
        ...

    def backend(self, folder: BoardFolder, adapters: Mapping[str, UartAdapter], clock: Clock) -> Backend:
        """Board of a prepared folder, switched off.

        `adapters` are those of its UARTs, by name.
        """
        ...

    def environment(self, place: BoardAccess) -> str:
        """The text of a labgrid environment for the board."""
        ...


@frozen
class BoardSpec:
    """A board that the bench shall have."""

    name: str
    board_type: str
    kind: BoardKind
