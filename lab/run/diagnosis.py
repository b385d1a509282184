"""Diagnostic boots, which show where the boot time of a run goes.

They boot with the kernel's `initcall_debug`, and the board is questioned at both prompts. So they are slower than the
measured boots, and form a run of their own kind that has no samples. The difference of their boot time to that of the
measured boots is what the diagnosis costs.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import define, field, frozen

from lab.benchmarks.boot.timeline import TimeLine
from lab.benchmarks.diagnosis import kernel, reports
from lab.benchmarks.diagnosis.parts import BootPart, boots_needed, documents, from_documents, sum_parts
from lab.errors import BoardlabError, ConfigurationError
from lab.judge.boot_breakdown import OF, latest
from lab.metrics import Sample
from lab.metrics.catalogue import HEADLINE_NAMES
from lab.results import Run, Store
from lab.results.records import ATTACHED, DIAGNOSIS
from lab.run.attempts import AttemptResult, log_base, moment_record, store_recording
from lab.run.board import cross_check
from lab.run.engine import CycleRun
from lab.run.options import DIAGNOSTIC_BOOTS

_SYSTEMD_LIMIT_S: Final = 60  # how long systemd may still start services after the prompt
_PLOT_FILE: Final = "plot.svg"
_STARTING: Final = ("initializing", "starting")  # systemctl(1), is-system-running


@frozen
class BootDiagnosis:
    """One diagnostic boot.

    Attributes:
        boot_s: boot time of this boot.
        parts: its parts with their times, as bootloader, kernel and systemd report them.
        problems: one sentence for each source that could not be read.
        files: name -> text that the board answered; stored with the attempt.
        getty_s: time from the start of the prompt's program to the prompt; None: unknown.
        init_s: start of init on the kernel's clock; None: unknown.
        systemd_s: systemd's first line on the kernel's clock; None: unknown.
        chain: units that systemd's default target waited for, in their order.
        watch: the boot's `lab.benchmarks.boot.BootWatch`.
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
        """Return the diagnosis as details of an attempt."""
        times_s = {"getty_s": self.getty_s, "init_s": self.init_s, "systemd_s": self.systemd_s}
        return {
            "boot_s": self.boot_s,
            "parts": documents(self.parts),
            "problems": list(self.problems),
            "chain": list(self.chain),
            **{name: round(value, 6) for name, value in times_s.items() if value is not None},
        }


