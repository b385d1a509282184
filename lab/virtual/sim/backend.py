"""A simulated board on the bench, in the host's time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from lab.boards import SLEEP_MODES
from lab.errors import LabTransientError
from lab.host.clock import Clock
from lab.virtual.rails import levels
from lab.virtual.sim.board import SimBoard
from lab.virtual.sim.boot import life
from lab.virtual.sim.faulthooks import FaultHooks, Switching
from lab.virtual.sim.faults import catalogue
from lab.virtual.sim.faults.base import Fault
from lab.virtual.sim.linux.sleep import PINS
from lab.virtual.sim.model import model
from lab.virtual.sim.network import LoopbackTftp
from lab.virtual.sim.setup import SimConfig
from lab.virtual.uart import UartAdapter

_HANG_S = 60.0  # longer than anybody waits for a PDU


# The stages of a board as states of its rails (lab/virtual/rails/levels.py); all others are stages of a boot.
_STATES = {
    "powered-down": levels.OFF,
    "partial-io": "partial_io",
    "rtc-only": "rtc_only",
    "rom": levels.ROM,
    "rom-without-medium": levels.ROM,
    "reset": levels.ROM,
    "login": levels.IDLE,
    "shell": levels.IDLE,
    "bare-shell": levels.IDLE,
    "uboot-prompt": levels.BUSY,
    "load": levels.BUSY,
    "suspend": levels.BUSY,
    "resume": levels.BUSY,
    **{mode: mode for mode in SLEEP_MODES},
}


def _nobody(_reason: str) -> None: ...


def _no_rails(_state: str, _t_ns: int) -> None: ...


def _unheard() -> None: ...


class SimBackend:
    """A `lab.virtual.board.Backend`; a waiting one costs nothing.

    Any number of them share a process.
    """

    def __init__(self, board_type: str, config: SimConfig, adapters: Mapping[str, UartAdapter], clock: Clock) -> None:
        self.died_hook: Callable[[str], None] = _nobody
        self.state_hook: Callable[[str, int], None] = _no_rails
        self.ready_hook: Callable[[], None] = _unheard
        self._adapters = adapters
        self._clock = clock
        made = model(board_type, config.release or None)
        made.check(config.setup)
        console = adapters[made.board.console.name]
        self._pacer, self._truth = console.pacer, console.truth
        self.board = SimBoard(
            made, adapters, life, config.seed, config.time_scale, config.setup, troubles_for=self._faults_for
        )
        self.board.network = LoopbackTftp()
        self._plans = [catalogue.read_plan(words, config.seed) for words in config.faults]
        self.release, self.seed = made.release_name, config.seed
        self._cleared = asyncio.Event()
        self.board.note_hook = self._note
        self.board.dark_hook = self._dark
        self.board.died_hook = self._died
        self.board.ready_hook = self._ready

    async def power_on(self, straps: int) -> int:
        """Power the board; a faulty PDU does something else.

        Raises:
            LabTransientError: the PDU answers with an error.
            ConnectionAbortedError: it closes the connection.
        """
        now_ns = self._clock.now_ns()
        for name, adapter in self._adapters.items():
            adapter.listen(self._receiver(name))
        switching = self.board.power_on(straps, now_ns)
        self._pacer.update(self)
        await self._answer(switching)
        return now_ns

    async def power_off(self) -> None:
        """Switch the board off; it or the PDU may be faulty.

        Raises:
            LabTransientError: the PDU answers with an error.
            ConnectionAbortedError: it closes the connection.
        """
        switching = self.board.power_off(self._clock.now_ns())
        self._pacer.update(self)
        await self._answer(switching)

    def troubles(self) -> Sequence[FaultHooks]:
        return self.board.troubles

    def faults(self) -> Mapping[str, object]:
        at_work = [fault.name for fault in self.board.troubles if isinstance(fault, Fault)]
        return {"cycle": self.board.cycle, "now": at_work, "planned": [planned.words() for planned in self._plans]}

    def inject(self, order: Mapping[str, str]) -> None:
        """Plan a fault.

        `cycles` may also be "next", the default, or "now".
        """
        when = order.get("cycles", "next")
        cycles = str(self.board.cycle + 1) if when in {"next", "now"} else when
        planned = catalogue.read_plan({**order, "cycles": cycles}, self.seed)
        if when == "now":
            self.board.add_trouble(planned.fault(self.board.cycle))
            self._pacer.update(self)
        else:
            self._plans.append(planned)

    def clear(self) -> None:
        self._plans.clear()
        self.board.clear_troubles()
        self._cleared.set()

    @property
    def pins(self) -> Sequence[str]:
        return [pin for pin in PINS if pin in self.board.model.board.low_power.wakes]

    @property
    def ready(self) -> bool:
        return self.board.ready

    def pulse(self, pin: str) -> None:
        """Activate the board's input."""
        self.board.receive(pin, b"\x01", self._clock.now_ns())
        self._pacer.update(self)

    def _faults_for(self, cycle: int) -> Sequence[Fault]:
        return [planned.fault(cycle) for planned in self._plans if planned.strikes(cycle)]

    async def _answer(self, switching: Switching) -> None:
        match switching:
            case Switching.ERROR:
                raise LabTransientError("the PDU says that it cannot switch", failure="pdu_refused")
            case Switching.REFUSE:
                raise ConnectionAbortedError
            case Switching.HANG:
                self._cleared.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_HANG_S):
                        await self._cleared.wait()

    def deadline_ns(self) -> int | None:
        return self.board.deadline_ns()

    def fire(self) -> None:
        self.board.run(self._clock.now_ns())

    def _receiver(self, uart: str) -> Callable[[bytes], None]:
        def receive(data: bytes) -> None:
            self.board.receive(uart, data, self._clock.now_ns())
            self._pacer.update(self)

        return receive

    def _dark(self) -> None:
        for adapter in self._adapters.values():
            adapter.discard()
        self.state_hook(levels.OFF, self._clock.now_ns())

    def _died(self) -> None:
        self.died_hook("it switched itself off")

    def _ready(self) -> None:
        self.ready_hook()

    def _note(self, text: str) -> None:
        self._truth.note(self.board.now_ns, text)
        if self.board.stage != "off":
            self.state_hook(_STATES.get(self.board.stage, levels.BOOT), self.board.now_ns)
