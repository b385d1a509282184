"""Simulated hosts, their processes and their clocks, in one thread.

A process is boardlab's own code in a greenlet. It runs until a yield point, which is where it could see or change what another
process sees: a transaction, a message, a sleep. A killed process is never resumed: what its `finally` clauses try ends at their first
yield point, and its connections have been closed without a commit.
"""

from __future__ import annotations

import itertools
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from attrs import define, field
from greenlet import getcurrent, greenlet

from lab.errors import BoardlabError
from support.simulation.choices import Choices

START_S: Final = 1000.0
STEP_S: Final = 0.003  # what a step takes
IDLE_STRIKES: Final = 5.0  # a strike is so much likelier while all wait, which is one step however long
MOST_STEPS: Final = 20_000
INTERRUPTED: Final = 130
ERROR_CODES: Final = {True: 75, False: 69}  # of an error that is transient, and of another one; as `lab run` has them


class KilledError(BaseException):
    """Unwinds a killed process, without effect."""


class ViolationError(AssertionError):
    """An invariant does not hold: `name` of it, and what was seen."""

    def __init__(self, name: str, seen: str) -> None:
        super().__init__(f"{name}: {seen}")
        self.name = name


@define(eq=False)
class Host:
    """A simulated host.

    Attributes:
        wall_s: its wall clock is so much ahead. monotonic_s: the same of its monotonic clock, which stands while it is suspended.
        boots: how often it was started. down_until_s, cut_until_s: it is off, or cannot reach the database and the coordinator.
        frozen_until_s: it is suspended.
    """

    name: str
    wall_s: float = 0.0
    monotonic_s: float = 0.0
    boots: int = 1
    down_until_s: float = 0.0
    cut_until_s: float = 0.0
    frozen_until_s: float = 0.0


@define(eq=False)
class Process:
    """A simulated process.

    Attributes:
        parent: started it. ends_with_parent: SIGTERM comes when that dies, as `setpriv --pdeathsig` asks for.
        code: its exit code; None: it lives. handlers: by signal. pending: signals that it has not handled yet.
        frozen_until_s: it stands still; stopped: by SIGSTOP, which SIGCONT ends. calm_since_s: since then neither it nor its host was disturbed.
        lingers_s: it stands still for so long behind its next look at what its run lacks.
    """

    name: str
    host: Host
    pid: int
    boot: int
    parent: Process | None
    ends_with_parent: bool = False
    code: int | None = None
    handlers: dict[int, Any] = field(factory=dict)
    pending: list[int] = field(factory=list)
    tasks: list[Task] = field(factory=list)
    frozen_until_s: float = 0.0
    stopped: bool = False
    calm_since_s: float = 0.0
    lingers_s: float = 0.0
    environ: Mapping[str, str] = field(factory=dict)
    identity: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.identity = f"{self.host.name}/boot{self.boot}/{self.pid}/1"  # as lab.host.process has it

    @property
    def alive(self) -> bool:
        """True until it has ended."""
        return self.code is None


@define(eq=False)
class Task:
    """A thread of a process; it waits until an instant, or for a condition before that."""

    process: Process
    body: greenlet
    until_s: float = 0.0
    condition: Callable[[], bool] | None = None


