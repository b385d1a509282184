"""A boot-time run: media × cycles on one board, resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, evolve, field, frozen

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.crosscheck import CrossCheck, contradictions, doubts
from lab.benchmarks.boot.poweron import CONFIRMED, PowerOnSilence, doubt, silences
from lab.benchmarks.cycles import CycleAttempt, nothing_before_cycle, run_cycles
from lab.benchmarks.identity import BoardIdentity, check_board, from_document
from lab.benchmarks.versions import VERSION_LINES
from lab.boards import NORMAL
from lab.console.holders import fairly
from lab.console.model import Event, LineTiming, Moment
from lab.console.moments import missing_ns
from lab.console.printk import PrintkFit, clock_step, fit_printk
from lab.console.status import PortInfo
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.host.clock import Clock
from lab.metrics import Flag, Sample, SampleRecord
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, HEADLINE_NAMES
from lab.metrics.declared import Limits
from lab.results import Run, Store
from lab.results.records import MEASURED
from lab.run.attempts import (
    AttemptRecorder,
    AttemptResult,
    base_of,
    check_clocks,
    clocks_document,
    moment_record,
    port_flags,
    recording,
    sample_record,
    stored_metrics,
    uncounted,
)
from lab.run.board import Board, cross_check
from lab.run.ownmoments import Awaited, OwnMoments
from lab.run.progress import Progress

_HWMON: Final = Path("/sys/class/hwmon")
KNOWN_RUNS = 20  # of the board, which are searched for what it said of itself


@frozen
class Boot:
    """One good boot."""

    watch: BootWatch
    samples: list[SampleRecord]
    clocks: Clocks
    identity: BoardIdentity | None
    checked: Mapping[str, Any]
    silence: PowerOnSilence | None
    own: tuple[Moment, ...] = ()


@frozen
class Clocks:
    """The agreement of a boot's kernel times and stamps.

    Attributes:
        fit: None: too few lines.
        step_ns: largest step between them that no waiting line explains; 0: none.
        missing_ns: minimum time missing in the stamps, since bytes came sooner than the line can send them.
    """

    fit: PrintkFit | None
    step_ns: int
    missing_ns: int

    @property
    def flags(self) -> frozenset[Flag]:
        """`clock_disagrees` if they disagree."""
        drifts = self.fit is not None and self.fit.drifts
        return frozenset({Flag.CLOCK_DISAGREES} if drifts or self.step_ns or self.missing_ns else ())


def compare_clocks(events: Sequence[Event], timing: LineTiming) -> Clocks:
    """Compare them over the recording of a boot."""
    return Clocks(fit_printk(events, timing), clock_step(events, timing), missing_ns(events, timing))


@define
class BootRun:
    """Measures a run's pending cycles.

    Attributes:
        run: from the store; `run.plan` has `cycles` and `media`, and perhaps the kernel's `init`.
        retries: further attempts a cycle after a transient failure.
        before_cycle: called before each cycle, see `run_cycles`. limits: of metrics, by the lab. own: the user's moments.
        at_uboot: a command for U-Boot in each boot, e.g. that chooses a slot; empty: U-Boot is not stopped.
    """

    store: Store
    run: Run
    board: Board
    progress: Progress
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    before_cycle: Callable[[], None] = nothing_before_cycle
    limits: Limits = field(factory=dict)
    own: OwnMoments = field(factory=OwnMoments)
    at_uboot: str = ""
    _uncounted: list[dict[str, object]] = field(
        factory=list, init=False
    )  # numbers of an attempt that failed behind its prompt
    _logs_in: bool = field(default=True, init=False)  # False: a login failed; each try costs its time limit
    _looked_at: set[str] = field(factory=set, init=False)  # media from which the board was asked who it is
    _before: dict[str, list[PowerOnSilence]] = field(factory=dict, init=False)  # by medium, of the board's runs before
    _board_flags: frozenset[Flag] = field(default=frozenset(), init=False)

    def pending(self, medium: str) -> list[int]:
        """The cycles of this medium without a sample."""
        done = {
            sample.cycle
            for headline in HEADLINE_NAMES
            for sample in self.store.samples(self.run.id, metric=headline)
            if sample.params["medium"] == medium
        }
        return [cycle for cycle in range(1, int(self.run.plan["cycles"]) + 1) if cycle not in done]

    def missing(self, medium: str) -> list[str]:
        """The metrics of every good boot that this medium lacks."""
        stored = stored_metrics(self.store, self.run.id, medium=medium)
        others = [BOOT_STAGE] if self.run.plan.get("init") else [BOOT_POWER_ON, BOOT_STAGE]
        headline = [] if HEADLINE_NAMES & stored else [" or ".join(sorted(HEADLINE_NAMES))]
        return headline + sorted({metric.name for metric in others} - stored)

    def measure(self, medium: str, only: Sequence[int] | None = None) -> None:
        """Measure the pending cycles of one medium.

        Args:
            only: these cycles, in place of the pending ones.

        Raises:
            BoardlabError: a cycle could not be measured within its retries; earlier ones are in the store.
        """
        self.board.select_medium(medium)
        cycles = int(self.run.plan["cycles"])
        recorder = AttemptRecorder(self.store, self.run.id, self.clock, self.limits)

        def one(_cycle: int, _number: int) -> Boot:
            recorder.start()
            self._uncounted = []
            self.board.console.capture = []
            with fairly(self.board.console):
                return boot()

        def boot() -> Boot:
            console = self.board.console
            watch = self._booted()
            self._check_software(watch.software)
            events = console.capture[: watch.events]  # the answer at the prompt and the login are no part of the boot
            clocks = compare_clocks(events, self.board.timing())
            overrun = frozenset({Flag.CONSOLE_OVERRUN} if console.overruns() else ())
            try:
                own = Awaited() if watch.init else self.own.wait(self.board, watch, self.clock)
                identity = self._identified(watch, medium)  # a login delays what the board still starts
                facts = self._cross_check(watch, medium)
            finally:
                whole, console.capture = console.capture, events
            check_clocks(console, watch.power.requested_ns)
            checked = facts.flags if facts else frozenset({Flag.NOT_CROSS_CHECKED})
            if facts and facts.facts.software.get("uboot") and watch.lacks("uboot"):
                checked |= {Flag.FLOW_UNVERIFIED}
            flags = clocks.flags | overrun | port_flags(console.info) | self._board_flags | checked
            silence = None if watch.init else self._check_power_on(watch, medium)
            samples = watch.finish(
                flags, started_once=facts is not None and facts.started_once(watch.moments, watch.went_on_ns)
            )
            self._check_flow(watch.flow)
            try:
                agreed, unsure = self._agreed(watch, facts, medium)
            except BoardlabError:
                console.capture = whole  # the board's answer is the evidence
                raise
            samples = [evolve(each, flags=each.flags | unsure) for each in samples]
            if own:
                console.capture = whole  # what is behind the prompt is the evidence
            samples += self._timed(own, watch, samples)
            return Boot(watch, samples, clocks, identity, agreed, silence, tuple(own.moments.values()))

        def record(attempt: CycleAttempt[Boot]) -> None:
            recorder.record(attempt, self._evidence(medium, attempt.result))
            if attempt.error is not None:
                is_last = not attempt.again
                self.progress.bad(medium, attempt.cycle, cycles, attempt.number, attempt.error, is_last=is_last)
            elif attempt.result is not None:
                headline = next(s for s in attempt.result.samples if s.metric in HEADLINE_NAMES)
                sample = Sample(headline.value, headline.uncertainty, attempt.cycle)
                self.progress.good(medium, attempt.cycle, cycles, sample)

        run_cycles(
            self.pending(medium) if only is None else only,
            one,
            record,
            retries=self.retries,
            sleep=self.sleep,
            before_cycle=self.before_cycle,
        )

    def _booted(self) -> BootWatch:
        """Boot the board, by its slot's command if there is one."""
        init = str(self.run.plan.get("init", ""))
        if not self.at_uboot:
            return self.board.boot(init)
        return self.board.boot(init, at_uboot=lambda prompt: prompt.run_check(self.at_uboot))

    def _identified(self, watch: BootWatch, medium: str) -> BoardIdentity | None:
        """Identify the board and its root device at a medium's first boot."""
        if medium in self._looked_at or watch.init:
            return None
        try:
            found = self.board.identify()
        except BoardTransientError as error:  # the boot is over, and is not to blame
            self._logs_in = False
            self.progress.write(f"{medium}: the board is not identified: {error}")
            found = None
        identity = found or BoardIdentity()
        if identity.root:
            watch.root_is_on(identity.root)
        virtual = self.board.type.virtual or Flag.SIMULATED in port_flags(self.board.console.info)
        known = frozenset() if self.board.identity or virtual else self._known_names()
        check_board(identity, self.board.board, known, "its run before")
        expected = not virtual or self.board.identity
        self._board_flags = frozenset({Flag.BOARD_UNVERIFIED} if expected and not identity.names else ())
        self._looked_at.add(medium)
        return found

    def _cross_check(self, watch: BootWatch, medium: str) -> CrossCheck | None:
        """Ask the board what it knows of its boot; None: it was not asked, or does not say.

        The boot is over and measured: a failure here is a flag of the number, and loses no cycle. An answer that refutes the
        boot, or that the run's next ones are compared with, is asked for twice: a damaged one counts for nothing.
        """
        if watch.init or not self._logs_in:
            return None
        known = self._known_answers(medium)
        try:
            answer = cross_check(self.board)
            if answer is None or (known and not self._is_refuted(watch, answer, known)):
                return answer
            again = cross_check(self.board)
            if again is not None and again.confirms(answer):
                return answer
            self.progress.write("the board's two answers about its boot differ: one was damaged")
            return again if again is not None and known and not self._is_refuted(watch, again, known) else None
        except BoardlabError as error:
            self._logs_in = error.failure != "login_failed"
            self.progress.write(f"the board is not asked about its boot: {error}")
            return None

    @staticmethod
    def _is_refuted(watch: BootWatch, answer: CrossCheck, known: Sequence[Mapping[str, Any]]) -> bool:
        with suppress(BoardlabError):
            watch.finish(started_once=True)  # which finds the start of its kernel
        return watch.prompt is not None and any(contradictions(answer, watch.start, watch.prompt, known))

    def _known_answers(self, medium: str) -> list[Mapping[str, Any]]:
        """Documents of the run's good boots from this medium."""
        return [
            each.details["cross_check"]
            for each in self.store.attempts(self.run.id)
            if each.ok and each.params.get("medium") == medium and each.details.get("cross_check")
        ]

    def _timed(self, own: Awaited, watch: BootWatch, samples: Sequence[SampleRecord]) -> list[SampleRecord]:
        """The times to the user's moments of a good boot.

        Raises:
            BoardTransientError: one did not come; the boot's numbers are kept with the attempt.
        """
        if own.error is not None:
            self._uncounted = [uncounted(each) for each in samples if each.metric != BOOT_STAGE.name]
            raise own.error
        return self.own.samples(own.moments, watch, samples[0].params, samples[0].flags)

    def _check_power_on(self, watch: BootWatch, medium: str) -> PowerOnSilence | None:
        """Compare the boot's silence after power on with other boots'; None: it has no moment."""
        if not watch.moments:
            return None
        silence = PowerOnSilence.of(watch.power, watch.moments[0])
        in_run = self._silences(self.run, medium)
        reason = doubt(watch.power, silence, in_run, self._silences_before(medium))
        watch.power = evolve(watch.power, on_verified=not reason)
        if reason and (watch.power.rose_ns is not None or len(in_run) >= CONFIRMED):
            self.progress.write(
                f"{medium}: when the power came is not verified: {reason}. Look at the outlet, its relay, and whether anything else feeds the board"
            )
        return silence

    def _silences(self, run: Run, medium: str) -> list[PowerOnSilence]:
        good = [each for each in self.store.attempts(run.id) if each.ok and each.params.get("medium") == medium]
        return silences(each.details.get("power_on") for each in good)

    def _silences_before(self, medium: str) -> list[PowerOnSilence]:
        """Silences of the board's latest run with enough of them."""
        if medium not in self._before:
            earlier = (self._silences(run, medium) for run in self._runs_before())
            self._before[medium] = next((found for found in earlier if len(found) >= CONFIRMED), [])
        return self._before[medium]

    def _runs_before(self) -> list[Run]:
        """The board's latest runs but this one."""
        ours = (self.run.board_type, self.run.board)
        return [
            each for each in self.store.runs() if (each.board_type, each.board) == ours and each.id != self.run.id
        ][:KNOWN_RUNS]

    def _agreed(
        self, watch: BootWatch, found: CrossCheck | None, medium: str
    ) -> tuple[Mapping[str, Any], frozenset[Flag]]:
        """The document of an agreeing cross-check, and its doubts.

        Raises:
            BoardlabError: the board contradicts the moments.
        """
        if found is None or watch.prompt is None:
            return {}, frozenset()
        known = self._known_answers(medium)
        for error in contradictions(found, watch.start, watch.prompt, known):
            raise error
        return found.document(watch.start, watch.prompt), doubts(found, watch.start, watch.prompt, known)

    def _known_names(self) -> frozenset[str]:
        """The board's names in its latest runs with an identity."""
        for other in [self.run, *self._runs_before()]:
            for attempt in self.store.attempts(other.id):
                names = from_document(attempt.details.get("identity")).names
                if attempt.ok and names:
                    return names
        return frozenset()

    def _check_flow(self, flow: str) -> None:
        """Require the flow of the run's first boot."""
        for attempt in self.store.attempts(self.run.id):
            known = attempt.details.get("flow", NORMAL)
            if attempt.ok and known != flow:
                raise LabTransientError(
                    f"another boot flow than in cycle {attempt.cycle} of this run: {flow!r} now, {known!r} then. A run is of one flow: "
                    "put the old bootloader and kernel command line back, or measure the new one in a run of its own",
                    failure="software_changed",
                )

    def _check_software(self, software: Mapping[str, str]) -> None:
        """Require the software of the run's first boot."""
        unchecked = {name: software[name] for name in VERSION_LINES if name in software}
        for attempt in self.store.attempts(self.run.id):
            known = attempt.details.get("software") if attempt.ok else None
            if not isinstance(known, dict):
                continue
            for name in sorted(known.keys() & unchecked.keys()):
                version = unchecked.pop(name)
                if known[name] != version:
                    raise LabTransientError(
                        f"another {name} than in cycle {attempt.cycle} of this run: {version!r} now, {known[name]!r} then. A run is of "
                        "one software: put the old one back, or measure the new one in a run of its own",
                        failure="software_changed",
                    )
            if not unchecked:
                return

    def _evidence(self, medium: str, boot: Boot | None) -> AttemptResult:
        console = self.board.console
        base = base_of(console)
        return AttemptResult(
            params={"medium": medium},
            artifacts=recording(self.store, console),
            details={
                **_details(boot, console.info),
                **clocks_document(console),
                **({MEASURED: self._uncounted} if self._uncounted else {}),
            },
            samples=tuple(sample_record(s, base) for s in boot.samples) if boot else (),
            moments=tuple(moment_record(m, base) for m in (*boot.watch.moments, *boot.own)) if boot else (),
        )


