"""A boot-time run: media × cycles on one board, resumable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from attrs import asdict, define, evolve, field, frozen

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.crosscheck import BoardSoftware, CrossCheck, contradictions, same_software
from lab.benchmarks.boot.poweron import CONFIRMED, PowerOnSilence, doubt, silences
from lab.benchmarks.boot.timeline import KNOWN, RECENT, TimeLine, TimeLineJudgement, bare_samples
from lab.benchmarks.identity import BoardIdentity, check_board, from_document
from lab.benchmarks.versions import CONSOLE_LINES, VERSION_LINES
from lab.boards import NORMAL
from lab.console.model import Event, LineTiming
from lab.console.moments import missing_ns
from lab.console.printk import PrintkFit, clock_step, fit_printk
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.metrics import Flag, Moment, Sample, SampleRecord
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, HEADLINE_NAMES
from lab.results import AttemptRecord, Run
from lab.results.records import MEASURED, GoodAttempt
from lab.run.attempts import (
    AttemptResult,
    base_of,
    check_clocks,
    clocks_document,
    moment_record,
    port_flags,
    sample_record,
    store_recording,
    uncounted_number,
)
from lab.run.board import cross_check
from lab.run.engine import CycleRun
from lab.run.user_moments import UserMomentResult, UserMoments

_HWMON: Final = Path("/sys/class/hwmon")
EARLIER_RUNS: Final = 20  # of the board, newest first, that are searched for comparable boots


@frozen
class GoodBoot:
    """One good boot.

    Attributes:
        checked: the document of its cross-check and time line.
        silence: from power on to the first moment; None: there is none.
        own: the user's moments.
    """

    watch: BootWatch
    samples: list[SampleRecord]
    clocks: Clocks
    identity: BoardIdentity | None
    checked: Mapping[str, Any]
    silence: PowerOnSilence | None
    own: tuple[Moment, ...] = ()

    def details(self) -> dict[str, object]:
        """The boot's part of an attempt's details."""
        fit, log = self.clocks.fit, self.watch.log
        details: dict[str, object] = {
            "medium_seen": self.watch.seen,
            "software": self.watch.software,
            "flow": self.watch.flow,
            "printk_fit": None if fit is None else asdict(fit),
            "clock_step_ns": self.clocks.step_ns,
            "clock_missing_ns": self.clocks.missing_ns,
            "cross_check": self.checked,
        }
        if self.silence is not None:
            details["power_on"] = asdict(self.silence)
        if temperatures := host_temperatures():
            details["host_temperatures_c"] = temperatures
        if self.identity is not None:
            details["identity"] = self.identity.document()
        if log.counts:
            details["kernel_errors"] = {"counts": log.counts, "lines": log.lines}
        return details


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
    """Compare a boot's kernel times with the stamps of its lines."""
    return Clocks(fit_printk(events, timing), clock_step(events, timing), missing_ns(events, timing))


