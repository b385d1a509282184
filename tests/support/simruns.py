"""Runs on a simulated board in virtual time: what becomes of a fault, through strategy, watch, run and store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define, frozen
from labgrid import Target
from labgrid.driver import Driver

from lab.benchmarks.cycles import CycleAttempt, run_cycles
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.result import SuspendResult
from lab.errors import BoardlabError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_TIME
from lab.results import Attempt as Recorded
from lab.results import Store, open_store
from lab.run.boot import BootRun
from lab.run.progress import Progress
from lab.virtual.sim.faults import catalogue
from lab.virtual.sim.faults.base import Fault
from lab.virtual.sim.setup import DEFAULT, SimSetup
from lab.virtual.truth_log import TrueBoot, Truth, true_boots
from support.simlab import SimLab
from support.simtarget import SimClock, pdudaemon, strategy_on
from support.strategies import BoardStrategy

RETRIES = 2


@frozen
class Told:
    """An attempt as a person is told of it: "ok" or a failure class, whose fault, what to do, and the flags of a suspend."""

    cycle: int
    number: int
    outcome: str
    fault: str | None
    transient: bool | None
    message: str
    flags: frozenset[Flag] = frozenset()


@define(eq=False)
class SimBench:
    """A board with planned faults, its strategy, and a store."""

    lab: SimLab
    strategy: BoardStrategy
    store: Store
    run: BootRun

    def measure(self, medium: str = "sd") -> list[Recorded]:
        """Measure the run's pending cycles; what was recorded, whether or not it ended well."""
        with suppress(BoardlabError):
            self.run.measure(medium)
        return list(self.store.attempts(self.run.run.id))

    def sleep(self, mode: str = "mcu_only", seconds: int = 5) -> list[Told]:
        """One cycle of: off, Linux, a suspend; with retries."""
        self.strategy.low_power.release = self.lab.board.model.release_name
        return self._told(lambda: self.strategy.low_power.cycle(SuspendPlan(mode, "rtc", seconds)))

    def bring(self, state: str) -> list[Told]:
        """One cycle of: off, then this state; with retries."""
        return self._told(lambda: self.strategy.transition(state))

    def _told(self, action: Callable[[], object]) -> list[Told]:
        told: list[Told] = []

        def once(_cycle: int, _number: int) -> object:
            self.strategy.transition("off")
            return action()

        with suppress(BoardlabError):
            run_cycles(
                [1],
                once,
                lambda attempt: told.append(_told(attempt)),
                retries=RETRIES,
                sleep=self.strategy.sleep,
            )
        return told

    def true_boots(self) -> list[TrueBoot]:
        """Every boot that reached the prompt."""
        return true_boots(self.truth(), self.lab.board.model.identity.hostname)

    def true_boot_times_s(self) -> list[float]:
        """Of every boot that reached the prompt: from the last byte of "Starting kernel" to that of the prompt."""
        return [boot.boot_s for boot in self.true_boots()]

    def truth(self) -> Truth:
        """When which byte left the console's UART."""
        return Truth(115200, self.lab.ports[self.lab.console].sent, 0, [], self.lab.noted)

    def samples_s(self) -> list[tuple[float, float]]:
        """Value and ± of each boot time in the store."""
        return [(s.value, s.uncertainty) for s in self.store.samples(self.run.run.id, metric=BOOT_TIME.name)]


def _told(attempt: CycleAttempt[object]) -> Told:
    error, done = attempt.error, attempt.result
    if error is None:
        flags = done.flags if isinstance(done, SuspendResult) else frozenset[Flag]()
        return Told(attempt.cycle, attempt.number, "ok", None, None, "", flags)
    return Told(attempt.cycle, attempt.number, error.failure, error.fault, error.transient, str(error))


@contextmanager
def bench(
    tmp_path: Path,
    faults: Sequence[catalogue.Planned] = (),
    *,
    board_type: str = "am62xx_sk",
    cycles: int = 1,
    seed: int = 1,
    time_scale: float = 1.0,
    setup: SimSetup = DEFAULT,
    say: Callable[[str], None] = lambda _line: None,
    power: Callable[[Target, str], Driver] = pdudaemon,
) -> Iterator[SimBench]:
    """A board that will have these faults, with this setup and power driver."""
    lab = SimLab(board_type, seed=seed, time_scale=time_scale, setup=setup)

    def troubles(cycle: int) -> list[Fault]:
        return [planned.fault(cycle) for planned in faults if planned.strikes(cycle)]

    lab.board.troubles_for = troubles
    store = open_store(f"sqlite:///{tmp_path / 'results.db'}")
    with strategy_on(lab, power=power) as strategy:
        record = store.begin_run(
            "boot", board_type, "sim-1", "11.01", plan={"cycles": cycles, "media": ["sd"]}, provenance={}
        )
        clock = SimClock(lab)
        run = BootRun(store, record, strategy, Progress(say, clock, cycles), clock, strategy.sleep, RETRIES)
        yield SimBench(lab, strategy, store, run)


def planned(fault: str, cycles: str = "1", **parameters: object) -> catalogue.Planned:
    """A fault in words."""
    return catalogue.read_plan({"fault": fault, "cycles": cycles, **parameters})