def _details(boot: Boot | None, info: PortInfo | None) -> dict[str, object]:
    details: dict[str, object] = {"port": asdict(info.meta) if info else None}
    if boot is not None:
        fit = boot.clocks.fit
        details["medium_seen"] = boot.watch.seen
        details["software"] = boot.watch.software
        details["flow"] = boot.watch.flow
        details["printk_fit"] = None if fit is None else asdict(fit)
        details["clock_step_ns"] = boot.clocks.step_ns
        details["clock_missing_ns"] = boot.clocks.missing_ns
        if boot.silence is not None:
            details["power_on"] = asdict(boot.silence)
        if boot.checked:
            details["cross_check"] = boot.checked
        if temperatures := host_temperatures():
            details["host_temperatures_c"] = temperatures
        if boot.identity is not None:
            details["identity"] = boot.identity.document()
        if boot.watch.log.counts:
            details["kernel_errors"] = {"counts": boot.watch.log.counts, "lines": boot.watch.log.lines}
    return details


def host_temperatures(root: Path = _HWMON) -> dict[str, float]:
    """Sensors of the host's hwmon -> temperature in °C (Documentation/hwmon/sysfs-interface.rst)."""
    found = {}
    for file in sorted(root.glob("hwmon*/temp*_input")):
        with suppress(OSError, ValueError):
            name = (file.parent / "name").read_text(encoding="utf-8").strip()
            found[f"{file.parent.name} {name} {file.name.removesuffix('_input')}"] = int(file.read_text()) / 1000
    return found
