"""Faults of the console's line and of its USB serial adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, point, share
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, Pause, Program, Say

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer


_INTACT_LINES = 8  # of the kernel's log, before any is lost: they include the required lines of a boot
_UNREADABLE = FaultOutcome(("garbled",), "lab", transient=True)
_DAMAGED = (
    "moment_missing",
    "moment_order",
    "hang_before_login",
    "hang_kernel",
    "hang_uboot",
    "hang_spl",
    "wrong_medium",
    "garbled",
    "prompt_broken",
    "reset",
)


def _chance(*, fault: str = "") -> FaultOutcome:
    return FaultOutcome(_DAMAGED, fault, transient=True, may_succeed=True)


@define(kw_only=True, eq=False)
class Dropped(Fault):
    """Characters to the host are lost, e.g. by an adapter's overrun."""

    name: ClassVar[str] = "dropped"
    outcome: ClassVar[FaultOutcome] = _chance()
    share: float = field(default=0.002, validator=share)

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return bytes(byte for byte in data if self.dice.random() >= self.share)


@define(kw_only=True, eq=False)
class LinesLost(Fault):
    """An adapter overrun loses some forty lines of the kernel's log.

    They are lost from the middle of one to the middle of another, in several pieces; or as whole lines.
    """

    name: ClassVar[str] = "lines_lost"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=("console_overrun",), may_carry=("clock_disagrees",))
    lines: int = field(default=40, validator=validators.ge(1))
    pieces: int = field(default=8, validator=validators.ge(1))
    whole: bool = False
    _seen: int = field(default=0, init=False)

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        if not data.startswith(b"["):
            return data
        self._seen += 1
        whole = max(self.lines // self.pieces - 1, 0)
        number, place = divmod(self._seen - _INTACT_LINES, whole + 4)  # two of four are torn, two stay whole
        if self._seen < _INTACT_LINES or number >= self.pieces or place > whole + 1:
            return data
        if self.whole:
            return b""
        cut = self.dice.randrange(1, len(data) - 2)
        return data[:cut] if place == 0 else data[cut:] if place == whole + 1 else b""


@define(kw_only=True, eq=False)
class Duplicated(Fault):
    """Characters come twice."""

    name: ClassVar[str] = "duplicated"
    outcome: ClassVar[FaultOutcome] = _chance()
    share: float = field(default=0.002, validator=share)

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return b"".join(bytes([byte] * (2 if self.dice.random() < self.share else 1)) for byte in data)


@define(kw_only=True, eq=False)
class Garbled(Fault):
    """Characters change on their way, e.g. by a bad ground: bits flip."""

    name: ClassVar[str] = "garbled"
    outcome: ClassVar[FaultOutcome] = _chance()
    share: float = field(default=0.002, validator=share)

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return bytes(
            byte ^ (1 << self.dice.randrange(8)) if self.dice.random() < self.share else byte for byte in data
        )


@define(kw_only=True, eq=False)
class WrongBaud(Fault):
    """Board and host use different speeds: everything is garbage."""

    name: ClassVar[str] = "wrong_baud"
    outcome: ClassVar[FaultOutcome] = _UNREADABLE

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return bytes(self.dice.choice((0x00, 0x80, 0xF8, 0xFE, 0xE6, 0x9E, 0x66, 0x78)) for _ in data)


@define(kw_only=True, eq=False)
class NulStorm(Fault):
    """The line is held low: the adapter only reports NUL."""

    name: ClassVar[str] = "nul_storm"
    outcome: ClassVar[FaultOutcome] = _UNREADABLE

    def beside(self, computer: Computer) -> Program[None]:
        return self._storm(computer)

    def _storm(self, computer: Computer) -> Program[None]:
        while True:
            yield Say(computer.console, bytes(64))
            yield Pause(NS_PER_MS)

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return bytes(len(data))


@define(kw_only=True, eq=False)
class Flood(Fault):
    """A driver logs without end, at the console's full speed."""

    name: ClassVar[str] = "flood"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("log_flood",), "board", transient=True)
    bytes_per_s: int = field(default=1_000_000, validator=validators.ge(1000))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point != "kernel.middle":
            return
        speed_bd = computer.machine.speed_bd[computer.console]
        computer.set_speed(self.bytes_per_s * 10)
        line = "[    2.000000] spi_master spi0: will run message pump with realtime priority"
        try:
            while True:
                yield from computer.say((line + "\n") * 64)
        finally:
            computer.set_speed(speed_bd)


