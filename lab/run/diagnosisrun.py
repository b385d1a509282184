"""Diagnostic boots of a run: where its boot time goes.

They boot with the kernel's `initcall_debug` and are asked at both prompts, so they are other boots than the measured ones: a run
of its own kind, without samples. Their cost is the difference of their boot time to that of the measured boots.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from lab.benchmarks.cycles import CycleAttempt, nothing_before_cycle, run_cycles
from lab.benchmarks.diagnosis import kernel, reports
from lab.benchmarks.diagnosis.parts import BootPart, boots_needed, documents, from_documents, summed
from lab.console.holders import fairly
from lab.errors import BoardlabError, ConfigurationError
from lab.host.clock import Clock
from lab.judge.where import OF, latest
from lab.metrics import Sample
from lab.metrics.catalogue import HEADLINE_NAMES
from lab.results import Run, Store
from lab.results.records import ATTACHED, DIAGNOSIS
from lab.run.attempts import AttemptRecorder, AttemptResult, base_of, moment_record, recording
from lab.run.board import Board, cross_check
from lab.run.options import DIAGNOSTIC_BOOTS
from lab.run.progress import Progress

_FINISHED_S: Final = 60  # so long systemd may go on after the prompt
_PLOT_FILE: Final = "plot.svg"
_STARTING: Final = ("initializing", "starting")


@frozen
class Diagnosed:
    """A diagnostic boot.

    Attributes:
        boot_s: its boot time. problems: what could not be read, one sentence each. files: name -> text that was read.
        getty_s: from the start of the prompt's program to the prompt; None: unknown.
        init_s, systemd_s: start of init, and systemd's first line, in the kernel's time.
        chain: units that systemd's default target waited for.
    """

    boot_s: float
    parts: tuple[BootPart, ...]
    problems: tuple[str, ...] = ()
    files: Mapping[str, str] = field(factory=dict)
    getty_s: float | None = None
    init_s: float | None = None
    systemd_s: float | None = None
    chain: tuple[str, ...] = ()
    watch: Any = None

    def document(self) -> dict[str, object]:
        """The record for the attempt's details."""
        times = {"getty_s": self.getty_s, "init_s": self.init_s, "systemd_s": self.systemd_s}
        known = {name: round(value, 6) for name, value in times.items() if value is not None}
        return {
            "boot_s": self.boot_s,
            "parts": documents(self.parts),
            "problems": list(self.problems),
            "chain": list(self.chain),
            **known,
        }