@define
class BootRun(CycleRun[GoodBoot]):
    """Measures a run's media; `run.plan` has `cycles` and `media`, and perhaps the kernel's `init`.

    Attributes:
        own: the user's moments.
        at_uboot: a command for U-Boot in each boot, e.g. that chooses a slot; empty: U-Boot is not stopped.
    """

    ITEMS: ClassVar[str] = "media"
    ITEM: ClassVar[str] = "medium"

    own: UserMoments = field(factory=UserMoments)
    at_uboot: str = ""
    _uncounted: list[dict[str, object]] = field(factory=list, init=False)  # of a try that failed behind its prompt
    _evidence_events: int | None = field(default=None, init=False)  # of the capture, kept with the attempt; None: all
    _logs_in: bool = field(default=True, init=False)  # False: a login failed; each try costs its time limit
    _identified: set[str] = field(factory=set, init=False)  # media from which the board was asked who it is
    _software: dict[str, BoardSoftware] = field(factory=dict, init=False)  # by medium
    _lines_before: dict[str, list[TimeLine]] = field(factory=dict, init=False)  # by medium
    _silences_before: dict[str, list[PowerOnSilence]] = field(factory=dict, init=False)  # by medium
    _board_flags: frozenset[Flag] = field(default=frozenset(), init=False)

    def missing(self, medium: str) -> list[str]:
        """The metrics of every good boot that this medium lacks."""
        measured = self.measured_metrics(medium)
        others = [BOOT_STAGE] if self.run.plan.get("init") else [BOOT_POWER_ON, BOOT_STAGE]
        headline = [] if HEADLINE_NAMES & measured else [" or ".join(sorted(HEADLINE_NAMES))]
        return headline + sorted({metric.name for metric in others} - measured)

    def try_cycle(self, item: str) -> GoodBoot:
        self._uncounted, self._evidence_events = [], None
        console = self.board.console
        watch = self._boot()
        self._check_software(watch.software)
        clocks = compare_clocks(console.capture[: watch.events], self.board.timing())
        flags = clocks.flags | frozenset({Flag.CONSOLE_OVERRUN} if console.overruns() else ())

        self.losses.flags()  # what the boot lost is flagged; from here on it is of the user's numbers
        user_result = UserMomentResult() if watch.init else self.own.wait(self.board, watch, self.clock)
        user_flags = self.losses.flags()
        identity = self._identify(watch, item)  # only now: a login delays what the board still starts
        check = self._cross_check(watch, item)
        self._evidence_events = watch.events  # what the board answers at its prompt is no part of its boot
        check_clocks(console, watch.power.requested_ns)

        flags |= port_flags(console.info) | self._board_flags | self._software_flags(watch, check)
        silence = None if watch.init else self._check_power_on(watch, item)
        answers = check.document() if check else {}
        other_answers, earlier_lines = self._other_answers(item), self._earlier_lines(item, answers)
        started_once = check is not None and check.is_first(watch.split_ns)
        samples = watch.finish(flags, started_once=started_once, judged=True)
        self._check_flow(watch.flow)

        self._evidence_events = None  # of a boot that is refused now, the board's answers are the evidence
        judgement = judge_boot(watch, check, samples[0].flags, other_answers, earlier_lines)
        if not user_result:  # the user's lines are behind the prompt, and are evidence, too
            self._evidence_events = watch.events
        prompt_position = 0 if watch.prompt is None else watch.prompt.position
        if user_result.error is not None:  # the boot's numbers are kept with the attempt
            covered = judgement.covered(samples, watch.moments, prompt_position)
            self._uncounted = [uncounted_number(sample) for sample in covered if sample.metric != BOOT_STAGE.name]
            raise user_result.error
        samples += self.own.samples(user_result, watch, samples[0].params, samples[0].flags | user_flags)
        good_boot = GoodBoot(
            watch,
            judgement.covered(samples, watch.moments, prompt_position),
            clocks,
            identity,
            {**answers, **judgement.document(samples)},
            silence,
            tuple(user_result.moments.values()),
        )
        if len(self.pending(item)) > 1:
            self.board.order_off()  # the board discharges while its boot is stored; a failed one stays as it is
        return good_boot

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        super().measure(item, only)
        if not self.pending(item):
            self._judge_again(item)

    def _judge_again(self, medium: str) -> None:
        """Judge each good boot by all others; the first ones had none."""
        attempts = [attempt for attempt in self.good_attempts(medium=medium) if attempt.details.get("cross_check")]
        documents = [attempt.details["cross_check"] for attempt in attempts]
        lines = [TimeLine.of_document(document) for document in documents]
        earlier_lines = next(filter(None, (self._earlier_lines(medium, document) for document in documents)), [])
        for number, (attempt, line) in enumerate(zip(attempts, lines, strict=True)):
            neighbours = lines[max(0, number - RECENT) : number] + lines[number + 1 : number + 1 + RECENT]
            judged = judge_attempt(attempt, line, [*neighbours, *earlier_lines])
            if judged.samples != tuple(attempt.samples):
                self.revise_attempt(judged)

    def _software_flags(self, watch: BootWatch, check: CrossCheck | None) -> frozenset[Flag]:
        """Flags by the board's answers, and by the versions that the boot printed."""
        recent = self.good_attempts()[-RECENT:]
        flags = firmware_flags(watch.software, [attempt.details.get("software") or {} for attempt in recent])
        if check is None:
            return flags
        lacks_uboot = bool(check.software.names.get("uboot")) and watch.lacks("uboot")
        return flags | check.flags | frozenset({Flag.FLOW_UNVERIFIED} if lacks_uboot else ())

    def report(self, item: str, cycle: int, result: GoodBoot) -> None:
        headline = next(sample for sample in result.samples if sample.metric in HEADLINE_NAMES)
        self.progress.cycle_done(item, self.cycles(item), Sample(headline.value, headline.uncertainty, cycle))

    def evidence(self, item: str, result: GoodBoot | None) -> AttemptResult:
        console = self.board.console
        console.capture = console.capture[: self._evidence_events]
        base = base_of(console)
        moments = (*result.watch.moments, *result.own) if result else ()
        return AttemptResult(
            params={"medium": item},
            artifacts=store_recording(self.store, console),
            details={
                **self.port_details(),
                **(result.details() if result else {}),
                **clocks_document(console),
                **({MEASURED: self._uncounted} if self._uncounted else {}),
            },
            samples=tuple(sample_record(sample, base) for sample in result.samples) if result else (),
            moments=tuple(moment_record(moment, base) for moment in moments),
        )

    def _boot(self) -> BootWatch:
        """Boot the board, by its slot's command if there is one."""
        init = str(self.run.plan.get("init", ""))
        command = {"at_uboot": lambda prompt: prompt.run_check(self.at_uboot)} if self.at_uboot else {}
        watch: BootWatch = self.board.boot(init, **command)
        return watch

    def _identify(self, watch: BootWatch, medium: str) -> BoardIdentity | None:
        """Identify the board and its root device at a medium's first boot."""
        if medium in self._identified or watch.init:
            return None
        answer = None
        try:
            answer = self.board.identify()
        except BoardTransientError as error:  # the boot is over, and is not to blame
            self._logs_in = False
            self.progress.write(f"{medium}: the board is not identified: {error}")
        identity = answer or BoardIdentity()
        if identity.root:
            watch.root_is_on(identity.root, identity.card)
        virtual = self.board.type.virtual or Flag.SIMULATED in port_flags(self.board.console.info)
        names = frozenset() if self.board.identity or virtual else self._names_before()
        check_board(identity, self.board.board, names, "its run before")
        expected = not virtual or self.board.identity
        self._board_flags = frozenset({Flag.BOARD_UNVERIFIED} if expected and not identity.names else ())
        self._identified.add(medium)
        return answer

    def _names_before(self) -> frozenset[str]:
        """The board's names in its latest runs with an identity."""
        for run in [self.run, *self._runs_before()]:
            for attempt in self.store.good_attempts(run.id):
                if names := from_document(attempt.details.get("identity")).names:
                    return names
        return frozenset()

    def _cross_check(self, watch: BootWatch, medium: str) -> CrossCheck | None:
        """Ask the board what it knows of its boot; None: it was not asked, or does not say.

        The boot is over and measured: a failure here is a flag of the number, and loses no cycle.
        """
        if watch.init or not self._logs_in:
            return None
        try:
            check = cross_check(self.board, watch.log.marks, self._software.get(medium))
        except BoardlabError as error:
            self._logs_in = error.failure != "login_failed"
            self.progress.write(f"the board is not asked about its boot: {error}")
            return None
        if check is not None and check.software.names:
            self._software[medium] = check.software
        return check

    def _other_answers(self, medium: str) -> list[Mapping[str, Any]]:
        """Documents of the cross-checks of the run's recent good boots from this medium."""
        details = [attempt.details for attempt in self.good_attempts(medium=medium)]
        return [each["cross_check"] for each in details if each.get("cross_check")][-RECENT:]

    def _earlier_lines(self, medium: str, document: Mapping[str, Any]) -> list[TimeLine]:
        """The time lines of the board's latest earlier run with the software of a cross-check."""
        if document.get("software") and medium not in self._lines_before:
            self._lines_before[medium] = []
            for run in self._runs_before():
                attempts = [each for each in self.store.good_attempts(run.id) if each.params.get("medium") == medium]
                documents = [answer for attempt in attempts if (answer := attempt.details.get("cross_check"))]
                lines = [TimeLine.of_document(other) for other in documents if same_software(other, document)]
                if len(lines) >= KNOWN:
                    self._lines_before[medium] = lines[-RECENT:]
                    break
        return self._lines_before.get(medium, [])

    def _check_power_on(self, watch: BootWatch, medium: str) -> PowerOnSilence | None:
        """Compare the boot's silence after power on with other boots'; None: it has no moment."""
        if not watch.moments:
            return None
        if medium not in self._silences_before:
            earlier = (_silences(self.store.good_attempts(run.id), medium) for run in self._runs_before())
            self._silences_before[medium] = next((each for each in earlier if len(each) >= CONFIRMED), [])
        silence = PowerOnSilence.of(watch.power, watch.moments[0])
        in_run = _silences(self.good_attempts(), medium)
        reason = doubt(watch.power, silence, in_run, self._silences_before[medium])
        watch.power = evolve(watch.power, on_verified=not reason)
        if reason and (watch.power.rose_ns is not None or len(in_run) >= CONFIRMED):
            self.progress.write(
                f"{medium}: when the power came is not verified: {reason}. Look at the outlet, its relay, and whether "
                "anything else feeds the board"
            )
        return silence

    def _runs_before(self) -> list[Run]:
        """The board's latest runs but this one."""
        latest = self.store.runs(EARLIER_RUNS + 1, board_type=self.run.board_type, board=self.run.board)
        return [run for run in latest if run.id != self.run.id][:EARLIER_RUNS]

    def _check_flow(self, flow: str) -> None:
        """Require the flow of the run's first boot."""
        for attempt in self.good_attempts():
            first = attempt.details.get("flow", NORMAL)
            if first != flow:
                raise LabTransientError(
                    f"another boot flow than in cycle {attempt.cycle} of this run: {flow!r} now, {first!r} then. A "
                    "run is of one flow: put the old bootloader and kernel command line back, or measure the new one "
                    "in a run of its own",
                    failure="software_changed",
                )

    def _check_software(self, software: Mapping[str, str]) -> None:
        """Require the software of the run's first boot."""
        unchecked = {name: software[name] for name in VERSION_LINES if name in software}
        for attempt in self.good_attempts():
            before = attempt.details.get("software")
            if not isinstance(before, dict):
                continue
            for name in sorted(before.keys() & unchecked.keys()):
                version = unchecked.pop(name)
                if before[name] != version:
                    raise LabTransientError(
                        f"another {name} than in cycle {attempt.cycle} of this run: {version!r} now, {before[name]!r} "
                        "then. A run is of one software: put the old one back, or measure the new one in a run of its "
                        "own",
                        failure="software_changed",
                    )
            if not unchecked:
                return