@define(eq=False)
class World:
    """All hosts, and the true time.

    Attributes:
        stay: weight of the process that ran last, beside 1 for each other one.
        checks: invariants, called after each step; each raises ViolationError.
        strikes: what may happen before a step, at that rate a step.
        trace: the story so far. hidden: texts that are left out of it, since they are other ones each time.
        on_death: called with each process that was killed, before it is unwound.
        patient: kinds that wait for something to strike. due: those that wait now. felt: how often each strike had an effect. calm_from_s: nothing is struck from then on.
    """

    choices: Choices
    hosts: list[Host] = field(factory=list)
    now_s: float = START_S
    stay: float = 2.0
    processes: list[Process] = field(factory=list)
    checks: list[Callable[[], None]] = field(factory=list)
    strikes: list[Callable[[], bool]] = field(factory=list)
    strike_rate: float = 0.0
    hidden: Sequence[str] = ()
    trace: list[str] = field(factory=list)
    on_death: list[Callable[[Process], None]] = field(factory=list)
    felt: Counter[str] = field(factory=Counter)
    steps: int = 0
    calm_from_s: float = float("inf")
    patient: Collection[Callable[[], bool]] = ()
    due: list[Callable[[], bool]] = field(factory=list)
    current: Task | None = None
    _doomed: list[tuple[Process, int]] = field(factory=list)
    _last: Task | None = None
    _pids: Iterator[int] = field(factory=lambda: itertools.count(101))
    _scheduler: greenlet = field(factory=getcurrent)
    _broken: ViolationError | None = None

    @property
    def is_calm(self) -> bool:
        """True if nothing strikes any more."""
        return self.now_s >= self.calm_from_s

    # --- What processes do ---

    def pause(self, until_s: float = 0.0, condition: Callable[[], bool] | None = None) -> None:
        """A yield point of the current process; none outside of processes.

        Args:
            until_s: it goes on then. condition: or as soon as this is true.
        """
        task = self.current
        if task is None:
            return
        if not task.process.alive:
            raise KilledError
        task.until_s, task.condition = until_s, condition
        self._scheduler.switch()
        if task is task.process.tasks[0]:
            self._handle_signals(task.process)

    def sleep(self, seconds: float) -> None:
        """Sleep; a signal that is handled without an error does not end it (PEP 475)."""
        until_s = self.now_s + seconds
        while self.now_s < until_s or seconds <= 0:
            self.pause(until_s)
            if seconds <= 0:
                return

    def wait(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait for a condition; false: not within so many seconds."""
        until_s = float("inf") if seconds is None else self.now_s + seconds
        while not condition():
            if self.now_s >= until_s:
                return False
            self.pause(until_s, condition)
        return True

    @property
    def process(self) -> Process:
        """The process that runs."""
        assert self.current is not None
        return self.current.process

    def say(self, text: str) -> None:
        """Tell the story."""
        who = f"{self.current.process.name} on {self.current.process.host.name}" if self.current else "-"
        for each in self.hidden:
            text = text.replace(each, "")
        self.trace.append(f"{self.now_s - START_S:9.3f} s  {who}: {text}")

    def start(
        self,
        name: str,
        host: Host,
        body: Callable[[], int | None],
        *,
        parent: Process | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a process; an error of boardlab is its exit code, any other one a violation."""
        made = Process(
            name, host, next(self._pids), host.boots, parent, calm_since_s=self.now_s, environ=environ or {}
        )

        def run() -> None:
            code = 1
            try:
                code = body() or 0
            except BaseException as error:  # noqa: BLE001 - all that can end a program
                if not made.alive:
                    return  # it unwinds
                code = self._code_of(made, error)
            if made.alive:
                self._end(made, code)

        self.processes.append(made)
        self._add(made, run)
        return made

    def start_thread(self, body: Callable[[], None]) -> Task:
        """A further thread of the current process."""

        process = self.process

        def run() -> None:
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - the same of a thread
                if process.alive:
                    self._code_of(process, error)

        return self._add(process, run)

    def _code_of(self, process: Process, error: BaseException) -> int:
        """The exit code of a process that an error ends; one that is none of boardlab's is a violation."""
        match error:
            case KeyboardInterrupt():
                return INTERRUPTED
            case BoardlabError():
                self.say(f"{type(error).__name__} [{error.failure}]: {str(error)[:300]}")
                return ERROR_CODES[error.transient]
            case ViolationError():
                self._broken = self._broken or error
            case _:
                text = "".join(traceback.format_exception(error))
                self._broken = ViolationError("no program ends with a traceback", f"{process.name}: {text}")
        return 1

    def _add(self, process: Process, run: Callable[[], None]) -> Task:
        task = Task(process, greenlet(run, self._scheduler))
        process.tasks.append(task)
        return task

    def _end(self, process: Process, code: int) -> None:
        """A process has ended by itself: so have its other threads."""
        self.say(f"ends with {code}")
        process.code = code
        for task in process.tasks:
            if not task.body.dead and task.body is not getcurrent():
                self._doomed.append((process, code))
                break
        self._orphan(process)

    def _orphan(self, process: Process) -> None:
        for child in self.processes:
            if child.parent is process and child.ends_with_parent and child.alive:
                child.pending.append(signal.SIGTERM)

    def _handle_signals(self, process: Process) -> None:
        while process.pending:
            number = process.pending.pop(0)
            handler = process.handlers.get(number)
            if handler is signal.SIG_IGN:
                continue
            if callable(handler):
                handler(number, None)
            elif number == signal.SIGINT:
                raise KeyboardInterrupt
            else:
                self.kill(process, number)
                self.pause()

    # --- What is done to them ---

    def kill(self, process: Process, number: int = signal.SIGKILL) -> None:
        """Kill a process before its next step."""
        if process.alive and all(process is not doomed for doomed, _ in self._doomed):
            self._doomed.append((process, -number))

    def reap(self) -> None:
        """Unwind what was killed."""
        while self._doomed:
            process, code = self._doomed.pop(0)
            if process.alive:
                process.code = code
                for notified in self.on_death:
                    notified(process)
                self._orphan(process)
            for task in process.tasks:
                if not task.body.dead:
                    self.current = task
                    if task.body:  # else it has never run
                        task.body.throw(KilledError)
                    self.current = None
            process.tasks = [task for task in process.tasks if task.body and not task.body.dead]

    def disturb(self, process: Process, until_s: float) -> None:
        """Note that a process could not do its part until then."""
        process.calm_since_s = max(process.calm_since_s, until_s)

    def living(self, host: Host | None = None) -> list[Process]:
        """The processes that live, of one host or all."""
        return [each for each in self.processes if each.code is None and (host is None or each.host is host)]

    # --- The schedule ---

    def run(self, done: Callable[[], bool]) -> None:
        """Go on until everything is done.

        Raises:
            ViolationError: an invariant does not hold.
        """
        while True:
            self.reap()
            self._check()
            if done():
                return
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise ViolationError(
                    "everything ends", f"not after {MOST_STEPS} steps and {self.now_s - START_S:.0f} s"
                )
            if self.strike_rate and self.strikes:
                self._strike()
            self._step()

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        for check in self.checks:
            check()

    def _strike(self) -> None:
        weights = [1.0 - self.strike_rate, *[self.strike_rate / len(self.strikes)] * len(self.strikes)]
        chosen = self.choices.pick(weights)
        due = [*self.due, *([self.strikes[chosen - 1]] if chosen else [])]
        for strike in due:
            self._hit(strike)
        if due:
            self.reap()

    def _hit(self, strike: Callable[[], bool]) -> None:
        """Strike now; a patient kind strikes as soon as there is something to strike."""
        is_due = strike in self.due
        if strike():
            self.felt[strike.__name__] += 1
            if is_due:
                self.due.remove(strike)
        elif strike in self.patient and not is_due:
            self.due.append(strike)

    def _step(self) -> None:
        tasks = [task for process in self.processes if process.code is None for task in process.tasks]
        ready = [task for task in tasks if self._is_ready(task)]
        if not tasks:  # the last one was killed just now
            return
        if not ready:
            due = min((self._due_s(task) for task in tasks), default=float("inf"))
            if due == float("inf"):
                raise ViolationError("everything ends", "no process can go on")
            idle_s = due - self.now_s
            if self.strikes and idle_s > 1.0 and self.choices.happens(min(0.5, IDLE_STRIKES * self.strike_rate)):
                self.now_s += idle_s * (0.5, 0.1, 0.9)[self.choices.pick((1.0, 1.0, 1.0))]
                self._hit(self.strikes[self.choices.pick([1.0] * len(self.strikes))])
                return
            self.now_s = max(self.now_s, due)
            return
        if self._last in ready:
            ready.remove(self._last)
            ready.insert(0, self._last)
            weights = [self.stay, *[1.0] * (len(ready) - 1)]
        else:
            weights = [1.0] * len(ready)
        task = ready[self.choices.pick(weights)] if len(ready) > 1 else ready[0]
        self.now_s += STEP_S
        self._last = self.current = task
        task.body.switch()
        self.current = None
        if task.body.dead and task is not task.process.tasks[0]:
            task.process.tasks.remove(task)

    def _is_ready(self, task: Task) -> bool:
        process = task.process
        if max(process.frozen_until_s, process.host.frozen_until_s) > self.now_s or task.body.dead:
            return False
        if task.until_s <= self.now_s or (task.condition is not None and task.condition()):
            return True
        return bool(process.pending) and task is process.tasks[0]

    def _due_s(self, task: Task) -> float:
        process = task.process
        if task.body.dead:
            return float("inf")
        thawed_s = max(process.frozen_until_s, process.host.frozen_until_s)
        awake = (task.condition is not None and task.condition()) or (process.pending and task is process.tasks[0])
        return max(thawed_s, 0.0 if awake else task.until_s)


@contextmanager
def unscheduled(world: World) -> Iterator[None]:
    """Within it, nothing is a yield point."""
    before, world.current = world.current, None
    try:
        yield
    finally:
        world.current = before