@define
class DiagnosisRun(CycleRun[BootDiagnosis]):
    """Boots each medium of a plan for diagnosis; `run.plan` has `cycles` and `media`."""

    ITEMS: ClassVar[str] = "media"
    ITEM: ClassVar[str] = "medium"

    def cycles(self, item: str) -> int:
        """Return how many diagnostic boots a medium needs: more than planned if the parts of the first ones vary."""
        planned = int(self.run.plan["cycles"])
        first = sorted(self.good_attempts(medium=item), key=lambda attempt: attempt.cycle)[:planned]
        if len(first) < planned:
            return planned
        parts = [from_documents(attempt.details[DIAGNOSIS]["parts"]) for attempt in first]
        return max(planned, boots_needed(parts, planned))

    def title(self, item: str) -> str:
        return f"{item}, diagnosis"

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        """Boot the pending cycles of one medium, then those that its first boots show to be needed."""
        cycles = self.cycles(item)
        super().measure(item, only)
        if self.cycles(item) > cycles:
            self.progress.total += self.cycles(item) - cycles
            super().measure(item)

    def finish(self) -> None:
        """Mark the run as completed in the store, or as interrupted if cycles are pending."""
        is_pending = any(self.pending(medium) for medium in self.items)
        self.store.finish_run(self.run.id, "interrupted" if is_pending else "completed")

    def report(self, item: str, cycle: int, result: BootDiagnosis) -> None:
        planned = int(self.run.plan["cycles"])
        cycles = planned if cycle <= planned else self.cycles(item)
        self.progress.cycle_done(self.title(item), cycles, Sample(result.boot_s, 0.0, cycle))

    def try_cycle(self, item: str) -> BootDiagnosis:  # noqa: ARG002 - `prepare` has selected the medium
        bootstage_report: list[str] = []

        def ask_uboot(prompt: Any) -> None:
            bootstage_report.extend(prompt.run(reports.BOOTSTAGE_COMMAND)[0])

        watch = self.board.boot(arguments=kernel.ARGUMENTS, at_uboot=ask_uboot)
        headline = next(sample for sample in watch.finish(started_once=True) if sample.metric in HEADLINE_NAMES)
        check = cross_check(self.board, ())
        if check is None:
            raise ConfigurationError(
                "a diagnosis questions the board at its shell, and its env has no ShellDriver: add one"
            )
        line = TimeLine() if watch.prompt is None else check.time_line(watch.start, watch.prompt, TimeLine())
        files: dict[str, str] = {"dmesg.txt": self._answer("dmesg")}
        kernel_lines = files["dmesg.txt"].splitlines()
        parts, problems = [*reports.uboot_parts(bootstage_report)], list[str]()
        if not parts:
            problems.append("U-Boot has no bootstage: its stages are those of the console alone")
        try:
            parts += kernel.kernel_parts(kernel_lines)
        except BoardlabError as error:
            problems.append(str(error))
        chain: tuple[str, ...] = ()
        if check.software.init == "systemd":
            units = self._ask_systemd(files, problems)
            parts, chain = [*parts, *units.parts], units.chain
        else:
            problems.append(f"init is {check.software.init or 'unknown'}, not systemd: user space keeps no times")
        init_s, systemd_s = kernel.user_space_start(kernel_lines)
        return BootDiagnosis(
            boot_s=headline.value,
            parts=tuple(sum_parts(parts)),
            problems=tuple(problems),
            files=files,
            getty_s=line.getty,
            init_s=init_s,
            systemd_s=systemd_s,
            chain=chain,
            watch=watch,
        )

    def _ask_systemd(self, files: dict[str, str], problems: list[str]) -> reports.SystemdTimes:
        """Ask systemd for the times of its units.

        Args:
            files: the answers are added to these files.
            problems: problems are added here.
        """
        for _ in range(_SYSTEMD_LIMIT_S):
            if self._answer("systemctl is-system-running").strip() not in _STARTING:
                break
            self.sleep(1.0)
        else:
            problems.append(f"systemd had not finished its start {_SYSTEMD_LIMIT_S} s after the prompt")
        commands = dict(reports.SYSTEMD_COMMANDS)
        if any(attempt.artifact(f"{ATTACHED}{_PLOT_FILE}") for attempt in self.attempts):
            del commands[reports.PLOT]  # the plot takes long on a serial line, and one for each run is enough
        answers = {name: self._answer(command) for name, command in commands.items()}
        if plot := answers.pop(reports.PLOT, ""):
            files[_PLOT_FILE] = plot
        files["systemd-analyze.txt"] = "".join(f"# {name}\n{text}\n" for name, text in answers.items())
        times = reports.user_space(*(text.splitlines() for text in answers.values()))
        if not times.parts:
            problems.append("systemd-analyze names no unit")
        return times

    def _answer(self, command: str) -> str:
        """Return the output of a command at the shell; it is sent compressed if the board has gzip and base64."""
        packed = self._ask(f"{command} 2>/dev/null | gzip -c 2>/dev/null | base64 2>/dev/null")
        try:
            text = gzip.decompress(base64.b64decode("".join(packed), validate=True)).decode("utf-8", "replace")
        except (binascii.Error, ValueError, EOFError, OSError, zlib.error):
            text = ""
        return text or "\n".join(self._ask(f"{command} 2>/dev/null"))

    def _ask(self, command: str) -> list[str]:
        """Return the output of a command at the shell as lines; empty: the board has no shell."""
        answer = self.board.asked(command)
        return [line.strip("\r\n") for line in answer[1]] if answer else []

    def evidence(self, item: str, result: BootDiagnosis | None) -> AttemptResult:
        params, recordings = {"medium": item}, store_recording(self.store, self.board.console)
        if result is None:
            return AttemptResult(params, recordings, {})
        texts = {name: text for name, text in result.files.items() if text}
        files = [self.store.artifacts.put(text.encode(), kind=f"{ATTACHED}{name}") for name, text in texts.items()]
        base = log_base(self.board.console)
        return AttemptResult(
            params=params,
            artifacts=(*recordings, *files),
            details={DIAGNOSIS: result.document(), "software": dict(result.watch.software)},
            moments=tuple(moment_record(moment, base) for moment in result.watch.moments),
        )


def begin(store: Store, measured: Run) -> Run:
    """Begin the diagnosis of a measured run, or reopen its latest diagnosis if that was not completed."""
    earlier = latest(store, measured.id)
    if earlier is not None and earlier.status != "completed":
        return store.reopen_run(earlier.id)
    return store.begin_run(
        DIAGNOSIS,
        measured.board_type,
        measured.board,
        measured.release,
        plan={"cycles": DIAGNOSTIC_BOOTS, "media": measured.plan["media"]},
        provenance={**measured.provenance, OF: measured.id},
    )