def firmware_flags(software: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> frozenset[Flag]:
    """`flow_unverified` if a firmware's version is not the usual one of the recent boots.

    Only the console has these lines. So a damaged one fails no boot, and does not become the run's version.
    """
    for name in CONSOLE_LINES:
        texts = Counter(other[name] for other in others if name in other)
        usual, count = next(iter(texts.most_common(1)), ("", 0))
        if count > 1 and software.get(name, usual) != usual:
            return frozenset({Flag.FLOW_UNVERIFIED})
    return frozenset()


def judge_attempt(attempt: AttemptRecord, line: TimeLine, others: Sequence[TimeLine]) -> AttemptRecord:
    """A stored good boot with its judgement by its time line beside others."""
    document = attempt.details["cross_check"]
    bare = bare_samples(attempt.samples, document)
    judgement = TimeLineJudgement.of(line, others, bare[0].flags)
    prompt_position = next(sample.log_end or 0 for sample in bare if sample.metric in HEADLINE_NAMES)
    answers = {key: value for key, value in document.items() if key not in {"added", "stamps"}}
    return evolve(
        attempt,
        samples=tuple(judgement.covered(bare, attempt.moments, prompt_position)),
        details={**attempt.details, "cross_check": {**answers, **judgement.document(bare)}},
    )


def judge_boot(
    watch: BootWatch,
    check: CrossCheck | None,
    flags: frozenset[str],
    known: Sequence[Mapping[str, Any]],
    earlier: Sequence[TimeLine] = (),
) -> TimeLineJudgement:
    """A finished boot's judgement by its time line.

    Args:
        check: None: the board was not asked.
        flags: of its samples.
        known: documents of the run's other good boots.
        earlier: time lines of boots with the same software before the run.

    Raises:
        BoardlabError: no reading of the boot agrees with the board's facts.
    """
    line = watch.time_line
    if check is not None and watch.prompt is not None:
        if watch.answered_ns is not None and check.getty_starts_behind(watch.answered_ns):
            check = evolve(check, facts=evolve(check.facts, getty_ns=None))  # of a later program than the prompt's
        spoken = None if check.is_first(watch.split_ns) else watch.spoken
        timed = spoken if watch.log.has_times else None  # else nothing could prove that the kernel started once
        for error in contradictions(check, watch.start, timed, watch.prompt, known):
            raise error
        is_second = check.before_s(spoken) > 0 or (watch.begins_again and not check.log.is_first)
        line = evolve(check.time_line(watch.start, watch.prompt, line), second=is_second)
    return TimeLineJudgement.of(line, [*map(TimeLine.of_document, known), *earlier], flags)


def _silences(attempts: Iterable[AttemptRecord | GoodAttempt], medium: str) -> list[PowerOnSilence]:
    return silences(each.details.get("power_on") for each in attempts if each.params.get("medium") == medium)


def host_temperatures(root: Path = _HWMON) -> dict[str, float]:
    """Sensors of the host's hwmon -> temperature in °C (Documentation/hwmon/sysfs-interface.rst)."""
    found = {}
    for file in sorted(root.glob("hwmon*/temp*_input")):
        with suppress(OSError, ValueError):
            name = (file.parent / "name").read_text(encoding="utf-8").strip()
            found[f"{file.parent.name} {name} {file.name.removesuffix('_input')}"] = int(file.read_text()) / 1000
    return found
