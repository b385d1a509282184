"""A boot-time run: it boots a board from each medium of its plan, cycle by cycle, and can be resumed."""

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
    check_clocks,
    clocks_document,
    log_base,
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
EARLIER_RUNS: Final = 20  # how many of the board's latest runs are searched for comparable boots


@frozen
class GoodBoot:
    """One good boot.

    Attributes:
        identity: of the board, at the first boot from a medium; None: not asked in this boot.
        cross_check: document of the board's own record of the boot, with the judgement of its time line.
        silence: the time from power on to the first moment; None: the boot has no moment.
        user_moments: moments that the user has declared.
    """

    watch: BootWatch
    samples: list[SampleRecord]
    clocks: Clocks
    identity: BoardIdentity | None
    cross_check: Mapping[str, Any]
    silence: PowerOnSilence | None
    user_moments: tuple[Moment, ...] = ()

    def details(self) -> dict[str, object]:
        """Return the boot's part of an attempt's details."""
        fit, log = self.clocks.fit, self.watch.log
        details: dict[str, object] = {
            "medium_seen": self.watch.seen,
            "software": self.watch.software,
            "flow": self.watch.flow,
            "printk_fit": None if fit is None else asdict(fit),
            "clock_step_ns": self.clocks.step_ns,
            "clock_missing_ns": self.clocks.missing_ns,
            "cross_check": self.cross_check,
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
    """The agreement between the times that the kernel prints and the stamps of its lines.

    Attributes:
        fit: fit of one to the other; None: too few lines.
        step_ns: largest step between them that no delayed line explains; 0: none.
        missing_ns: time that the stamps lack at least, since bytes came faster than the line can send them.
    """

    fit: PrintkFit | None
    step_ns: int
    missing_ns: int

    @property
    def flags(self) -> frozenset[Flag]:
        """The flag `clock_disagrees` if they disagree, else none."""
        drifts = self.fit is not None and self.fit.drifts
        return frozenset({Flag.CLOCK_DISAGREES} if drifts or self.step_ns or self.missing_ns else ())


def compare_clocks(events: Sequence[Event], timing: LineTiming) -> Clocks:
    """Compare a boot's kernel times with the stamps of its lines."""
    return Clocks(fit_printk(events, timing), clock_step(events, timing), missing_ns(events, timing))


@define
class BootRun(CycleRun[GoodBoot]):
    """Measures the boot time from each medium of a plan.

    `run.plan` has `cycles` and `media`, and `init` if the kernel starts another program as init.

    Attributes:
        user_moments: moments and numbers that the user has declared.
        at_uboot: command that U-Boot runs in each boot, e.g. one that selects a slot; empty: U-Boot is not stopped.
    """

    ITEMS: ClassVar[str] = "media"
    ITEM: ClassVar[str] = "medium"

    user_moments: UserMoments = field(factory=UserMoments)
    at_uboot: str = ""
    _uncounted: list[dict[str, object]] = field(factory=list, init=False)  # numbers of a try that failed at its prompt
    _evidence_events: int | None = field(default=None, init=False)  # events of the capture that are stored; None: all
    _logs_in: bool = field(default=True, init=False)  # False after a failed login: each would cost its time limit
    _identified: set[str] = field(factory=set, init=False)  # media that the board was identified from
    _software: dict[str, BoardSoftware] = field(factory=dict, init=False)  # by medium
    _earlier_time_lines: dict[str, list[TimeLine]] = field(factory=dict, init=False)  # by medium, of earlier runs
    _earlier_silences: dict[str, list[PowerOnSilence]] = field(factory=dict, init=False)  # by medium, of earlier runs
    _board_flags: frozenset[Flag] = field(default=frozenset(), init=False)

    def missing(self, medium: str) -> list[str]:
        """Return the metrics that each good boot should have, and no boot from this medium has."""
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

        # Losses during the boot are in `flags`; those from here on concern the user's numbers only.
        self.losses.flags()
        user_result = UserMomentResult() if watch.init else self.user_moments.wait(self.board, watch, self.clock)
        user_flags = self.losses.flags()
        # Logins come only after the user's moments: a login delays the services that the board is still starting.
        identity = self._identify(watch, item)
        check = self._cross_check(watch, item)
        self._evidence_events = watch.events  # the answers at the prompt are no part of the boot's log
        check_clocks(console, watch.power.requested_ns)

        flags |= port_flags(console.info) | self._board_flags | self._software_flags(watch, check)
        silence = None if watch.init else self._check_power_on(watch, item)
        record = check.document() if check else {}
        other_records, earlier_lines = self._other_cross_checks(item), self._time_lines_of_earlier_run(item, record)
        started_once = check is not None and check.is_first(watch.split_ns)
        samples = watch.finish(flags, started_once=started_once, judged=True)
        self._check_flow(watch.flow)

        # If the board's answers refuse the boot, they are the evidence: the whole capture is stored.
        self._evidence_events = None
        judgement = judge_boot(watch, check, samples[0].flags, other_records, earlier_lines)
        if not user_result:  # the user's lines come after the prompt, and are evidence, too
            self._evidence_events = watch.events
        prompt_position = 0 if watch.prompt is None else watch.prompt.position
        if user_result.error is not None:  # the boot itself was good: keep its numbers with the failed attempt
            covered = judgement.covered(samples, watch.moments, prompt_position)
            self._uncounted = [uncounted_number(sample) for sample in covered if sample.metric != BOOT_STAGE.name]
            raise user_result.error
        samples += self.user_moments.samples(user_result, watch, samples[0].params, samples[0].flags | user_flags)
        good_boot = GoodBoot(
            watch,
            judgement.covered(samples, watch.moments, prompt_position),
            clocks,
            identity,
            {**record, **judgement.document(samples)},
            silence,
            tuple(user_result.moments.values()),
        )
        # The board discharges while its boot is stored. After the last cycle, and after a failed one, it stays on.
        if len(self.pending(item)) > 1:
            self.board.order_off()
        return good_boot

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        super().measure(item, only)
        if not self.pending(item):
            self._judge_again(item)

    def _judge_again(self, medium: str) -> None:
        """Judge each good boot beside its neighbours; the first boots had none when they were measured."""
        attempts = [attempt for attempt in self.good_attempts(medium=medium) if attempt.details.get("cross_check")]
        documents = [attempt.details["cross_check"] for attempt in attempts]
        lines = [TimeLine.of_document(document) for document in documents]
        earlier = (self._time_lines_of_earlier_run(medium, document) for document in documents)
        earlier_lines = next(filter(None, earlier), [])
        for number, (attempt, line) in enumerate(zip(attempts, lines, strict=True)):
            neighbours = lines[max(0, number - RECENT) : number] + lines[number + 1 : number + 1 + RECENT]
            revised = judge_attempt(attempt, line, [*neighbours, *earlier_lines])
            if revised.samples != tuple(attempt.samples):
                self.revise_attempt(revised)

    def _software_flags(self, watch: BootWatch, check: CrossCheck | None) -> frozenset[Flag]:
        """Return flags by the versions that the boot printed, and by the board's own record."""
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
        base = log_base(console)
        moments = (*result.watch.moments, *result.user_moments) if result else ()
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
        """Power-cycle and boot the board; U-Boot runs the command `at_uboot` if there is one."""
        init = str(self.run.plan.get("init", ""))
        command = {"at_uboot": lambda prompt: prompt.run_check(self.at_uboot)} if self.at_uboot else {}
        watch: BootWatch = self.board.boot(init, **command)
        return watch

    def _identify(self, watch: BootWatch, medium: str) -> BoardIdentity | None:
        """Identify the board and its root device at the first boot from a medium.

        Returns:
            The identity. None: it was asked in an earlier boot, or the board did not tell.

        Raises:
            BoardlabError: another board answers than the run's.
        """
        if medium in self._identified or watch.init:
            return None
        answer = None
        try:
            answer = self.board.identify()
        except BoardTransientError as error:  # the boot succeeded; a failed login is no reason to drop it
            self._logs_in = False
            self.progress.write(f"{medium}: the board is not identified: {error}")
        identity = answer or BoardIdentity()
        if identity.root:
            watch.root_is_on(identity.root, identity.card)
        is_virtual = self.board.type.virtual or Flag.SIMULATED in port_flags(self.board.console.info)
        earlier_names = frozenset() if self.board.identity or is_virtual else self._earlier_names()
        check_board(identity, self.board.board, earlier_names, "its run before")
        expects_names = not is_virtual or self.board.identity
        self._board_flags = frozenset({Flag.BOARD_UNVERIFIED} if expects_names and not identity.names else ())
        self._identified.add(medium)
        return answer

    def _earlier_names(self) -> frozenset[str]:
        """Return the board's names in its latest run that has an identity; empty: none has."""
        for run in [self.run, *self._earlier_runs()]:
            for attempt in self.store.good_attempts(run.id):
                if names := from_document(attempt.details.get("identity")).names:
                    return names
        return frozenset()

    def _cross_check(self, watch: BootWatch, medium: str) -> CrossCheck | None:
        """Ask the board for its own record of the boot; None: it has none.

        The boot has been measured already. So a failure here becomes a flag of its numbers, and costs no cycle.
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

    def _other_cross_checks(self, medium: str) -> list[Mapping[str, Any]]:
        """Return the cross-checks of this run's recent good boots from a medium, as documents."""
        documents = [attempt.details.get("cross_check") for attempt in self.good_attempts(medium=medium)]
        return [document for document in documents if document][-RECENT:]

    def _time_lines_of_earlier_run(self, medium: str, cross_check: Mapping[str, Any]) -> list[TimeLine]:
        """Return time lines of the board's latest earlier run with the same software; empty: there is none.

        They are searched for once for each medium.

        Args:
            cross_check: document that names the software.
        """
        if cross_check.get("software") and medium not in self._earlier_time_lines:
            self._earlier_time_lines[medium] = []
            for run in self._earlier_runs():
                details = [
                    attempt.details
                    for attempt in self.store.good_attempts(run.id)
                    if attempt.params.get("medium") == medium
                ]
                documents = [document for boot in details if (document := boot.get("cross_check"))]
                lines = [TimeLine.of_document(other) for other in documents if same_software(other, cross_check)]
                if len(lines) >= KNOWN:
                    self._earlier_time_lines[medium] = lines[-RECENT:]
                    break
        return self._earlier_time_lines.get(medium, [])

    def _check_power_on(self, watch: BootWatch, medium: str) -> PowerOnSilence | None:
        """Verify the instant of power on by the silence after it in other boots.

        Returns:
            The silence of this boot; None: the boot has no moment to end it.
        """
        if not watch.moments:
            return None
        if medium not in self._earlier_silences:
            runs = (_silences(self.store.good_attempts(run.id), medium) for run in self._earlier_runs())
            self._earlier_silences[medium] = next((run for run in runs if len(run) >= CONFIRMED), [])
        silence = PowerOnSilence.of(watch.power, watch.moments[0])
        in_run = _silences(self.good_attempts(), medium)
        reason = doubt(watch.power, silence, in_run, self._earlier_silences[medium])
        watch.power = evolve(watch.power, on_verified=not reason)
        if reason and (watch.power.rose_ns is not None or len(in_run) >= CONFIRMED):
            self.progress.write(
                f"{medium}: when the power came is not verified: {reason}. Check the outlet and its relay, and "
                "whether anything else feeds the board"
            )
        return silence

    def _earlier_runs(self) -> list[Run]:
        """Return the board's latest runs without this one."""
        latest = self.store.runs(EARLIER_RUNS + 1, board_type=self.run.board_type, board=self.run.board)
        return [run for run in latest if run.id != self.run.id][:EARLIER_RUNS]

    def _check_flow(self, flow: str) -> None:
        """Require the boot flow of the run's good boots.

        Raises:
            LabTransientError: this boot took another (`software_changed`).
        """
        for attempt in self.good_attempts():
            first = attempt.details.get("flow", NORMAL)
            if first != flow:
                raise LabTransientError(
                    f"this boot took another flow than cycle {attempt.cycle} of this run: {flow!r} now, {first!r} "
                    "then. All boots of a run have to take one flow: put the old bootloader and kernel command line "
                    "back, or measure the new ones in a new run",
                    failure="software_changed",
                )

    def _check_software(self, software: Mapping[str, str]) -> None:
        """Require the versions that the run's good boots printed.

        Raises:
            LabTransientError: this boot printed another one (`software_changed`).
        """
        unchecked = {name: software[name] for name in VERSION_LINES if name in software}
        for attempt in self.good_attempts():
            before = attempt.details.get("software")
            if not isinstance(before, dict):
                continue
            for name in sorted(before.keys() & unchecked.keys()):
                version = unchecked.pop(name)
                if before[name] != version:
                    raise LabTransientError(
                        f"this boot ran another {name} than cycle {attempt.cycle} of this run: {version!r} now, "
                        f"{before[name]!r} then. All boots of a run have to run one software: put the old one back, or "
                        "measure the new one in a new run",
                        failure="software_changed",
                    )
            if not unchecked:
                return


def firmware_flags(software: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> frozenset[Flag]:
    """Return `flow_unverified` if a firmware printed another version than usual in the recent boots.

    Only the console shows these versions, and a damaged line looks like another version. So it fails no boot.

    Args:
        software: name -> version of this boot.
        others: the same of the recent boots.
    """
    for name in CONSOLE_LINES:
        texts = Counter(other[name] for other in others if name in other)
        usual, count = next(iter(texts.most_common(1)), ("", 0))
        if count > 1 and software.get(name, usual) != usual:
            return frozenset({Flag.FLOW_UNVERIFIED})
    return frozenset()


def judge_attempt(attempt: AttemptRecord, line: TimeLine, others: Sequence[TimeLine]) -> AttemptRecord:
    """Return a stored good boot with its samples and cross-check judged anew.

    Args:
        line: its time line.
        others: time lines of comparable boots.
    """
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
    other_records: Sequence[Mapping[str, Any]],
    earlier_lines: Sequence[TimeLine] = (),
) -> TimeLineJudgement:
    """Judge a finished boot by its time line.

    Args:
        check: the board's own record of the boot; None: there is none.
        flags: flags of the boot's samples.
        other_records: cross-checks of the run's other good boots, as documents.
        earlier_lines: time lines of boots of an earlier run with the same software.

    Raises:
        BoardlabError: no reading of the console agrees with the board's record.
    """
    line = watch.time_line
    if check is not None and watch.prompt is not None:
        # A getty that started after the prompt's answer is another one than that of the prompt.
        if watch.answered_ns is not None and check.getty_starts_behind(watch.answered_ns):
            check = evolve(check, facts=evolve(check.facts, getty_ns=None))
        spoken = None if check.is_first(watch.split_ns) else watch.spoken
        # Without times in the kernel's lines nothing could prove that the kernel started only once.
        timed = spoken if watch.log.has_times else None
        for error in contradictions(check, watch.start, timed, watch.prompt, other_records):
            raise error
        is_second = check.before_s(spoken) > 0 or (watch.begins_again and not check.log.is_first)
        line = evolve(check.time_line(watch.start, watch.prompt, line), second=is_second)
    return TimeLineJudgement.of(line, [*map(TimeLine.of_document, other_records), *earlier_lines], flags)


def _silences(attempts: Iterable[AttemptRecord | GoodAttempt], medium: str) -> list[PowerOnSilence]:
    """Return the stored silences after power on of the attempts from one medium."""
    return silences(attempt.details.get("power_on") for attempt in attempts if attempt.params.get("medium") == medium)


def host_temperatures(root: Path = _HWMON) -> dict[str, float]:
    """Return the temperatures of this host's sensors in °C.

    The source is hwmon (Documentation/hwmon/sysfs-interface.rst); a sensor that cannot be read is left out.

    Returns:
        Names as "hwmon0 coretemp temp1" -> temperature.
    """
    temperatures_c = {}
    for file in sorted(root.glob("hwmon*/temp*_input")):
        with suppress(OSError, ValueError):
            chip = (file.parent / "name").read_text(encoding="utf-8").strip()
            sensor = f"{file.parent.name} {chip} {file.name.removesuffix('_input')}"
            temperatures_c[sensor] = int(file.read_text()) / 1000
    return temperatures_c