@define(kw_only=True, eq=False)
class SilentConsole(Fault):
    """The board's transmit line is cut: it boots unheard."""

    name: ClassVar[str] = "silent_console"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("silent",), "board", transient=True)

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return b""


@define(kw_only=True, eq=False)
class PromptInterleaved(Fault):
    """A kernel message comes in the middle of the login prompt."""

    name: ClassVar[str] = "prompt_interleaved"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("prompt_broken",), "test", transient=True)
    _armed: bool = field(default=False, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        self._armed = self._armed or point == "login"
        yield from ()

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        head, found, tail = data.partition(b"login: ")
        if not (self._armed and found):
            return data
        self._armed = False
        message = b"[   16.412907] random: 7 urandom warning(s) missed due to ratelimiting\r\n"
        return head + b"lo" + message + b"gin: " + tail


@define(kw_only=True, eq=False)
class _AtPrompt(Fault):
    """Changes the login prompt, once, and says something later."""

    _computer: Computer | None = field(default=None, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        self._computer = computer if point == "login" else None
        yield from ()

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        head, found, tail = data.partition(b"login: ")
        if self._computer is None or not found:
            return data
        computer, self._computer = self._computer, None
        now, later, pause_ms = self.change(computer, tail)
        computer.machine.spawn(self._later(computer, later, pause_ms))
        return head + now

    def change(self, computer: Computer, tail: bytes) -> tuple[bytes, bytes, float]:
        """Bytes in place of "login: " and the `tail` behind it, bytes for later, and the pause between them."""
        raise NotImplementedError

    def _later(self, computer: Computer, data: bytes, pause_ms: float) -> Program[None]:
        yield Pause(round(pause_ms * NS_PER_MS))
        yield Say(computer.console, data)


@define(kw_only=True, eq=False)
class PromptDamaged(_AtPrompt):
    """The login prompt comes with a wrong character, and once more later."""

    name: ClassVar[str] = "prompt_damaged"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=("prompt_repeated",), may_carry=("uncertain",))
    again_ms: float = field(default=5000.0, validator=validators.ge(0.0))

    def change(self, computer: Computer, tail: bytes) -> tuple[bytes, bytes, float]:
        again = f"\r\n{computer.model.identity.hostname} login: ".encode()
        return b"lowin: " + tail, again, self.again_ms  # one bit of the g


@define(kw_only=True, eq=False)
class PromptSplit(_AtPrompt):
    """The login prompt comes in two pieces, with a pause between them."""

    name: ClassVar[str] = "prompt_split"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    pause_ms: float = field(default=120.0, validator=validators.ge(0.0))

    def change(self, _computer: Computer, tail: bytes) -> tuple[bytes, bytes, float]:
        return b"lo", b"gin: " + tail, self.pause_ms


@define(kw_only=True, eq=False)
class InputLost(Fault):
    """Typed characters are lost, e.g. since a FIFO overflows."""

    name: ClassVar[str] = "input_lost"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(
        ("characters_lost",), "lab", transient=True, may_succeed=True, trial="login"
    )
    share: float = field(default=0.02, validator=share)
    from_point: str = field(default="login", validator=point)
    _active: bool = field(default=False, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        self._active = self._active or point == self.from_point
        yield from ()

    def to_board(self, uart: str, data: bytes, now_ns: int) -> bytes:
        if not self._active:
            return data
        return bytes(byte for byte in data if self.dice.random() >= self.share)


# --- Faults of the console's USB adapter ---


@define(kw_only=True, eq=False)
class AdapterLost(Fault):
    """The console's USB adapter is unplugged and comes back unchanged."""

    name: ClassVar[str] = "adapter_lost"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("adapter_lost",), "lab", transient=True)
    renumbered: ClassVar[bool] = False
    at_point: str = field(default="kernel.middle", validator=point)
    seconds: float = field(default=1.5, validator=validators.ge(0.0))
    _struck: bool = field(default=False, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == self.at_point and not self._struck:
            self._struck = True
            computer.machine.unplug(computer.console)
            computer.machine.spawn(self._back(computer))
        yield from ()

    def _back(self, computer: Computer) -> Program[None]:
        try:
            yield Pause(round(self.seconds * NS_PER_S))
        finally:  # it comes back even when the board loses its power meanwhile
            computer.machine.plug(computer.console, renumbered=self.renumbered)


@define(kw_only=True, eq=False)
class AdapterRenumbered(AdapterLost):
    """The console's USB adapter is unplugged and comes back renumbered."""

    name: ClassVar[str] = "adapter_renumbered"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("adapter_renumbered",), "lab", transient=True)
    renumbered: ClassVar[bool] = True
