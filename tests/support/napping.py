"""A simulated board that sleeps, in virtual time, and what is true about each time it woke."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from attrs import define, field, frozen

from lab.benchmarks.lowpower.result import SuspendResult
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.truth_log import Truth
from support.simlab import SimLab
from support.simtarget import pdudaemon, strategy_on
from support.strategies import BoardStrategy


@frozen
class Wakeup:
    """What the board knows of a wake-up: when the event came, how long the kernel then worked, when its shell answered."""

    woken_ns: int
    kernel_ns: int
    answer_ns: int


PATIENT_S = 60.0  # in real time: none of these tests has a power switch that hangs


@define(eq=False)
class Napper:
    """The board, its strategy, and the truth."""

    lab: SimLab
    strategy: BoardStrategy
    notes: list[tuple[int, str]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.lab.board.note_hook = lambda text: self.notes.append((self.lab.board.now_ns, text))

    @property
    def kernel(self) -> Kernel:
        """The kernel that runs."""
        assert self.lab.board.computer is not None
        found = self.lab.board.computer.kernel
        assert isinstance(found, Kernel)
        return found

    def wakeups(self) -> list[Wakeup]:
        """Every wake-up so far that ended in an answer."""
        truth = Truth(115200, self.lab.ports[self.lab.console].sent, 0, [])
        answers = truth.find(rb"boardlab: back \d")
        woken = [t_ns for t_ns, text in self.notes if " woken " in text]
        worked = [int(text.rpartition("planned_ns=")[2]) for _, text in self.notes if "stage=resume " in text]
        return [
            Wakeup(at_ns, kernel_ns, next(t_ns for t_ns in answers if t_ns > at_ns))
            for at_ns, kernel_ns in zip(woken, worked, strict=True)
        ]


def is_put_back(board: Napper) -> bool:
    """Whether the console prints again, as loud as it was, and no constraint is left."""
    kernel = board.kernel
    cleared = kernel.settings.get("qos", "0") == "0" and kernel.settings.get("mcu_wakeup", "disabled") == "disabled"
    return kernel.console_attached and cleared and kernel.console_level == 1


def kernel_error(done: SuspendResult, true: Wakeup) -> float:
    """How far the kernel's latency is from the truth, in units of its ±."""
    value, bound = done.kernel_ms
    return abs(value - true.kernel_ns / 1e6) / bound


def prompt_error(done: SuspendResult, true: Wakeup) -> float:
    """How far the host's latency is from the truth, in units of its ±."""
    value, bound = done.since_edge_ms(done.answer)
    return abs(value - (true.answer_ns - true.woken_ns) / 1e6) / bound


@contextmanager
def napper(
    board_type: str = "am62xx_sk",
    release: str | None = None,
    *,
    seed: int = 1,
    adapter_latency_ns: int = 0,
    mcu: bool = True,
) -> Iterator[Napper]:
    """A board whose strategy knows its release."""
    lab = SimLab(board_type, release=release, seed=seed, adapter_latency_ns=adapter_latency_ns)
    with strategy_on(lab, mcu=mcu, power=partial(pdudaemon, timeout_s=PATIENT_S)) as strategy:
        strategy.low_power.release = lab.board.model.release_name
        yield Napper(lab, strategy)
