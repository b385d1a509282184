"""A simulated board on the bench: its UARTs are adapters, its time is the host's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab.clock import Clock
from virtual.sim.board import SimBoard
from virtual.sim.config import SimConfig
from virtual.sim.model import model
from virtual.uart import UartAdapter


def _nobody(_reason: str) -> None: ...


class SimBackend:
    """A `virtual.board.Backend`. Any number of them share a process; one that waits costs nothing."""

    def __init__(self, board_type: str, config: SimConfig, adapters: Mapping[str, UartAdapter], clock: Clock) -> None:
        self.died_hook: Callable[[str], None] = _nobody
        self._adapters = adapters
        self._clock = clock
        made = model(board_type, config.release or None)
        console = adapters[made.board.console.name]
        self._pacer, self._truth = console.pacer, console.truth
        self.board = SimBoard(made, adapters, seed=config.seed, haste=config.haste)
        self.board.note_hook = self._note
        self.board.dark_hook = self._dark
        self.board.died_hook = self._died

    async def power_on(self, straps: int) -> int:
        """See `Backend`."""
        now_ns = self._clock.now_ns()
        for name, adapter in self._adapters.items():
            adapter.receive_hook = self._receiver(name)
        self.board.power_on(straps, now_ns)
        self._pacer.update(self)
        return now_ns

    async def power_off(self) -> None:
        """See `Backend`; a faulty board may live on."""
        self.board.power_off(self._clock.now_ns())
        self._pacer.update(self)

    def deadline_ns(self) -> int | None:
        """See `virtual.pacer.Paced`."""
        return self.board.deadline_ns()

    def fire(self) -> None:
        """See `virtual.pacer.Paced`."""
        self.board.run(self._clock.now_ns())

    def _receiver(self, uart: str) -> Callable[[bytes], None]:
        def receive(data: bytes) -> None:
            self.board.receive(uart, data, self._clock.now_ns())
            self._pacer.update(self)

        return receive

    def _dark(self) -> None:
        for adapter in self._adapters.values():
            adapter.discard()

    def _died(self) -> None:
        self.died_hook("it switched itself off")

    def _note(self, text: str) -> None:
        self._truth.note(self.board.now_ns, text)