@define
class DiagnosisRun:
    """Boots a run's media for diagnosis.

    Attributes:
        run: of DIAGNOSIS, from the store; `run.plan` has `cycles` and `media`.
        retries: further attempts a cycle after a transient failure.
    """

    store: Store
    run: Run
    board: Board
    progress: Progress
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    before_cycle: Callable[[], None] = nothing_before_cycle

    def pending(self, medium: str) -> list[int]:
        """The cycles of this medium without a good attempt; more than planned where the parts of the first ones vary."""
        wanted = int(self.run.plan["cycles"])
        good = [each for each in self.store.attempts(self.run.id) if each.ok and each.params["medium"] == medium]
        if len(good) >= wanted:
            first = sorted(good, key=lambda each: each.cycle)[:wanted]
            wanted = boots_needed([from_documents(each.details[DIAGNOSIS]["parts"]) for each in first], wanted)
        return sorted({*range(1, wanted + 1)} - {each.cycle for each in good})

    def measure(self, medium: str) -> None:
        """Boot the pending cycles of one medium.

        Raises:
            BoardlabError: a cycle did not succeed within its retries; earlier ones are in the store.
        """
        self.board.select_medium(medium)
        cycles = int(self.run.plan["cycles"])
        recorder = AttemptRecorder(self.store, self.run.id, self.clock)

        def one(_cycle: int, _number: int) -> Diagnosed:
            recorder.start()
            self.board.console.capture = []
            with fairly(self.board.console):
                return self._boot()

        def record(attempt: CycleAttempt[Diagnosed]) -> None:
            recorder.record(attempt, self._evidence(medium, attempt.result))
            name = f"{medium}, diagnosis"
            if attempt.error is not None:
                self.progress.bad(
                    name, attempt.cycle, cycles, attempt.number, attempt.error, is_last=not attempt.again
                )
            elif attempt.result is not None:
                self.progress.good(name, attempt.cycle, cycles, Sample(attempt.result.boot_s, 0.0, attempt.cycle))

        while pending := self.pending(medium):
            self.progress.total += max(0, pending[-1] - cycles)
            cycles = max(cycles, pending[-1])
            run_cycles(pending, one, record, retries=self.retries, sleep=self.sleep, before_cycle=self.before_cycle)

    def finish(self) -> None:
        """Close the run in the store."""
        left = [cycle for medium in self.run.plan["media"] for cycle in self.pending(medium)]
        self.store.finish_run(self.run.id, "interrupted" if left else "completed")

    def _boot(self) -> Diagnosed:
        report: list[str] = []

        def at_uboot(prompt: Any) -> None:
            report.extend(prompt.run(reports.BOOTSTAGE_COMMAND)[0])

        watch = self.board.boot(arguments=kernel.ARGUMENTS, at_uboot=at_uboot)
        headline = next(s for s in watch.finish(started_once=True) if s.metric in HEADLINE_NAMES)
        checked = cross_check(self.board)
        if checked is None:
            raise ConfigurationError(
                "a diagnosis asks the board at its shell, and the env has no ShellDriver: add one"
            )
        document = checked.document(watch.start, watch.prompt) if watch.prompt is not None else {}
        files: dict[str, str] = {"dmesg.txt": self._answer("dmesg")}
        parts, problems = [*reports.uboot_parts(report)], list[str]()
        if not parts:
            problems.append("U-Boot has no bootstage: its stages are those of the console alone")
        try:
            parts += kernel.kernel_parts(files["dmesg.txt"].splitlines())
        except BoardlabError as error:
            problems.append(str(error))
        chain: tuple[str, ...] = ()
        if checked.facts.init == "systemd":
            units = self._units(files, problems)
            parts, chain = [*parts, *units.parts], units.chain
        else:
            problems.append(f"init is {checked.facts.init or 'unknown'}, not systemd: user space keeps no times")
        began = kernel.user_space_start(files["dmesg.txt"].splitlines())
        return Diagnosed(
            headline.value, tuple(summed(parts)), tuple(problems), files, document.get("getty"), *began, chain, watch
        )

    def _units(self, files: dict[str, str], problems: list[str]) -> reports.SystemdTimes:
        for _ in range(_FINISHED_S):
            if self._answer("systemctl is-system-running").strip() not in _STARTING:
                break
            self.sleep(1.0)
        else:
            problems.append(f"systemd had not finished its start {_FINISHED_S} s after the prompt")
        kept = any(each.artifact(f"{ATTACHED}{_PLOT_FILE}") for each in self.store.attempts(self.run.id))
        answers = {
            what: self._answer(command)
            for what, command in reports.SYSTEMD_COMMANDS.items()
            if what != reports.PLOT or not kept
        }
        if plot := answers.pop(reports.PLOT, ""):
            files[_PLOT_FILE] = plot
        files["systemd-analyze.txt"] = "".join(f"# {what}\n{text}\n" for what, text in answers.items())
        found = reports.user_space(*(text.splitlines() for text in answers.values()))
        if not found.parts:
            problems.append("systemd-analyze says nothing of its units")
        return found

    def _answer(self, command: str) -> str:
        """The output of a command at the shell; packed for the line where the board can do that."""
        packed = self._asked(f"{command} 2>/dev/null | gzip -c 2>/dev/null | base64 2>/dev/null")
        try:
            text = gzip.decompress(base64.b64decode("".join(packed), validate=True)).decode("utf-8", "replace")
        except (binascii.Error, ValueError, EOFError, OSError, zlib.error):
            text = ""
        return text or "\n".join(self._asked(f"{command} 2>/dev/null"))

    def _asked(self, command: str) -> Sequence[str]:
        answer = self.board.asked([command])
        return [line.strip("\r\n") for line in answer[1][0]] if answer else []

    def _evidence(self, medium: str, done: Diagnosed | None) -> AttemptResult:
        console = self.board.console
        files = done.files if done else {}
        return AttemptResult(
            params={"medium": medium},
            artifacts=(
                *recording(self.store, console),
                *(
                    self.store.artifacts.put(text.encode(), kind=f"{ATTACHED}{name}")
                    for name, text in files.items()
                    if text
                ),
            ),
            details={DIAGNOSIS: done.document(), "software": dict(done.watch.software)} if done else {},
            moments=tuple(moment_record(m, base_of(console)) for m in done.watch.moments) if done else (),
        )


def begin(store: Store, of: Run) -> Run:
    """Begin the diagnosis of a run, or go on with one that did not end."""
    found = latest(store, of.id)
    if found is not None and found.status != "completed":
        return store.reopen_run(found.id)
    plan = {"cycles": DIAGNOSTIC_BOOTS, "media": of.plan["media"]}
    return store.begin_run(
        DIAGNOSIS, of.board_type, of.board, of.release, plan=plan, provenance={**of.provenance, OF: of.id}
    )
