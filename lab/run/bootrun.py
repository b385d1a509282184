"""A boot-time run: media × cycles on one board, resumable, every attempt in the store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Protocol

from attrs import asdict, define, field, frozen

from lab.benchmarks.boot import BootSample, BootWatch
from lab.benchmarks.cycles import Attempt, run_cycles
from lab.boards import BoardType
from lab.clock import Clock, utc_now
from lab.console.model import LineTiming
from lab.console.printk import PrintkFit, fit_printk
from lab.console.status import PortInfo
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_TIME
from lab.results import AttemptRecord, MomentRecord, Run, Store
from lab.run.progress import Progress
from lab.run.recorded import Console, base_of, port_flags, recording, sample_record

RATE_LIMIT_PPM = 500.0  # two crystals differ by at most 200 ppm; the rest is the fit over some seconds of boot
MIN_FIT_S = 1.0


class Board(Protocol):
    """What a run needs of the board (strategies.BoardStrategy)."""

    type: BoardType
    board: str
    console: Console

    def select_medium(self, medium: str) -> None: ...
    def boot(self, init: str = "") -> BootWatch: ...
    def timing(self) -> LineTiming: ...


@frozen
class Boot:
    """One good boot."""

    watch: BootWatch
    samples: list[BootSample]
    fit: PrintkFit | None


@define
class BootRun:
    """Measures a run's pending cycles.

    Attributes:
        run: as the store has it; `run.plan` holds `cycles` and `media`, and `init` where the kernel shall run another.
        retries: further attempts a cycle after a transient failure.
    """

    store: Store
    run: Run
    board: Board
    progress: Progress
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    _started: tuple[dt.datetime, int] = field(init=False)

    def pending(self, medium: str) -> list[int]:
        """The cycles of this medium that have no sample yet."""
        done = {
            s.cycle for s in self.store.samples(self.run.id, metric=BOOT_TIME.name) if s.params["medium"] == medium
        }
        return [cycle for cycle in range(1, int(self.run.plan["cycles"]) + 1) if cycle not in done]

    def measure(self, medium: str) -> None:
        """Measure the pending cycles of one medium.

        Raises:
            BoardlabError: a cycle could not be measured within its retries; earlier ones are in the store.
        """
        self.board.select_medium(medium)
        cycles = int(self.run.plan["cycles"])

        def one(cycle: int, _number: int) -> Boot:
            self._started = (utc_now(), self.clock.now_ns())
            self.board.console.capture = []
            watch = self.board.boot(str(self.run.plan.get("init", "")))
            fit = fit_printk(self.board.console.capture, self.board.timing())
            return Boot(watch, watch.finish(cycle, _fit_flags(fit) | port_flags(self.board.console.info)), fit)

        def record(attempt: Attempt[Boot]) -> None:
            self.store.record_attempt(self.run.id, self._record(medium, attempt))
            if attempt.error is not None:
                self.progress.bad(medium, attempt.cycle, cycles, attempt.number, attempt.error)
            elif attempt.result is not None:
                sample = next(s.sample for s in attempt.result.samples if s.metric is BOOT_TIME)
                self.progress.good(medium, attempt.cycle, cycles, sample)

        run_cycles(self.pending(medium), one, record, retries=self.retries, sleep=self.sleep)

    def _record(self, medium: str, attempt: Attempt[Boot]) -> AttemptRecord:
        started_at, started_ns = self._started
        error, boot = attempt.error, attempt.result
        console = self.board.console
        base = base_of(console)
        return AttemptRecord(
            cycle=attempt.cycle,
            number=attempt.number,
            params={"medium": medium},
            outcome="ok" if error is None else error.failure,
            fault=None if error is None else error.fault,
            transient=None if error is None else error.transient,
            message="" if error is None else str(error),
            started_at=started_at,
            duration_s=(self.clock.now_ns() - started_ns) / 1e9,
            samples=tuple(sample_record(s, base) for s in boot.samples) if boot else (),
            artifacts=recording(self.store, console),
            moments=tuple(
                MomentRecord(m.name, m.t_ns, m.uncertainty_ns, m.position - base, m.text) for m in boot.watch.moments
            )
            if boot
            else (),
            details=_details(boot, console.info),
        )


def _fit_flags(fit: PrintkFit | None) -> frozenset[Flag]:
    if fit is not None and abs(fit.rate_ppm) > RATE_LIMIT_PPM:
        return frozenset({Flag.CLOCK_DISAGREES})
    return frozenset()


def _details(boot: Boot | None, info: PortInfo | None) -> dict[str, object]:
    details: dict[str, object] = {"port": asdict(info.meta) if info else None}
    if boot is not None:
        details["medium_seen"] = boot.watch.seen
        details["software"] = boot.watch.software
        details["printk_fit"] = None if boot.fit is None else asdict(boot.fit)
    return details
